/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Splits bursts that a capture shows as one frame: the sender's interface was yet to segment them
 * (UDP_SEGMENT, "GSO"), or the receiver's has merged them ("GRO"). Pure.
 */
#ifndef CAPTURE_SEGMENT_H
#define CAPTURE_SEGMENT_H

#include "wire/ip.h"

/**
 * The length of each packet but the last in data[0..len), the UDP payload of a frame whose ICRC is
 * wrong; decided by the first packet's ICRC. @return 0: no burst.
 */
size_t segment_size(const struct ip_udp *ip, const uint8_t *data, size_t len);

/**
 * The IPv4 identification of the packet in data[0..len), the k-th (from 0) of a burst, as the
 * interface numbers it: counted up from the frame's; in merged frames also all alike, or any that
 * makes the ICRC right.
 */
uint16_t segment_ip_id(const struct ip_udp *ip, unsigned k, const uint8_t *data, size_t len);

#endif
