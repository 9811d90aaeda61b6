/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmits missing packets out of order. A NAK, an early response, an ACK beyond an unanswered
 * READ and the probe timer each give a range that ends in flight; the missing packets in it are
 * sent again once. This does not move the window, and charges nothing to it again.
 *
 * A responder that goes back is detected by its acknowledgements: exactly the packets sent again
 * alone and no more, although more are in flight. Then all is sent again (req_rewind()), also for
 * the peer's next NAKs.
 */
#include "transport/recover.h"

#include <string.h>

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/req-build.h"
#include "transport/req-wqe.h"

enum {
	/* Units in a row that were acknowledged alone, each after a NAK or a probe: a peer that
	 * keeps has nothing left either. */
	STEPS_MAX = 3,
	/* A long range requests an ACK every so many packets, a power of two. */
	ACKREQ_EVERY = 16,
	/* Responses that may overtake one that is late: at first, and where the network turned out
	 * to reorder. */
	LATE_MIN = 2u,
	LATE_MAX = 63u,
	/* Smoothed share of what was suspected and was late. From a quarter on the network
	   reorders. */
	LATENESS_ONE = 1024u,
	/* Gaps in flight, by their spacing so far, from which on sending all of it again while
	 * nothing else may be sent beats one gap in a round trip. */
	GAPS_MANY = 2,
	FILL_BURST = 8,
	/* Gaps closer than this: what is sent again is likely enough to be lost, and waiting for
	 * the probe timer costs more than a second copy. */
	SPACING_TWICE = 64,
	SPACING_MAX = 1u << 16,
	SPACING_MIN = 8, /* closer than that, it is congestion, which more packets make worse */
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

	a->from = a->to = a->requested = a->mark = a->head_end = req->acked_psn;
	a->twice = a->fill = a->fill_to = a->hinted = req->acked_psn;
	a->nhints = 0;
	a->suspected = false;
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
	uint32_t end = swqe_expects_response(w) ? swqe_read_end(&qp->req, w->npkts, pkt) : pkt + 1;

	return (w->first_psn + end) & ROCEMU_PSN_MASK;
}

/** Have what is missing in [from, end) sent again. */
static void schedule(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t from, uint32_t end)
{
	struct req_again *a = &qp->req.again;

	if (!recover_due(a) || a->filling) {
		a->from = from;
		a->to = end;
	} else {
		a->from = before(from, a->from) ? from : a->from;
		a->to = later(a->to, end);
	}
	a->filling = false;
	a->requested = later(a->requested, end);
	a->mark = qp->req.send_psn;
	req_kick(qp, now);
}

/* ---- why ---- */

/** The packet psn was lost: how far apart are the gaps? */
static void gap_note(struct req_again *a, uint32_t psn)
{
	uint32_t apart = MIN((psn - a->gap_psn) & ROCEMU_PSN_MASK, SPACING_MAX);

	a->gap_psn = psn;
	a->spacing = a->spacing ? (3 * a->spacing + apart) / 4 : SPACING_MAX;
}

/** A NAK named psn: are many gaps in flight, if they go on as far apart as so far? */
static void fill_begin(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t flight = (req->send_psn - psn) & ROCEMU_PSN_MASK;

	if (a->gets_hints || a->spacing < SPACING_MIN || flight < GAPS_MANY * a->spacing)
		return;
	/* Once over all packets in flight in a round trip. */
	if (before(a->fill, a->fill_to) && now < a->fill_at + req->srtt)
		return;
	a->fill = (psn + 1) & ROCEMU_PSN_MASK;
	a->fill_to = req->send_psn;
	a->fill_at = now;
}

void recover_fill(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t to = (a->fill + FILL_BURST) & ROCEMU_PSN_MASK;

	a->fill = later(a->fill, req->acked_psn);
	if (before(a->fill_to, to))
		to = a->fill_to;
	if (before(a->fill, to)) {
		a->from = a->fill;
		a->to = to;
		a->filling = true;
	} else {
		to = a->fill_to;
	}
	a->fill = to;
}

