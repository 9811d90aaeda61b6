/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selects the next packet to send, and the reasons to wait. Packets are built in req-build.c;
 * retry.c handles them after they were sent.
 */
#include "transport/req.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/read-budget.h"
#include "transport/req-build.h"
#include "transport/req-wqe.h"

enum {
	/*
	 * Responses to one READ request: bounded, so that they do not overrun the socket buffer
	 * that they arrive in, and more where that is large. The first and the last response are
	 * longer than those between and make bursts of their own. Powers of two.
	 */
	READ_BYTES = 64 * 1024,
	READ_PKTS = 32,
	READ_ROOMY_BYTES = 2 * READ_BYTES,
	READ_ROOMY_PKTS = 4 * READ_PKTS,
	READ_ROOMY = 8 * READ_BYTES, /* READ budget of a large buffer */
	WHOLE_MESSAGE = 64 * 1024,   /* longer ones may be cut, see is_cut() */
	/*
	 * Of one QP in a row while others wait: those that leave by its socket in one output call
	 * share bursts.
	 */
	TURN_PACKETS = 120,
};

void req_reset(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	memset(req, 0, sizeof(*req));
	list_init(&req->peer_link);
	list_init(&req->tx_pending_link);
}

int req_attach(struct rocemu_qp *qp)
{
	if (!qp_is_reliable(qp) || qp->type == IBV_QPT_XRC_RECV || qp->req.peer)
		return 0;
	qp->req.peer = peer_get(qp->ep, &qp->path.dgid, qp->attr.dest_qp_num);
	if (!qp->req.peer)
		return -ENOMEM;
	peer_use_mtu(qp->req.peer, qp->mtu);
	return 0;
}

int req_move(struct rocemu_qp *qp, const struct ibv_ah_attr *ah)
{
	struct qp_req *req = &qp->req;
	struct peer *from = req->peer;
	struct rocemu_path path;

	if (!from || rocemu_path_resolve(qp->ep, ah, &path))
		return 0;
	read_budget_leave(qp);
	req->peer = peer_get(qp->ep, &path.dgid, qp->attr.dest_qp_num);
	if (!req->peer) {
		req->peer = from;
		return -ENOMEM;
	}
	peer_use_mtu(req->peer, qp->mtu);
	if (req->peer != from) {
		peer_leave(from, &req->peer_link);
		peer_on_forget(from, req->inflight);
		peer_on_send(req->peer, req->inflight);
		/* Another path: nothing measured holds for it. */
		req->rtt_valid = false;
		req->srtt = req->rttvar = req->min_rtt = 0;
		req->first_delay = 0;
	}
	peer_put(from);
	return 0;
}

void req_changed(struct rocemu_qp *qp, rocemu_ns_t now, int mask)
{
	struct qp_req *req = &qp->req;

	if (!req->peer)
		return;
	if (mask & IBV_QP_RETRY_CNT)
		req->retry_left = qp->attr.retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		req->rnr_left = qp->attr.rnr_retry;
	if (mask & IBV_QP_TIMEOUT)
		req_timeout_restart(qp, now);
	/* A turn that it cannot use any more goes to the next one. */
	read_budget_leave(qp);
	peer_leave(req->peer, &req->peer_link);
	req_kick(qp, now);
}

/** Limit of response packets of one READ request: this many bits. */
static uint32_t read_shift(const struct rocemu_qp *qp)
{
	bool roomy = qp->ep->cfg.read_budget >= READ_ROOMY;
	uint32_t bytes = roomy ? READ_ROOMY_BYTES : READ_BYTES;
	uint32_t pkts = roomy ? READ_ROOMY_PKTS : READ_PKTS;

	return (uint32_t)__builtin_ctz(MIN(bytes >> qp->req.mtu_shift, pkts));
}

void req_start(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;

	(void)now;
	req->acked_psn = req->send_psn = req->next_psn = req->charged_psn = qp->attr.sq_psn;
	req->acked = req->cur = qp->sq.next = qp->sq.head;
	req->mtu_shift = (uint32_t)__builtin_ctz(qp->mtu);
	req->full_cost = peer_cost(qp->mtu);
	req->read_shift = read_shift(qp);
	req->retry_left = qp->attr.retry_cnt;
	req->rnr_left = qp->attr.rnr_retry;
	req->again.split_to = req->acked_psn;
	recover_reset(qp);
}

