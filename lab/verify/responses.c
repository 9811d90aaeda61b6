/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks responses against the requests in the other direction. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "model.h"

enum { ASKED = ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC | ROCEMU_OP_FLUSH | ROCEMU_OP_ATOMIC_WRITE };

enum {
	MSN_AGREED = 3, /* acknowledges that make a count sure */
	MSN_AHEAD = 32, /* messages that may have been sent and are not seen yet */
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

/*
 * Which requests r answers was found by PSNs. Where another connection of the same hosts has the
 * same, that may be wrong.
 */
static bool ambiguous(const struct flow *r, const struct flow *q, uint32_t psn)
{
	if (r->peer_told)
		return false;
	for (const struct flow *o = q->hosts->flows; o != NULL; o = o->hosts_next) {
		int32_t d = rocemu_psn_diff(psn, o->rq.next);

		if (o != q && o->rq.started && d > -MAX_SENT && d < MAX_SENT)
			return true;
	}
	return false;
}

/* A finding against q's requests. */
__attribute__((format(printf, 6, 7))) static void against(struct verify *v, struct flow *r,
							  const struct flow *q, enum rule_id rule,
							  const struct pkt *p, const char *fmt, ...)
{
	char text[FINDING_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	found_unless(v, r,
		     ambiguous(r, q, p->p.h.psn) || veiled(v, q) ||
			     (rule == RULE_READ_LENGTH && r->cut),
		     rule, p->number, p->rec->ts_ns, "%s", text);
}

/* ---- MSN and credits ---- */

/* The newest request that was seen; NULL: dropped. */
static const struct sent *newest(const struct requests *rq)
{
	return sent_find(rq, rq->newest);
}

static void msn_begin(struct msn_base *b, const struct pkt *p, const struct sent *s, uint32_t base,
		      bool plain)
{
	*b = (struct msn_base){
		.known = plain,
		.epoch = s->epoch,
		.base = base,
		.psn = p->p.h.psn,
		.agreed = plain,
	};
}

/*
 * The MSN counts messages, of which the capture shows only those since the last PSN that is
 * missing. Plain acknowledges show the count before: MSN less the messages that ended by their PSN.
 * Once some agree, an answer with less is wrong in whatever order it came. One with more is right
 * as long as so many were sent: responders may be ahead of the request they answer.
 */
static void check_msn(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p,
		      const struct sent *s, uint32_t ended)
{
	struct msn_base *b = &q->rq.msn;
	uint32_t msn = p->p.h.aeth.msn, base = (msn - ended) & ROCEMU_PSN_MASK;
	const struct sent *last = newest(&q->rq);
	bool plain = (p->ops & ROCEMU_OP_ACK) != 0 &&
		     (p->p.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK;
	int32_t more;

	if (!b->known || b->epoch != s->epoch) {
		msn_begin(b, p, s, base, plain);
		q->rq.limit_known = false;
		return;
	}
	more = msn_diff(base, b->base);
	if (more == 0) {
		/* Duplicates are all answered alike: that is one agreement. */
		b->agreed += plain && rocemu_psn_diff(p->p.h.psn, b->psn) > 0;
		if (plain && rocemu_psn_diff(p->p.h.psn, b->psn) > 0)
			b->psn = p->p.h.psn;
	} else if (more < 0) {
		if (b->agreed >= MSN_AGREED && ambiguous(r, q, p->p.h.psn))
			FOUND(v, r, UNDECIDED, p, "msn: MSN %u for PSN %u", msn, p->p.h.psn);
		else if (b->agreed >= MSN_AGREED)
			TENTATIVE(v, r, MSN, p, "MSN %u for PSN %u, at least %u are complete", msn,
				  p->p.h.psn, (b->base + ended) & ROCEMU_PSN_MASK);
		else if (plain)
			msn_begin(b, p, s, base, plain);
	} else if (b->agreed >= MSN_AGREED && last != NULL && last->epoch == s->epoch &&
		   (int32_t)(ended + (uint32_t)more - last->done) > MSN_AHEAD) {
		TENTATIVE(v, r, MSN, p, "MSN %u for PSN %u, but only %u requests were sent", msn,
			  p->p.h.psn, (b->base + last->done) & ROCEMU_PSN_MASK);
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
	if (!rq->msn.known)
		return;
	limit = (p->p.h.aeth.msn + credit_count(code)) & ROCEMU_PSN_MASK;
	if (!rq->limit_known || msn_diff(limit, rq->limit) > 0)
		rq->limit = limit;
	rq->limit_known = true;
}

/* ---- acknowledge ---- */

/* READs and atomics before psn that have not been answered in full. */
static void check_overtaken(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	for (uint32_t i = q->rq.pending_n; i-- > 0;) {
		struct pending *a = &q->rq.pending[i];

		if (a->answered || a->repeat || rocemu_psn_diff(p->p.h.psn, a->psn) <= 0)
			continue;
		if (a->total == 0 && !a->whole)
			continue;
		if (a->total != 0 && rocemu_psn_diff(p->p.h.psn, psn_add(a->psn, a->total)) < 0)
			continue;
		a->answered = true; /* once is enough */
		disorder(v, q);
		FOUND_UNLESS(veiled(v, q), v, r, READ_OVERTAKEN, p, "PSN %u passes %s with PSN %u",
			     p->p.h.psn, rocemu_opcode_name(a->opcode), a->psn);
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

	if (rq->una_known && rocemu_psn_diff(psn, rq->una) < -1 && s != NULL && s->copies == 1) {
		disorder(v, q);
		FOUND_UNLESS(veiled(v, q) || veil_between(v, q->hosts->pair, BETWEEN_MAD_CUT), v, r,
			     ACK_OLD, p, "PSN %u, before %u", psn,
			     psn_add(rq->una, ROCEMU_PSN_MASK));
	}
	if (rq->gap && rocemu_psn_diff(psn, rq->gap_psn) >= 0) {
		if (sent_find(rq, rq->gap_psn) == NULL)
			FOUND_UNLESS(veiled(v, q), v, r, CAPTURE_LOSS, p,
				     "PSN %u is acknowledged, %u was not seen", psn, rq->gap_psn);
		rq->gap = false;
	}
	if (s != NULL && (rocemu_opcode_ops(s->opcode) & ASKED) != 0)
		against(v, r, q, RULE_ACK_OF_READ, p, "PSN %u, %s in packet %s", psn,
			rocemu_opcode_name(s->opcode), packet_name(s->number));
	if (s != NULL) {
		check_msn(v, r, q, p, s, s->done);
		if (s->copies == 1 && p->rec->ts_ns >= s->ts_ns &&
		    (!rq->una_known || rocemu_psn_diff(psn, rq->una) >= 0))
			rtt_add(q, p->rec->ts_ns - s->ts_ns);
	}
	note_credits(v, r, q, p);
	if (rq->nak.active && rocemu_psn_diff(psn, rq->nak.psn) >= 0)
		rq->nak.active = false;
	check_overtaken(v, r, q, p);
	advance(q, psn_add(psn, 1));
}

static void nak_sequence(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	uint32_t psn = p->p.h.psn;
	const struct sent *s = sent_find(rq, psn);

	disorder(v, q);
	FOUND(v, r, NAK_SEQUENCE, p, "from PSN %u on", psn);
	if (rq->nak.active && !rq->nak.rnr && rq->nak.psn == psn)
		FOUND_UNLESS(veiled(v, q), v, r, NAK_REPEATED, p, "PSN %u, as in packet %s", psn,
			     packet_name(rq->nak.number));
	if (s != NULL && rocemu_psn_diff(rq->next, psn_add(psn, 1)) <= 0 && !rq->next_open &&
	    !(rocemu_opcode_ops(s->opcode) & ROCEMU_OP_READ_REQ))
		FOUND_UNLESS(veiled(v, q), v, r, NAK_NO_GAP, p,
			     "PSN %u is the newest that was sent (packet %s)", psn,
			     packet_name(s->number));
	if (rq->gap && rocemu_psn_diff(psn, rq->gap_psn) >= 0 && psn != rq->gap_psn)
		rq->gap = false;
	rq->nak = (struct nak){
		.active = true, .psn = psn, .number = p->number, .ts_ns = p->rec->ts_ns};
	advance(q, psn);
}

static void rnr_input(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	struct sent *s = sent_find(rq, p->p.h.psn);

	r->rnrs++;
	if (s != NULL)
		s->rnrs++;
	if (s == NULL || s->rnrs > s->copies)
		disorder(v, q); /* its request is missing, or the NAK is double */
	rq->nak = (struct nak){
		.active = true,
		.rnr = true,
		.psn = p->p.h.psn,
		.number = p->number,
		.ts_ns = p->rec->ts_ns,
		.wait_ns = rocemu_rnr_timer_ns(p->p.h.aeth.syndrome & ROCEMU_AETH_VALUE_MASK),
		.ip_id = s != NULL ? s->ip_ids[0] : 0,
		.matched = s != NULL && s->rnrs == s->copies,
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
	const struct sent *s = sent_find(&q->rq, p->p.h.psn);
	uint8_t syndrome = p->p.h.aeth.syndrome;

	r->naks++;
	if (s != NULL) /* what came before it is complete */
		check_msn(v, r, q, p, s,
			  s->done - ((rocemu_opcode_ops(s->opcode) & ROCEMU_OP_LAST) != 0));
	if ((syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR)
		rnr_input(v, r, q, p);
	else if (syndrome == ROCEMU_NAK_PSN_SEQ)
		nak_sequence(v, r, q, p);
	else
		nak_error(v, r, q, p);
}

/* ---- READ and atomic ---- */

/* How well a response fits a READ; the best of all READs counts. */
enum place { PLACE_OUTSIDE, PLACE_WRONG_OPCODE, PLACE_WRONG_LENGTH, PLACE_UNSURE, PLACE_RIGHT };

/* No request fits: wrong where the PSN is known to be something else's. */
static void stray(struct verify *v, struct flow *r, const struct flow *q, const struct pkt *p)
{
	const struct sent *s = sent_find(&q->rq, p->p.h.psn);
	uint32_t asks = (p->ops & ROCEMU_OP_ATOMIC_ACK) != 0
				? ROCEMU_OP_ATOMIC
				: ROCEMU_OP_READ_REQ | ROCEMU_OP_FLUSH | ROCEMU_OP_ATOMIC_WRITE;

	/* A request with AckReq may have been dropped among the others. */
	if (s != NULL && (rocemu_opcode_ops(s->opcode) & asks) == 0)
		against(v, r, q, RULE_READ_STRAY, p, "%s with PSN %u, which is the %s in packet %s",
			rocemu_opcode_name(p->p.h.opcode), p->p.h.psn,
			rocemu_opcode_name(s->opcode), packet_name(s->number));
	else
		FOUND_UNLESS(veiled(v, q), v, r, ACK_UNSEEN, p, "%s with PSN %u",
			     rocemu_opcode_name(p->p.h.opcode), p->p.h.psn);
}

/*
 * LAST and ONLY are where the READ ends, also when it is repeated. FIRST and ONLY are where it
 * begins, but a repeated one, of which the capture need not have the request, may begin anywhere;
 * and a READ that was seen may be the repetition of one that was not.
 */
static enum place place_of_opcode(const struct flow *q, const struct pending *a,
				  const struct pkt *p)
{
	uint32_t at = (uint32_t)rocemu_psn_diff(p->p.h.psn, a->psn);
	bool first = (p->ops & ROCEMU_OP_FIRST) != 0, last = (p->ops & ROCEMU_OP_LAST) != 0;
	const struct sent *s;

	if (last != (at + 1 == a->total))
		return PLACE_WRONG_OPCODE;
	if (first == (at == 0))
		return PLACE_RIGHT;
	if (at != 0)
		return PLACE_UNSURE;
	s = sent_find(&q->rq, a->psn);
	return s != NULL && s->anchored && !a->repeat ? PLACE_WRONG_OPCODE : PLACE_UNSURE;
}

/* How a READ response fits a READ. */
static enum place place_in(const struct flow *q, struct pending *a, const struct pkt *p)
{
	uint32_t at = (uint32_t)rocemu_psn_diff(p->p.h.psn, a->psn), len;
	enum place opcode;

	/* A READ of one response although the path MTU is not known. */
	if (a->total == 0 && a->whole && at == 0 && (p->ops & ROCEMU_OP_FIRST) &&
	    (p->ops & ROCEMU_OP_LAST))
		a->total = 1;
	if (rocemu_psn_diff(p->p.h.psn, a->psn) < 0 || at >= a->total ||
	    (rocemu_opcode_ops(a->opcode) & ROCEMU_OP_ATOMIC) != 0)
		return PLACE_OUTSIDE;
	opcode = place_of_opcode(q, a, p);
	if (opcode == PLACE_WRONG_OPCODE)
		return opcode;
	len = at + 1 == a->total ? a->len - at * q->mtu : q->mtu;
	return p->p.payload_len == len || p->hides ? opcode : PLACE_WRONG_LENGTH;
}

enum { SEEN_BITS = 64 };

/* Responses in their order; what comes behind its place is late, or comes again. */
static void note_place(struct verify *v, struct flow *r, struct flow *q, struct pending *a,
		       const struct pkt *p)
{
	uint32_t at = (uint32_t)rocemu_psn_diff(p->p.h.psn, a->psn), ahead = at - a->next;
	uint32_t hidden = a->hidden;
	uint64_t bit;

	if (p->hides && at + 1 + veil_behind(p) > a->hidden)
		a->hidden = at + 1 + veil_behind(p);
	if (at >= a->next) {
		if (ahead != 0 && at > hidden) {
			disorder(v, q);
			FOUND_UNLESS(veil_between(v, q->hosts->pair, BETWEEN_BTH_CUT), v, r,
				     READ_GAP, p,
				     "PSN %u of the READ in packet %s, %u missing before",
				     p->p.h.psn, packet_name(a->number), ahead);
		}
		a->seen = ahead + 1 < SEEN_BITS ? a->seen << (ahead + 1) | 1 : 1;
		a->next = at + 1;
		return;
	}
	disorder(v, q);
	if (a->next - at > SEEN_BITS)
		return;
	bit = (uint64_t)1 << (a->next - at - 1);
	if (a->seen & bit)
		FOUND(v, r, RESPONSE_AGAIN, p, "PSN %u of the READ in packet %s", p->p.h.psn,
		      packet_name(a->number));
	else
		FOUND_UNLESS(veiled(v, q), v, r, LATE, p, "response with PSN %u", p->p.h.psn);
	a->seen |= bit;
}

static void note_progress(struct verify *v, struct flow *r, struct flow *q, struct pending *a,
			  const struct pkt *p)
{
	bool ends = a->next < a->total;

	note_place(v, r, q, a, p);
	r->response_bytes += p->p.payload_len;
	rate_add(&r->rate, p->rec->ts_ns, p->p.payload_len);
	if (!ends || a->next < a->total)
		return;
	a->answered = true;
	advance(q, psn_add(a->psn, a->total));
	/* A repeated READ that reaches its end answers the original. */
	for (uint32_t i = 0; a->repeat && i < q->rq.pending_n; i++) {
		struct pending *o = &q->rq.pending[i];

		if (!o->repeat && psn_add(o->psn, o->total) == psn_add(a->psn, a->total))
			o->answered = true;
	}
}

static void learn_mtu(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	if (q->mtu != 0 || (p->ops & ROCEMU_OP_LAST) != 0 || p->hides)
		return;
	q->mtu = p->p.payload_len >= 256 && (p->p.payload_len & (p->p.payload_len - 1)) == 0
			 ? p->p.payload_len
			 : 0;
	if (r->mtu == 0)
		r->mtu = q->mtu;
	request_mtu_known(v, q);
	request_mtu_known(v, r);
}

static void check_read_msn(struct verify *v, struct flow *r, struct flow *q,
			   const struct pending *a, const struct pkt *p)
{
	const struct sent *s = sent_find(&q->rq, a->psn);

	/* Counted when the READ is taken, or only when its last response is made: both are seen. */
	if (s != NULL && !a->repeat && pkt_has(p, ROCEMU_HDR_AETH))
		check_msn(v, r, q, p, s, s->done - ((p->ops & ROCEMU_OP_LAST) == 0));
}

static void read_response(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	enum place best = PLACE_OUTSIDE, place;
	struct pending *fit = NULL, *newest = NULL;
	bool open = false; /* a READ whose number of PSNs is not known */

	learn_mtu(v, r, q, p);
	for (uint32_t i = q->rq.pending_n; i-- > 0 && best != PLACE_RIGHT;) {
		place = place_in(q, &q->rq.pending[i], p);
		open = open || q->rq.pending[i].total == 0;
		if (place != PLACE_OUTSIDE && newest == NULL)
			newest = &q->rq.pending[i];
		if (place > best) {
			best = place;
			fit = &q->rq.pending[i];
		}
	}
	if (best == PLACE_OUTSIDE) {
		if (!open)
			stray(v, r, q, p);
		return;
	}
	if (best == PLACE_WRONG_OPCODE)
		against(v, r, q, RULE_READ_OPCODE, p,
			"%s with PSN %u for the READ of %u bytes in packet %s",
			rocemu_opcode_name(p->p.h.opcode), p->p.h.psn, fit->len,
			packet_name(fit->number));
	else if (best == PLACE_WRONG_LENGTH)
		against(v, r, q, RULE_READ_LENGTH, p,
			"%u bytes with PSN %u for the READ of %u bytes in packet %s",
			p->p.payload_len, p->p.h.psn, fit->len, packet_name(fit->number));
	else if (best == PLACE_UNSURE)
		FOUND_UNLESS(veiled(v, q), v, r, READ_UNSURE, p,
			     "%s with PSN %u for the READ of %u bytes in packet %s",
			     rocemu_opcode_name(p->p.h.opcode), p->p.h.psn, fit->len,
			     packet_name(fit->number));
	if (newest != fit && newest->repeat && newest->psn == p->p.h.psn && best == PLACE_RIGHT)
		FOUND_UNLESS(veiled(v, q), v, r, RXE_READ_REPLAY, p, "%s with PSN %u",
			     rocemu_opcode_name(p->p.h.opcode), p->p.h.psn);
	check_read_msn(v, r, q, fit, p);
	note_progress(v, r, q, fit, p);
}

static void atomic_response(struct verify *v, struct flow *r, struct flow *q, const struct pkt *p)
{
	const struct sent *s = sent_find(&q->rq, p->p.h.psn);
	struct pending *a = NULL;

	for (uint32_t i = q->rq.pending_n; i-- > 0 && a == NULL;) {
		if (q->rq.pending[i].psn == p->p.h.psn &&
		    (rocemu_opcode_ops(q->rq.pending[i].opcode) & ROCEMU_OP_ATOMIC) != 0)
			a = &q->rq.pending[i];
	}
	if (a == NULL) {
		stray(v, r, q, p);
		return;
	}
	if (pkt_has(p, ROCEMU_HDR_ATOMICACK)) {
		if (a->answered && a->result != p->p.h.atomicack && a->next != 0)
			against(v, r, q, RULE_ATOMIC_REPLAY, p,
				"PSN %u: 0x%" PRIx64 ", before 0x%" PRIx64, p->p.h.psn,
				p->p.h.atomicack, a->result);
		a->result = p->p.h.atomicack;
		a->next = 1;
	}
	a->answered = true;
	if (s != NULL && pkt_has(p, ROCEMU_HDR_AETH))
		check_msn(v, r, q, p, s, s->done);
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

/*
 * The response is to a request not sent yet: the requester's next PSNs show whether that is
 * possible.
 */
static bool beyond(struct flow *q, const struct pkt *p)
{
	struct requests *rq = &q->rq;
	int32_t ahead = rocemu_psn_diff(p->p.h.psn, rq->next);

	if (rq->next_open || ahead < 0 || rocemu_psn_diff(p->p.h.psn, rq->hidden) < 0)
		return false;
	if (rq->early.active && rocemu_psn_diff(p->p.h.psn, rq->early.psn) <= 0)
		return true;
	rq->early = (struct early){
		.active = true,
		.psn = p->p.h.psn,
		.number = p->number,
		.ts_ns = p->rec->ts_ns,
	};
	return true;
}

void response_input(struct verify *v, struct flow *r, const struct pkt *p)
{
	struct flow *q = r->peer;
	bool aeth = pkt_has(p, ROCEMU_HDR_AETH);

	r->acks++;
	r->veils = r->veils || p->hides || (!aeth && (p->ops & ROCEMU_OP_ACK) != 0);
	if (aeth && !syndrome_legal(p)) {
		FOUND(v, r, AETH, p, "0x%02x in %s", p->p.h.aeth.syndrome,
		      rocemu_opcode_name(p->p.h.opcode));
		return;
	}
	if (q == NULL)
		q = flow_pair_by_response(v, r, p);
	if (q == NULL || !q->rq.started) {
		r->unpaired++;
		return;
	}
	r->judged++;
	if (beyond(q, p))
		return;
	if (p->ops & ROCEMU_OP_READ_RESP)
		read_response(v, r, q, p);
	else if (p->ops & ROCEMU_OP_ATOMIC_ACK)
		atomic_response(v, r, q, p);
	else if (!aeth) /* whatever it is, all before its PSN is complete */
		advance(q, p->p.h.psn);
	else if ((p->p.h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK)
		ack_input(v, r, q, p);
	else
		nak_input(v, r, q, p);
}
