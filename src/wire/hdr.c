/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encode and decode of BTH and extension headers (IBTA vol. 1, 9.2 and 9.3; FETH: annex A19).
 * Reader and writer of each header stand side by side. Which headers a packet has comes from the
 * opcode table; the loops take its bits lowest first, which is their order on the wire.
 *
 * Format only: no state of queue pairs; the ICRC is in icrc.c.
 */
#include <string.h>

#include <rocemu/wire.h>

#include "base/util.h"
#include "wire/bth.h"
#include "wire/opcode.h"

/* clang-format off */
enum { XRCETH_RESV = 0, XRCETH_SRQN = 1 };
enum { DETH_QKEY = 0, DETH_RESV = 4, DETH_SQPN = 5 };
enum { RETH_VA = 0, RETH_RKEY = 8, RETH_LENGTH = 12 };
enum { ATOMICETH_VA = 0, ATOMICETH_RKEY = 8, ATOMICETH_SWAP_ADD = 12, ATOMICETH_COMPARE = 20 };
enum { AETH_SYNDROME = 0, AETH_MSN = 1 };
/* clang-format on */

/* By words, of which the compiler makes one load and one swap each. */
static inline void bth_decode(struct rocemu_hdrs *h, const uint8_t *p)
{
	const uint32_t flags = get_be32(p), dqpn = get_be32(p + BTH_ECN),
		       psn = get_be32(p + BTH_ACKREQ);

	h->opcode = (uint8_t)(flags >> 24);
	h->se = (flags >> 16 & BTH_SE) != 0;
	h->migreq = (flags >> 16 & BTH_MIGREQ) != 0;
	h->pad = flags >> (16 + BTH_PAD_SHIFT) & BTH_PAD_MASK;
	h->tver = flags >> 16 & BTH_TVER_MASK;
	h->pkey = (uint16_t)flags;
	h->fecn = (dqpn >> 24 & BTH_FECN) != 0;
	h->becn = (dqpn >> 24 & BTH_BECN) != 0;
	h->resv8a = dqpn >> 24 & BTH_RESV8A_MASK;
	h->dqpn = dqpn & 0xffffff;
	h->ackreq = (psn >> 24 & BTH_ACKREQ_BIT) != 0;
	h->resv7 = psn >> 24 & BTH_RESV7_MASK;
	h->psn = psn & 0xffffff;
}

static inline void bth_encode(const struct rocemu_hdrs *h, uint8_t *p)
{
	const uint32_t pad = h->pad & BTH_PAD_MASK, tver = h->tver & BTH_TVER_MASK;
	const uint32_t flags =
		(h->se ? BTH_SE : 0u) | (h->migreq ? BTH_MIGREQ : 0u) | pad << BTH_PAD_SHIFT | tver;
	const uint32_t marks = (h->fecn ? BTH_FECN : 0u) | (h->becn ? BTH_BECN : 0u) |
			       (h->resv8a & BTH_RESV8A_MASK);
	const uint32_t ack = (h->ackreq ? BTH_ACKREQ_BIT : 0u) | (h->resv7 & BTH_RESV7_MASK);

	put_be32(p, (uint32_t)h->opcode << 24 | flags << 16 | h->pkey);
	put_be32(p + BTH_ECN, marks << 24 | (h->dqpn & 0xffffff));
	put_be32(p + BTH_ACKREQ, ack << 24 | (h->psn & 0xffffff));
}

/* Reads the extension header of one bit at p; returns its length. */
static size_t ext_decode(struct rocemu_hdrs *h, uint32_t bit, const uint8_t *p)
{
	switch (bit) {
	case ROCEMU_HDR_XRCETH:
		h->xrceth.resv = p[XRCETH_RESV];
		h->xrceth.srqn = get_be24(p + XRCETH_SRQN);
		return XRCETH_LEN;
	case ROCEMU_HDR_DETH:
		h->deth.qkey = get_be32(p + DETH_QKEY);
		h->deth.resv = p[DETH_RESV];
		h->deth.sqpn = get_be24(p + DETH_SQPN);
		return DETH_LEN;
	case ROCEMU_HDR_FETH:
		h->feth.raw = get_be32(p);
		return FETH_LEN;
	case ROCEMU_HDR_RETH:
		h->reth.va = get_be64(p + RETH_VA);
		h->reth.rkey = get_be32(p + RETH_RKEY);
		h->reth.length = get_be32(p + RETH_LENGTH);
		return RETH_LEN;
	case ROCEMU_HDR_ATOMICETH:
		h->atomiceth.va = get_be64(p + ATOMICETH_VA);
		h->atomiceth.rkey = get_be32(p + ATOMICETH_RKEY);
		h->atomiceth.swap_add = get_be64(p + ATOMICETH_SWAP_ADD);
		h->atomiceth.compare = get_be64(p + ATOMICETH_COMPARE);
		return ATOMICETH_LEN;
	case ROCEMU_HDR_AETH:
		h->aeth.syndrome = p[AETH_SYNDROME];
		h->aeth.msn = get_be24(p + AETH_MSN);
		return AETH_LEN;
	case ROCEMU_HDR_ATOMICACK:
		h->atomicack = get_be64(p);
		return ATOMICACK_LEN;
	case ROCEMU_HDR_IMMDT:
		h->imm = get_be32(p);
		return IMMDT_LEN;
	case ROCEMU_HDR_IETH:
		h->ieth = get_be32(p);
		return IETH_LEN;
	default:
		__builtin_unreachable();
	}
}