void req_stop(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	timer_stop(&qp->ep->timers, &qp->timer);
	read_budget_leave(qp);
	list_remove(&req->tx_pending_link);
	if (req->peer) {
		peer_leave(req->peer, &req->peer_link);
		peer_on_forget(req->peer, req->inflight);
		peer_put(req->peer);
		req->peer = NULL;
	}
	list_remove(&req->peer_link);
	read_budget_return(qp, req->read_out);
	req->inflight = 0;
	req->rd_atomic_out = 0;
	req->rnr_wait = false;
	req->fault = IBV_WC_SUCCESS;
	recover_reset(qp);
}

void req_flushed(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;

	req->acked_psn = req->send_psn = req->charged_psn = req->next_psn;
	req->acked = req->cur = qp->sq.next = qp->sq.head;
	recover_reset(qp);
}

bool req_idle(const struct rocemu_qp *qp)
{
	return qp->sq.tail == qp->sq.next;
}

/* ---- what may go ---- */

/** Bytes that the next packet of w will be charged. */
static uint64_t req_next_cost(const struct rocemu_qp *qp, const struct swqe *w)
{
	const struct qp_req *req = &qp->req;
	bool begun = req->cur != qp->sq.next;
	uint32_t npkts = swqe_count(req, w);
	uint32_t pkt = begun ? swqe_pkt(w, req->send_psn) : 0;
	uint32_t end = swqe_expects_response(w) ? swqe_read_end(req, npkts, pkt) : pkt + 1;

	return swqe_cost(req, w, npkts, pkt, end);
}

/**
 * Would the window take only a part of the message? In two parts it is one burst more, and one ACK
 * more. A wide window has enough in flight while it waits.
 */
static bool is_cut(const struct qp_req *req, const struct swqe *w)
{
	return (w->length >> req->mtu_shift) > 0 && w->length <= WHOLE_MESSAGE &&
	       peer_is_wide(req->peer) && !swqe_expects_response(w) &&
	       !peer_may_send(req->peer, swqe_whole_cost(req, w));
}

/**
 * Exempt from the window are a lane with nothing in flight, and a QP whose packets in flight are
 * not acknowledged until it has sent one more. Otherwise a window that shrank would stop them
 * forever. A READ may exceed it, since its responses come one by one: a third of a short path's
 * window would else stay empty. How many do is bounded by the READ budget. While QPs wait, it is
 * open only to the first of them.
 */
static bool req_window_open(const struct rocemu_qp *qp, const struct swqe *w)
{
	const struct qp_req *req = &qp->req;
	struct list *first = list_first(&req->peer->blocked);

	if (req->kept || req->since_ackreq)
		return true;
	if (first && first != &req->peer_link)
		return false;
	if (!req->peer->inflight)
		return true;
	if (peer_wants_longer(req->peer, req->full_cost, w->length))
		return false;
	if (req->cur == qp->sq.next && is_cut(req, w))
		return false;
	return likely(peer_may_send(req->peer, req->full_cost)) ||
	       peer_may_send(req->peer, MIN(req_next_cost(qp, w), (uint64_t)req->full_cost));
}

/** A local request with a fence waits until all before it is complete. */
static bool local_is_fenced(const struct rocemu_qp *qp, const struct swqe *w)
{
	return qp_is_reliable(qp) && (w->flags & IBV_SEND_FENCE) && qp->sq.tail != qp->req.cur;
}

HOT enum req_hold req_hold(const struct rocemu_qp *qp)
{
	const struct qp_req *req = &qp->req;
	bool fresh = req->cur == qp->sq.next;
	const struct swqe *w;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return REQ_HOLD_IDLE;
	if (recover_due(&req->again))
		return REQ_GO;
	if (req->fault)
		return qp->sq.tail == req->cur ? REQ_FAULT : REQ_HOLD_FAULT;
	/* SQD: requests begun go on, no new ones (IBTA 10.3.1.5). */
	if (req->cur == qp->sq.head || (fresh && qp->state == IBV_QPS_SQD))
		return REQ_HOLD_IDLE;
	w = sq_wqe(&qp->sq, req->cur);
	if (swqe_is_local(w))
		return local_is_fenced(qp, w) ? REQ_HOLD_READ : REQ_GO;
	if (!qp_is_reliable(qp))
		return qp->ep->send_credits ? REQ_GO : REQ_HOLD_ROOM;
	if (req->rnr_wait)
		return REQ_HOLD_RNR;
	/* After going back, one packet shows whether the peer answers again. */
	if (req_is_silent(req) && req->send_psn != req->acked_psn)
		return REQ_HOLD_SILENT;
	if (req->rd_atomic_out) {
		if (fresh && (w->flags & IBV_SEND_FENCE))
			return REQ_HOLD_READ;
		if (swqe_expects_response(w) && req->rd_atomic_out >= qp->attr.max_rd_atomic)
			return REQ_HOLD_READ;
	}
	if (unlikely(req->credit.limited) && credit_holds(qp, w, fresh))
		return REQ_HOLD_CREDIT;
	if (!req_window_open(qp, w))
		return REQ_HOLD_WINDOW;
	return w->opcode == IBV_WR_RDMA_READ && !read_budget_open(qp) ? REQ_HOLD_BUDGET : REQ_GO;
}

