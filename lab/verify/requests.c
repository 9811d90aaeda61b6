/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows requests: new ones, missing ones, retransmissions and their causes. RC, XRC and UC; UD's
 * PSNs count per sender, not per receiver. Checks between neighbours are in sent.c.
 */
#include <inttypes.h>
#include <stdio.h>

#include "model.h"

enum { KIND = ROCEMU_OP_SEND | ROCEMU_OP_WRITE };
enum { ASKED = ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC | ROCEMU_OP_FLUSH | ROCEMU_OP_ATOMIC_WRITE };
/* Identifications below it are those of a segmented burst (0, 1, 2, ...): they come again. */
enum { SEGMENTS = 256 };
/* Requests in a row after which one that was answered before them should have come. */
enum { REORDERED = 32 };
#define IDLE_NS	       500000000u /* after which what was sent again is one with nothing more */
#define CLOCK_SLACK_NS 2000u	  /* of a capture in microseconds */

static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};

/* ---- sent again ---- */

static void resend_close(struct verify *v, struct flow *f, uint64_t ts_ns)
{
	static const char *const causes[] = {"a timeout or an implied NAK", "the NAK in packet",
					     "the RNR NAK in packet"};
	struct resend *r = &f->rq.resend;
	char cause[24] = "";

	if (!r->active)
		return;
	r->active = false;
	if (r->cause != CAUSE_OTHER)
		snprintf(cause, sizeof(cause), " %s", packet_name(r->cause_number));
	found_unless(v, f, r->unsure, RULE_RETRANSMIT, r->first_number, ts_ns,
		     "%u packet%s from PSN %u on after %s%s: %s", r->packets,
		     r->packets == 1 ? "" : "s", r->start, causes[r->cause], cause,
		     rocemu_psn_diff(r->next, f->rq.next) >= 0
			     ? "go-back-N, all that was sent"
			     : "selective, a part of what was sent");
}

/* PSNs of a packet that is sent again; 0: not known. */
static uint32_t span_again(const struct flow *f, const struct pkt *p)
{
	if (p->hides)
		return 0;
	if ((p->ops & ROCEMU_OP_READ_REQ) == 0)
		return 1;
	if (!pkt_has(p, ROCEMU_HDR_RETH))
		return 0;
	return f->mtu != 0 ? read_responses(p->p.h.reth.length, f->mtu) : 1;
}

static void resend_note(struct verify *v, struct flow *f, const struct pkt *p, bool unsure)
{
	struct requests *rq = &f->rq;
	struct resend *r = &rq->resend;
	uint32_t psn = p->p.h.psn, span = span_again(f, p);
	bool goes_on =
		r->active && (r->next == psn || (r->open && rocemu_psn_diff(psn, r->next) >= 0));

	rq->again++;
	rq->resend_unsure = rq->resend_unsure || unsure;
	if (!goes_on) {
		resend_close(v, f, p->rec->ts_ns);
		*r = (struct resend){
			.active = true,
			.unsure = rq->resend_unsure,
			.start = psn,
			.first_number = p->number,
		};
	}
	/* If it came late, it is none of the run. */
	r->next = unsure ? psn : psn_add(psn, span != 0 ? span : 1);
	r->open = span == 0 || unsure;
	r->packets++;
	if (goes_on)
		return;
	if (rq->nak.active && rocemu_psn_diff(psn, rq->nak.psn) >= 0) {
		r->cause = rq->nak.rnr ? CAUSE_RNR : CAUSE_NAK;
		r->cause_number = rq->nak.number;
	}
	if (r->cause != CAUSE_RNR)
		disorder(v, f);
}

/*
 * Early is what is sent again before the NAK's time is over. A copy that was on its way when the
 * NAK was sent, or that the network doubled, is not: so there must have been a NAK for every copy,
 * this one must be another than the one refused, and the time must not even have passed since that
 * one.
 */
