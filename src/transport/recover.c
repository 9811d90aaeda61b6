/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sent again out of turn. A NAK, a response before its turn, an ACK beyond an unanswered
 * READ and the probe timer each name a range that ends somewhere in flight; what is missing in it is
 * sent again once. Nothing of the window moves by that, and nothing is charged to it again.
 *
 * How a responder that goes back is found out: it acknowledges exactly what was sent again alone
 * and no more, although more is in flight. Then all is sent again (req_rewind()), and the peer is
 * treated so for the next NAKs.
 */
#include "transport/recover.h"

#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/req-build.h"
#include "transport/req-wqe.h"

enum {
	/* Units in a row that were acknowledged alone, each after a NAK or a probe: a peer that
	 * keeps has nothing left either. */
	STEPS_MAX = 3,
	/* A long range asks for an ACK every so many packets, a power of two. */
	ACKREQ_EVERY = 16,
	/* So many responses may overtake one that is late, but not lost. */
	LATE_MAX = 2,
};

/** PSN order: is a before b? */
static bool before(uint32_t a, uint32_t b)
{
	return rocemu_psn_diff(a, b) < 0;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return before(a, b) ? b : a;
}

void recover_reset(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;

	a->from = a->to = a->asked = a->mark = a->head_end = req->acked_psn;
	a->reason = AGAIN_NONE;
	a->steps = 0;
	memset(a->got, 0, sizeof(a->got));
	req->rtt_valid = false;
}

/** The send queue entry that psn, which is in flight, lies in. */
static uint32_t entry_of(const struct rocemu_qp *qp, uint32_t psn)
{
	uint32_t i = qp->req.acked;

	while (swqe_pkt(sq_wqe(&qp->sq, i), psn) >= sq_wqe(&qp->sq, i)->npkts)
		i++;
	return i;
}

/** End of the unit that psn, which is in flight, lies in. */
static uint32_t unit_end(const struct rocemu_qp *qp, uint32_t psn)
{
	const struct swqe *w = sq_wqe(&qp->sq, entry_of(qp, psn));
	uint32_t pkt = swqe_pkt(w, psn);
	uint32_t end = swqe_is_fetch(w) ? swqe_read_end(&qp->req, w->npkts, pkt) : pkt + 1;

	return (w->first_psn + end) & ROCEMU_PSN_MASK;
}

/** Have what is missing in [from, end) sent again. */
static void schedule(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t from, uint32_t end)
{
	struct req_again *a = &qp->req.again;

	if (!recover_due(a)) {
		a->from = from;
		a->to = end;
	} else {
		a->from = before(from, a->from) ? from : a->from;
		a->to = later(a->to, end);
	}
	a->asked = later(a->asked, end);
	a->mark = qp->req.send_psn;
	req_kick(qp, now);
}

/* ---- why ---- */

bool recover_lost(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end, bool nak)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t from = later(a->asked, req->acked_psn);

	/* An echo of what was acted on, or of what was given up meanwhile. */
	if (req->rnr_wait || !before(from, end) || before(req->send_psn, end))
		return true;
	if (!req_use_retry(qp))
		return false;
	peer_on_loss(req->peer, now);
	if (nak && peer_wants_all(req->peer)) {
		req_rewind(qp, now);
		a->asked = end;
		return true;
	}
	if (nak) {
		end = unit_end(qp, (end - 1) & ROCEMU_PSN_MASK);
		a->reason = AGAIN_NAK;
		a->head_end = end;
	}
	schedule(qp, now, from, end);
	return true;
}

bool recover_gap(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	bool newest = ((psn + 1) & ROCEMU_PSN_MASK) == req->send_psn;
	uint32_t end = newest ? psn : (psn - LATE_MAX) & ROCEMU_PSN_MASK;

	/* What this answers was sent after the holes were asked for again: that was lost as well. */
	if (!before(end, a->mark))
		a->asked = req->acked_psn;
	a->asked = later(a->asked, req->acked_psn);
	while (before(a->asked, end) && got_test(a, a->asked))
		a->asked = (a->asked + 1) & ROCEMU_PSN_MASK;
	return recover_lost(qp, now, end, false);
}

void recover_probe(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;

	a->reason = AGAIN_PROBE;
	a->head_end = unit_end(qp, req->acked_psn);
	schedule(qp, now, req->acked_psn, a->head_end);
}

/* ---- what the answer shows ---- */

/** It came too soon to answer what was sent again: it is the late answer to the original. */
static bool answer_is_late(const struct qp_req *req, rocemu_ns_t now)
{
	return now < req->again.head_at + req->min_rtt / 2;
}

void recover_acked(struct rocemu_qp *qp, rocemu_ns_t now, bool bare)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	enum again_reason reason = a->reason;

	if (!reason || before(req->acked_psn, a->head_end))
		return;
	a->reason = AGAIN_NONE;
	if (answer_is_late(req, now))
		return;
	if (req->acked_psn != a->head_end || req->acked_psn == req->send_psn) {
		a->steps = 0;
		if (reason == AGAIN_NAK && req->acked_psn != a->head_end)
			peer_saw_keep(req->peer);
		return;
	}
	a->steps++;
	if ((bare && reason == AGAIN_NAK) || a->steps >= STEPS_MAX) {
		peer_saw_drop(req->peer);
		req_rewind(qp, now);
	} else if (reason == AGAIN_PROBE) {
		recover_probe(qp, now);
	}
}

/* ---- output ---- */

/** The end of what is missing of w from packet pkt on and can be sent as one; pkt: it is not. */
static uint32_t missing_end(const struct rocemu_qp *qp, const struct swqe *w, uint32_t pkt)
{
	const struct req_again *a = &qp->req.again;
	uint32_t psn = (w->first_psn + pkt) & ROCEMU_PSN_MASK;
	uint32_t end;

	if (!swqe_is_fetch(w))
		return before(psn, qp->comp.acked_to) ? pkt : pkt + 1;
	/*
	 * To the next response that is there. Without one to the end of the request, which the peer
	 * may not have seen at all: two halves would take two of its READ resources.
	 */
	end = swqe_read_end(&qp->req, w->npkts, pkt);
	while (pkt < end && !got_test(a, psn)) {
		pkt++;
		psn = (psn + 1) & ROCEMU_PSN_MASK;
	}
	return pkt;
}

unsigned recover_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t to = before(req->send_psn, a->to) ? req->send_psn : a->to;
	uint32_t psn = later(a->from, req->acked_psn);
	uint32_t i = req->acked;

	while (before(psn, to)) {
		const struct swqe *w = sq_wqe(&qp->sq, i);
		uint32_t pkt = swqe_pkt(w, psn), end;
		bool ackreq;

		if (pkt >= w->npkts) {
			i++;
			continue;
		}
		end = missing_end(qp, w, pkt);
		if (end == pkt) {
			psn = (psn + 1) & ROCEMU_PSN_MASK;
			continue;
		}
		a->from = (w->first_psn + end) & ROCEMU_PSN_MASK;
		if (swqe_is_fetch(w) && end != swqe_read_end(req, w->npkts, pkt))
			a->split_to = later(a->split_to, a->from);
		ackreq = !before(a->from, to) || a->from % ACKREQ_EVERY == 0;
		if (!before(a->from, to))
			a->from = a->to;
		if (!req_build_again(qp, tx, i, pkt, end, ackreq)) {
			req_rewind(qp, now); /* finds the memory gone in its turn */
			return 0;
		}
		req->rtt_valid = false;
		a->head_at = now;
		req_probe_restart(qp, now);
		return 1;
	}
	a->from = a->to;
	return 0;
}
