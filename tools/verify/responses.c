/* SPDX-License-Identifier: BSD-2-Clause */
/* What a responder says, against the requests that passed in the other direction. */
#include <inttypes.h>

#include "model.h"

enum {
	CLASS_RESERVED = 0x40,
	NAK_LAST = ROCEMU_NAK_REM_OP, /* of a reliable connection */
};

/* The 31 credit codes that give a count: 0, 1, 2, 3, then steps of 2^n and 1.5 * 2^n (table 45). */
static uint32_t credit_count(uint8_t code)
{
	if (code < 4)
		return code;
	return (code & 1) != 0 ? 3u << (code / 2 - 1) : 4u << (code / 2 - 2);
}

static int32_t msn_diff(uint32_t a, uint32_t b)
{
	return rocemu_psn_diff(a & ROCEMU_PSN_MASK, b & ROCEMU_PSN_MASK);
}

/* ---- MSN and credits ---- */

/*
 * The MSN that the flow's first message found is not known, and a responder may have completed more
 * than what it answers here. So every answer narrows the interval in which it must have been: least
 * are the messages complete with what is answered; not more than all that were sent can be. An
 * answer that leaves nothing of the interval is wrong.
 */
static void check_msn(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p,
		      uint32_t least, uint16_t epoch)
{
	struct requests *rq = &q->rq;
	uint32_t msn = p->p.h.aeth.msn, high = (msn - least) & ROCEMU_PSN_MASK;
	uint32_t low = (msn - rq->done) & ROCEMU_PSN_MASK;

	if (epoch == 0 || (rq->msn_known && (int16_t)(epoch - rq->msn_epoch) < 0))
		return;
	if (!rq->msn_known || rq->msn_epoch != epoch) {
		rq->msn_known = true;
		rq->msn_epoch = epoch;
		rq->msn_high = high;
		rq->msn_low_known = rq->epoch == epoch;
		rq->msn_low = low;
		rq->limit_known = false;
		return;
	}
	if (rq->msn_low_known && msn_diff(high, rq->msn_low) < 0) {
		FOUND(v, r, MSN, p, "MSN %u for PSN %u, at least %u are complete", msn, p->p.h.psn,
		      (rq->msn_low + least) & ROCEMU_PSN_MASK);
		return;
	}
	if (rq->epoch == epoch && msn_diff(low, rq->msn_high) > 0) {
		FOUND(v, r, MSN, p, "MSN %u for PSN %u, but only %u requests were sent", msn,
		      p->p.h.psn, (rq->msn_high + rq->done) & ROCEMU_PSN_MASK);
		return;
	}
	if (msn_diff(high, rq->msn_high) < 0)
		rq->msn_high = high;
	if (rq->epoch == epoch && (!rq->msn_low_known || msn_diff(low, rq->msn_low) > 0)) {
		rq->msn_low_known = true;
		rq->msn_low = low;
	}
}

static void note_credits(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	uint8_t code = p->p.h.aeth.syndrome & ROCEMU_AETH_VALUE_MASK;
	uint32_t limit;

	if (code == ROCEMU_AETH_NO_CREDITS) {
		if (rq->credit_used)
			FOUND(v, r, CREDIT_MIXED, p, "no credits, before there were");
		rq->credit_none = true;
		return;
	}
	if (rq->credit_none && !rq->credit_used)
		FOUND(v, r, CREDIT_MIXED, p, "%u credits, before there were none",
		      credit_count(code));
	rq->credit_used = true;
	if (!rq->msn_known || !rq->msn_low_known)
		return;
	limit = (uint32_t)msn_diff(p->p.h.aeth.msn, rq->msn_low) + credit_count(code);
	if (!rq->limit_known || (int32_t)(limit - rq->limit) > 0)
		rq->limit = limit;
	rq->limit_known = true;
}

/* ---- acknowledge ---- */

/* READs and atomics before psn that have not been answered in full. */
static void check_overtaken(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	for (uint32_t i = q->rq.asked_n; i-- > 0;) {
		struct asked *a = &q->rq.asked[i];

		if (a->answered || a->repeat || rocemu_psn_diff(p->p.h.psn, a->psn) <= 0)
			continue;
		if (a->total != 0 && rocemu_psn_diff(p->p.h.psn, psn_add(a->psn, a->total)) < 0)
			continue;
		a->answered = true; /* once is enough */
		FOUND(v, r, READ_OVERTAKEN, p, "PSN %u passes %s with PSN %u", p->p.h.psn,
		      rocemu_opcode_name(a->opcode), a->psn);
	}
}

static void advance(struct flow *q, uint32_t una)
{
	struct requests *rq = &q->rq;

	if (!rq->una_known || rocemu_psn_diff(una, rq->una) > 0)
		rq->una = una;
	rq->una_known = true;
}