static void check_rnr_wait(struct verify *v, struct flow *f, const struct pkt *p,
			   const struct sent *s)
{
	struct nak *n = &f->rq.nak;
	uint64_t waited = p->rec->ts_ns > n->ts_ns ? p->rec->ts_ns - n->ts_ns : 0;
	bool sure;

	if (!n->active || p->p.h.psn != n->psn)
		return;
	n->active = false;
	if (!n->rnr || waited + CLOCK_SLACK_NS >= n->wait_ns)
		return;
	sure = s != NULL && n->matched && s->rnrs == s->copies &&
	       p->rec->ts_ns + CLOCK_SLACK_NS < s->ts_ns + n->wait_ns &&
	       rocemu_gid_is_ipv4(&p->rec->ip.src) && p->rec->ip.ip_id != n->ip_id;
	if (sure)
		TENTATIVE(v, f, RNR_EARLY, p,
			  "PSN %u after %.3f ms, the NAK in packet %s requires %.3f ms", n->psn,
			  (double)waited / 1e6, packet_name(n->number), (double)n->wait_ns / 1e6);
	else
		FOUND_UNLESS(veiled(v, f), v, f, RNR_EARLY_MAYBE, p,
			     "PSN %u after %.3f ms, the NAK in packet %s requires %.3f ms", n->psn,
			     (double)waited / 1e6, packet_name(n->number),
			     (double)n->wait_ns / 1e6);
}

/* ---- lengths ---- */

static bool mtu_possible(uint32_t len)
{
	for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		if (mtus[i] == len)
			return true;
	}
	return false;
}

static void check_length(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint32_t len = p->p.payload_len;
	bool last = (p->ops & ROCEMU_OP_LAST) != 0, first = (p->ops & ROCEMU_OP_FIRST) != 0;

	if ((p->ops & KIND) == 0 || p->hides)
		return;
	if (last) {
		if ((f->mtu != 0 && len > f->mtu) || (!first && len == 0))
			FOUND_UNLESS(f->cut, v, f, LAST_LENGTH, p, "%s of %u bytes, path MTU %u",
				     rocemu_opcode_name(p->p.h.opcode), len, f->mtu);
		return;
	}
	if (!mtu_possible(len) || (f->mtu != 0 && len != f->mtu)) {
		FOUND_UNLESS(f->cut, v, f, MTU_LENGTH, p, "%s of %u bytes, path MTU %u",
			     rocemu_opcode_name(p->p.h.opcode), len, f->mtu);
		return;
	}
	if (f->mtu == 0) {
		f->mtu = len;
		if (f->peer != NULL && f->peer->mtu == 0) {
			f->peer->mtu = len;
			request_mtu_known(v, f->peer);
		}
		request_mtu_known(v, f);
	}
}

static void check_credit(struct verify *v, struct flow *f, const struct pkt *p,
			 const struct sent *s)
{
	const struct requests *rq = &f->rq;
	uint32_t number;

	if (!rq->limit_known || s->epoch != rq->msn.epoch || !(p->ops & ROCEMU_OP_SEND) ||
	    !(p->ops & ROCEMU_OP_FIRST))
		return;
	/* The first packet of a message; one beyond the limit is allowed (9.7.7.2). */
	number = rq->msn.base + s->done + ((p->ops & ROCEMU_OP_LAST) == 0);
	if (rocemu_psn_diff(number, rq->limit + 1) > 0)
		FOUND_UNLESS(veiled(v, f), v, f, CREDIT, p, "message %u, credits until %u",
			     number & ROCEMU_PSN_MASK, rq->limit);
}

/* ---- what is new ---- */

/* PSNs before this one may be in bursts that were cut, or were seen before the state was dropped.
 */
static void hidden_until(struct requests *rq, uint32_t psn)
{
	if (rocemu_psn_diff(psn, rq->hidden) > 0)
		rq->hidden = psn;
}

static void hide_behind(struct requests *rq, const struct pkt *p)
{
	if (p->hides)
		hidden_until(rq, psn_add(p->p.h.psn, 1 + veil_behind(p)));
	/* It never falls so far behind that it would be ahead. */
	hidden_until(rq, psn_add(rq->next, ROCEMU_PSN_MASK + 1 - PSN_NEAR));
}

