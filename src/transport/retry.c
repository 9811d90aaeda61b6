/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles request packets after they were sent (RC): acknowledgement, or retransmission.
 *
 * A QP has one timer, which is either
 *   - the ACK timer, which runs while something is in flight: 4.096 us * 2^timeout from the first
 *     packet or the last progress (IBTA 9.7.6.1.3), or
 *   - the probe timer, which runs beside it and is due earlier, or
 *   - an RNR wait: nothing is sent until it ends (IBTA 9.7.5.2.8).
 * The first two are moved on by changing req.deadline and req.probe_at alone; when the heap's entry
 * runs out before both, it is set anew.
 *
 * A probe is one packet that was sent before, with AckReq. It costs a round trip where losing the
 * end of what was sent, or an ACK, would else cost an ACK timeout, which programs set for networks
 * that lose nothing. It uses no retry: the ACK timer limits how long a peer may be silent.
 *
 * Going back means that send_psn becomes acked_psn: everything sent is sent again, from there on.
 */
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/read-budget.h"
#include "transport/req-wqe.h"

enum {
	RNR_RETRY_FOREVER = 7,
	/* Delays of the probe timer in ns. The peer's thread may be late by some scheduling turns;
	 * while the answer to a loss is awaited, a probe too many is cheaper than waiting. */
	PROBE_MIN_NS = 1000 * 1000,
	PROBE_MIN_LOSS_NS = 200 * 1000,
	/* No round trip was measured yet: no answer came, or only to what was sent twice. */
	PROBE_FIRST_NS = 10 * 1000 * 1000,
	PROBE_FIRST_MAX_NS = 1000 * 1000 * 1000,
	PROBE_DOUBLINGS = 5,
};

/** When the ACK timer is due if it starts now. */
static rocemu_ns_t ack_deadline(const struct rocemu_qp *qp, rocemu_ns_t now)
{
	uint64_t timeout = qp_ack_timeout_ns(qp);

	return timeout ? now + timeout : ROCEMU_NEVER;
}

static rocemu_ns_t probe_delay(const struct rocemu_qp *qp)
{
	const struct qp_req *req = &qp->req;
	bool lost = req->again.suspected || req->again.reason == AGAIN_NAK;
	rocemu_ns_t delay = MAX(req->first_delay, (rocemu_ns_t)PROBE_FIRST_NS);

	if (req->srtt)
		delay = lost ? MAX(req->srtt + 4 * req->rttvar, (rocemu_ns_t)PROBE_MIN_LOSS_NS)
			     : MAX(2 * req->srtt + 4 * req->rttvar, (rocemu_ns_t)PROBE_MIN_NS);
	return delay << MIN(req->backoff, (uint8_t)PROBE_DOUBLINGS);
}

/** When it is due if it starts now. */
static rocemu_ns_t probe_time(const struct rocemu_qp *qp, rocemu_ns_t now)
{
	return qp->ep->cfg.traits.no_probes ? ROCEMU_NEVER : now + probe_delay(qp);
}

/** The heap's entry runs out no later than either timer. */
static void timers_arm(struct rocemu_qp *qp)
{
	rocemu_ns_t next = MIN(qp->req.deadline, qp->req.probe_at);

	if (!timer_running(&qp->timer) || qp->timer.deadline > next)
		timer_set(&qp->ep->timers, &qp->timer, next);
}

void req_sent(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (timer_running(&qp->timer))
		return;
	qp->req.deadline = ack_deadline(qp, now);
	qp->req.probe_at = probe_time(qp, now);
	timers_arm(qp);
}

void req_timeout_restart(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (qp->req.rnr_wait || !timer_running(&qp->timer))
		return;
	qp->req.deadline = ack_deadline(qp, now);
	req_probe_restart(qp, now);
}

void req_probe_restart(struct rocemu_qp *qp, rocemu_ns_t now)
{
	qp->req.probe_at = probe_time(qp, now);
	if (timer_running(&qp->timer))
		timers_arm(qp);
}

