/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests as they pass: PSN order, opcodes within messages, lengths; what is sent again, and after
 * what. RC, XRC and UC; UD's PSNs say nothing (they count per sender, not per receiver).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { KIND = ROCEMU_OP_SEND | ROCEMU_OP_WRITE };
enum { ASKED = ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC | ROCEMU_OP_FLUSH | ROCEMU_OP_ATOMIC_WRITE };
/* Identifications below it are those of a segmented burst (0, 1, 2, ...): they come again. */
enum { SEGMENTS = 256 };
#define CLOCK_SLACK_NS 2000u /* of a capture in microseconds */

static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};

uint32_t read_responses(uint32_t len, uint32_t mtu)
{
	return len <= mtu ? 1 : (uint32_t)(((uint64_t)len + mtu - 1) / mtu);
}

/* ---- what was sent ---- */

struct sent *sent_find(const struct requests *rq, uint32_t psn)
{
	struct sent *s;

	if (rq->sent == NULL)
		return NULL;
	s = &rq->sent[psn & rq->sent_mask];
	return s->used && s->psn == psn ? s : NULL;
}

static bool sent_grow(struct requests *rq)
{
	uint32_t size = rq->sent == NULL ? MIN_SENT : (rq->sent_mask + 1) * 2;
	struct sent *bigger;

	if (size > MAX_SENT)
		return true; /* the oldest are forgotten */
	bigger = calloc(size, sizeof(*bigger));
	if (bigger == NULL)
		return rq->sent != NULL;
	for (uint32_t i = 0; rq->sent != NULL && i <= rq->sent_mask; i++) {
		if (rq->sent[i].used)
			bigger[rq->sent[i].psn & (size - 1)] = rq->sent[i];
	}
	free(rq->sent);
	rq->sent = bigger;
	rq->sent_mask = size - 1;
	return true;
}

/* What a retransmission repeats: all headers but AckReq, migration and congestion bits. */
static uint32_t digest(const struct pkt *p)
{
	const struct rocemu_hdrs *h = &p->p.h;
	uint32_t hdrs = rocemu_opcode_hdrs(h->opcode);
	uint64_t d = h->opcode | (uint64_t)p->p.payload_len << 8;

#define MIX(x) d = (d ^ (uint64_t)(x)) * 0x9e3779b97f4a7c15u
	MIX(h->se);
	if (hdrs & ROCEMU_HDR_RETH) {
		MIX(h->reth.va);
		MIX((uint64_t)h->reth.rkey << 32 | h->reth.length);
	}
	if (hdrs & ROCEMU_HDR_ATOMICETH) {
		MIX(h->atomiceth.va);
		MIX(h->atomiceth.rkey);
		MIX(h->atomiceth.swap_add);
		MIX(h->atomiceth.compare);
	}
	if (hdrs & ROCEMU_HDR_IMMDT)
		MIX(h->imm);
	if (hdrs & ROCEMU_HDR_IETH)
		MIX(h->ieth);
#undef MIX
	return (uint32_t)(d >> 32);
}

static void sent_add(struct verify *v, struct flow *f, const struct pkt *p, bool late)
{
	struct requests *rq = &f->rq;
	uint32_t psn = p->p.h.psn;
	struct sent *s;

	while (rq->sent == NULL ||
	       (rq->sent[psn & rq->sent_mask].used && rq->sent_mask + 1 < MAX_SENT)) {
		if (!sent_grow(rq)) {
			v->out_of_memory = true;
			return;
		}
		if (rq->sent_mask + 1 >= MAX_SENT)
			break;
	}
	s = &rq->sent[psn & rq->sent_mask];
	*s = (struct sent){
		.number = p->rec->number,
		.ts_ns = p->rec->ts_ns,
		.psn = psn,
		.len = p->p.payload_len,
		.digest = digest(p),
		.done = rq->done,
		.ip_id = p->rec->ip.ip_id,
		.epoch = rq->epoch,
		.opcode = p->p.h.opcode,
		.late = late,
		.used = true,
	};
}

/* ---- READs and atomics ---- */

static struct asked *asked_add(struct verify *v, struct flow *f, const struct pkt *p, bool repeat)
{
	struct requests *rq = &f->rq;
	const struct rocemu_hdrs *h = &p->p.h;
	struct asked *a;