/* Take a request packet whose PSN was not seen before. */
static struct sent *request_take(struct verify *v, struct flow *f, const struct pkt *p, bool late)
{
	struct requests *rq = &f->rq;
	bool asks = f->svc != ROCEMU_SVC_UC && (p->ops & ASKED) != 0;
	struct pending *a = NULL;
	uint32_t span = 1;

	check_length(v, f, p);
	if (late && (p->ops & ROCEMU_OP_READ_REQ) && pending_original(rq, p->p.h.psn) != NULL)
		a = read_again(v, f, p);
	else if (asks)
		a = pending_add(v, f, p, false);
	if (a != NULL)
		span = a->total;
	rq->veiled = rq->veiled || p->hides || (a != NULL && !a->whole);
	rq->bytes += p->p.payload_len;
	if (!late) {
		rq->newest = p->p.h.psn;
		rq->next = psn_add(p->p.h.psn, span != 0 ? span : 1);
		rq->next_open = span == 0;
		rq->open_read = span == 0 ? a : NULL;
	}
	hide_behind(rq, p);
	return sent_add(v, f, p, span);
}

static void check_early(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct early *e = &f->rq.early;
	int32_t ahead = rocemu_psn_diff(p->p.h.psn, e->psn);
	bool unsure;

	if (!e->active)
		return;
	unsure = veiled(v, f) || veil_between(v, f->hosts->pair, BETWEEN_MAD_CUT);
	if (f->rq.next_open || rocemu_psn_diff(e->psn, f->rq.hidden) < 0) {
		e->active = false; /* its request may be one that is not shown */
		return;
	}
	if (ahead < 0 && rocemu_psn_diff(f->rq.next, e->psn) <= 0) {
		/* It may come later; no network reorders by more than this. */
		if (++e->passed < REORDERED)
			return;
		e->active = false;
		tentative_at(v, f, RULE_ACK_UNSENT, e->number, e->ts_ns,
			     "PSN %u; %u requests later the requester's newest is %u", e->psn,
			     e->passed, p->p.h.psn);
		return;
	}
	e->active = false;
	disorder(v, f);
	if (ahead <= 0)
		found_unless(v, f, unsure, RULE_ACK_EARLY, e->number, e->ts_ns,
			     "PSN %u, whose request is in packet %s", e->psn,
			     packet_name(p->number));
	else
		found_unless(v, f, unsure, RULE_CAPTURE_LOSS, e->number, e->ts_ns,
			     "PSN %u was answered before it, or what follows it, was seen", e->psn);
}

static void request_new(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct sent *s;

	resend_close(v, f, p->rec->ts_ns);
	f->rq.resend_unsure = false;
	s = request_take(v, f, p, false);
	if (s != NULL)
		check_credit(v, f, p, s);
	check_early(v, f, p);
}

/* PSNs are missing before this one. */
static void request_gap(struct verify *v, struct flow *f, const struct pkt *p, uint32_t missing)
{
	struct requests *rq = &f->rq;

	if (rocemu_psn_diff(p->p.h.psn, rq->hidden) <= 0)
		return;
	disorder(v, f);
	FOUND_UNLESS(veil_between(v, f->hosts->pair, BETWEEN_BTH_CUT), v, f, PSN_GAP, p,
		     "expected PSN %u, %u missing before %u", rq->next, missing, p->p.h.psn);
	rq->early.passed = 0;
	if (!rq->gap) {
		rq->gap = true;
		rq->gap_psn = rq->next;
	}
}

static void request_begin(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;

	rq->started = true;
	rq->first = rq->next = rq->hidden = p->p.h.psn;
	rq->mads_cut = veil_mads(v, f);
	if (f->psn_announced && f->announced_psn != p->p.h.psn)
		FOUND_UNLESS(veil_between(v, f->hosts->pair, BETWEEN_BTH_CUT), v, f, CM_START_PSN,
			     p, "PSN %u, announced was %u", p->p.h.psn, f->announced_psn);
	f->psn_announced = false;
}