/*
 * What is sent twice measures nothing. On a path longer than the first delay all would be sent
 * twice, forever, but both are answered there, as far apart as they were sent; after a loss only
 * the second is.
 */
void req_answered_twice(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	if (req->srtt || !req->first_delay || now < req->first_delay)
		return;
	if (!peer_heard_since(req->peer, now - req->first_delay / 2))
		req->first_delay = MIN(2 * req->first_delay, (rocemu_ns_t)PROBE_FIRST_MAX_NS);
}

/** One more round trip was measured; weights as in RFC 6298. */
static void rtt_add(struct qp_req *req, rocemu_ns_t rtt)
{
	rocemu_ns_t off;

	if (!req->min_rtt || rtt < req->min_rtt)
		req->min_rtt = rtt;
	if (!req->srtt) {
		req->srtt = rtt;
		req->rttvar = rtt / 2;
		return;
	}
	off = rtt > req->srtt ? rtt - req->srtt : req->srtt - rtt;
	req->rttvar = (3 * req->rttvar + off) / 4;
	req->srtt = (7 * req->srtt + rtt) / 8;
}

/** acked_psn moved: was it what is measured? */
static void rtt_take(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	if (!req->rtt_valid || rocemu_psn_diff(req->acked_psn, req->rtt_psn) <= 0)
		return;
	req->rtt_valid = false;
	if (now <= req->rtt_at)
		return; /* clocks of two threads */
	rtt_add(req, now - req->rtt_at);
	peer_on_rtt(req->peer, now, now - req->rtt_at);
}

/** What is in flight is taken off the window and the READ budget. */
static void req_forget(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;
	uint64_t cost = req->inflight;

	req->inflight = 0;
	/* They are still in its buffer, and their acknowledgements must not make room for as many
	 * again. */
	if (req->peer->nearby)
		req->charged_psn = req->send_psn;
	peer_on_forget(req->peer, cost);
	read_budget_return(qp, req->read_out);
}

static void req_go_to_acked(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	read_budget_leave(qp);
	req->rd_atomic_out = 0;
	req->since_ackreq = 0;
	req->send_psn = req->acked_psn;
	req->cur = req->acked;
	req->fault = IBV_WC_SUCCESS;
	recover_reset(qp);
}

void req_rewind(struct rocemu_qp *qp, rocemu_ns_t now)
{
	timer_stop(&qp->ep->timers, &qp->timer);
	req_go_to_acked(qp);
	req_forget(qp);
	req_kick(qp, now);
}

/**
 * What packets [from, to) of w, of which acked_psn is the first, take off the window: nothing for
 * those whose share was given back.
 */
static uint64_t charged_cost(const struct qp_req *req, const struct swqe *w, uint32_t from,
			     uint32_t to)
{
	int32_t given_back = rocemu_psn_diff(req->charged_psn, req->acked_psn);

	if (unlikely(given_back > 0))
		from += MIN((uint32_t)given_back, to - from);
	return from < to ? swqe_cost(req, w, w->npkts, from, to) : 0;
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

		cost += charged_cost(req, w, from, from + n);
		if (swqe_expects_response(w))
			*fetches += swqe_fetches_ended(req, w, from, from + n);
		req->acked_psn = (req->acked_psn + n) & ROCEMU_PSN_MASK;
		if (from + n == w->npkts)
			req->acked = swqe_skip_local(&qp->sq, req->acked + 1);
	}
	return cost;
}

