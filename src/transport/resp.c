/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's life cycle, and for RC the order of the checks (IBTA 9.7.4): PSN, place in the
 * message, length, then execution; the handling of duplicates, gaps and protocol violations. Checks
 * that need no responder state (form, ICRC, P_Key, address, QP state) were made before, by ep.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "transport/peer.h"
#include "transport/resp-int.h"
#include "transport/why.h"
#include "wire/opcode.h"

struct rule {
	uint8_t syndrome;
	enum rocemu_drop drop;
	enum ibv_wc_status status;
	enum ibv_event_type event;
};

static const struct rule rules[] = {
#define X(name, syn, dr, st, ev) [RESP_##name] = {syn, ROCEMU_DROP_##dr, IBV_WC_##st, ev},
	RESP_VERDICTS(X)
#undef X
};

enum rocemu_drop resp_drop(enum resp_verdict v)
{
	return rules[v].drop;
}

int resp_init(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	*r = (struct qp_resp){0};
	keep_queue_init(&r->early);
	list_init(&r->srq_link);
	if (!qp_is_reliable(qp) || qp->type == IBV_QPT_XRC_SEND)
		return 0;
	r->room = qp->ep->cfg.max_rd_atomic ? qp->ep->cfg.max_rd_atomic : ROCEMU_MAX_RD_ATOMIC;
	r->jobs = calloc(2 * (size_t)r->room, sizeof(*r->jobs));
	r->replay = calloc(r->room, sizeof(*r->replay));
	if (!r->jobs || !r->replay) {
		resp_fini(qp);
		return -ENOMEM;
	}
	return 0;
}

void resp_fini(struct rocemu_qp *qp)
{
	keep_clear(&qp->ep->keep, &qp->resp.early);
	free(qp->resp.jobs);
	free(qp->resp.replay);
	qp->resp.jobs = NULL;
	qp->resp.replay = NULL;
}

void resp_reset(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	keep_clear(&qp->ep->keep, &r->early);
	timer_stop(&qp->ep->timers, &qp->nak_timer);
	list_remove(&r->srq_link);
	*r = (struct qp_resp){.jobs = r->jobs, .replay = r->replay, .room = r->room};
	keep_queue_init(&r->early);
	list_init(&r->srq_link);
}

void resp_start(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	r->epsn = qp->attr.rq_psn & ROCEMU_PSN_MASK;
	r->ack_psn = psn_add(r->epsn, ROCEMU_PSN_MASK);
	r->srq = qp->srq;
	r->early.cell = peer_cell(qp->ep, &qp->path.dgid);
}

void resp_limit_changed(struct rocemu_qp *qp)
{
	qp->resp.limit = MIN((uint32_t)qp->attr.max_dest_rd_atomic, qp->resp.room);
}

void resp_flush(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_resp *r = &qp->resp;

	r->message = 0;
	r->hint_owed = false;
	keep_clear(&qp->ep->keep, &r->early);
	timer_stop(&qp->ep->timers, &qp->nak_timer);
	if (r->have_rwqe)
		resp_fail_recv(qp, now, IBV_WC_WR_FLUSH_ERR, 0);
	if (qp->srq || qp->type == IBV_QPT_XRC_RECV)
		return; /* its receives stay for the other QPs */
	while (rq_take(&qp->rq, &r->rwqe)) {
		r->have_rwqe = true;
		resp_fail_recv(qp, now, IBV_WC_WR_FLUSH_ERR, 0);
	}
}

void resp_forget_srq(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	list_remove(&r->srq_link);
	r->srq = NULL;
	r->have_rwqe = false; /* the rest of its message will name an unknown SRQ */
}

/**
 * A WRITE with immediate that fails at its memory consumes a receive all the same, and that
 * receive's completion has the reason (IBTA 11.6.2, local access error).
 */
static bool takes_recv(uint32_t ops, enum resp_verdict v)
{
	return (ops & ROCEMU_OP_WRITE) && (ops & ROCEMU_OP_IMM) &&
	       (v == RESP_ACCESS || v == RESP_LENGTH);
}

/** A fatal protocol violation of the peer: NAK, error completion or event, ERR. */
static void resp_fatal(struct rocemu_qp *qp, rocemu_ns_t now, enum resp_verdict v,
		       const struct rocemu_packet *pkt, uint32_t ops)
{
	const struct rule *rule = &rules[v];
	const uint32_t why = why_refused(qp, v, pkt, ops);

	qp->ep->stats->access_errors += v == RESP_ACCESS;
	if (takes_recv(ops, v))
		resp_take(qp);
	if (rule->syndrome)
		resp_owe_nak(qp, rule->syndrome, qp->resp.epsn);
	else if (qp->resp.msn)
		resp_owe_ack(qp); /* ACK what was executed before it; this one gets no answer */
	if (qp->resp.have_rwqe)
		resp_fail_recv(qp, now, rule->status, why);
	else
		qp_event(qp, rule->event);
	qp_fail(qp, now);
}

/** The same, unless a sweep of PSNs is under way (see port.h): then it is dropped. */
APART static enum rocemu_drop resp_refuse(struct rocemu_qp *qp, rocemu_ns_t now,
					  enum resp_verdict v, const struct rocemu_packet *pkt,
					  uint32_t ops)
{
	if (qp_is_guarded(qp, now))
		return ROCEMU_DROP_SWEEP;
	resp_fatal(qp, now, v, pkt, ops);
	return resp_drop(v);
}

