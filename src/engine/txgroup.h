/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups packets into UDP_SEGMENT bursts. Pure: no socket, no state.
 *
 * The kernel cuts one UDP_SEGMENT message into datagrams of equal length, of which only the last
 * may be shorter. Segment i of a burst has the IPv4 identification i, a datagram on its own 0; the
 * ICRC covers it.
 */
#ifndef ENGINE_TXGROUP_H
#define ENGINE_TXGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum {
	TXGROUP_MAX_SEGMENTS = 128, /* the kernel's UDP_MAX_SEGMENTS since Linux 6.9 */
	TXGROUP_OLD_SEGMENTS = 64,  /* and before */
	TXGROUP_MAX_BYTES = 65000,  /* below 65535 - IP header - UDP header */
	TXGROUP_MAX_IOV = 1000,	    /* below the kernel's UIO_MAXIOV */
};

/** Packets first .. first + count - 1 go out in one message. */
struct txburst {
	uint16_t first;
	uint16_t count;
	uint16_t seg_len; /* bytes of UDP payload of each but the last */
};

/** Same addresses, source port, traffic class, hop limit and flow label. */
static inline bool txgroup_same_path(const struct rocemu_path *a, const struct rocemu_path *b)
{
	return a == b ||
	       (a->sport == b->sport && a->tclass == b->tclass && a->hop_limit == b->hop_limit &&
		a->flow_label == b->flow_label && rocemu_gid_equal(&a->dgid, &b->dgid) &&
		rocemu_gid_equal(&a->sgid, &b->sgid));
}

/**
 * Put the packets of each run of one path into the order in which they group best: requests before
 * responses, so that an acknowledgement ends the burst of the data it travels with. A peer that
 * gets both in one receive call is done with its own request when it sees the data. Order within
 * requests and within responses stays.
 *
 * Responses go first where a message that completes a receive would leave in an earlier burst than
 * they do. The peer's program presumes that its request completes before it receives the answer,
 * as it does with adapters. Of one burst, the receiver takes the responses first (lane-rx.c).
 *
 * max_segments: of a burst; 1: packets leave one by one.
 */
void txgroup_order(struct rocemu_tx **pkt, unsigned n, unsigned max_segments);

/**
 * Cut pkt[0..n), n <= ROCEMU_OUTPUT_BATCH, into bursts of at most max_segments (1: no bursts).
 * Packets of one burst have one path and one destination slot (a reuseport group delivers a burst
 * to one member).
 * @return how many bursts, out has room for n.
 */
unsigned txgroup_build(struct rocemu_tx *const *pkt, unsigned n, unsigned max_segments,
		       struct txburst *out);

#endif
