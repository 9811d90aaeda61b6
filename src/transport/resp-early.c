/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC: handles early request packets, which come before the expected one because that was lost or
 * overtaken. They are kept and executed when the gap is filled; nothing is placed early, because
 * programs wait for the last byte of a WRITE to change.
 *
 * When a gap is reported (sequence NAK, IBTA 9.7.5.1.1):
 *   - after NAK_AFTER packets beyond it, or at once when one of them requests an answer (AckReq):
 *     fewer may have overtaken the missing one;
 *   - at once, when the gap before it was filled and enough lies beyond the new one, or the packet
 *     that filled it requests an answer: the peer repeats single packets and needs the number of
 *     the next. A peer that repeats all (go-back-N) is on its way to the next gap already. Its
 *     packets fill neighbouring gaps one by one, so there are at most STEPS_MAX such NAKs in a row.
 * And once per gap. Only when the peer repeats kept packets, and not the missing one before them,
 * was the missing one lost again; then each repetition is worth one more NAK.
 *
 * Gaps behind that one are named by hints: an ACK whose PSN is HINT_BEHIND before the missing one.
 * To any requester that is an ACK of what was acknowledged long ago, which it drops (IBTA 9.7.5);
 * and only one that repeats gaps alone gets them.
 *
 * A lost NAK needs no timer here. A peer without an answer repeats its oldest request, which is the
 * missing packet, or one before it that is answered with an ACK up to the gap.
 */
#include "base/util.h"
#include "transport/why.h"

enum {
	NAK_AFTER = 3,
	STEPS_MAX = 3,
	/* Gaps after which a peer is one that repeats them alone, and packets in a row that such
	 * a one may repeat for nothing. */
	GAPS_ALONE = 3,
	REPEATS_MAX = 2,
	/*
	 * More kept packets than the window of a short path has: its senders share a queue, where
	 * one that fills gaps fast takes the room of the others.
	 */
	FAR_PACKETS = 64,
};

static void owe_gap_nak(struct rocemu_qp *qp, rocemu_ns_t now)
{
	const struct rocemu_traits *t = &qp->ep->cfg.traits;

	qp->resp.nak_sent = true;
	qp->resp.went_back = false;
	why_gap_sent(qp);
	if (unlikely(t->cnp_on_nak))
		resp_owe_cnp(qp, now);
	if (likely(!t->nak_delay))
		resp_owe_nak(qp, ROCEMU_NAK_PSN_SEQ, qp->resp.epsn);
	else
		timer_set(&qp->ep->timers, &qp->nak_timer, now + t->nak_delay);
}

void resp_nak_expire(struct rocemu_qp *qp)
{
	if (qp->resp.nak_sent && qp_can_receive(qp))
		resp_owe_nak(qp, ROCEMU_NAK_PSN_SEQ, qp->resp.epsn);
}

/** Does this packet beyond the gap make it worth a NAK? */
static bool shows_gap(struct qp_resp *r, const struct rocemu_packet *pkt, bool again)
{
	if (r->ahead < NAK_AFTER)
		r->ahead++;
	if (again && rocemu_psn_diff(pkt->h.psn, r->ahead_psn) <= 0)
		r->went_back = true;
	r->ahead_psn = pkt->h.psn;
	if (r->nak_sent)
		return pkt->h.ackreq && r->went_back;
	return pkt->h.ackreq || r->ahead >= NAK_AFTER;
}

/**
 * A packet was kept: a new gap may lie before it, or enough behind the newest one. A peer that
 * repeats only gaps gets a hint at once, before the gap at epsn is filled: a NAK can report only
 * the first gap, so that at most one would be filled in a round trip.
 */