/* A new connection on the same QP, or what looks like one. */
static void request_jump(struct verify *v, struct flow *f, const struct pkt *p, bool unsure)
{
	FOUND_UNLESS(unsure || veil_between(v, f->hosts->pair, BETWEEN_BTH_CUT), v, f, PSN_JUMP, p,
		     "expected PSN %u, got %u", f->rq.next, p->p.h.psn);
	disorder(v, f);
	flow_restart(f);
	f->mtu = 0;
	request_begin(v, f, p);
	request_new(v, f, p);
}

/*
 * Perhaps a new connection: the capture does not have the bytes that would show it. Nothing before
 * is used to judge what follows; and if it is none, PSNs up to the old end were seen.
 */
static void request_anew(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint32_t next = f->rq.next;

	request_jump(v, f, p, true);
	f->rq.veiled = true;
	if (rocemu_psn_diff(next, p->p.h.psn) < PSN_NEAR)
		hidden_until(&f->rq, next);
}

/* ---- what comes again ---- */

enum anew { NOT_ANEW, PERHAPS_ANEW, ANEW };

/* The QP's first PSN again, acknowledged before, and another packet. UC sends nothing again. */
static enum anew begins_anew(const struct verify *v, const struct flow *f, const struct sent *s,
			     const struct pkt *p)
{
	const struct requests *rq = &f->rq;
	enum sameness same = sent_same(s, p);
	bool reached = rq->una_known && rocemu_psn_diff(rq->una, rq->first) > 0;
	bool reads = (p->ops & rocemu_opcode_ops(s->opcode) & ROCEMU_OP_READ_REQ) != 0;

	if (same == DIFFERS && reads && !read_elsewhere(rq, p)) /* from its middle on */
		return NOT_ANEW;
	if (same == SAME || (f->svc != ROCEMU_SVC_UC &&
			     (p->p.h.psn != rq->first || (p->ops & ROCEMU_OP_FIRST) == 0)))
		return NOT_ANEW;
	if (f->svc == ROCEMU_SVC_UC || reached)
		return same == DIFFERS ? ANEW : PERHAPS_ANEW;
	return veiled(v, f) ? PERHAPS_ANEW : NOT_ANEW;
}

/* A PSN that was not seen, before the expected one. */
static void request_late(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;
	uint32_t psn = p->p.h.psn;
	bool read = (p->ops & ROCEMU_OP_READ_REQ) != 0, unsure = veiled(v, f);
	const struct pending *inside = pending_original(rq, psn);

	if (inside != NULL && inside->total != 0 && !read) {
		FOUND(v, f, PSN_RESERVED, p,
		      "%s with PSN %u: the READ in packet %s has PSNs %u to %u",
		      rocemu_opcode_name(p->p.h.opcode), psn, packet_name(inside->number),
		      inside->psn, psn_add(inside->psn, inside->total - 1));
		return;
	}
	if (!(read && inside != NULL) && !rq->nak.active && !unsure) {
		disorder(v, f);
		FOUND(v, f, LATE, p, "PSN %u", psn);
	} else {
		resend_note(v, f, p, unsure);
	}
	rq->early.passed = 0;
	check_rnr_wait(v, f, p, NULL);
	request_take(v, f, p, true);
}

/* One of the copies that were seen, and not sent again: it has that one's identification. */
static bool same_frame(const struct sent *s, const struct pkt *p)
{
	uint16_t id = p->rec->ip.ip_id;

	if (!rocemu_gid_is_ipv4(&p->rec->ip.src) || id < SEGMENTS)
		return false;
	for (unsigned i = 0; i < ID_COUNT && i < s->copies; i++) {
		if (s->ip_ids[i] == id)
			return true;
	}
	return false;
}