static void ack_input(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	uint32_t psn = p->p.h.psn;
	struct sent *s = sent_find(rq, psn);

	if (rq->una_known && rocemu_psn_diff(psn, rq->una) < -1 && s != NULL && !s->again)
		FOUND(v, r, ACK_OLD, p, "PSN %u, before %u", psn,
		      psn_add(rq->una, ROCEMU_PSN_MASK));
	if (rq->gap && rocemu_psn_diff(psn, rq->gap_psn) >= 0) {
		if (sent_find(rq, rq->gap_psn) == NULL)
			FOUND(v, r, CAPTURE_LOSS, p, "PSN %u is acknowledged, %u was not seen", psn,
			      rq->gap_psn);
		rq->gap = false;
	}
	if (s != NULL && !s->late) {
		check_msn(v, r, q, p, s->done, s->epoch);
		if (!s->again && p->rec->ts_ns >= s->ts_ns &&
		    (!rq->una_known || rocemu_psn_diff(psn, rq->una) >= 0))
			rtt_add(q, p->rec->ts_ns - s->ts_ns);
	}
	note_credits(v, r, q, p);
	if (rq->nak.active && rocemu_psn_diff(psn, rq->nak.psn) >= 0)
		rq->nak.active = false;
	check_overtaken(v, r, q, p);
	advance(q, psn_add(psn, 1));
}

/* Requests completed before the one with this PSN. */
static bool done_before(const struct requests *rq, uint32_t psn, uint32_t *done, uint16_t *epoch)
{
	const struct sent *s = sent_find(rq, psn);

	if (s == NULL || s->late)
		return false;
	*done = s->done - ((rocemu_opcode_ops(s->opcode) & ROCEMU_OP_LAST) != 0);
	*epoch = s->epoch;
	return true;
}

static void nak_sequence(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	uint32_t psn = p->p.h.psn;
	const struct sent *s = sent_find(rq, psn);

	FOUND(v, r, NAK_SEQUENCE, p, "from PSN %u on", psn);
	if (rq->nak.active && !rq->nak.rnr && rq->nak.psn == psn)
		FOUND(v, r, NAK_REPEATED, p, "PSN %u, as in packet %" PRIu64, psn, rq->nak.number);
	if (s != NULL && rocemu_psn_diff(rq->next, psn_add(psn, 1)) <= 0 && !rq->next_open &&
	    !(rocemu_opcode_ops(s->opcode) & ROCEMU_OP_READ_REQ))
		FOUND(v, r, NAK_NO_GAP, p,
		      "PSN %u is the newest that was sent (packet %" PRIu64 ")", psn, s->number);
	if (rq->gap && rocemu_psn_diff(psn, rq->gap_psn) >= 0 && psn != rq->gap_psn)
		rq->gap = false;
	rq->nak = (struct nak){
		.active = true, .psn = psn, .number = p->rec->number, .ts_ns = p->rec->ts_ns};
	advance(q, psn);
}

static void rnr_input(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	const struct sent *s = sent_find(rq, p->p.h.psn);

	r->rnrs++;
	rq->nak = (struct nak){
		.active = true,
		.rnr = true,
		.psn = p->p.h.psn,
		.number = p->rec->number,
		.ts_ns = p->rec->ts_ns,
		.wait_ns = rocemu_rnr_timer_ns(p->p.h.aeth.syndrome & ROCEMU_AETH_VALUE_MASK),
		.ip_id = s != NULL ? s->ip_id : p->rec->ip.ip_id,
	};
	FOUND(v, r, RNR, p, "PSN %u, %.2f ms", p->p.h.psn, (double)rq->nak.wait_ns / 1e6);
	advance(q, p->p.h.psn);
}

static void nak_error(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	static const char *const names[] = {"invalid request", "remote access error",
					    "remote operational error"};
	const struct sent *s = sent_find(&q->rq, p->p.h.psn);
	uint8_t code = p->p.h.aeth.syndrome;

	FOUND(v, r, NAK_ERROR, p, "%s for PSN %u%s%s", names[code - ROCEMU_NAK_INV_REQ], p->p.h.psn,
	      s != NULL ? ", " : "", s != NULL ? rocemu_opcode_name(s->opcode) : "");
	if (code == ROCEMU_NAK_REM_OP && s != NULL &&
	    (rocemu_opcode_ops(s->opcode) & ROCEMU_OP_SEND) != 0)
		FOUND(v, r, RXE_NAK_TOO_LONG, p, "PSN %u", p->p.h.psn);
}

