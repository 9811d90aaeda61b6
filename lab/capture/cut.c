/* SPDX-License-Identifier: BSD-2-Clause */
/* What is there of packets that a capture has cut. */
#include "capture/cut.h"

#include <string.h>

#include "base/util.h"
#include "wire/opcode.h"
#include "wire/text.h"

enum { LEAST = ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN, LEAST_MTU = 256 };

/* clang-format off */
/* In the order of the bits, which is theirs on the wire. */
static const struct { uint32_t bit; size_t len; const char *name; } headers[] = {
	{ROCEMU_HDR_XRCETH, XRCETH_LEN, "XRCETH"}, {ROCEMU_HDR_DETH, DETH_LEN, "DETH"},
	{ROCEMU_HDR_FETH, FETH_LEN, "FETH"}, {ROCEMU_HDR_RETH, RETH_LEN, "RETH"},
	{ROCEMU_HDR_ATOMICETH, ATOMICETH_LEN, "AtomicETH"}, {ROCEMU_HDR_AETH, AETH_LEN, "AETH"},
	{ROCEMU_HDR_ATOMICACK, ATOMICACK_LEN, "AtomicAckETH"}, {ROCEMU_HDR_IMMDT, IMMDT_LEN, "ImmDt"},
	{ROCEMU_HDR_IETH, IETH_LEN, "IETH"},
};
/* clang-format on */

static uint32_t hdrs_within(uint8_t opcode, size_t len)
{
	uint32_t all = rocemu_opcode_hdrs(opcode), there = 0;
	size_t at = ROCEMU_BTH_LEN;

	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		if ((all & headers[i].bit) == 0)
			continue;
		at += headers[i].len;
		there |= at <= len ? headers[i].bit : 0;
	}
	return there;
}

enum rocemu_drop cut_decode(struct rocemu_packet *p, uint32_t *hdrs, const struct capture_rec *rec)
{
	uint8_t whole[ROCEMU_MAX_PACKET];
	enum rocemu_drop why;
	size_t hdr, n = MIN(rec->wire_len, sizeof(whole));

	*hdrs = 0;
	if (!cut_has_bth(rec))
		return rocemu_packet_decode(p, rec->data, rec->len);
	hdr = MAX(rocemu_opcode_hdr_len(rec->data[0]), (size_t)ROCEMU_BTH_LEN);
	*hdrs = rec->len >= hdr ? rocemu_opcode_hdrs(rec->data[0])
				: hdrs_within(rec->data[0], rec->len);
	if (rec->len >= rec->wire_len) {
		why = rocemu_packet_decode(p, rec->data, rec->len);
	} else {
		memset(whole, 0, n);
		memcpy(whole, rec->data, MIN(hdr, rec->len));
		why = rocemu_packet_decode(p, whole, n);
		p->payload = NULL;
	}
	if (why == ROCEMU_DROP_LENGTH) { /* its headers are decoded */
		p->payload_len = (uint32_t)(rec->wire_len - hdr - ROCEMU_ICRC_LEN);
		p->payload = NULL;
	}
	return why;
}

/* The path MTU, which all packets of a message but its last have; no burst of them has it. */
static bool is_mtu(size_t n)
{
	return n >= LEAST_MTU && n <= ROCEMU_MAX_MTU && (n & (n - 1)) == 0;
}

bool cut_may_be_burst(const struct capture_rec *rec)
{
	const bool whole = rec->len >= rec->wire_len;
	uint32_t ops;
	size_t hdr, rest;

	if (rec->fragment || rec->v1 || !cut_has_bth(rec))
		return false;
	ops = rocemu_opcode_ops(rec->data[0]);
	hdr = rocemu_opcode_hdr_len(rec->data[0]);
	if (hdr == 0 || rec->wire_len < hdr + ROCEMU_ICRC_LEN + LEAST)
		return false;
	rest = rec->wire_len - hdr - ROCEMU_ICRC_LEN;
	if ((ops & ROCEMU_OP_PAYLOAD) == 0)
		return !whole || rec->offloaded;
	if ((ops & ROCEMU_OP_LAST) == 0)
		return !is_mtu(rest) && (!whole || rec->offloaded || rest > ROCEMU_MAX_MTU);
	return rec->offloaded || rest > ROCEMU_MAX_MTU;
}

size_t cut_names(char *buf, size_t size, uint32_t hdrs)
{
	struct text t = text_start(buf, size);

	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		if (hdrs & headers[i].bit)
			text_add(&t, "%s%s", t.len != 0 ? ", " : "", headers[i].name);
	}
	return t.len;
}