/* Duplicates (IBTA 9.7.5.1): SEND and WRITE are not executed again but acknowledged, with the
 * newest PSN of such a request (see resp_output_ack()); READs and atomics are answered again.
 * Nothing of the expected PSN and message state moves. */
APART static enum rocemu_drop input_duplicate(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					      uint32_t ops)
{
	QP_COUNT(qp, duplicates);
	if (ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)) {
		resp_repeated(&qp->resp);
		resp_owe_ack(qp);
		return ROCEMU_DROP_NONE;
	}
	return resp_repeat_read(qp, pkt, ops);
}

/**
 * XRC: each request names an SRQ of the QP's domain (A14.3), all packets of a message the same one.
 * The SRQ must be in the QP's domain, so READs and WRITEs are checked as well.
 */
static enum resp_verdict check_xrceth(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				      uint32_t ops)
{
	struct rocemu_srq *srq;

	if (likely(qp->type != IBV_QPT_XRC_RECV))
		return RESP_PASS;
	srq = xrc_srq_find(qp, pkt->h.xrceth.srqn);
	if (!srq || (!(ops & ROCEMU_OP_FIRST) && srq != qp->resp.srq))
		return RESP_XRCETH;
	if (unlikely(srq != qp->resp.srq)) {
		list_remove(&qp->resp.srq_link);
		list_append(&srq->users, &qp->resp.srq_link);
		qp->resp.srq = srq;
	}
	return RESP_PASS;
}

static enum resp_verdict rc_execute(struct rocemu_qp *qp, rocemu_ns_t now,
				    const struct rocemu_packet *pkt, uint32_t ops, uint32_t *npsn)
{
	enum resp_verdict v;

	v = resp_check_sequence(qp, ops);
	if (v == RESP_PASS)
		v = check_xrceth(qp, pkt, ops);
	if (v != RESP_PASS)
		return v;
	if (!(ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)))
		return resp_exec_read(qp, pkt, ops, npsn);
	v = resp_check_length(qp, ops, pkt->payload_len);
	if (v != RESP_PASS)
		return v;
	return resp_exec(qp, now, pkt, ops);
}

HOT static inline enum rocemu_drop input_expected(struct rocemu_qp *qp, rocemu_ns_t now,
						  const struct rocemu_packet *pkt, uint32_t ops)
{
	struct qp_resp *r = &qp->resp;
	uint32_t npsn = 1;
	enum resp_verdict v;

	/* The gap is filled, or what found no receive comes again: a NAK not sent yet is out of
	 * date. */
	r->nak_sent = r->rnr_sent = r->went_back = false;
	r->nak = r->ahead = r->repeats = 0;

	v = rc_execute(qp, now, pkt, ops, &npsn);
	if (likely(v == RESP_PASS)) {
		if (ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE))
			r->ack_psn = r->epsn;
		r->epsn = psn_add(r->epsn, npsn);
		if (ops & ROCEMU_OP_LAST)
			r->msn = psn_add(r->msn, 1);
		if (pkt->h.ackreq && (ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)))
			resp_owe_ack(qp);
		return ROCEMU_DROP_NONE;
	}
	if (v == RESP_NO_RECV) {
		/* The peer repeats all from here on. Until then nothing is executed, so what comes
		 * or came before its turn is not kept (IBTA 9.7.5.2.8). */
		why_rnr_sent(qp, pkt->h.opcode);
		r->rnr_on_purpose = false;
		r->rnr_sent = true;
		r->hint_owed = false;
		keep_clear(&qp->ep->keep, &r->early);
		resp_owe_nak(qp,
			     (uint8_t)(ROCEMU_AETH_RNR |
				       (qp->attr.min_rnr_timer & ROCEMU_AETH_VALUE_MASK)),
			     r->epsn);
		return ROCEMU_DROP_NO_RECV;
	}
	return resp_refuse(qp, now, v, pkt, ops);
}

enum rocemu_drop resp_expected(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt, uint32_t ops)
{
	return input_expected(qp, now, pkt, ops);
}

/**
 * How far a repeated request is behind, with one PSN for each READ that may be repeated: adapters
 * request all of a READ at once, which may be half of all PSNs.
 */
APART static int32_t without_reads(const struct rocemu_qp *qp, int32_t behind)
{
	const struct qp_resp *r = &qp->resp;

	for (uint32_t i = 1; i <= r->nreplay && behind < 0; i++)
		behind += (int32_t)r->replay[(r->replay_next + r->room - i) % r->room].npsn - 1;
	return MIN(behind, 0);
}

HOT enum rocemu_drop resp_input(struct rocemu_qp *qp, rocemu_ns_t now,
				const struct rocemu_packet *pkt, const struct rocemu_dgram *d)
{
	uint32_t ops = opcode_ops(pkt->h.opcode);
	enum rocemu_drop why;
	int32_t ahead;

	if (qp->type == IBV_QPT_UD)
		return resp_ud_input(qp, now, pkt, d);
	resp_established(qp);
	if (qp->type == IBV_QPT_UC)
		return resp_uc_input(qp, now, pkt);

	ahead = rocemu_psn_diff(pkt->h.psn, qp->resp.epsn);
	if (likely(ahead == 0)) {
		why = input_expected(qp, now, pkt, ops);
		if (unlikely(!keep_empty(&qp->resp.early)))
			resp_early_fill(qp, now, pkt->h.ackreq);
		return why;
	}
	if (ahead > 0) {
		port_note_request(qp, now, ahead);
		return resp_early_input(qp, now, pkt, d, (uint32_t)ahead);
	}
	port_note_request(qp, now, without_reads(qp, ahead));
	return input_duplicate(qp, pkt, ops);
}
