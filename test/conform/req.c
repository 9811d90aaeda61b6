/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of an RC queue pair: go-back-N (IBTA 9.7.3, 9.7.5, 9.7.6), and of UC and UD queue
 * pairs, whose requests are complete when they are sent.
 */
#include "base/util.h"
#include "responder.h"

#define CONTROLLED_QKEY 0x80000000u

static struct wr *at(struct requester *r, unsigned i)
{
	return &r->wr[(r->first + i) % WRS];
}

static bool behind(uint32_t a, uint32_t b)
{
	return rocemu_psn_diff(a, b) > 0;
}

/** A response carries data: an ACK does not complete such a request. */
static bool wants_data(const struct wr *wr)
{
	return !(rocemu_opcode_ops(wr->opcode) & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE));
}

/* ---- what leaves ---- */

/** The opcode of packet i of n: wr has that of ONLY. */
static uint8_t opcode_at(const struct wr *wr, uint32_t i)
{
	const bool send = rocemu_opcode_ops(wr->opcode) & ROCEMU_OP_SEND;

	if (wr->n == 1)
		return wr->opcode;
	if (i == 0)
		return send ? ROCEMU_RC_SEND_FIRST : ROCEMU_RC_WRITE_FIRST;
	if (i + 1 < wr->n)
		return send ? ROCEMU_RC_SEND_MIDDLE : ROCEMU_RC_WRITE_MIDDLE;
	if (wr->opcode == ROCEMU_RC_SEND_ONLY_INV)
		return ROCEMU_RC_SEND_LAST_INV;
	return (uint8_t)(wr->opcode - ROCEMU_RC_SEND_ONLY + ROCEMU_RC_SEND_LAST);
}

static uint8_t service_of(const struct qp *qp)
{
	static const uint8_t bits[] = {[QP_RC] = 0, [QP_UC] = 0x20, [QP_UD] = 0x60};

	return bits[qp->kind];
}

/** Q_Keys with the highest bit mean that of the queue pair (IBTA 10.2.5). */
static uint32_t qkey_of(const struct qp *qp, const struct wr *wr)
{
	if (mutant(M_QKEY_SENT))
		return 0;
	return wr->dqpn && wr->qkey < CONTROLLED_QKEY ? wr->qkey : qp->qkey;
}

static void send_part(struct qp *qp, const struct wr *wr, uint32_t i)
{
	const bool last = i + 1 == wr->n;
	const uint32_t len = last ? wr->len - i * qp->mtu : qp->mtu;
	struct rocemu_hdrs h = {
		.opcode = opcode_at(wr, i) | service_of(qp),
		.psn = psn_add(wr->psn, i),
		.ackreq = last && qp->kind == QP_RC && !mutant(M_NO_ACKREQ),
		.deth = {.qkey = qkey_of(qp, wr), .sqpn = qp->qpn},
		.reth = {.va = wr->va, .rkey = wr->rkey + mutant(M_RKEY_SENT), .length = wr->len},
		.atomiceth = {wr->va, wr->rkey, wr->swap_add, wr->compare},
		.imm = mutant(M_IMM_SENT) ? 0 : wr->imm,
		.ieth = wr->imm,
	};
	const bool data = rocemu_opcode_ops(h.opcode) & ROCEMU_OP_PAYLOAD;

	if (wr->dqpn)
		qp->peer_qpn = wr->dqpn;
	qp_send(qp, &h, wr->at + i * qp->mtu, !data ? 0 : mutant(M_ZERO_SENT) && !len ? 4 : len);
}

static bool is_changed(const struct qp *qp, const struct wr *wr, uint32_t i)
{
	return mutant(M_AGAIN_RKEY) && behind(qp->req.end, psn_add(wr->psn, i));
}

/** All of a READ from packet i on. */
static void send_read(struct qp *qp, struct wr *wr, uint32_t i)
{
	const uint32_t skip = mutant(M_READ_WHOLE) ? 0 : i * qp->mtu;
	struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_READ_REQUEST,
		.psn = psn_add(wr->psn, i),
		.ackreq = true,
		.reth = {.va = wr->va + skip,
			 .rkey = wr->rkey + mutant(M_RKEY_SENT) + is_changed(qp, wr, i),
			 .length = wr->len - skip},
	};

	wr->from = wr->got = i;
	qp_send(qp, &h, NULL, 0);
}