	if (rq->asked == NULL)
		rq->asked = calloc(MAX_ASKED, sizeof(*rq->asked));
	if (rq->asked == NULL) {
		v->out_of_memory = true;
		return NULL;
	}
	if (rq->asked_n == MAX_ASKED) {
		memmove(rq->asked, rq->asked + MAX_ASKED / 2, MAX_ASKED / 2 * sizeof(*rq->asked));
		rq->asked_n = MAX_ASKED / 2;
		rq->open_read = NULL;
	}
	a = &rq->asked[rq->asked_n++];
	*a = (struct asked){
		.number = p->rec->number,
		.psn = h->psn,
		.opcode = h->opcode,
		.done = rq->done,
		.epoch = rq->epoch,
		.repeat = repeat,
		.total = 1,
	};
	if (p->ops & ROCEMU_OP_READ_REQ) {
		a->va = h->reth.va;
		a->rkey = h->reth.rkey;
		a->len = h->reth.length;
		a->total = f->mtu != 0 ? read_responses(a->len, f->mtu) : a->len <= mtus[0] ? 1 : 0;
	} else if (p->ops & ROCEMU_OP_ATOMIC) {
		a->va = h->atomiceth.va;
		a->rkey = h->atomiceth.rkey;
		a->swap_add = h->atomiceth.swap_add;
		a->compare = h->atomiceth.compare;
	}
	return a;
}

void request_mtu_known(struct flow *f)
{
	struct requests *rq = &f->rq;

	if (f->mtu == 0)
		return;
	for (uint32_t i = 0; i < rq->asked_n; i++) {
		if (rq->asked[i].total == 0)
			rq->asked[i].total = read_responses(rq->asked[i].len, f->mtu);
	}
	if (rq->next_open && rq->open_read != NULL)
		rq->next = psn_add(rq->open_read->psn, rq->open_read->total);
	rq->next_open = false;
	rq->open_read = NULL;
}

/*
 * A request follows a READ whose number of responses depends on an MTU that is not known yet. It
 * would tell the MTU, were it sure that no request between the two is missing: so only go on from
 * here.
 */
static void settle_open_read(struct flow *f, uint32_t psn)
{
	struct requests *rq = &f->rq;
	const struct asked *a = rq->open_read;

	if (a == NULL || rocemu_psn_diff(psn, psn_add(a->psn, 1)) < 0)
		return;
	rq->next = psn;
	rq->epoch++; /* messages may be missing */
	rq->next_open = false;
	rq->open_read = NULL;
}

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
		snprintf(cause, sizeof(cause), " %" PRIu64, r->cause_number);
	found_at(v, f, RULE_RETRANSMIT, r->first_number, ts_ns,
		 "%u packet%s from PSN %u on after %s%s: %s", r->packets,
		 r->packets == 1 ? "" : "s", r->start, causes[r->cause], cause,
		 rocemu_psn_diff(r->next, f->rq.next) >= 0 ? "go-back-N, all that was sent"
							   : "selective, a part of what was sent");
}

static void resend_note(struct verify *v, struct flow *f, const struct pkt *p, uint32_t span)
{
	struct requests *rq = &f->rq;
	struct resend *r = &rq->resend;
	uint32_t psn = p->p.h.psn;

	rq->again++;
	if (r->active && r->next == psn) {
		r->next = psn_add(psn, span);
		r->packets++;
		return;
	}
	resend_close(v, f, p->rec->ts_ns);
	*r = (struct resend){
		.active = true,
		.start = psn,
		.next = psn_add(psn, span),
		.packets = 1,
		.first_number = p->rec->number,
	};
	if (rq->nak.active && rocemu_psn_diff(psn, rq->nak.psn) >= 0) {
		r->cause = rq->nak.rnr ? CAUSE_RNR : CAUSE_NAK;
		r->cause_number = rq->nak.number;
	}
}

static void check_rnr_wait(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct nak *n = &f->rq.nak;
	uint64_t waited = p->rec->ts_ns > n->ts_ns ? p->rec->ts_ns - n->ts_ns : 0;
	bool other;

	if (!n->active || p->p.h.psn != n->psn)
		return;
	n->active = false;
	if (!n->rnr || waited + CLOCK_SLACK_NS >= n->wait_ns)
		return;
	other = gid_is_ipv4(&p->rec->ip.src) && p->rec->ip.ip_id != n->ip_id;
	if (other)
		FOUND(v, f, RNR_EARLY, p,
		      "PSN %u after %.3f ms, the NAK in packet %" PRIu64 " asks for %.3f ms",
		      n->psn, (double)waited / 1e6, n->number, (double)n->wait_ns / 1e6);
	else
		FOUND(v, f, RNR_EARLY_MAYBE, p,
		      "PSN %u after %.3f ms, the NAK in packet %" PRIu64 " asks for %.3f ms",
		      n->psn, (double)waited / 1e6, n->number, (double)n->wait_ns / 1e6);
}

