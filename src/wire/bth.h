/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the fields of a BTH are (IBTA 9.2), and those that are read of a packet without decoding
 * all of it. Pure.
 */
#ifndef WIRE_BTH_H
#define WIRE_BTH_H

#include <stdbool.h>

#include <rocemu/wire.h>

#include "base/bytes.h"

/* clang-format off */
enum { BTH_OPCODE = 0, BTH_FLAGS = 1, BTH_PKEY = 2, BTH_ECN = 4, BTH_DQPN = 5, BTH_ACKREQ = 8, BTH_PSN = 9 };
enum { BTH_SE = 0x80, BTH_MIGREQ = 0x40, BTH_PAD_SHIFT = 4, BTH_PAD_MASK = 0x3, BTH_TVER_MASK = 0xf };
enum { BTH_FECN = 0x80, BTH_BECN = 0x40, BTH_RESV8A_MASK = 0x3f };
enum { BTH_ACKREQ_BIT = 0x80, BTH_RESV7_MASK = 0x7f };
/* clang-format on */

static inline uint32_t bth_dqpn(const uint8_t *bth)
{
	return get_be32(bth + BTH_ECN) & 0xffffff; /* one load */
}

static inline uint32_t bth_psn(const uint8_t *bth)
{
	return get_be32(bth + BTH_ACKREQ) & 0xffffff;
}

/** A BTH with the default P_Key and without congestion marks. flags: the byte at BTH_FLAGS. */
static inline void bth_put(uint8_t *bth, uint8_t opcode, uint32_t flags, uint32_t dqpn, bool ackreq,
			   uint32_t psn)
{
	put_be32(bth, (uint32_t)opcode << 24 | flags << 16 | ROCEMU_PKEY_DEFAULT);
	put_be32(bth + BTH_ECN, dqpn);
	put_be32(bth + BTH_ACKREQ, (uint32_t)ackreq << 31 | psn);
}

#endif