static void send_next(struct qp *qp, struct wr *wr)
{
	struct requester *r = &qp->req;
	const uint32_t i = (r->next - wr->psn) & ROCEMU_PSN_MASK;

	if (wr->opcode == ROCEMU_RC_READ_REQUEST) {
		send_read(qp, wr, i);
		r->next = psn_add(wr->psn, wr->n);
	} else {
		send_part(qp, wr, i);
		r->next = psn_add(r->next, 1);
	}
	if (behind(r->next, r->end))
		r->end = r->next;
}

static void start_timer(struct qp *qp)
{
	struct requester *r = &qp->req;
	const uint64_t t =
		rocemu_ack_timeout_ns(mutant(M_TIMEOUT_ZERO) && !r->timeout ? 10 : r->timeout);

	if (r->rnr_wait)
		return;
	r->deadline = 0;
	if (qp->kind != QP_RC || qp->error || !t || r->una == r->end)
		return;
	r->deadline = net_now() + (mutant(M_TIMEOUT_FIRST) ? t / 8 : t);
	if (mutant(M_TIMEOUT_LATE))
		r->deadline += 7 * t;
}

/** Send what may be sent. If there is something, the timer starts anew. */
static void send_all(struct qp *qp)
{
	struct requester *r = &qp->req;
	unsigned reads = 0;
	bool sent = false;

	for (unsigned i = 0; i < r->count && !r->rnr_wait; i++) {
		struct wr *wr = at(r, i);
		const uint32_t end = psn_add(wr->psn, wr->n);

		if (wr->fence && reads && !mutant(M_FENCE))
			break;
		if (mutant(M_CREDITS) && r->no_credits && i)
			break;
		reads += wants_data(wr);
		if (reads > r->depth && !mutant(M_READ_DEPTH))
			break;
		for (; behind(end, r->next); sent = true)
			send_next(qp, wr);
	}
	if (sent)
		start_timer(qp);
}

static void complete_unreliable(struct qp *qp)
{
	struct requester *r = &qp->req;

	while (r->count) {
		const struct wr done = *at(r, 0);

		if (mutant(M_UC_COMPLETION))
			return;
		r->first = (r->first + 1) % WRS;
		r->count--;
		qp->app.completed(qp, &done);
	}
}

