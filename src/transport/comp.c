/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer. Responses come in any order, twice, or not at all; requests complete in the order of
 * posting all the same. Each response shows that the peer has executed everything before it
 * (acked_to); what is complete is that, up to the oldest READ, atomic, FLUSH or ATOMIC WRITE whose
 * own response has not come (una_psn). A response beyond that shows that it was lost (the implied
 * NAK of IBTA 9.7.5), and it is requested again.
 */
#include "transport/comp.h"

#include "base/util.h"
#include "transport/qp.h"
#include "transport/req-wqe.h"
#include "transport/why.h"
#include "wire/opcode.h"

void comp_reset(struct rocemu_qp *qp)
{
	qp->comp = (struct qp_comp){0};
}

void comp_start(struct rocemu_qp *qp)
{
	qp->comp.una_psn = qp->comp.acked_to = qp->attr.sq_psn;
}

/* ---- completions ---- */

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode op)
{
	switch ((int)op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case ROCEMU_WR_FLUSH:
		return (enum ibv_wc_opcode)ROCEMU_WC_FLUSH;
	case ROCEMU_WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)ROCEMU_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

static void count_error(struct rocemu_ep_stats *stats, enum ibv_wc_status status)
{
	stats->req_errors++;
	stats->req_flushed += status == IBV_WC_WR_FLUSH_ERR;
	stats->req_rem_access += status == IBV_WC_REM_ACCESS_ERR;
	stats->req_rem_invalid += status == IBV_WC_REM_INV_REQ_ERR;
	stats->req_retry_exc += status == IBV_WC_RETRY_EXC_ERR;
	stats->req_rnr_exc += status == IBV_WC_RNR_RETRY_EXC_ERR;
}

/** Push the completion of the entry at tail and take it off the queue. */
static void comp_push(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
		      uint32_t vendor_err)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);
	struct rocemu_cqe cqe = qp_cqe(qp, now, w->wr_id, status, wc_opcode(w->opcode));

	if (swqe_is_read(w))
		cqe.byte_len = w->length;
	cqe.vendor_err = vendor_err;
	if (unlikely(status != IBV_WC_SUCCESS))
		count_error(qp->ep->stats, status);
	cq_push(qp->send_cq, &cqe);
	qp->sq.tail++;
}

void comp_complete(struct rocemu_qp *qp, rocemu_ns_t now)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);

	if (qp->sq_sig_all || (w->flags & IBV_SEND_SIGNALED))
		comp_push(qp, now, IBV_WC_SUCCESS, 0);
	else
		qp->sq.tail++;
}

void comp_local(struct rocemu_qp *qp, rocemu_ns_t now)
{
	uint32_t end = swqe_skip_local(&qp->sq, qp->sq.tail);

	while (qp->sq.tail != end)
		comp_complete(qp, now);
}

APART void comp_fail(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
		     uint32_t cause)
{
	if (qp->sq.tail != qp->sq.head)
		comp_push(qp, now, status, why_failed(qp, status, cause));
	if (qp_is_reliable(qp))
		qp_fail(qp, now);
	else
		qp_fail_send(qp, now);
}

void comp_flush(struct rocemu_qp *qp, rocemu_ns_t now)
{
	/* UC, UD: those before cur have left and only wait for the next output call to complete. */
	while (!qp_is_reliable(qp) && (int32_t)(qp->req.cur - qp->sq.tail) > 0)
		comp_complete(qp, now);
	while (qp->sq.tail != qp->sq.head) {
		/* Begun means executed, for those that make no packet. */
		if ((int32_t)(qp->sq.next - qp->sq.tail) > 0 &&
		    swqe_is_local(sq_wqe(&qp->sq, qp->sq.tail)))
			comp_complete(qp, now);
		else
			comp_push(qp, now, IBV_WC_WR_FLUSH_ERR, 0);
	}
	req_flushed(qp);
	qp->comp.una_psn = qp->comp.acked_to = qp->req.next_psn;
}

/* ---- acknowledgement ---- */

/** Is a PSN sent and not acknowledged yet? */
static bool outstanding(const struct rocemu_qp *qp, uint32_t psn)
{
	return rocemu_psn_diff(psn, qp->comp.una_psn) >= 0 &&
	       rocemu_psn_diff(psn, qp->req.next_psn) < 0;
}

/** Everything before una is done: update the requester, complete the entries that end before it. */
HOT static void comp_moved(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t una, uint32_t tail)
{
	qp->comp.una_psn = una;
	if (rocemu_psn_diff(qp->comp.acked_to, una) < 0)
		qp->comp.acked_to = una;
	req_acked(qp, now, (una - 1) & ROCEMU_PSN_MASK);
	while (qp->sq.tail != tail)
		comp_complete(qp, now);
	comp_local(qp, now);
	if (qp->req.cur != qp->sq.head)
		req_kick(qp, now);
}

