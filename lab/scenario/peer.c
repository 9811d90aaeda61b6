/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the peer that a scenario writes, and those that come to it. */
#include "scenario/peer.h"

#include <rocemu/mad.h>

#include "base/util.h"

enum { IMM = 0x1020304, IETH = 0x5060708, DSCP = 8, DONT_FRAGMENT = 0x4000, UDP_HDR_LEN = 8 };

/* ---- what it sends ---- */

uint64_t scenario_peer_va(const struct scenario_peer *peer, const struct scenario_place *at)
{
	return at->offset + (at->area < SCENARIO_AREAS ? peer->device_va[at->area] : 0);
}

/** A field that the scenario leaves open. */
#define DEFAULT(p, FIELD, member, value)                         \
	do {                                                     \
		if (!scenario_given(p, SCENARIO_PACKET_##FIELD)) \
			(p)->member = (value);                   \
	} while (0)

/** Bytes behind the payload, whatever the header has. */
static uint32_t padding(const struct scenario_packet *p)
{
	return -p->len & 3;
}

void scenario_peer_complete(const struct scenario_peer *peer, struct scenario_packet *p)
{
	static const struct scenario_place mem = {.area = SCENARIO_MEM};
	const struct scenario_setup *s = peer->setup;
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);
	const bool mad = p->mad.attr_id;

	p->h.psn += ops & ROCEMU_OP_RESPONSE ? s->sq_psn : s->rq_psn;
	p->h.psn &= ROCEMU_PSN_MASK;
	p->h.reth.va = scenario_peer_va(peer, p->has_place ? &p->at : &mem);
	p->h.atomiceth.va = p->h.reth.va;
	DEFAULT(p, PAD, h.pad, (uint8_t)padding(p));
	DEFAULT(p, ACKREQ, h.ackreq, ops & ROCEMU_OP_LAST && ops & ROCEMU_OP_REQUEST);
	DEFAULT(p, MIGREQ, h.migreq, true);
	DEFAULT(p, PKEY, h.pkey, ROCEMU_PKEY_DEFAULT);
	DEFAULT(p, DQPN, h.dqpn, mad ? (uint32_t)ROCEMU_GSI_QPN : peer->device_qpn);
	DEFAULT(p, RKEY, h.reth.rkey, peer->device_rkey);
	DEFAULT(p, DMALEN, h.reth.length, p->len);
	DEFAULT(p, SYNDROME, h.aeth.syndrome, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS);
	DEFAULT(p, QKEY, h.deth.qkey, mad ? ROCEMU_GSI_QKEY : s->qkey);
	DEFAULT(p, SQPN, h.deth.sqpn, mad ? (uint32_t)ROCEMU_GSI_QPN : peer->qpn);
	DEFAULT(p, SRQN, h.xrceth.srqn, peer->device_srqn);
	DEFAULT(p, IMM, h.imm, IMM);
	DEFAULT(p, IETH, h.ieth, IETH);
	DEFAULT(p, PORT, sport, peer->sport);
	DEFAULT(p, DF, df, true);
	/* Fragments are put together by it; the kernel replaces 0 where DF is clear. */
	DEFAULT(p, IP_ID, ip_id, p->df && p->fragments < 2 ? 0 : (uint16_t)(p->h.psn << 1 | 1));
	DEFAULT(p, UDP_CHECKSUM, udp_checksum, true);
	DEFAULT(p, DSCP, dscp, mad ? 0 : DSCP);
	p->h.atomiceth.rkey = p->h.reth.rkey;
	if (mad)
		scenario_peer_encode_mad(peer, p);
}

struct rocemu_gid scenario_peer_source(const struct scenario_peer *peer,
				       const struct scenario_packet *p)
{
	struct rocemu_gid gid = peer->gid;

	if (p->other_source)
		gid.raw[15] ^= 4;
	return gid;
}

static void fill(const struct scenario_packet *p, uint8_t *to)
{
	for (uint32_t i = 0; i < p->len; i++)
		to[i] = scenario_given(p, SCENARIO_PACKET_FILL) ? p->fill : (uint8_t)(i * 7 + 1);
	memcpy(to, p->data, MIN(p->data_len, p->len));
	memset(to + p->len, 0, padding(p));
}

static void set_reserved(uint8_t opcode, uint8_t *hdrs)
{
	hdrs[4] |= 0x3f; /* behind FECN and BECN */
	hdrs[8] |= 0x7f; /* behind AckReq */
	if (rocemu_opcode_hdrs(opcode) & ROCEMU_HDR_DETH)
		hdrs[ROCEMU_BTH_LEN + 4] = 0xff; /* in front of the source QP */
}

/**
 * How the ICRC of to[0..n) changes with the UDP length, which it covers. A CRC is linear: what a
 * change of a field does depends on the bytes behind it only. The source port is 4 bytes further
 * from the end, so it is changed in a packet that has 4 bytes less.
 */
static uint32_t length_changes(const struct rocemu_icrc_ctx *ctx, uint16_t udp_len,
			       const uint8_t *to, size_t n)
{
	const size_t right = UDP_HDR_LEN + n + ROCEMU_ICRC_LEN;
	struct rocemu_icrc_ctx other = *ctx;

	n -= MIN(n, 4u);
	other.sport = (uint16_t)(other.sport ^ right ^ udp_len);
	return rocemu_icrc(ctx, to, n, NULL, 0, NULL, 0) ^
	       rocemu_icrc(&other, to, n, NULL, 0, NULL, 0);
}

size_t scenario_peer_encode(const struct scenario_peer *peer, const struct scenario_packet *p,
			    uint8_t to[ROCEMU_MAX_PACKET], size_t *hdr_len)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = scenario_peer_source(peer, p),
		.dst = peer->device_gid,
		.sport = p->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_id = p->ip_id,
		/* Of fragments: as it is once they are put together. */
		.ip_frag = p->df ? DONT_FRAGMENT : 0,
	};
	size_t n = rocemu_hdrs_encode(&p->h, to);
	uint32_t icrc;

	if (!n) { /* an opcode that there is not: the BTH of another one */
		struct rocemu_hdrs h = p->h;

		h.opcode = ROCEMU_RC_SEND_ONLY;
		n = rocemu_hdrs_encode(&h, to);
	}
	to[0] = p->h.opcode;
	*hdr_len = n;
	if (p->reserved)
		set_reserved(p->h.opcode, to);
	fill(p, to + n);
	n += p->len + padding(p);
	n -= MIN(n, (size_t)p->cut);
	/* With IP options: that of the packet without them, as software computes it. */
	icrc = rocemu_icrc(&ctx, to, n, NULL, 0, NULL, 0) ^ p->bad_icrc;
	if (scenario_given(p, SCENARIO_PACKET_UDP_LEN))
		icrc ^= length_changes(&ctx, p->udp_len, to, n);
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		to[n++] = (uint8_t)(icrc >> 8 * i);
	return n;
}