/* The READ that a repeated one is a part of; NULL: not remembered. */
static const struct asked *read_original(const struct requests *rq, uint32_t psn)
{
	for (uint32_t i = 0; i < rq->asked_n; i++) {
		const struct asked *a = &rq->asked[i];
		uint32_t n = a->total != 0 ? a->total : 1;

		if (!a->repeat && (rocemu_opcode_ops(a->opcode) & ROCEMU_OP_READ_REQ) != 0 &&
		    rocemu_psn_diff(psn, a->psn) >= 0 &&
		    rocemu_psn_diff(psn, psn_add(a->psn, n)) < 0)
			return a;
	}
	return NULL;
}

static void read_again(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct asked *o = read_original(&f->rq, p->p.h.psn);
	const struct rocemu_hdrs *h = &p->p.h;
	uint64_t skip;
	struct asked *a;

	if (o != NULL && f->mtu != 0) {
		skip = (uint64_t)(uint32_t)rocemu_psn_diff(h->psn, o->psn) * f->mtu;
		if (h->reth.rkey != o->rkey || h->reth.va != o->va + skip ||
		    h->reth.length + skip > o->len ||
		    (skip == 0 && h->reth.length == 0 && o->len != 0))
			FOUND(v, f, READ_RESTART, p,
			      "PSN %u: %u bytes at 0x%" PRIx64 "; packet %" PRIu64
			      " asked for %u bytes at 0x%" PRIx64 " from PSN %u",
			      h->psn, h->reth.length, h->reth.va, o->number, o->len, o->va, o->psn);
	}
	a = asked_add(v, f, p, true);
	if (a != NULL && o == NULL)
		a->epoch = 0;
}

/* A PSN before the expected one: retransmission, late, or the same frame twice. */
static void request_again(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;
	uint32_t psn = p->p.h.psn;
	struct sent *s = sent_find(rq, psn);
	bool read = (p->ops & ROCEMU_OP_READ_REQ) != 0;
	struct asked *a;

	if (s != NULL && gid_is_ipv4(&p->rec->ip.src) && s->ip_id == p->rec->ip.ip_id &&
	    s->ip_id >= SEGMENTS && s->digest == digest(p)) {
		FOUND(v, f, DUP_FRAME, p, "PSN %u, as packet %" PRIu64, psn, s->number);
		return;
	}
	if (s == NULL && !(read && read_original(rq, psn) != NULL) &&
	    (uint32_t)-rocemu_psn_diff(psn, rq->next) <= rq->sent_mask && !rq->nak.active) {
		FOUND(v, f, LATE, p, "PSN %u", psn);
	} else if (s != NULL || rq->nak.active || read) {
		resend_note(v, f, p,
			    read && f->mtu ? read_responses(p->p.h.reth.length, f->mtu) : 1);
	}
	check_rnr_wait(v, f, p);
	if (rq->nak.active && !rq->nak.rnr && psn == rq->nak.psn)
		rq->nak.active = false;
	if (s != NULL && s->digest != digest(p) &&
	    !(read && (rocemu_opcode_ops(s->opcode) & ROCEMU_OP_READ_REQ)))
		FOUND(v, f, RETRANS_DIFFERS, p,
		      "PSN %u: %s of %u bytes, in packet %" PRIu64 " %s of %u", psn,
		      rocemu_opcode_name(p->p.h.opcode), p->p.payload_len, s->number,
		      rocemu_opcode_name(s->opcode), s->len);
	if (read)
		read_again(v, f, p);
	if (s == NULL) {
		sent_add(v, f, p, true);
		a = !read && (p->ops & ASKED) ? asked_add(v, f, p, false) : NULL;
		if (a != NULL)
			a->epoch = 0;
		return;
	}
	s->again = true;
	s->number = p->rec->number;
	s->ts_ns = p->rec->ts_ns;
	s->ip_id = p->rec->ip.ip_id;
}

