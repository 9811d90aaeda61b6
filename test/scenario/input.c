/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of the peer that a scenario writes, and what it would not accept. */
#include <string.h>

#include "world.h"

#include "transport/qp.h"

enum { IMM = 0x1020304, IETH = 0x5060708, TCLASS = 0x20, TTL = 61, UNUSED_SPORT = 0xc123 };

/** A field that the scenario leaves open. */
#define DEFAULT(p, FIELD, member, value)                         \
	do {                                                     \
		if (!scenario_given(p, SCENARIO_PACKET_##FIELD)) \
			(p)->member = (value);                   \
	} while (0)

/** What the scenario leaves open is right. */
static void complete(const struct world *w, struct scenario_packet *p)
{
	const struct end *e = w->end[0];
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);
	const uint32_t base = ops & ROCEMU_OP_RESPONSE ? w->setup.sq_psn : w->setup.rq_psn;
	uint64_t va = area_iova(SCENARIO_MEM);

	p->h.psn = (p->h.psn + base) & ROCEMU_PSN_MASK;
	p->h.pad = (uint8_t)(-p->len & 3);
	if (p->has_place)
		va = p->at.offset + (p->at.area < SCENARIO_AREAS ? area_iova(p->at.area) : 0);
	p->h.reth.va = p->h.atomiceth.va = va;
	DEFAULT(p, ACKREQ, h.ackreq, ops & ROCEMU_OP_LAST && ops & ROCEMU_OP_REQUEST);
	DEFAULT(p, MIGREQ, h.migreq, true);
	DEFAULT(p, PKEY, h.pkey, ROCEMU_PKEY_DEFAULT);
	DEFAULT(p, DQPN, h.dqpn, rocemu_qp_num(e->qp));
	DEFAULT(p, RKEY, h.reth.rkey, e->rkey[SCENARIO_MEM]);
	DEFAULT(p, DMALEN, h.reth.length, p->len);
	DEFAULT(p, SYNDROME, h.aeth.syndrome, ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS);
	DEFAULT(p, QKEY, h.deth.qkey, w->setup.qkey);
	DEFAULT(p, SQPN, h.deth.sqpn, PEER_QPN);
	DEFAULT(p, SRQN, h.xrceth.srqn, e->srqn);
	DEFAULT(p, IMM, h.imm, IMM);
	DEFAULT(p, IETH, h.ieth, IETH);
	DEFAULT(p, PORT, sport, e->qp->path.sport ? e->qp->path.sport : UNUSED_SPORT);
	p->h.atomiceth.rkey = p->h.reth.rkey;
}

static void fill(const struct scenario_packet *p, uint8_t *to)
{
	for (uint32_t i = 0; i < p->len; i++)
		to[i] = scenario_given(p, SCENARIO_PACKET_FILL) ? p->fill : (uint8_t)(i * 7 + 1);
	memset(to + p->len, 0, p->h.pad);
}

/** The packet was written over by its sender after its headers had been copied. */
static void share(struct rocemu_dgram *d, uint8_t *packet, uint8_t *copy, size_t hdr_len)
{
	memset(copy, 0x5a, ROCEMU_MAX_PACKET);
	memcpy(copy, packet, hdr_len);
	memset(packet, 0xff, hdr_len);
	d->data = copy;
	d->body = packet;
}

void peer_sends(struct world *w, const struct scenario_packet *given)
{
	struct scenario_packet p = *given;
	struct end *e = w->end[0];
	struct rocemu_icrc_ctx ctx = {
		.src = peer_gid(w, 0), .dst = e->gid, .dport = ROCEMU_UDP_PORT, .ip_frag = 0x4000};
	uint8_t packet[ROCEMU_MAX_PACKET], copy[ROCEMU_MAX_PACKET];
	struct rocemu_dgram d = {.data = packet, .dport = ROCEMU_UDP_PORT, .hop_limit = TTL};
	uint32_t icrc;
	size_t n, hdr_len;

	complete(w, &p);
	if (p.other_source)
		ctx.src.raw[15] ^= 4;
	ctx.sport = p.sport;
	ctx.ip_id = p.ip_id;
	hdr_len = n = rocemu_hdrs_encode(&p.h, packet);
	if (!n)
		hdr_len = n = ROCEMU_BTH_LEN; /* an opcode that there is not */
	packet[0] = p.h.opcode;
	fill(&p, packet + n);
	n += p.len + p.h.pad;
	icrc = rocemu_icrc(&ctx, packet, n, NULL, 0, NULL, 0) ^ p.bad_icrc;
	for (unsigned i = 0; i < ROCEMU_ICRC_LEN; i++)
		packet[n++] = (uint8_t)(icrc >> 8 * i);
	d.len = (uint32_t)n;
	d.src = ctx.src;
	d.dst = ctx.dst;
	d.sport = p.sport;
	d.tclass = (uint8_t)(TCLASS | p.ecn);
	d.congested = p.congested;
	if (p.by_memory)
		share(&d, packet, copy, hdr_len);
	say_drop(e, rocemu_ep_input(e->ep, w->now, &d));
}

uint32_t flatten(struct rocemu_tx *t, uint8_t *to)
{
	const uint32_t len = rocemu_tx_len(t);

	rocemu_tx_seal(t, 0);
	memcpy(to, t->hdr, t->hdr_len);
	to += t->hdr_len;
	for (unsigned i = 0; i < t->niov; i++) {
		memcpy(to, t->iov[i].iov_base, t->iov[i].iov_len);
		to += t->iov[i].iov_len;
	}
	memcpy(to, t->trailer, t->trailer_len);
	return len;
}

static enum rocemu_service service(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC   ? ROCEMU_SVC_RC
	       : type == IBV_QPT_UC ? ROCEMU_SVC_UC
	       : type == IBV_QPT_UD ? ROCEMU_SVC_UD
				    : ROCEMU_SVC_XRC;
}

const char *packet_fault(const struct world *w, const struct rocemu_tx *t, const uint8_t *data,
			 uint32_t len, const struct rocemu_hdrs *h)
{
	const struct rocemu_gid peer = peer_gid(w, 0);
	const struct rocemu_icrc_ctx ctx = {
		.src = w->end[0]->gid,
		.dst = peer,
		.sport = t->path->sport,
		.dport = ROCEMU_UDP_PORT,
		.ip_frag = 0x4000,
	};

	if (memcmp(&t->path->dgid, &peer, sizeof(peer)) != 0)
		return " WITH ANOTHER ADDRESS";
	if (rocemu_icrc_check(&ctx, true, data, len) != 0)
		return " WITH A WRONG ICRC";
	if (h->dqpn != PEER_QPN)
		return " WITH ANOTHER QP NUMBER";
	if (h->opcode != ROCEMU_CNP && rocemu_opcode_service(h->opcode) != service(w->setup.type))
		return " WITH ANOTHER SERVICE";
	return "";
}