static void req_hand(struct rocemu_qp *qp)
{
	if (!list_linked(&qp->req.tx_pending_link))
		list_append(&qp->ep->tx_pending, &qp->req.tx_pending_link);
}

void req_kick(struct rocemu_qp *qp, rocemu_ns_t now)
{
	(void)now;
	if (unlikely(qp->req.fault) && req_hold(qp) == REQ_FAULT)
		req_hand(qp);
	else
		qp_wake(qp);
}

/* ---- going over the queue ---- */

/**
 * Can the entry be executed? The memory of a message is checked before its first packet goes out.
 * That of a READ or atomic is checked when the response comes (comp-read.c): adapters have its keys
 * no sooner, and what the peer refuses is reported as that. A local request is executed here and
 * now.
 */
static enum ibv_wc_status req_check(struct rocemu_qp *qp, const struct swqe *w)
{
	struct iovec iov[ROCEMU_MAX_SGE];

	if (unlikely(w->fault != IBV_WC_SUCCESS))
		return w->fault;
	if (swqe_is_local(w))
		return mw_execute(qp, w);
	if (swqe_expects_response(w) && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	/* Of one packet: found out when it is made. */
	if (w->npkts > 1 && !swqe_is_read(w) && sq_payload(qp, qp->req.cur, 0, w->length, iov) < 0)
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/** The entry at cur is sent for the first time: give it its PSNs. False: it cannot be executed. */
static bool req_begin(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;
	struct swqe *w = sq_wqe(&qp->sq, req->cur);

	w->first_psn = req->next_psn;
	w->npkts = swqe_count(req, w);
	req->fault = req_check(qp, w);
	if (req->fault)
		return false;
	qp->sq.next++;
	return true;
}

/** The local request at cur was executed: go on behind it, and complete it if it is its turn. */
static void req_local_done(struct rocemu_qp *qp, rocemu_ns_t now)
{
	qp->req.cur++;
	if (!qp_is_reliable(qp))
		return; /* completes with what was handed out before it */
	qp->req.acked = swqe_skip_local(&qp->sq, qp->req.acked);
	comp_local(qp, now);
}

/** Packets of the entry at cur, or one that is missing. */
static unsigned req_turn(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n)
{
	struct qp_req *req = &qp->req;
	const struct swqe *w = sq_wqe(&qp->sq, req->cur);
	uint32_t first = req->send_psn;
	unsigned made;
	bool fresh;

	if (recover_due(&req->again))
		return recover_output(qp, now, tx);
	if (req->cur == qp->sq.next && !req_begin(qp))
		return 0;
	if (swqe_is_local(w)) {
		req_local_done(qp, now);
		return 0;
	}
	fresh = first == req->next_psn;
	made = swqe_expects_response(w) ? req_build_fetch(qp, tx)
					: req_build_message(qp, tx, req_is_silent(req) ? 1 : n);
	if (!made)
		return 0;
	/* The last of them requests an answer; a READ's first response is one. */
	if (fresh && qp_is_reliable(qp) && !req->since_ackreq)
		req_measure(req, now,
			    swqe_expects_response(w) ? first
						     : (req->send_psn - 1) & ROCEMU_PSN_MASK);
	if (swqe_pkt(w, req->send_psn) == w->npkts)
		req->cur = swqe_skip_local(&qp->sq, req->cur + 1);
	return made;
}

/** UC and UD: what went out counts against the room there is. */
static void req_charge_room(struct rocemu_ep *ep, const struct rocemu_tx *tx, unsigned n)
{
	if (ep->send_credits == UINT64_MAX)
		return;
	for (unsigned i = 0; i < n; i++)
		ep->send_credits -= MIN(ep->send_credits, (uint64_t)peer_cost(tx[i].payload_len));
}

/** If there is room, the first of the QPs that wait for it may send. */
static void room_wake(struct rocemu_ep *ep)
{
	struct list *n = ep->send_credits ? list_first(&ep->room_waiting) : NULL;

	if (likely(!n))
		return;
	list_remove(n);
	qp_wake(list_entry(n, struct rocemu_qp, req.peer_link));
}

void rocemu_ep_set_send_credits(struct rocemu_ep *ep, uint64_t bytes)
{
	ep->send_credits = bytes;
	room_wake(ep);
}

bool rocemu_ep_wants_send_credits(const struct rocemu_ep *ep)
{
	return !list_empty(&ep->room_waiting);
}

/** req_hold(); where nothing new may go, some of what is in flight may go again. */
static enum req_hold req_ready(struct rocemu_qp *qp)
{
	enum req_hold hold = req_hold(qp);

	if (hold == REQ_GO || likely(!req_may_fill(qp, hold)))
		return hold;
	recover_fill(qp);
	return req_hold(qp);
}

/** As many as make a burst, but of a small window no QP takes more than half. */
static uint32_t turn_packets(const struct qp_req *req)
{
	uint64_t half = req->peer->cc.cwnd / (2 * (uint64_t)req->full_cost);

	return (uint32_t)MAX(MIN(half, (uint64_t)TURN_PACKETS), 1u);
}

/**
 * RC: wait in line for what is lacking: for room in the window first, then with that room kept for
 * the READ budget. Thus a lane without room holds up none of the READs on other lanes.
 */
static void req_line(struct rocemu_qp *qp, enum req_hold hold)
{
	struct qp_req *req = &qp->req;

	if (hold == REQ_HOLD_BUDGET) {
		read_budget_wait(qp, req_next_cost(qp, sq_wqe(&qp->sq, req->cur)));
		return;
	}
	read_budget_leave(qp);
	req->read_turn = 0;
	if (hold == REQ_HOLD_WINDOW) {
		if (!list_linked(&req->peer_link))
			req->turn = turn_packets(req);
		peer_block(req->peer, &req->peer_link);
	} else {
		peer_leave(req->peer, &req->peer_link);
	}
}

/** So many packets were sent: when its turn is over, the next QP in line has one. */
static void req_use_turn(struct rocemu_qp *qp, uint32_t packets)
{
	struct qp_req *req = &qp->req;

	if (likely(!list_linked(&req->peer_link)))
		return;
	req->turn -= MIN(req->turn, packets);
	if (!req->turn)
		peer_leave_line(req->peer, &req->peer_link);
}

/** Nothing may go now: it is woken when that has changed, or failed. */
static void req_wait(struct rocemu_qp *qp, enum req_hold hold)
{
	if (qp->req.peer)
		req_line(qp, hold);
	if (hold == REQ_HOLD_ROOM && !list_linked(&qp->req.peer_link))
		list_append(&qp->ep->room_waiting, &qp->req.peer_link);
	if (hold == REQ_FAULT)
		req_hand(qp);
}

HOT unsigned req_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n,
			bool *more)
{
	uint32_t psn = qp->req.send_psn;
	enum req_hold hold;
	unsigned made = 0;

	while ((hold = req_ready(qp)) == REQ_GO && made < n) {
		unsigned turn = req_turn(qp, now, tx + made, n - made);

		if (!qp_is_reliable(qp))
			req_charge_room(qp->ep, tx + made, turn);
		else if (qp->req.send_psn != psn)
			req_use_turn(qp, (qp->req.send_psn - psn) & ROCEMU_PSN_MASK);
		psn = qp->req.send_psn;
		made += turn;
	}
	if (hold != REQ_GO && (hold != REQ_HOLD_IDLE || list_linked(&qp->req.peer_link)))
		req_wait(qp, hold);
	if (qp_is_reliable(qp)) {
		if (made)
			req_sent(qp, now);
	} else {
		if (qp->sq.tail != qp->req.cur)
			req_hand(qp);
		room_wake(qp->ep);
	}
	*more = hold == REQ_GO;
	return made;
}

void req_tx_done(struct rocemu_ep *ep, rocemu_ns_t now)
{
	struct list *n;

	while ((n = list_first(&ep->tx_pending))) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, req.tx_pending_link);

		list_remove(n);
		while (!qp_is_reliable(qp) && qp->sq.tail != qp->req.cur)
			comp_complete(qp, now);
		if (req_hold(qp) == REQ_FAULT)
			comp_fail(qp, now, qp->req.fault, 0);
		else
			qp_check_drained(qp);
	}
}