/** Of the left packets of w from una on: how many are done, one after the other? */
static uint32_t comp_done(struct rocemu_qp *qp, const struct swqe *w, uint32_t una, uint32_t left)
{
	struct req_again *a = &qp->req.again;
	uint32_t n = 0;

	if (!swqe_expects_response(w))
		return MIN(left, (qp->comp.acked_to - una) & ROCEMU_PSN_MASK);
	for (; n < left && got_test(a, una + n); n++)
		got_clear(a, una + n);
	return n;
}

HOT void comp_advance(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end)
{
	uint32_t una = qp->comp.una_psn;
	uint32_t i = qp->sq.tail;

	if (rocemu_psn_diff(end, qp->comp.acked_to) > 0)
		qp->comp.acked_to = end;
	while (i != qp->sq.next) {
		const struct swqe *w = sq_wqe(&qp->sq, i);
		uint32_t left = w->npkts - swqe_pkt(w, una);
		uint32_t done = comp_done(qp, w, una, left);

		una = (una + done) & ROCEMU_PSN_MASK;
		if (rocemu_psn_diff(qp->comp.acked_to, una) < 0)
			qp->comp.acked_to = una;
		if (done < left)
			break;
		i++;
	}
	if (una != qp->comp.una_psn)
		comp_moved(qp, now, una, i);
}

void comp_next(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct req_again *a = &qp->req.again;
	uint32_t una = qp->comp.una_psn, next = (una + 1) & ROCEMU_PSN_MASK;
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);

	if (unlikely(qp->comp.acked_to != una || got_test(a, next))) {
		got_set(a, una);
		comp_advance(qp, now, qp->comp.acked_to);
		return;
	}
	comp_moved(qp, now, next, qp->sq.tail + (swqe_pkt(w, next) == w->npkts));
}

APART enum rocemu_drop comp_refused(struct rocemu_qp *qp, rocemu_ns_t now,
				    enum ibv_wc_status status, uint32_t cause)
{
	if (qp_is_guarded(qp, now))
		return ROCEMU_DROP_SWEEP;
	comp_fail(qp, now, status, cause);
	return ROCEMU_DROP_NONE;
}

enum rocemu_drop comp_lost(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end, bool nak)
{
	if (recover_lost(qp, now, end, nak))
		return ROCEMU_DROP_NONE;
	return comp_refused(qp, now, IBV_WC_RETRY_EXC_ERR, ROCEMU_WHY_LOSSES);
}

uint32_t comp_entry(const struct rocemu_qp *qp, uint32_t psn)
{
	uint32_t i = qp->sq.tail;

	while (swqe_pkt(sq_wqe(&qp->sq, i), psn) >= sq_wqe(&qp->sq, i)->npkts)
		i++;
	return i;
}

/** Is psn the only packet in flight, a message that is answered by an ACK? */
static inline bool is_only_one(const struct rocemu_qp *qp, uint32_t psn)
{
	const struct sq *sq = &qp->sq;
	const struct swqe *w = sq_wqe(sq, sq->tail);

	return sq->tail + 1 == sq->next && w->npkts == 1 && w->first_psn == psn &&
	       qp->req.send_psn == qp->req.next_psn && !swqe_expects_response(w);
}

/** Its ACK came: the state is as after comp_advance(). */
static void comp_only_one(struct rocemu_qp *qp, rocemu_ns_t now)
{
	qp->comp.una_psn = qp->comp.acked_to = qp->req.next_psn;
	req_acked_one(qp, now);
	comp_complete(qp, now);
	if (qp->req.cur != qp->sq.head)
		req_kick(qp, now);
}

static enum rocemu_drop comp_ack(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	uint32_t end = (psn + 1) & ROCEMU_PSN_MASK;
	const struct swqe *w;

	if (is_only_one(qp, psn)) {
		comp_only_one(qp, now);
		recover_acked(qp, now, true);
		return ROCEMU_DROP_NONE;
	}
	/*
	 * Within a READ or atomic it may answer a duplicate, with the newest PSN, while the
	 * responses are still in flight. Before that, responses that have not come are lost.
	 */
	w = sq_wqe(&qp->sq, comp_entry(qp, psn));
	if (swqe_expects_response(w))
		end = w->first_psn;
	if (rocemu_psn_diff(end, qp->comp.una_psn) <= 0)
		return ROCEMU_DROP_NONE;
	comp_advance(qp, now, end);
	recover_acked(qp, now, true);
	return qp->comp.una_psn == end || rocemu_psn_diff(qp->comp.una_psn, end) > 0
		       ? ROCEMU_DROP_NONE
		       : comp_lost(qp, now, end, false);
}