bool recover_lost(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end, bool nak)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t from = later(a->requested, req->acked_psn);

	/* An echo of what was acted on, or of what was given up meanwhile. */
	if (req->rnr_wait || !before(from, end) || before(req->send_psn, end))
		return true;
	if (!req_use_retry(qp))
		return false;
	if (!a->suspected) {
		a->suspected = true;
		a->lost_psn = from;
		a->lost_at = ROCEMU_NEVER;
		a->suspect_nak = nak;
	}
	if (qp->ep->cfg.traits.goes_back || (nak && peer_wants_all(req->peer))) {
		peer_on_loss(req->peer, now);
		req_rewind(qp, now);
		a->requested = end;
		return true;
	}
	if (nak) {
		fill_begin(qp, now, (end - 1) & ROCEMU_PSN_MASK);
		end = unit_end(qp, (end - 1) & ROCEMU_PSN_MASK);
		a->reason = AGAIN_NAK;
		a->head_end = end;
		a->once_more = a->spacing >= SPACING_MIN && a->spacing < SPACING_TWICE;
	}
	schedule(qp, now, from, end);
	return true;
}

bool recover_gap(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	bool newest =
		((psn + 1) & ROCEMU_PSN_MASK) == req->send_psn || qp->ep->cfg.traits.goes_back;
	uint32_t from, end = newest ? psn : (psn - MAX(a->late_max, LATE_MIN)) & ROCEMU_PSN_MASK;

	/*
	 * This answers a packet sent after the holes were requested again: the repetition was lost
	 * as well.
	 */
	if (!before(end, a->mark))
		a->requested = a->twice = req->acked_psn;
	a->requested = later(a->requested, req->acked_psn);
	/* This answers a repeated request. Answers come in order: those before it are lost.
	 */
	if (before(psn, a->requested)) {
		end = psn;
		from = later(a->twice, req->acked_psn);
		a->twice = later(a->twice, psn);
		if (before(from, end))
			schedule(qp, now, from, end);
		return true;
	}
	while (before(a->requested, end) && got_test(a, a->requested))
		a->requested = (a->requested + 1) & ROCEMU_PSN_MASK;
	return recover_lost(qp, now, end, false);
}

void recover_hint(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;

	if (req->rnr_wait || !before(req->acked_psn, psn) || !before(psn, req->send_psn) ||
	    a->nhints == RECOVER_HINTS)
		return;
	/* One that is not in flight is of long ago: PSNs wrap. */
	if (before(req->acked_psn, a->hinted) && before(a->hinted, req->send_psn) &&
	    !before(a->hinted, psn))
		return;
	a->hinted = psn;
	a->hints[a->nhints++] = psn;
	a->fill = a->fill_to;
	a->gets_hints = true;
	req_kick(qp, now);
}

void recover_probe(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;

	a->reason = AGAIN_PROBE;
	a->head_end = unit_end(qp, req->acked_psn);
	a->head_at = now;
	schedule(qp, now, req->acked_psn, a->head_end);
}

/* ---- what the answer shows ---- */

/*
 * After a loss, the answer to a probe comes a round trip later. A busy peer answers later, and
 * first what was sent before the probe. An ACK acknowledges all that the peer has, but responses
 * come one by one: that the next one is not here yet shows nothing.
 */
void recover_silence_end(struct rocemu_qp *qp, rocemu_ns_t now)
{
	const struct qp_req *req = &qp->req;
	struct req_again *a = &qp->req.again;

	if (a->reason != AGAIN_PROBE || now <= a->head_at + req->srtt + 4 * req->rttvar ||
	    !before(req->acked_psn, req->send_psn))
		return;
	if (swqe_expects_response(sq_wqe(&qp->sq, req->acked))) {
		a->reason = AGAIN_NONE;
		a->steps = 0;
	}
}

/** It came too soon to answer what was sent again: it is the late answer to the original. */
static bool answer_is_late(const struct qp_req *req, rocemu_ns_t now)
{
	return now < req->again.head_at + req->min_rtt / 4 * 3;
}

