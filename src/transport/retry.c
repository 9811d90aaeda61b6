/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens to request packets after they went out (RC): they are acknowledged, or sent again.
 *
 * A QP has one timer, which is either
 *   - the ACK timer, which runs while something is in flight: 4.096 us * 2^timeout from the first
 *     packet or the last progress (IBTA 9.7.6.1.3), or
 *   - an RNR wait: nothing is sent until it ends (IBTA 9.7.5.2.8).
 * The ACK timer is moved on by changing req.deadline alone; when the heap's entry runs out before
 * that, it is set anew.
 *
 * Going back means that send_psn becomes acked_psn: everything sent is sent again, from there on.
 */
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/req-wqe.h"

enum { RNR_RETRY_FOREVER = 7 };

/** When the ACK timer is due if it starts now. */
static rocemu_ns_t ack_deadline(const struct rocemu_qp *qp, rocemu_ns_t now)
{
	uint64_t timeout = qp_ack_timeout_ns(qp);

	return timeout ? now + timeout : ROCEMU_NEVER;
}

void req_sent(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (timer_running(&qp->timer))
		return;
	qp->req.deadline = ack_deadline(qp, now);
	if (qp->req.deadline != ROCEMU_NEVER)
		timer_set(&qp->ep->timers, &qp->timer, qp->req.deadline);
}

/** Give up what is in flight and send it again from the oldest unacknowledged packet on. */
static void req_rewind(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	timer_stop(&qp->ep->timers, &qp->timer);
	peer_on_forget(req->peer, req->inflight);
	req->inflight = 0;
	req->rd_atomic_out = 0;
	req->since_ackreq = 0;
	req->send_psn = req->acked_psn;
	req->cur = req->acked;
	req->fault = IBV_WC_SUCCESS;
}

/**
 * Move acked_psn to end. *fetches: the READ requests and atomics that this completes.
 * @return what it takes off the window.
 */
static uint64_t acked_move(struct rocemu_qp *qp, uint32_t end, uint32_t *fetches)
{
	struct qp_req *req = &qp->req;
	uint64_t cost = 0;

	*fetches = 0;
	while (req->acked_psn != end) {
		const struct swqe *w = sq_wqe(&qp->sq, req->acked);
		uint32_t from = swqe_pkt(w, req->acked_psn);
		uint32_t n = MIN(w->npkts - from, (end - req->acked_psn) & ROCEMU_PSN_MASK);

		cost += swqe_cost(req, w, w->npkts, from, from + n);
		if (swqe_is_fetch(w))
			*fetches += swqe_fetches_ended(req, w, from, from + n);
		req->acked_psn = (req->acked_psn + n) & ROCEMU_PSN_MASK;
		if (from + n == w->npkts)
			req->acked = swqe_skip_local(&qp->sq, req->acked + 1);
	}
	return cost;
}

void req_acked(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	struct qp_req *req = &qp->req;
	uint32_t end = (psn + 1) & ROCEMU_PSN_MASK;
	bool ahead = rocemu_psn_diff(end, req->send_psn) > 0;
	uint32_t fetches;
	uint64_t cost = acked_move(qp, end, &fetches);

	if (ahead) {
		/* What was given up did arrive: go on behind it. */
		cost = req->inflight;
		req->rd_atomic_out = 0;
		req->since_ackreq = 0;
		req->send_psn = req->acked_psn;
		req->cur = req->acked;
		req->fault = IBV_WC_SUCCESS;
	} else {
		req->rd_atomic_out -= fetches;
	}
	req->inflight -= cost;
	req->retry_left = qp->attr.retry_cnt;
	req->rnr_left = qp->attr.rnr_retry;
	req->went_back = false;
	if (!req->rnr_wait) {
		if (req->acked_psn == req->send_psn)
			timer_stop(&qp->ep->timers, &qp->timer);
		else
			req->deadline = ack_deadline(qp, now);
	}
	peer_on_ack(req->peer, now, cost);
}

bool req_go_back(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	if (req->went_back || req->rnr_wait)
		return true;
	if (!req->retry_left)
		return false;
	req->retry_left--;
	req->went_back = true;
	req_rewind(qp);
	peer_on_loss(req->peer, now);
	req_kick(qp, now);
	return true;
}

bool req_rnr(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t timer_code)
{
	struct qp_req *req = &qp->req;

	if (req->rnr_wait)
		return true; /* the same NAK again */
	if (qp->attr.rnr_retry != RNR_RETRY_FOREVER) {
		if (!req->rnr_left)
			return false;
		req->rnr_left--;
	}
	req_rewind(qp);
	/* The peer is there, and has all before. Without this a peer that also sends a sequence NAK
	 * for what came behind (rxe does) would use up the retries in a few waits. */
	req->retry_left = qp->attr.retry_cnt;
	req->went_back = false;
	req->rnr_wait = true;
	timer_set(&qp->ep->timers, &qp->timer, now + qp_rnr_wait_ns(qp, timer_code));
	return true;
}

void req_expire(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	if (req->rnr_wait) {
		req->rnr_wait = false;
		req_kick(qp, now);
		return;
	}
	if (req->acked_psn == req->send_psn || req->deadline == ROCEMU_NEVER)
		return;
	if (now < req->deadline) {
		timer_set(&qp->ep->timers, &qp->timer, req->deadline);
		return;
	}
	qp->ep->stats.timeouts++;
	req->went_back = false;
	if (!req_go_back(qp, now))
		comp_fail(qp, now, IBV_WC_RETRY_EXC_ERR, 0);
	req->went_back = false;
}