static void watch_gaps(struct rocemu_qp *qp, uint32_t psn, bool fetch)
{
	struct qp_resp *r = &qp->resp;
	int32_t beyond = r->early.count > 1 ? rocemu_psn_diff(psn, r->top_psn) : 1;

	if (r->early.count == 1 || psn == r->gap_psn)
		r->gap_behind = 0;
	if (r->early.count >= FAR_PACKETS)
		r->far = true;
	if (beyond > 1 && !r->top_fetch) {
		r->gap_psn = psn_add(r->top_psn, 1);
		r->gap_behind = 1;
	} else if (beyond > 0 && r->gap_behind) {
		r->gap_behind++;
	}
	if (beyond > 0) {
		r->top_psn = psn;
		r->top_fetch = fetch;
	}
	if (r->gap_behind < NAK_AFTER)
		return;
	r->gap_behind = 0;
	if (!r->far || r->gaps_alone < GAPS_ALONE || !r->nak_sent || r->hint_owed)
		return;
	r->hint_owed = true;
	r->hint_psn = r->gap_psn;
	qp_wake(qp);
}

void resp_repeated(struct qp_resp *r)
{
	if (r->repeats < REPEATS_MAX) {
		r->repeats++;
		return;
	}
	r->gaps_alone = 0; /* it goes back */
	r->far = false;
}

APART enum rocemu_drop resp_early_input(struct rocemu_qp *qp, rocemu_ns_t now,
					const struct rocemu_packet *pkt,
					const struct rocemu_dgram *d, uint32_t ahead)
{
	struct qp_resp *r = &qp->resp;
	enum keep_result kept = KEEP_FULL;

	if (r->rnr_sent)
		return ROCEMU_DROP_PSN;
	if (unlikely(qp->ep->cfg.traits.drops_early)) {
		if (!r->nak_sent)
			owe_gap_nak(qp, now);
		return ROCEMU_DROP_PSN;
	}
	if (keep_empty(&r->early))
		r->steps = 0;
	if (ahead <= KEEP_AHEAD)
		kept = keep_add(&qp->ep->keep, &r->early, now, pkt->h.psn, d->data, pkt->hdr_len,
				pkt->payload, d->len - pkt->hdr_len);
	if (shows_gap(r, pkt, kept == KEEP_DOUBLE))
		owe_gap_nak(qp, now);
	switch (kept) {
	case KEEP_DONE:
		r->repeats = 0;
		watch_gaps(
			qp, pkt->h.psn,
			!(rocemu_opcode_ops(pkt->h.opcode) & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)));
		QP_COUNT(qp, kept);
		return ROCEMU_DROP_NONE;
	case KEEP_DOUBLE:
		resp_repeated(r);
		QP_COUNT(qp, duplicates);
		return ROCEMU_DROP_NONE;
	case KEEP_FULL:
		break;
	}
	QP_COUNT(qp, kept_full);
	return ROCEMU_DROP_PSN;
}

/** The packet went through all checks of form when it came. */
static void replay(struct rocemu_qp *qp, rocemu_ns_t now, const struct keep_slot *s)
{
	struct rocemu_packet pkt;
	enum rocemu_drop why;

	why = rocemu_packet_decode(&pkt, keep_data(&qp->ep->keep, s), s->len);
	if (!why)
		why = resp_expected(qp, now, &pkt, rocemu_opcode_ops(pkt.h.opcode));
	if (why)
		qp->ep->stats->drops[why]++;
}

void resp_early_fill(struct rocemu_qp *qp, rocemu_ns_t now, bool ackreq)
{
	struct keep *keep = &qp->ep->keep;
	struct qp_resp *r = &qp->resp;
	uint32_t before = r->ack_psn;
	bool some = false;
	struct keep_slot *s;

	/*
	 * Also ends when a packet has no receive or violates the protocol: then nothing is kept,
	 * and the pending NAK is sent instead of an ACK.
	 */
	while ((s = keep_take(keep, &r->early, now, r->epsn))) {
		some = true;
		replay(qp, now, s);
		keep_give(keep, s);
	}
	if (some) {
		r->steps = 0;
		if (r->gaps_alone < GAPS_ALONE)
			r->gaps_alone++;
		if (r->ack_psn != before)
			resp_owe_ack(qp);
	}
	if (r->hint_owed && rocemu_psn_diff(r->hint_psn, r->epsn) <= 0)
		r->hint_owed = false;
	if (keep_empty(&r->early))
		return;
	if (some && (ackreq || r->early.lost || r->early.count >= NAK_AFTER)) {
		owe_gap_nak(qp, now);
	} else if (!some && ackreq && r->steps < STEPS_MAX) {
		r->steps++;
		owe_gap_nak(qp, now);
	}
}