/* ---- messages ---- */

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

	if (last) {
		if ((f->mtu != 0 && len > f->mtu) || (!first && len == 0))
			FOUND(v, f, LAST_LENGTH, p, "%s of %u bytes, path MTU %u",
			      rocemu_opcode_name(p->p.h.opcode), len, f->mtu);
		return;
	}
	if (!mtu_possible(len) || (f->mtu != 0 && len != f->mtu)) {
		FOUND(v, f, MTU_LENGTH, p, "%s of %u bytes, path MTU %u",
		      rocemu_opcode_name(p->p.h.opcode), len, f->mtu);
		return;
	}
	if (f->mtu == 0) {
		f->mtu = len;
		if (f->peer != NULL && f->peer->mtu == 0) {
			f->peer->mtu = len;
			request_mtu_known(f->peer);
		}
		request_mtu_known(f);
	}
}

static void message_begin(struct flow *f, const struct pkt *p)
{
	f->rq.msg = (struct message){
		.open = true,
		.start_known = true,
		.kind = p->ops & KIND,
		.first_psn = p->p.h.psn,
		.reth_len = rocemu_opcode_hdrs(p->p.h.opcode) & ROCEMU_HDR_RETH ? p->p.h.reth.length
										: 0,
	};
}

/* At the end of a WRITE, or where it goes on too long. */
static void check_reth(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct message *m = &f->rq.msg;
	bool last = (p->ops & ROCEMU_OP_LAST) != 0;
	uint64_t bytes;

	if (m->kind != ROCEMU_OP_WRITE || !m->start_known)
		return;
	bytes = (uint64_t)(uint32_t)rocemu_psn_diff(p->p.h.psn, m->first_psn) * f->mtu +
		p->p.payload_len;
	if (last ? bytes != m->reth_len
		 : bytes >= m->reth_len && bytes - p->p.payload_len < m->reth_len)
		FOUND(v, f, RETH_LENGTH, p,
		      "%s with PSN %u makes %" PRIu64 " bytes, the RETH says %u",
		      rocemu_opcode_name(p->p.h.opcode), p->p.h.psn, bytes, m->reth_len);
}

static void message_input(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct message *m = &f->rq.msg;
	bool first = (p->ops & ROCEMU_OP_FIRST) != 0, last = (p->ops & ROCEMU_OP_LAST) != 0;
	bool known = m->open || f->rq.packets > 1;
	bool wrong = first ? m->open && m->start_known : !m->open || m->kind != (p->ops & KIND);

	/* A UC receiver drops a broken message; its sender may begin anew after it. */
	if (wrong && known && !(m->kind == 0 && m->open))
		FOUND(v, f, OPCODE_ORDER, p, "%s with PSN %u %s", rocemu_opcode_name(p->p.h.opcode),
		      p->p.h.psn, m->open ? "inside another message" : "without a FIRST");
	if (first) {
		message_begin(f, p);
	} else if (wrong || !m->open) {
		*m = (struct message){.open = true, .kind = p->ops & KIND};
	}
	if ((p->ops & KIND) != 0 || (p->ops & ROCEMU_OP_ATOMIC_WRITE) != 0)
		check_length(v, f, p);
	check_reth(v, f, p);
	if (last) {
		m->open = false;
		f->rq.done++;
	}
}

static void check_credit(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct requests *rq = &f->rq;

	if (!rq->limit_known || rq->epoch != rq->msn_epoch || !(p->ops & ROCEMU_OP_SEND) ||
	    !(p->ops & ROCEMU_OP_FIRST))
		return;
	/* This one is number done + 1; one beyond the limit is allowed (9.7.7.2). */
	if ((int32_t)(rq->done + 1 - (rq->limit + 1)) > 0)
		FOUND(v, f, CREDIT, p, "message %u, credits until %u", rq->msn_low + rq->done + 1,
		      rq->msn_low + rq->limit);
}