/* ---- what comes to it ---- */

static void aeth_text(const struct rocemu_hdrs *h, uint32_t psn, char *to, size_t size)
{
	switch (h->aeth.syndrome & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_ACK:
		if (h->aeth.syndrome == ROCEMU_AETH_NO_CREDITS)
			snprintf(to, size, "ack %u/%u", psn, h->aeth.msn);
		else
			snprintf(to, size, "ack %u/%u credits %u", psn, h->aeth.msn,
				 h->aeth.syndrome);
		break;
	case ROCEMU_AETH_RNR:
		snprintf(to, size, "rnr %u %u/%u", h->aeth.syndrome & ROCEMU_AETH_VALUE_MASK, psn,
			 h->aeth.msn);
		break;
	default:
		snprintf(to, size, "nak %x %u/%u", h->aeth.syndrome, psn, h->aeth.msn);
		break;
	}
}

static void request_text(const struct rocemu_hdrs *h, uint32_t psn, char *to, size_t size)
{
	const char *name = rocemu_opcode_name(h->opcode);
	char bytes[16] = "";

	if (rocemu_opcode_ops(h->opcode) & ROCEMU_OP_READ_REQ)
		snprintf(bytes, sizeof(bytes), "+%u", h->reth.length);
	snprintf(to, size, "%s %u%s%s%s", strchr(name, '_') + 1, psn, bytes, h->ackreq ? " A" : "",
		 h->se ? " S" : "");
}