void req_post(struct qp *qp, struct wr wr)
{
	struct requester *r = &qp->req;

	if (r->count == WRS)
		return;
	if (qp->error) {
		qp->app.ended(qp, false, wr.id, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	wr.psn = r->psn;
	wr.n = packets(wr.len, qp->mtu);
	r->psn = psn_add(r->psn, wr.n);
	*at(r, r->count++) = wr;
	if (r->rnr_wait && mutant(M_RNR_OVERTAKES))
		send_part(qp, &wr, 0);
	send_all(qp);
	if (qp->kind != QP_RC)
		complete_unreliable(qp);
}

/* ---- what is acknowledged ---- */

/** The oldest request ends so, and the others are flushed. */
static void fail(struct qp *qp, enum ibv_wc_status status)
{
	struct requester *r = &qp->req;
	const uint64_t id = at(r, 0)->id;

	r->first = (r->first + 1) % WRS;
	r->count--;
	qp->app.ended(qp, false, id, status);
	if (qp->used)
		qp_error(qp);
}

static void progress(struct qp *qp, uint32_t una)
{
	struct requester *r = &qp->req;

	if (!behind(una, r->una))
		return;
	r->una = una;
	if (behind(una, r->next))
		r->next = una;
	r->asked = false;
	if (!mutant(M_TIMEOUT_RESET))
		r->retries = r->retry_cnt;
	r->rnr_retries = r->rnr_retry;
	start_timer(qp);
}

static void complete_first(struct qp *qp)
{
	struct requester *r = &qp->req;
	const struct wr done = *at(r, 0);

	r->first = (r->first + 1) % WRS;
	r->count--;
	qp->app.completed(qp, &done);
}

/** Everything in front of psn is acknowledged, as far as that needs no data. @return so it is. */
static bool acknowledge(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;

	while (r->count && !qp->error && behind(psn, r->una)) {
		const struct wr *wr = at(r, 0);
		const uint32_t end = psn_add(wr->psn, wr->n);

		if (wants_data(wr) && !mutant(M_READ_ACK))
			return false;
		progress(qp, behind(psn, end) ? end : psn);
		if (behind(end, r->una))
			break;
		complete_first(qp);
	}
	return true;
}

/** Again from una on. Each counts as a retry. */
static void again(struct qp *qp, uint32_t from)
{
	struct requester *r = &qp->req;

	if (!r->retries && !mutant(M_TIMEOUT_COUNT)) {
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	if (r->retries)
		r->retries--;
	r->next = from;
	send_all(qp);
}

/** An ACK for what is behind a READ whose responses did not come: they are lost. */
static void implied_nak(struct qp *qp)
{
	struct requester *r = &qp->req;
	struct wr *wr = at(r, 0);

	if (r->asked)
		return;
	again(qp, psn_add(wr->psn, wr->got));
	r->asked = true;
}

static void take_ack(struct qp *qp, uint32_t psn)
{
	struct requester *r = &qp->req;
	const struct wr *wr;

	if (mutant(M_ACK_ALL))
		psn = psn_add(r->end, ROCEMU_PSN_MASK);
	if (mutant(M_ACK_ONE) && behind(psn, psn_add(at(r, 0)->psn, at(r, 0)->n)))
		psn = psn_add(at(r, 0)->psn, at(r, 0)->n - 1);

	if (acknowledge(qp, psn_add(psn, 1)) || !r->count)
		return;
	wr = at(r, 0);
	if (!behind(psn_add(wr->psn, wr->n), psn))
		implied_nak(qp);
}

static void take_rnr(struct qp *qp, uint8_t code)
{
	struct requester *r = &qp->req;
	const uint64_t wait = mutant(M_RNR_CODE_0) && !code ? 0 : rocemu_rnr_timer_ns(code);

	if (r->rnr_wait)
		return;
	if ((!r->rnr_retries && !mutant(M_RNR_COUNT)) || (mutant(M_RNR_RETRY) && !r->retries--)) {
		fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (r->rnr_retry != 7 || mutant(M_RNR_INFINITE))
		r->rnr_retries--;
	r->rnr_wait = true;
	if (!mutant(M_RNR_RESUME))
		r->next = r->una;
	r->deadline = net_now() + (mutant(M_RNR_WAIT) ? wait / 8 : wait);
}

static enum ibv_wc_status status_of(uint8_t syndrome)
{
	return syndrome == ROCEMU_NAK_INV_REQ	   ? IBV_WC_REM_INV_REQ_ERR
	       : syndrome == ROCEMU_NAK_REM_ACCESS ? IBV_WC_REM_ACCESS_ERR
	       : syndrome == ROCEMU_NAK_REM_OP	   ? IBV_WC_REM_OP_ERR
						   : IBV_WC_BAD_RESP_ERR;
}

static void take_nak(struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	if (mutant(M_NAK_RESEND) && syndrome == ROCEMU_NAK_PSN_SEQ)
		return;
	acknowledge(qp, psn);
	if (qp->error)
		return;
	if (qp->req.una != psn && !mutant(M_NAK_OLD)) {
		implied_nak(qp);
	} else if (syndrome == ROCEMU_NAK_PSN_SEQ) {
		if (!qp->req.rnr_wait)
			again(qp, mutant(M_NAK_WHOLE) ? at(&qp->req, 0)->psn : qp->req.una);
	} else if (syndrome <= ROCEMU_NAK_INV_RD || mutant(M_NAK_RESERVED)) {
		if (!mutant(M_NAK_FATAL))
			fail(qp, status_of(syndrome));
	}
}

static void aeth_input(struct qp *qp, const struct rocemu_packet *p)
{
	const uint8_t s = p->h.aeth.syndrome, value = s & ROCEMU_AETH_VALUE_MASK;

	switch (s & ROCEMU_AETH_CLASS_MASK) {
	case ROCEMU_AETH_ACK:
		qp->req.no_credits = s != ROCEMU_AETH_NO_CREDITS;
		take_ack(qp, p->h.psn);
		break;
	case ROCEMU_AETH_RNR:
		acknowledge(qp, p->h.psn);
		if (!qp->error && qp->req.una == p->h.psn)
			take_rnr(qp, value);
		break;
	case ROCEMU_AETH_NAK:
		take_nak(qp, p->h.psn, s);
		break;
	default:
		if (mutant(M_AETH_RESERVED))
			fail(qp, IBV_WC_BAD_RESP_ERR);
		break;
	}
}

/* ---- responses with data ---- */

/** Does the opcode stand where it may? A READ that was asked for again may open anew, or go on. */
static bool opcode_fits(const struct wr *wr, uint32_t ops)
{
	const bool first = wr->got == wr->from, last = wr->got + 1 == wr->n;

	if (mutant(M_READ_OPCODE))
		return true;
	if (!!(ops & ROCEMU_OP_LAST) != last)
		return false;
	return wr->from ? true : !!(ops & ROCEMU_OP_FIRST) == first;
}

static void take_response(struct qp *qp, struct wr *wr, const struct rocemu_packet *p)
{
	const uint32_t done = wr->got * qp->mtu;
	const uint32_t want = wr->got + 1 == wr->n ? wr->len - done : qp->mtu;

	if (!opcode_fits(wr, rocemu_opcode_ops(p->h.opcode))) {
		fail(qp, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (p->payload_len != want && !mutant(M_READ_LENGTH)) {
		fail(qp, IBV_WC_LOC_LEN_ERR);
		return;
	}
	memcpy(wr->at + (mutant(M_READ_PLACE) ? 0 : done), p->payload, MIN(p->payload_len, want));
	wr->got++;
	progress(qp, psn_add(p->h.psn, 1));
	if (wr->got == wr->n)
		complete_first(qp);
}

static void read_input(struct qp *qp, const struct rocemu_packet *p)
{
	struct requester *r = &qp->req;
	struct wr *wr;

	acknowledge(qp, p->h.psn);
	if (qp->error || !r->count)
		return;
	wr = at(r, 0);
	if (r->una != p->h.psn)
		implied_nak(qp);
	else if (wr->opcode == ROCEMU_RC_READ_REQUEST)
		take_response(qp, wr, p);
	else if (mutant(M_RESPONSE_TAKEN))
		complete_first(qp);
	else
		fail(qp, IBV_WC_BAD_RESP_ERR);
}

static void atomic_input(struct qp *qp, const struct rocemu_packet *p)
{
	struct requester *r = &qp->req;
	struct wr *wr;

	acknowledge(qp, p->h.psn);
	if (qp->error || !r->count)
		return;
	wr = at(r, 0);
	if (r->una != p->h.psn) {
		implied_nak(qp);
	} else if (wants_data(wr) && wr->opcode != ROCEMU_RC_READ_REQUEST) {
		const uint64_t value = mutant(M_ATOMIC_VALUE) ? 0 : p->h.atomicack;

		memcpy(wr->at, &value, sizeof(value));
		progress(qp, psn_add(p->h.psn, 1));
		complete_first(qp);
	} else {
		fail(qp, IBV_WC_BAD_RESP_ERR);
	}
}

/** Is the response to something that was sent and not answered? Old ones and ghosts are not. */
static bool awaited(const struct requester *r, uint32_t psn)
{
	if (mutant(M_GHOST) && !behind(r->end, psn))
		return true;
	if (mutant(M_NAK_OLD) && behind(r->una, psn))
		return true;
	return !behind(r->una, psn) && behind(r->end, psn);
}

void req_input(struct qp *qp, const struct input *in)
{
	const struct rocemu_packet *p = &in->p;
	const uint32_t ops = rocemu_opcode_ops(p->h.opcode);

	if (mutant(M_READ_TWICE) && ops & ROCEMU_OP_READ_RESP && behind(qp->req.una, p->h.psn)) {
		qp_error(qp);
		return;
	}
	if (mutant(M_NAK_OLD) && !qp->req.count && p->h.aeth.syndrome >= ROCEMU_AETH_NAK)
		qp_error(qp);
	if (!qp->req.count || !awaited(&qp->req, p->h.psn))
		return;
	if (ops & ROCEMU_OP_ACK)
		aeth_input(qp, p);
	else if (ops & ROCEMU_OP_READ_RESP)
		read_input(qp, p);
	else
		atomic_input(qp, p);
	if (!qp->error && qp->req.count)
		send_all(qp);
}

void req_timer(struct qp *qp, uint64_t now)
{
	struct requester *r = &qp->req;

	(void)now;
	r->deadline = 0;
	r->asked = false;
	if (r->rnr_wait) {
		r->rnr_wait = false;
		if (mutant(M_RNR_RESUME))
			send_part(qp, at(r, 0), (r->una - at(r, 0)->psn) & ROCEMU_PSN_MASK);
		send_all(qp);
		return;
	}
	again(qp, r->una);
}