/* Writes the extension header of one bit to p; returns its length. */
static size_t ext_encode(const struct rocemu_hdrs *h, uint32_t bit, uint8_t *p)
{
	switch (bit) {
	case ROCEMU_HDR_XRCETH:
		p[XRCETH_RESV] = h->xrceth.resv;
		put_be24(p + XRCETH_SRQN, h->xrceth.srqn);
		return XRCETH_LEN;
	case ROCEMU_HDR_DETH:
		put_be32(p + DETH_QKEY, h->deth.qkey);
		p[DETH_RESV] = h->deth.resv;
		put_be24(p + DETH_SQPN, h->deth.sqpn);
		return DETH_LEN;
	case ROCEMU_HDR_FETH:
		put_be32(p, h->feth.raw);
		return FETH_LEN;
	case ROCEMU_HDR_RETH:
		put_be64(p + RETH_VA, h->reth.va);
		put_be32(p + RETH_RKEY, h->reth.rkey);
		put_be32(p + RETH_LENGTH, h->reth.length);
		return RETH_LEN;
	case ROCEMU_HDR_ATOMICETH:
		put_be64(p + ATOMICETH_VA, h->atomiceth.va);
		put_be32(p + ATOMICETH_RKEY, h->atomiceth.rkey);
		put_be64(p + ATOMICETH_SWAP_ADD, h->atomiceth.swap_add);
		put_be64(p + ATOMICETH_COMPARE, h->atomiceth.compare);
		return ATOMICETH_LEN;
	case ROCEMU_HDR_AETH:
		p[AETH_SYNDROME] = h->aeth.syndrome;
		put_be24(p + AETH_MSN, h->aeth.msn);
		return AETH_LEN;
	case ROCEMU_HDR_ATOMICACK:
		put_be64(p, h->atomicack);
		return ATOMICACK_LEN;
	case ROCEMU_HDR_IMMDT:
		put_be32(p, h->imm);
		return IMMDT_LEN;
	case ROCEMU_HDR_IETH:
		put_be32(p, h->ieth);
		return IETH_LEN;
	default:
		__builtin_unreachable();
	}
}

HOT enum rocemu_drop rocemu_packet_decode(struct rocemu_packet *p, const uint8_t *buf, size_t len)
{
	const struct opcode_info *info;
	const uint8_t *ext = buf + ROCEMU_BTH_LEN;
	size_t rest; /* payload and pad */

	if (unlikely(len < ROCEMU_BTH_LEN)) {
		memset(&p->h, 0, sizeof(p->h));
		return ROCEMU_DROP_SHORT;
	}
	bth_decode(&p->h, buf);
	/* IBTA 9.6.1: a header of another version is not interpreted. */
	if (unlikely(p->h.tver != 0))
		return ROCEMU_DROP_TVER;
	info = &opcode_table[p->h.opcode];
	if (unlikely(info->hdr_len == 0))
		return ROCEMU_DROP_OPCODE;
	if (unlikely(len < (size_t)info->hdr_len + ROCEMU_ICRC_LEN))
		return ROCEMU_DROP_SHORT;

	for (uint32_t bits = info->hdrs; bits != 0; bits &= bits - 1)
		ext += ext_decode(&p->h, bits & -bits, ext);

	rest = len - info->hdr_len - ROCEMU_ICRC_LEN;
	if (unlikely((info->ops & ROCEMU_OP_PAYLOAD) == 0 && (rest != 0 || p->h.pad != 0)))
		return p->h.pad != 0 ? ROCEMU_DROP_PAD : ROCEMU_DROP_LENGTH;
	if (unlikely(p->h.pad > rest))
		return ROCEMU_DROP_PAD;
	if (unlikely(rest - p->h.pad > ROCEMU_MAX_MTU))
		return ROCEMU_DROP_LENGTH;

	p->hdr_len = info->hdr_len;
	p->payload = ext;
	p->payload_len = (uint32_t)(rest - p->h.pad);
	p->icrc = get_le32(ext + rest);
	return ROCEMU_DROP_NONE;
}

HOT size_t rocemu_hdrs_encode(const struct rocemu_hdrs *h, uint8_t *buf)
{
	const struct opcode_info *info = &opcode_table[h->opcode];
	uint8_t *ext = buf + ROCEMU_BTH_LEN;

	if (unlikely(info->hdr_len == 0))
		return 0;
	bth_encode(h, buf);
	for (uint32_t bits = info->hdrs; bits != 0; bits &= bits - 1)
		ext += ext_encode(h, bits & -bits, ext);
	return info->hdr_len;
}

const char *rocemu_drop_text(enum rocemu_drop why)
{
	static const char *const texts[ROCEMU_DROP_COUNT] = {
#define X(name, text) [ROCEMU_DROP_##name] = text,
		ROCEMU_DROPS(X)
#undef X
	};

	return (unsigned)why < ROCEMU_DROP_COUNT ? texts[why] : "unknown";
}