static void nak_input(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	uint8_t syndrome = p->p.h.aeth.syndrome;
	uint32_t done;
	uint16_t epoch;

	r->naks++;
	if (done_before(&q->rq, p->p.h.psn, &done, &epoch))
		check_msn(v, r, q, p, done, epoch);
	if ((syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR)
		rnr_input(v, r, q, p);
	else if (syndrome == ROCEMU_NAK_PSN_SEQ)
		nak_sequence(v, r, q, p);
	else
		nak_error(v, r, q, p);
}

/* ---- READ and atomic ---- */

enum place { PLACE_OUTSIDE, PLACE_WRONG_OPCODE, PLACE_WRONG_LENGTH, PLACE_RIGHT };

/* No request fits: wrong where the PSN is known to be something else's. */
static void stray(struct verify *v, struct flow *r, const struct flow *q, const struct pkt *p)
{
	const struct sent *s = sent_find(&q->rq, p->p.h.psn);

	if (s != NULL)
		FOUND(v, r, READ_STRAY, p, "%s with PSN %u, which is the %s in packet %" PRIu64,
		      rocemu_opcode_name(p->p.h.opcode), p->p.h.psn, rocemu_opcode_name(s->opcode),
		      s->number);
	else
		FOUND(v, r, ACK_UNSEEN, p, "%s with PSN %u", rocemu_opcode_name(p->p.h.opcode),
		      p->p.h.psn);
}

/* How a READ response fits a READ. */
static enum place place_in(const struct flow *q, struct asked *a, const struct pkt *p)
{
	uint32_t ops = p->ops & (ROCEMU_OP_FIRST | ROCEMU_OP_MIDDLE | ROCEMU_OP_LAST);
	uint32_t at = (uint32_t)rocemu_psn_diff(p->p.h.psn, a->psn), want = 0, len;

	/* A READ of one response although the path MTU is not known. */
	if (a->total == 0 && at == 0 && (p->ops & ROCEMU_OP_FIRST) && (p->ops & ROCEMU_OP_LAST))
		a->total = 1;
	if (rocemu_psn_diff(p->p.h.psn, a->psn) < 0 || at >= a->total ||
	    (rocemu_opcode_ops(a->opcode) & ROCEMU_OP_ATOMIC) != 0)
		return PLACE_OUTSIDE;
	want |= at == 0 ? ROCEMU_OP_FIRST : 0;
	want |= at + 1 == a->total ? ROCEMU_OP_LAST : 0;
	if (ops != (want != 0 ? want : ROCEMU_OP_MIDDLE))
		return PLACE_WRONG_OPCODE;
	len = at + 1 == a->total ? a->len - at * q->mtu : q->mtu;
	return p->p.payload_len == len ? PLACE_RIGHT : PLACE_WRONG_LENGTH;
}

static void note_progress(struct verify *v, struct flow *r, struct flow *q, struct asked *a,
			  const struct pkt *p)
{
	uint32_t at = (uint32_t)rocemu_psn_diff(p->p.h.psn, a->psn);

	if (at > a->next)
		FOUND(v, r, READ_GAP, p,
		      "PSN %u of the READ in packet %" PRIu64 ", %u missing before", p->p.h.psn,
		      a->number, at - a->next);
	if (at < a->next)
		return;
	a->next = at + 1;
	r->response_bytes += p->p.payload_len;
	rate_add(&r->rate, p->rec->ts_ns, p->p.payload_len);
	if (a->next < a->total)
		return;
	a->answered = true;
	advance(q, psn_add(a->psn, a->total));
	/* A repeated READ that reaches its end answers the original. */
	for (uint32_t i = 0; a->repeat && i < q->rq.asked_n; i++) {
		struct asked *o = &q->rq.asked[i];

		if (!o->repeat && psn_add(o->psn, o->total) == psn_add(a->psn, a->total))
			o->answered = true;
	}
}

static void learn_mtu(struct flow *r, struct flow *q, const struct pkt *p)
{
	if (q->mtu != 0 || (p->ops & ROCEMU_OP_LAST) != 0)
		return;
	q->mtu = p->p.payload_len >= 256 && (p->p.payload_len & (p->p.payload_len - 1)) == 0
			 ? p->p.payload_len
			 : 0;
	if (r->mtu == 0)
		r->mtu = q->mtu;
	request_mtu_known(q);
	request_mtu_known(r);
}

static void check_read_msn(struct verify *v, struct flow *r, struct flow *q, const struct asked *a,
			   const struct pkt *p)
{
	/* Counted when the READ is taken, or only when its last response is made: both are seen. */
	if (!a->repeat && (rocemu_opcode_hdrs(p->p.h.opcode) & ROCEMU_HDR_AETH) != 0)
		check_msn(v, r, q, p, a->done - ((p->ops & ROCEMU_OP_LAST) == 0), a->epoch);
}

static void read_response(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	enum place best = PLACE_OUTSIDE, place;
	struct asked *fit = NULL, *newest = NULL;
	bool open = false; /* a READ of which nobody knows how many PSNs it has */

	learn_mtu(r, q, p);
	for (uint32_t i = q->rq.asked_n; i-- > 0 && best != PLACE_RIGHT;) {
		place = place_in(q, &q->rq.asked[i], p);
		open = open || q->rq.asked[i].total == 0;
		if (place != PLACE_OUTSIDE && newest == NULL)
			newest = &q->rq.asked[i];
		if (place > best) {
			best = place;
			fit = &q->rq.asked[i];
		}
	}
	if (best == PLACE_OUTSIDE) {
		if (!open)
			stray(v, r, q, p);
		return;
	}
	if (best == PLACE_WRONG_OPCODE)
		FOUND(v, r, READ_OPCODE, p,
		      "%s with PSN %u for the READ of %u bytes in packet %" PRIu64,
		      rocemu_opcode_name(p->p.h.opcode), p->p.h.psn, fit->len, fit->number);
	else if (best == PLACE_WRONG_LENGTH)
		FOUND(v, r, READ_LENGTH, p,
		      "%u bytes with PSN %u for the READ of %u bytes in packet %" PRIu64,
		      p->p.payload_len, p->p.h.psn, fit->len, fit->number);
	if (newest != fit && newest->repeat && newest->psn == p->p.h.psn && best == PLACE_RIGHT)
		FOUND(v, r, RXE_READ_REPLAY, p, "%s with PSN %u", rocemu_opcode_name(p->p.h.opcode),
		      p->p.h.psn);
	check_read_msn(v, r, q, fit, p);
	note_progress(v, r, q, fit, p);
}

static void atomic_response(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct asked *a = NULL;

	for (uint32_t i = q->rq.asked_n; i-- > 0 && a == NULL;) {
		if (q->rq.asked[i].psn == p->p.h.psn &&
		    (rocemu_opcode_ops(q->rq.asked[i].opcode) & ROCEMU_OP_ATOMIC) != 0)
			a = &q->rq.asked[i];
	}
	if (a == NULL) {
		stray(v, r, q, p);
		return;
	}
	if (a->answered && a->result != p->p.h.atomicack && a->next != 0)
		FOUND(v, r, ATOMIC_REPLAY, p, "PSN %u: 0x%" PRIx64 ", before 0x%" PRIx64,
		      p->p.h.psn, p->p.h.atomicack, a->result);
	a->result = p->p.h.atomicack;
	a->answered = true;
	a->next = 1;
	check_msn(v, r, q, p, a->done, a->epoch);
	advance(q, psn_add(a->psn, 1));
}

/* ---- all of them ---- */

static bool syndrome_legal(const struct pkt *p)
{
	uint8_t s = p->p.h.aeth.syndrome;

	if (s & 0x80 || (s & ROCEMU_AETH_CLASS_MASK) == CLASS_RESERVED)
		return false;
	if ((p->ops & ROCEMU_OP_ACK) == 0)
		return (s & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK;
	return (s & ROCEMU_AETH_CLASS_MASK) != ROCEMU_AETH_NAK || s <= NAK_LAST;
}

/* The response is to something not sent yet: whether that can be, the requester's next PSN tells.
 */
static bool beyond(struct verify *v, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;

	if (rq->next_open || rocemu_psn_diff(p->p.h.psn, rq->next) < 0)
		return false;
	if (rq->unsent.active)
		found_at(v, q, RULE_ACK_UNSEEN, rq->unsent.number, rq->unsent.ts_ns, "PSN %u",
			 rq->unsent.psn);
	rq->unsent.active = true;
	rq->unsent.psn = p->p.h.psn;
	rq->unsent.number = p->rec->number;
	rq->unsent.ts_ns = p->rec->ts_ns;
	return true;
}

void response_input(struct verify *v, struct flow *r, const struct pkt *p)
{
	struct flow *q = r->peer;
	bool aeth = (rocemu_opcode_hdrs(p->p.h.opcode) & ROCEMU_HDR_AETH) != 0;

	r->acks++;
	if (aeth && !syndrome_legal(p)) {
		FOUND(v, r, AETH, p, "0x%02x in %s", p->p.h.aeth.syndrome,
		      rocemu_opcode_name(p->p.h.opcode));
		return;
	}
	if (q == NULL)
		q = flow_pair_by_response(r, p);
	if (q == NULL || !q->rq.started) {
		r->unpaired++;
		return;
	}
	r->judged++;
	if (beyond(v, q, p))
		return;
	if (p->ops & ROCEMU_OP_READ_RESP)
		read_response(v, r, q, p);
	else if (p->ops & ROCEMU_OP_ATOMIC_ACK)
		atomic_response(v, r, q, p);
	else if ((p->p.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK)
		ack_input(v, r, q, p);
	else
		nak_input(v, r, q, p);
}
