/* SPDX-License-Identifier: BSD-2-Clause */
/* UC (IBTA 9.8.2) and UD (9.8.3): what is wrong costs a message, and nothing is answered. */
#include "responder.h"

enum { GRH_LEN = ROCEMU_GRH_LEN, UDP_LEN = 8, UDP = 17, DF = 0x4000, IPV4_LEN = 20 };

static void take_receive(struct qp *qp, uint32_t len, const struct rocemu_packet *p)
{
	struct responder *r = &qp->resp;
	const struct receive done = r->recv[r->recv_first];

	r->recv_first = (r->recv_first + 1) % RECVS;
	r->recv_count--;
	qp->app.received(qp, &done, len, p);
}

/** A message is dropped to its end: the next one is taken. */
static void lose(struct qp *qp)
{
	qp->resp.message = 0;
	if (mutant(M_UC_FATAL))
		qp_error(qp);
}

/** Does the packet go on with what is under way, or begin something? */
static bool uc_in_sequence(struct responder *r, const struct rocemu_packet *p, uint32_t ops)
{
	const bool gap = p->h.psn != r->epsn;

	r->epsn = psn_add(p->h.psn, 1);
	if (gap && mutant(M_UC_GAP))
		return false;
	if (ops & ROCEMU_OP_FIRST)
		return true;
	if (mutant(M_UC_MIDDLE))
		return true;
	return r->message == (ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)) && !gap;
}

static bool uc_write(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	struct responder *r = &qp->resp;
	uint8_t *at;

	if (p->payload_len > r->left || (ops & ROCEMU_OP_LAST && p->payload_len != r->left))
		return false;
	at = qp_memory(qp, r->rkey, r->va, r->left, IBV_ACCESS_REMOTE_WRITE);
	if (!at || !(qp->access & IBV_ACCESS_REMOTE_WRITE) || mutant(M_UC_WRITE))
		return false;
	memcpy(at, p->payload, p->payload_len);
	r->va += p->payload_len;
	r->left -= p->payload_len;
	return true;
}

static bool uc_place(struct qp *qp, const struct rocemu_packet *p, uint32_t ops)
{
	struct responder *r = &qp->resp;
	const struct receive *to = &r->recv[r->recv_first];

	if (!length_fits(qp, p, ops) || (takes_receive(ops) && !r->recv_count))
		return false;
	if (ops & ROCEMU_OP_WRITE ? !uc_write(qp, p, ops) : r->bytes + p->payload_len > to->len)
		return false;
	if (ops & ROCEMU_OP_SEND)
		qp_scatter(to, r->bytes, p->payload, p->payload_len);
	r->bytes += p->payload_len;
	return true;
}

void uc_input(struct qp *qp, const struct input *in)
{
	const uint32_t ops = rocemu_opcode_ops(in->p.h.opcode);
	struct responder *r = &qp->resp;

	if (!uc_in_sequence(r, &in->p, ops)) {
		lose(qp);
		return;
	}
	if (ops & ROCEMU_OP_FIRST) {
		r->message = ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE);
		r->bytes = 0;
		r->va = in->p.h.reth.va;
		r->rkey = in->p.h.reth.rkey;
		r->left = in->p.h.reth.length;
	}
	if (!uc_place(qp, &in->p, ops)) {
		lose(qp);
		return;
	}
	if (!(ops & ROCEMU_OP_LAST))
		return;
	r->message = 0;
	if (takes_receive(ops))
		take_receive(qp, r->bytes, &in->p);
}

/** In front of the payload: of IPv4 the header is in the last 20 bytes (annex A17.4.5.2). */
static void make_grh(uint8_t *at, const struct input *in)
{
	const bool ipv4 = rocemu_gid_is_ipv4(&in->src);
	const struct rocemu_grh g = {
		.ipver = ipv4 ? 4 : 6,
		.tclass = in->tos,
		.hop_limit = in->ttl,
		.paylen = (uint16_t)(in->len + UDP_LEN),
		.nxthdr = UDP,
		.sgid = in->src,
		.dgid = net_gid(),
		.ip_frag = DF,
	};

	rocemu_grh_encode(&g, at);
	if (ipv4 && mutant(M_UD_GRH)) {
		memcpy(at, at + IPV4_LEN, IPV4_LEN);
		memset(at + IPV4_LEN, 0, IPV4_LEN);
	}
}

void ud_input(struct qp *qp, const struct input *in)
{
	struct responder *r = &qp->resp;
	const struct rocemu_packet *p = &in->p;
	const struct receive *to = &r->recv[r->recv_first];
	uint8_t grh[GRH_LEN];
	const uint32_t qkey = p->h.deth.qkey;

	if (qkey != qp->qkey && !mutant(M_UD_QKEY) && !mutant(M_IN_SERVICE))
		return;
	if (!r->recv_count) {
		if (mutant(M_UD_NO_RECV))
			qp_error(qp);
		return;
	}
	if (GRH_LEN + p->payload_len > to->len) {
		if (mutant(M_UD_TOO_LONG))
			qp_error(qp);
		return;
	}
	make_grh(grh, in);
	qp_scatter(to, 0, grh, sizeof(grh));
	qp_scatter(to, GRH_LEN, p->payload, p->payload_len);
	take_receive(qp, GRH_LEN + p->payload_len, p);
}