/* PSNs are missing before this one. */
static void request_gap(struct verify *v, struct flow *f, const struct pkt *p, uint32_t missing)
{
	struct requests *rq = &f->rq;
	struct message *m = &rq->msg;
	bool cont = !(p->ops & ROCEMU_OP_FIRST);

	FOUND(v, f, PSN_GAP, p, "expected PSN %u, %u missing before %u", rq->next, missing,
	      p->p.h.psn);
	if (!rq->gap) {
		rq->gap = true;
		rq->gap_psn = rq->next;
	}
	rq->epoch++;
	if (cont && m->open && m->start_known && m->kind == ROCEMU_OP_WRITE && f->mtu != 0 &&
	    m->kind == (p->ops & KIND) &&
	    (uint32_t)rocemu_psn_diff(p->p.h.psn, m->first_psn) <
		    read_responses(m->reth_len, f->mtu))
		return; /* the same message goes on */
	/* Where a message began or ended nobody knows. */
	*m = (struct message){.open = cont, .kind = cont ? p->ops & KIND : 0};
}

static void check_unsent(struct verify *v, struct flow *f, uint32_t psn)
{
	struct requests *rq = &f->rq;

	if (!rq->unsent.active)
		return;
	rq->unsent.active = false;
	/* The requester goes on behind the PSN that was answered: it had sent it, unseen. */
	if (rocemu_psn_diff(psn, rq->unsent.psn) > 0)
		found_at(v, f, RULE_CAPTURE_LOSS, rq->unsent.number, rq->unsent.ts_ns,
			 "PSN %u was answered before it, or what follows it, was seen",
			 rq->unsent.psn);
	else
		found_at(v, f, RULE_ACK_UNSENT, rq->unsent.number, rq->unsent.ts_ns,
			 "PSN %u; the requester's next is %u", rq->unsent.psn, psn);
}

static void request_new(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;
	struct asked *a;

	resend_close(v, f, p->rec->ts_ns);
	check_credit(v, f, p);
	message_input(v, f, p);
	sent_add(v, f, p, false);
	rq->bytes += p->p.payload_len;
	rq->next = psn_add(p->p.h.psn, 1);
	if (f->svc == ROCEMU_SVC_UC || !(p->ops & ASKED))
		return;
	a = asked_add(v, f, p, false);
	if (a == NULL)
		return;
	if (a->total != 0) {
		rq->next = psn_add(p->p.h.psn, a->total);
	} else {
		rq->next_open = true;
		rq->open_read = a;
	}
}

static void request_begin(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;

	rq->started = true;
	rq->next = p->p.h.psn;
	rq->epoch++;
	if (f->psn_announced && f->announced_psn != p->p.h.psn)
		FOUND(v, f, CM_START_PSN, p, "PSN %u, announced was %u", p->p.h.psn,
		      f->announced_psn);
	f->psn_announced = false;
}

void request_input(struct verify *v, struct flow *f, const struct pkt *p)
{
	struct requests *rq = &f->rq;
	int32_t d;

	rq->packets++;
	if (!rq->started) {
		request_begin(v, f, p);
		if (!(p->ops & ROCEMU_OP_FIRST)) /* the capture began inside a message */
			rq->msg = (struct message){.open = true, .kind = p->ops & KIND};
	}
	if (rq->next_open)
		settle_open_read(f, p->p.h.psn);
	d = rocemu_psn_diff(p->p.h.psn, rq->next);
	if (d > PSN_NEAR || d < -PSN_NEAR) {
		FOUND(v, f, PSN_JUMP, p, "expected PSN %u, got %u", rq->next, p->p.h.psn);
		flow_restart(f);
		request_begin(v, f, p);
		if (!(p->ops & ROCEMU_OP_FIRST))
			rq->msg = (struct message){.open = true, .kind = p->ops & KIND};
		d = 0;
	}
	if (d < 0) {
		request_again(v, f, p);
		return;
	}
	check_unsent(v, f, p->p.h.psn);
	if (d > 0)
		request_gap(v, f, p, (uint32_t)d);
	request_new(v, f, p);
}

void request_finish(struct verify *v, struct flow *f)
{
	struct requests *rq = &f->rq;

	resend_close(v, f, f->last_ns);
	if (rq->unsent.active)
		found_at(v, f, RULE_ACK_UNSEEN, rq->unsent.number, rq->unsent.ts_ns,
			 "PSN %u; the requester's last was %u", rq->unsent.psn,
			 psn_add(rq->next, ROCEMU_PSN_MASK));
	if ((f->svc == ROCEMU_SVC_RC || f->svc == ROCEMU_SVC_XRC) && f->peer == NULL)
		found_at(v, f, RULE_UNPAIRED, 0, f->last_ns, "QP 0x%x", f->dqpn);
}