/** The status of a request that was refused permanently. */
static enum ibv_wc_status nak_status(uint8_t syndrome)
{
	switch (syndrome) {
	case ROCEMU_NAK_INV_REQ:
		return IBV_WC_REM_INV_REQ_ERR;
	case ROCEMU_NAK_REM_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case ROCEMU_NAK_REM_OP:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

APART static enum rocemu_drop comp_nak(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t syndrome,
				       uint32_t psn)
{
	bool rnr = (syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR;

	if (!rnr && syndrome != ROCEMU_NAK_PSN_SEQ && qp_is_guarded(qp, now))
		return ROCEMU_DROP_SWEEP;
	QP_COUNT_NAK(qp, rcvd, syndrome);
	/* Each NAK acknowledges all packets before its PSN (IBTA 9.7.5.2). */
	comp_advance(qp, now, psn);
	recover_acked(qp, now, false);
	if (rnr || syndrome == ROCEMU_NAK_PSN_SEQ)
		why_nak_received(qp, syndrome, psn);
	/* READ responses before it were lost: the refused request is sent again after them. */
	if (qp->comp.una_psn != psn || syndrome == ROCEMU_NAK_PSN_SEQ)
		return comp_lost(qp, now, (psn + 1) & ROCEMU_PSN_MASK, true);
	if (!rnr)
		return comp_refused(qp, now, nak_status(syndrome), syndrome);
	if (!req_rnr(qp, now, syndrome & ROCEMU_AETH_VALUE_MASK))
		return comp_refused(qp, now, IBV_WC_RNR_RETRY_EXC_ERR, syndrome);
	return ROCEMU_DROP_NONE;
}

static void comp_credits(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t syndrome)
{
	uint8_t field = syndrome & ROCEMU_AETH_VALUE_MASK;

	if (unlikely(field != ROCEMU_AETH_NO_CREDITS || qp->req.credit.limited))
		credit_take(qp, now, field);
}

/** Once there are credits, the newest ACK comes again when there are more (IBTA 9.7.7.2). */
static bool comp_more_credits(struct rocemu_qp *qp, rocemu_ns_t now,
			      const struct rocemu_packet *pkt)
{
	if (likely(!qp->req.credit.limited) || !(opcode_ops(pkt->h.opcode) & ROCEMU_OP_ACK) ||
	    (pkt->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_ACK ||
	    pkt->h.psn != ((qp->comp.una_psn - 1) & ROCEMU_PSN_MASK))
		return false;
	comp_credits(qp, now, pkt->h.aeth.syndrome);
	return true;
}

enum rocemu_drop comp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt)
{
	uint32_t ops = opcode_ops(pkt->h.opcode);
	bool has_aeth = opcode_hdrs(pkt->h.opcode) & ROCEMU_HDR_AETH;
	uint8_t class = has_aeth ? pkt->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK : ROCEMU_AETH_ACK;
	enum rocemu_drop why;

	/* Ghosts and duplicates are dropped silently (IBTA 9.7.5). */
	if (!outstanding(qp, pkt->h.psn)) {
		if ((ops & ROCEMU_OP_ACK) && class == ROCEMU_AETH_ACK)
			recover_hint(qp, now, (pkt->h.psn + RECOVER_HINT_BEHIND) & ROCEMU_PSN_MASK);
		port_note_response(qp, now, pkt->h.psn);
		req_answered_twice(qp, now);
		return comp_more_credits(qp, now, pkt) ? ROCEMU_DROP_NONE : ROCEMU_DROP_GHOST;
	}
	if (class != ROCEMU_AETH_ACK && class != ROCEMU_AETH_RNR && class != ROCEMU_AETH_NAK)
		return ROCEMU_DROP_SEQUENCE; /* a reserved kind of AETH */
	if (class != ROCEMU_AETH_ACK)
		why = comp_nak(qp, now, pkt->h.aeth.syndrome, pkt->h.psn);
	else if (ops & ROCEMU_OP_ACK)
		why = comp_ack(qp, now, pkt->h.psn);
	else
		why = comp_response(qp, now, pkt, ops);
	if (has_aeth && class == ROCEMU_AETH_ACK)
		comp_credits(qp, now, pkt->h.aeth.syndrome);
	qp_check_drained(qp);
	return why;
}
