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

enum {
	PRINT_MAD_MAX = 512,			/* a line of print_mad() with its zero, at most */
	PRINT_PACKET_MAX = 320 + PRINT_MAD_MAX, /* of print_packet() */
};

/**
 * "RC SEND_ONLY qpn 0x12 psn 256 ackreq len 64": a packet that was decoded. Its payload is read,
 * and printed after it, when it is a MAD: UD to QP 1 with that QP's Q_Key.
 */
size_t print_packet(char *buf, size_t size, const struct rocemu_packet *p);

/**
 * As print_packet(), of a packet that a capture has cut: hdrs are the ROCEMU_HDR_* that are there,
 * and there is no payload to print. len_known: payload_len is the packet's.
 */
size_t print_packet_cut(char *buf, size_t size, const struct rocemu_packet *p, uint32_t hdrs,
			bool len_known);

/**
 * "CM RTU local-comm-id 0xdbe82725 remote-comm-id 0xcbad23d8": the MAD in data[0..len). Any bytes
 * are safe; of a MAD of another class the header is printed, and the error, if any.
 */
size_t print_mad(char *buf, size_t size, const uint8_t *data, size_t len);

/** "10.77.0.2" or "fd77::2". */
size_t print_gid(char *buf, size_t size, const struct rocemu_gid *g);

/** "10.77.0.2 > 10.77.0.3". */
size_t print_flow(char *buf, size_t size, const struct ip_udp *ip);

#endif