/* A PSN that was seen: retransmission, or the same frame twice. */
static void request_again(struct verify *v, struct flow *f, const struct pkt *p, struct sent *s)
{
	struct requests *rq = &f->rq;
	uint32_t psn = p->p.h.psn;
	bool read = (p->ops & ROCEMU_OP_READ_REQ) != 0;
	bool was_read = (rocemu_opcode_ops(s->opcode) & ROCEMU_OP_READ_REQ) != 0;
	enum sameness same = sent_same(s, p);
	enum anew anew;

	if ((same == SAME && f->svc == ROCEMU_SVC_UC) || (same != DIFFERS && same_frame(s, p))) {
		disorder(v, f);
		FOUND(v, f, DUP_FRAME, p, "PSN %u, as packet %s", psn, packet_name(s->number));
		return;
	}
	anew = begins_anew(v, f, s, p);
	if (anew == ANEW)
		request_jump(v, f, p, false);
	if (anew == PERHAPS_ANEW)
		request_anew(v, f, p);
	if (anew != NOT_ANEW)
		return;
	resend_note(v, f, p, false);
	check_rnr_wait(v, f, p, s);
	if (rq->nak.active && !rq->nak.rnr && psn == rq->nak.psn)
		rq->nak.active = false;
	if (same == DIFFERS && !(read && was_read))
		FOUND_UNLESS(veiled(v, f), v, f, RETRANS_DIFFERS, p,
			     "PSN %u: %s of %u bytes, in packet %s %s of %u", psn,
			     rocemu_opcode_name(p->p.h.opcode), p->p.payload_len,
			     packet_name(s->number), rocemu_opcode_name(s->opcode), s->len);
	if (read)
		read_again(v, f, p);
	s->copies++;
	s->number = p->number;
	s->ts_ns = p->rec->ts_ns;
	for (unsigned i = ID_COUNT - 1; i > 0; i--)
		s->ip_ids[i] = s->ip_ids[i - 1];
	s->ip_ids[0] = p->rec->ip.ip_id;
}

/* Seen so long ago that it was dropped. */
static void request_old(struct verify *v, struct flow *f, const struct pkt *p)
{
	disorder(v, f);
	if (f->rq.nak.active || (p->ops & ROCEMU_OP_READ_REQ) != 0)
		resend_note(v, f, p, veiled(v, f));
	if (p->ops & ROCEMU_OP_READ_REQ)
		read_again(v, f, p);
}

void request_input(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;
	struct sent *s;
	int32_t d;

	rq->packets++;
	if (!rq->started)
		request_begin(v, f, p);
	if (rq->next_open)
		pending_settle_open(f, p->p.h.psn);
	d = rocemu_psn_diff(p->p.h.psn, rq->next);
	if (d != 0 && rq->mads_cut != veil_mads(v, f)) {
		request_anew(v, f, p);
		return;
	}
	rq->mads_cut = veil_mads(v, f);
	if (d > PSN_NEAR || d < -PSN_NEAR) {
		request_jump(v, f, p, false);
		return;
	}
	if (d >= 0) {
		if (d > 0)
			request_gap(v, f, p, (uint32_t)d);
		request_new(v, f, p);
		return;
	}
	s = sent_find(rq, p->p.h.psn);
	if (s != NULL && (!s->tail || (p->ops & ROCEMU_OP_READ_REQ) != 0))
		request_again(v, f, p, s);
	else if (-d <= MAX_SENT && !(rq->forgot && (uint32_t)-d > rq->sent_mask))
		request_late(v, f, p);
	else
		request_old(v, f, p);
}

void request_idle(struct verify *v, struct flow *f, uint64_t now_ns)
{
	if (f->rq.resend.active && now_ns > f->last_ns + IDLE_NS)
		resend_close(v, f, f->last_ns);
}

void request_finish(struct verify *v, struct flow *f)
{
	struct requests *rq = &f->rq;

	resend_close(v, f, f->last_ns);
	if (rq->early.active)
		found_unless(v, f, veiled(v, f), RULE_ACK_UNSEEN, rq->early.number, rq->early.ts_ns,
			     "PSN %u; the requester's last was %u", rq->early.psn,
			     psn_add(rq->next, ROCEMU_PSN_MASK));
	if ((f->svc == ROCEMU_SVC_RC || f->svc == ROCEMU_SVC_XRC) && f->peer == NULL)
		found_unless(v, f, veil_between(v, f->hosts->pair, BETWEEN_ANY), RULE_UNPAIRED, 0,
			     f->last_ns, "QP 0x%x", f->dqpn);
	tentative_finish(v, f);
}
