/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints packets as text: only fields that the opcode has, and only unusual values. The default
 * P_Key, MigReq and an AETH without credits are left out.
 */
#include "wire/print.h"

#include <inttypes.h>
#include <string.h>

#include <rocemu/mad.h>

#include "base/util.h"
#include "wire/text.h"

/* "RC_SEND_ONLY" reads better as "RC SEND_ONLY". */
static void add_opcode(struct text *t, uint8_t opcode)
{
	const char *name = rocemu_opcode_name(opcode);
	const char *rest = strchr(name, '_');

	if (rest == NULL)
		text_add(t, "%s", name);
	else
		text_add(t, "%.*s %s", (int)(rest - name), name, rest + 1);
}

static void add_bth(struct text *t, const struct rocemu_hdrs *h)
{
	text_add(t, " qpn 0x%" PRIx32 " psn %" PRIu32, h->dqpn, h->psn);
	if (h->pkey != ROCEMU_PKEY_DEFAULT)
		text_add(t, " pkey 0x%04x", h->pkey);
	if (h->fecn)
		text_add(t, " fecn");
	if (h->becn)
		text_add(t, " becn");
	if (h->se)
		text_add(t, " se");
	if (h->ackreq)
		text_add(t, " ackreq");
}

static void add_syndrome(struct text *t, uint8_t syndrome)
{
	static const char *const naks[] = {
		"psn-sequence",	      "invalid-request", "remote-access",
		"remote-operational", "invalid-rd",
	};
	unsigned value = syndrome & ROCEMU_AETH_VALUE_MASK;

	switch (syndrome & ~ROCEMU_AETH_VALUE_MASK) {
	case ROCEMU_AETH_ACK:
		text_add(t, " ack");
		if (value != ROCEMU_AETH_NO_CREDITS)
			text_add(t, " credits %u", value);
		return;
	case ROCEMU_AETH_RNR:
		text_add(t, " rnr-nak %.2f ms", (double)rocemu_rnr_timer_ns((uint8_t)value) / 1e6);
		return;
	case ROCEMU_AETH_NAK:
		if (value < ARRAY_LEN(naks)) {
			text_add(t, " nak %s", naks[value]);
			return;
		}
		break;
	default:
		break;
	}
	text_add(t, " syndrome 0x%02x", syndrome);
}

static void add_ext(struct text *t, const struct rocemu_hdrs *h, uint32_t hdrs)
{
	bool cas = h->opcode == ROCEMU_RC_CMP_SWAP || h->opcode == ROCEMU_XRC_CMP_SWAP;

	if ((hdrs & ROCEMU_HDR_XRCETH) != 0)
		text_add(t, " srqn 0x%" PRIx32, h->xrceth.srqn);
	if ((hdrs & ROCEMU_HDR_DETH) != 0)
		text_add(t, " sqpn 0x%" PRIx32 " qkey 0x%" PRIx32, h->deth.sqpn, h->deth.qkey);
	if ((hdrs & ROCEMU_HDR_FETH) != 0)
		text_add(t, " placement %" PRIu32 " selectivity %" PRIu32, h->feth.raw & 0xf,
			 h->feth.raw >> 4 & 3);
	if ((hdrs & ROCEMU_HDR_RETH) != 0)
		text_add(t, " va 0x%" PRIx64 " rkey 0x%" PRIx32 " dmalen %" PRIu32, h->reth.va,
			 h->reth.rkey, h->reth.length);
	if ((hdrs & ROCEMU_HDR_ATOMICETH) != 0) {
		text_add(t, " va 0x%" PRIx64 " rkey 0x%" PRIx32, h->atomiceth.va,
			 h->atomiceth.rkey);
		if (cas)
			text_add(t, " compare 0x%" PRIx64 " swap 0x%" PRIx64, h->atomiceth.compare,
				 h->atomiceth.swap_add);
		else
			text_add(t, " add 0x%" PRIx64, h->atomiceth.swap_add);
	}
	if ((hdrs & ROCEMU_HDR_AETH) != 0) {
		add_syndrome(t, h->aeth.syndrome);
		text_add(t, " msn %" PRIu32, h->aeth.msn);
	}
	if ((hdrs & ROCEMU_HDR_ATOMICACK) != 0)
		text_add(t, " orig 0x%" PRIx64, h->atomicack);
	if ((hdrs & ROCEMU_HDR_IMMDT) != 0)
		text_add(t, " imm 0x%08" PRIx32, h->imm);
	if ((hdrs & ROCEMU_HDR_IETH) != 0)
		text_add(t, " inv 0x%" PRIx32, h->ieth);
}

/* To the QP of general services, with the Q_Key that it takes: a MAD. */
static bool is_gsi(const struct rocemu_hdrs *h)
{
	return (rocemu_opcode_hdrs(h->opcode) & ROCEMU_HDR_DETH) != 0 &&
	       h->dqpn == ROCEMU_GSI_QPN && h->deth.qkey == ROCEMU_GSI_QKEY;
}

static struct text print_headers(char *buf, size_t size, const struct rocemu_packet *p,
				 uint32_t hdrs, bool len_known)
{
	struct text t = text_start(buf, size);

	add_opcode(&t, p->h.opcode);
	add_bth(&t, &p->h);
	add_ext(&t, &p->h, hdrs);
	if (len_known && (rocemu_opcode_ops(p->h.opcode) & ROCEMU_OP_PAYLOAD) != 0)
		text_add(&t, " len %" PRIu32, p->payload_len);
	return t;
}

size_t print_packet_cut(char *buf, size_t size, const struct rocemu_packet *p, uint32_t hdrs,
			bool len_known)
{
	return print_headers(buf, size, p, hdrs, len_known).len;
}

size_t print_packet(char *buf, size_t size, const struct rocemu_packet *p)
{
	struct text t = print_headers(buf, size, p, rocemu_opcode_hdrs(p->h.opcode), true);
	size_t room;

	if (is_gsi(&p->h)) {
		text_add(&t, " ");
		room = t.len < size ? size - t.len : 0;
		t.len +=
			print_mad(room != 0 ? buf + t.len : NULL, room, p->payload, p->payload_len);
	}
	return t.len;
}

size_t print_gid(char *buf, size_t size, const struct rocemu_gid *g)
{
	struct text t = text_start(buf, size);

	text_add_gid(&t, g);
	return t.len;
}

size_t print_flow(char *buf, size_t size, const struct ip_udp *ip)
{
	struct text t = text_start(buf, size);

	text_add_gid(&t, &ip->src);
	text_add(&t, " > ");
	text_add_gid(&t, &ip->dst);
	return t.len;
}