static const char *response_place(uint32_t ops)
{
	if (ops & ROCEMU_OP_MIDDLE)
		return "middle";
	if (!(ops & ROCEMU_OP_LAST))
		return "first";
	return ops & ROCEMU_OP_FIRST ? "only" : "last";
}

void scenario_packet_text(const struct scenario_setup *s, unsigned end,
			  const struct rocemu_packet *p, char *to, size_t size)
{
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);
	/* Of a pair, each sends from the PSN on that the other receives from. */
	const bool from_sq = (ops & ROCEMU_OP_REQUEST) != 0;
	const uint32_t base = from_sq != (end == 1) ? s->sq_psn : s->rq_psn;
	const uint32_t psn = (p->h.psn - base) & ROCEMU_PSN_MASK;

	if (scenario_is_mad(&p->h))
		scenario_mad_text(p->payload, p->payload_len, to, size);
	else if (ops & ROCEMU_OP_CNP)
		snprintf(to, size, "cnp");
	else if (ops & ROCEMU_OP_REQUEST)
		request_text(&p->h, psn, to, size);
	else if (ops & ROCEMU_OP_READ_RESP)
		snprintf(to, size, "%s %u+%u", response_place(ops), psn, p->payload_len);
	else if (ops & ROCEMU_OP_ATOMIC_ACK)
		snprintf(to, size, "atomic %u/%u =%llu", psn, p->h.aeth.msn,
			 (unsigned long long)p->h.atomicack);
	else
		aeth_text(&p->h, psn, to, size);
}

static enum rocemu_service service(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC   ? ROCEMU_SVC_RC
	       : type == IBV_QPT_UC ? ROCEMU_SVC_UC
	       : type == IBV_QPT_UD ? ROCEMU_SVC_UD
				    : ROCEMU_SVC_XRC;
}

/** Annex A17.9.3: PSN 0, neither SE nor MigReq, the P_Key of the data, and 16 bytes of 0. */
static bool cnp_is_right(const struct rocemu_hdrs *h, const uint8_t *data, size_t len)
{
	static const uint8_t zeros[ROCEMU_CNP_LEN];

	return !h->psn && !h->se && !h->migreq && h->pkey == ROCEMU_PKEY_DEFAULT &&
	       len == ROCEMU_BTH_LEN + sizeof(zeros) + ROCEMU_ICRC_LEN &&
	       memcmp(data + ROCEMU_BTH_LEN, zeros, sizeof(zeros)) == 0;
}

/** Does the ICRC fit, with IPv4's flags and some identification? */
static bool icrc_fits(const struct scenario_peer *peer, uint16_t sport, uint16_t flags,
		      const uint8_t *data, size_t len)
{
	const struct rocemu_icrc_ctx ctx = {
		.src = peer->device_gid,
		.dst = peer->gid,
		.sport = sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = flags,
	};
	const int32_t id = rocemu_icrc_check(&ctx, peer->ip_id_known, data, len);

	return id >= 0 && !(peer->ip_id_known && id);
}

const char *scenario_packet_fault(const struct scenario_peer *peer, uint16_t sport,
				  const uint8_t *data, size_t len, const struct rocemu_hdrs *h)
{
	/* A CRC is another one for each change of 32 bits that stand together, as flags and
	 * identification do: so it shows both. */
	if (!icrc_fits(peer, sport, DONT_FRAGMENT, data, len))
		return icrc_fits(peer, sport, 0, data, len) ? " WITHOUT DF" : " WITH A WRONG ICRC";
	if (scenario_is_mad(h)) {
		struct rocemu_packet p;

		return rocemu_packet_decode(&p, data, len) == ROCEMU_DROP_NONE
			       ? scenario_mad_fault(peer, h, p.payload, p.payload_len)
			       : "";
	}
	if (h->opcode == ROCEMU_CNP && !cnp_is_right(h, data, len))
		return " WITH A WRONG FORM";
	if (h->dqpn != peer->qpn)
		return " WITH ANOTHER QP NUMBER";
	if (h->opcode != ROCEMU_CNP &&
	    rocemu_opcode_service(h->opcode) != service(peer->setup->type))
		return " WITH ANOTHER SERVICE";
	for (unsigned i = 1; i <= h->pad; i++)
		if (data[len - ROCEMU_ICRC_LEN - i])
			return " WITH A PAD THAT IS NOT 0";
	return "";
}
