/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets as text for people, one line each. All functions behave as snprintf(): they write at most
 * size bytes with the terminating zero and return the length of the whole text.
 */
#ifndef WIRE_PRINT_H
#define WIRE_PRINT_H

#include <stddef.h>

#include <rocemu/wire.h>

#include "wire/ip.h"

enum { PRINT_PACKET_MAX = 320 }; /* a line of print_packet() with its zero, at most */

/** "RC SEND_ONLY qpn 0x12 psn 256 ackreq len 64": a packet that was decoded. */
size_t print_packet(char *buf, size_t size, const struct rocemu_packet *p);

/** "10.77.0.2" or "fd77::2". */
size_t print_gid(char *buf, size_t size, const struct rocemu_gid *g);

/** "10.77.0.2 > 10.77.0.3". */
size_t print_flow(char *buf, size_t size, const struct ip_udp *ip);

#endif