/** What was missing came: was it lost, or merely late? */
static void suspicion_end(struct rocemu_qp *qp, rocemu_ns_t now)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	bool late;

	if (!before(a->lost_psn, req->acked_psn))
		return;
	a->suspected = false;
	late = a->lost_at == ROCEMU_NEVER || now < a->lost_at + req->min_rtt / 4 * 3;
	a->lateness = (7 * a->lateness + (late ? LATENESS_ONE : 0)) / 8;
	if (late)
		a->late_max = MIN(2 * MAX(a->late_max, LATE_MIN) + 1, LATE_MAX);
	if (late || a->lateness > LATENESS_ONE / 4)
		return;
	if (a->late_max > LATE_MIN)
		a->late_max--;
	if (a->suspect_nak)
		gap_note(a, a->lost_psn);
	peer_on_loss(req->peer, now);
}

void recover_acked(struct rocemu_qp *qp, rocemu_ns_t now, bool bare)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	enum again_reason reason = a->reason;

	if (unlikely(a->suspected))
		suspicion_end(qp, now);
	if (likely(!reason) || before(req->acked_psn, a->head_end))
		return;
	a->reason = AGAIN_NONE;
	if (answer_is_late(req, now)) {
		/* Or it became faster, and the rest is lost as well: only probes would show that,
		 * one for each packet. */
		if (req->peer->nearby && reason == AGAIN_PROBE && req->acked_psn == a->head_end &&
		    req->acked_psn != req->send_psn && now >= a->head_at + req->min_rtt / 4)
			recover_probe(qp, now);
		return;
	}
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

	if (!swqe_expects_response(w))
		return before(psn, qp->comp.acked_to) ? pkt : pkt + 1;
	if (a->filling)
		return pkt;
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

/** The next packet that the peer named. */
static unsigned output_hinted(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;

	while (a->nhints) {
		uint32_t psn = a->hints[--a->nhints];
		const struct swqe *w;
		uint32_t i, pkt;

		if (before(psn, qp->comp.acked_to) || !before(psn, req->send_psn))
			continue;
		i = entry_of(qp, psn);
		w = sq_wqe(&qp->sq, i);
		pkt = swqe_pkt(w, psn);
		if (swqe_expects_response(w))
			continue;
		if (!req_build_again(qp, tx, i, pkt, pkt + 1, false)) {
			req_rewind(qp, now);
			return 0;
		}
		req->rtt_valid = false;
		if (a->lateness <= LATENESS_ONE / 4)
			peer_on_loss(req->peer, now);
		return 1;
	}
	return 0;
}

APART unsigned recover_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx)
{
	struct qp_req *req = &qp->req;
	struct req_again *a = &req->again;
	uint32_t to = before(req->send_psn, a->to) ? req->send_psn : a->to;
	uint32_t psn = later(a->from, req->acked_psn);
	uint32_t i = req->acked;

	if (a->from == a->to)
		return output_hinted(qp, now, tx);
	while (before(psn, to)) {
		const struct swqe *w = sq_wqe(&qp->sq, i);
		uint32_t pkt = swqe_pkt(w, psn), end, sent_to;
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
		if (swqe_expects_response(w) && end != swqe_read_end(req, w->npkts, pkt))
			a->split_to = later(a->split_to, a->from);
		sent_to = a->from;
		ackreq = !before(a->from, to) || a->from % ACKREQ_EVERY == 0;
		if (!before(a->from, to))
			a->from = a->to;
		if (!req_build_again(qp, tx, i, pkt, end, ackreq)) {
			req_rewind(qp, now); /* finds the memory gone in its turn */
			return 0;
		}
		req->rtt_valid = false;
		if (a->reason && !before(sent_to, a->head_end) && before(psn, a->head_end))
			a->head_at = now;
		if (a->lost_at == ROCEMU_NEVER && !before(a->lost_psn, psn))
			a->lost_at = now;
		req_probe_restart(qp, now);
		if (a->once_more && a->reason == AGAIN_NAK && sent_to == a->head_end &&
		    sent_to == ((psn + 1) & ROCEMU_PSN_MASK)) {
			a->once_more = false;
			a->from = psn;
		}
		return 1;
	}
	a->from = a->to;
	return 0;
}