/** acked_psn moved, and inflight was reduced by cost: what was retried starts anew. */
static inline void acked_progress(struct rocemu_qp *qp, rocemu_ns_t now, uint64_t cost)
{
	struct qp_req *req = &qp->req;

	req->retry_left = qp->attr.retry_cnt;
	req->rnr_left = qp->attr.rnr_retry;
	req->went_back = false;
	if (unlikely(req->backoff)) {
		req->backoff = 0;
		recover_silence_end(qp, now);
	}
	if (rocemu_psn_diff(req->charged_psn, req->acked_psn) < 0)
		req->charged_psn = req->acked_psn;
	if (rocemu_psn_diff(req->again.requested, req->acked_psn) < 0)
		req->again.requested = req->acked_psn;
	if (rocemu_psn_diff(req->again.split_to, req->acked_psn) < 0)
		req->again.split_to = req->acked_psn;
	if (rocemu_psn_diff(req->again.twice, req->acked_psn) < 0)
		req->again.twice = req->acked_psn;
	rtt_take(qp, now);
	if (!req->rnr_wait) {
		if (req->acked_psn == req->send_psn) {
			timer_stop(&qp->ep->timers, &qp->timer);
		} else if (now != req->progress_at) {
			req->progress_at = now; /* once for all that came in a batch */
			req->deadline = ack_deadline(qp, now);
			req_probe_restart(qp, now);
		}
	}
	peer_on_ack(req->peer, now, cost);
}

void req_acked_one(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;
	const uint64_t cost = req->inflight;

	req->acked_psn = req->send_psn;
	req->acked++;
	req->inflight = 0;
	acked_progress(qp, now, cost);
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
		req_go_to_acked(qp);
		read_budget_return(qp, req->read_out);
	} else {
		req->rd_atomic_out -= fetches;
		cost = MIN(cost, req->inflight); /* less, when the QP's share was given back */
	}
	req->inflight -= cost;
	acked_progress(qp, now, cost);
}

bool req_use_retry(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	if (req->went_back)
		return true;
	if (!req->retry_left)
		return false;
	req->retry_left--;
	req->went_back = true;
	return true;
}

static rocemu_ns_t rnr_wait(const struct rocemu_qp *qp, uint8_t timer_code)
{
	const struct rocemu_ep_config *c = &qp->ep->cfg;

	return MAX(qp_rnr_wait_ns(qp, timer_code),
		   timescale_wait(c->time_scale, c->traits.rnr_wait_floor));
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
	req_rewind(qp, now);
	/* The peer is there, and has all before. Without this a peer that also sends a sequence NAK
	 * for what came behind (rxe does) would use up the retries in a few waits. */
	req->retry_left = qp->attr.retry_cnt;
	req->went_back = false;
	req->backoff = 0;
	req->rnr_wait = true;
	peer_leave(req->peer, &req->peer_link);
	timer_set(&qp->ep->timers, &qp->timer, now + rnr_wait(qp, timer_code));
	return true;
}

/** A repetition that uses no retry is left. */
static bool use_extra(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	if (req->extra_psn != req->acked_psn)
		req->extra_used = 0;
	if (req->extra_used == qp->ep->cfg.traits.extra_repetitions)
		return false;
	req->extra_psn = req->acked_psn;
	req->extra_used++;
	return true;
}

/** The peer has been silent for the ACK timeout: everything is sent again, if a retry is left. */
static void ack_timeout(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	QP_COUNT(qp, timeouts);
	req->went_back = false;
	if (!use_extra(qp) && !req_use_retry(qp)) {
		comp_fail(qp, now, IBV_WC_RETRY_EXC_ERR, ROCEMU_WHY_SILENT);
		return;
	}
	req->went_back = false;
	peer_on_loss(req->peer, now);
	req_rewind(qp, now);
}

static void probe(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	QP_COUNT(qp, probes);
	if (req->backoff < UINT8_MAX)
		req->backoff++;
	req->first_delay = MAX(req->first_delay, (rocemu_ns_t)PROBE_FIRST_NS);
	if (req_is_silent(req)) {
		peer_leave(req->peer, &req->peer_link);
		read_budget_leave(qp);
		req_forget(qp);
	}
	recover_probe(qp, now);
	req->probe_at = probe_time(qp, now);
	timers_arm(qp);
}

void req_expire(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	if (req->rnr_wait) {
		req->rnr_wait = false;
		req_kick(qp, now);
		return;
	}
	if (req->acked_psn == req->send_psn)
		return;
	if (now >= req->deadline)
		ack_timeout(qp, now);
	else if (now >= req->probe_at)
		probe(qp, now);
	else
		timers_arm(qp);
}
