/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC of small packets that are like earlier ones. Packets of one path and length have the
 * same bytes below the BTH but for the IPv4 identification, and for a small packet these bytes take
 * longer than the rest. So a memo keeps their CRC, and what each bit of the identification changes
 * in the packet's CRC. Same results as rocemu_icrc() and rocemu_icrc_check().
 *
 * Owner: the endpoint, which has one for each direction; no lock of its own.
 */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <rocemu/wire.h>

#include "wire/ip.h"

enum {
	ICRC_FORMS = 64,
	ICRC_MEMO_MAX_LEN = 256, /* of a packet, ICRC included; longer ones are computed as ever */
};

/** What packets have in common. */
struct icrc_form {
	struct rocemu_icrc_ctx ctx; /* ip_id: the last packet's */
	uint16_t len;		    /* from the BTH to the ICRC; 0: unused */
	uint8_t resv8a;		    /* the byte of the BTH that the ICRC takes as ones */
	bool known;	 /* what follows is; not at its first packet, which may be the only one */
	uint32_t start;	 /* CRC of all below the BTH, for the identification at that time */
	uint32_t change; /* XOR: resv8a as ones, and the identification since then */
	uint32_t id_bit[16]; /* XOR for each bit of the identification; zero by IPv6 */
};

/** All zero: nothing is known. */
struct icrc_memo {
	struct icrc_form form[ICRC_FORMS];
};

/** As rocemu_icrc() of pkt[0..n), the packet from the BTH to the pad inclusive, n >= 12. */
uint32_t icrc_memo_compute(struct icrc_memo *m, const struct rocemu_icrc_ctx *c, const uint8_t *pkt,
			   size_t n);
/** As rocemu_icrc_check(). */
int32_t icrc_memo_check(struct icrc_memo *m, const struct rocemu_icrc_ctx *c, bool ip_id_known,
			const uint8_t *buf, size_t len);

/**
 * RoCEv1 (IBTA annex A16): the ICRC covers the GRH, whose fields h has, in place of IP and UDP,
 * with traffic class, flow label and hop limit as ones. buf[0..len) is the packet from the BTH to
 * the ICRC inclusive.
 */
bool icrc_v1_fits(const struct ip_udp *h, const uint8_t *buf, size_t len);

#endif
