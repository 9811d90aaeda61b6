/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the request packets of a direction by PSN, and checks neighbours against each other:
 * opcodes within messages, the length of a WRITE against its RETH, the number of ended messages.
 *
 * Neighbours are those by PSN, in whatever order they came: reordering, duplication and loss in the
 * network must not look like a fault of the sender. So nothing is checked across a missing PSN; if
 * it comes late, it is checked then.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "model.h"

enum { KIND = ROCEMU_OP_SEND | ROCEMU_OP_WRITE };

struct sent *sent_find(const struct requests *rq, uint32_t psn)
{
	struct sent *s;

	if (rq->sent == NULL)
		return NULL;
	s = &rq->sent[psn & rq->sent_mask];
	return s->used && s->psn == psn ? s : NULL;
}

/* @return false: no room for more. */
static bool sent_grow(struct verify *v, struct requests *rq)
{
	uint32_t size = rq->sent == NULL ? MIN_SENT : (rq->sent_mask + 1) * 2;
	struct sent *bigger;

	if (v->sent_bytes >= SENT_BYTES && rq->sent != NULL)
		return false;
	bigger = calloc(size, sizeof(*bigger));
	if (bigger == NULL)
		return false;
	v->sent_bytes += (rq->sent != NULL ? size / 2 : size) * sizeof(*bigger);
	for (uint32_t i = 0; rq->sent != NULL && i <= rq->sent_mask; i++) {
		if (rq->sent[i].used)
			bigger[rq->sent[i].psn & (size - 1)] = rq->sent[i];
	}
	free(rq->sent);
	rq->sent = bigger;
	rq->sent_mask = size - 1;
	return true;
}

/*
 * The place for a PSN. Its present entry is replaced when there is no more room. NULL: no memory.
 */
static struct sent *sent_place(struct verify *v, struct requests *rq, uint32_t psn)
{
	if (rq->sent == NULL && !sent_grow(v, rq))
		return NULL;
	while (rq->sent[psn & rq->sent_mask].used && rq->sent[psn & rq->sent_mask].psn != psn &&
	       rq->sent_mask + 1 < MAX_SENT) {
		if (!sent_grow(v, rq)) {
			rq->forgot = true;
			break;
		}
	}
	return &rq->sent[psn & rq->sent_mask];
}

static bool has_all(const struct pkt *p)
{
	return p->hdrs == rocemu_opcode_hdrs(p->p.h.opcode) && !p->hides;
}

/* What a retransmission repeats: all headers but AckReq, migration and congestion bits. */
static uint32_t digest(const struct pkt *p)
{
	const struct rocemu_hdrs *h = &p->p.h;
	uint32_t hdrs = rocemu_opcode_hdrs(h->opcode);
	uint64_t d = h->opcode | (uint64_t)p->p.payload_len << 8;

#define MIX(x) d = (d ^ (uint64_t)(x)) * 0x9e3779b97f4a7c15u
	MIX(h->se);
	if (hdrs & ROCEMU_HDR_XRCETH)
		MIX(h->xrceth.srqn);
	if (hdrs & ROCEMU_HDR_FETH)
		MIX(h->feth.raw);
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

enum sameness sent_same(const struct sent *s, const struct pkt *p)
{
	const bool both = s->whole && has_all(p);

	if (both)
		return s->digest == digest(p) ? SAME : DIFFERS;
	if (s->opcode != p->p.h.opcode)
		return DIFFERS;
	return !s->hides && !p->hides && s->len != p->p.payload_len ? DIFFERS : PERHAPS_SAME;
}

/* ---- neighbours ---- */

static uint32_t ops_of(const struct sent *s)
{
	return rocemu_opcode_ops(s->opcode);
}

static uint32_t ends(const struct sent *s)
{
	return (ops_of(s) & ROCEMU_OP_LAST) != 0;
}

/* The packet before this PSN; NULL: not seen, or it is not known where its PSNs end. */
static struct sent *before(const struct requests *rq, uint32_t psn)
{
	struct sent *s = sent_find(rq, psn_add(psn, ROCEMU_PSN_MASK));

	return s != NULL && (s->tail || s->span == 1) ? s : NULL;
}

static struct sent *behind(const struct requests *rq, const struct sent *s)
{
	return s->span != 0 ? sent_find(rq, psn_add(s->psn, s->span)) : NULL;
}

static void check_order(struct verify *v, struct flow *f, const struct sent *a,
			const struct sent *b)
{
	uint32_t x = ops_of(a), y = ops_of(b);
	bool open = (x & ROCEMU_OP_LAST) == 0, first = (y & ROCEMU_OP_FIRST) != 0;

	if (open ? first || (x & KIND) != (y & KIND) : !first)
		found_at(v, f, RULE_OPCODE_ORDER, b->number, b->ts_ns,
			 "%s with PSN %u after %s in packet %s", rocemu_opcode_name(b->opcode),
			 b->psn, rocemu_opcode_name(a->opcode), packet_name(a->number));
	else if (open && a->whole && b->whole && a->srqn != b->srqn)
		found_at(v, f, RULE_XRC_SRQ, b->number, b->ts_ns,
			 "SRQ 0x%x with PSN %u, 0x%x in packet %s", b->srqn, b->psn, a->srqn,
			 packet_name(a->number));
}

/* At the end of a WRITE whose beginning is known, or where it goes on too long. */
static void check_reth(struct verify *v, struct flow *f, const struct sent *s)
{
	uint64_t sum;

	if ((ops_of(s) & ROCEMU_OP_WRITE) == 0 || !s->begin_known)
		return;
	sum = (uint64_t)s->offset * f->mtu + s->len;
	if (ends(s) ? sum != s->reth_len : sum >= s->reth_len && sum - s->len < s->reth_len)
		found_unless(v, f, f->cut, RULE_RETH_LENGTH, s->number, s->ts_ns,
			     "%s with PSN %u makes %" PRIu64 " bytes, the RETH has %u",
			     rocemu_opcode_name(s->opcode), s->psn, sum, s->reth_len);
}

/* A READ's last PSN stands for it where its neighbour looks. */
static void tail_update(struct requests *rq, const struct sent *s)
{
	struct sent *tail;

	if (s->span <= 1 || s->tail)
		return;
	tail = sent_find(rq, psn_add(s->psn, s->span - 1));
	if (tail != NULL && tail->tail) {
		tail->done = s->done;
		tail->epoch = s->epoch;
	}
}

/*
 * s takes from a, before it, what goes on from there. @return false: it had that already.
 */
static bool follow(struct verify *v, struct flow *f, const struct sent *a, struct sent *s)
{
	uint32_t done = a->done + ends(s);
	bool changed = s->epoch != a->epoch || s->done != done;

	s->epoch = a->epoch;
	s->done = done;
	if (!s->begin_known && !(ops_of(s) & ROCEMU_OP_FIRST) && a->begin_known && !ends(a) &&
	    !s->hides && (ops_of(a) & KIND) == (ops_of(s) & KIND)) {
		s->begin_known = true;
		s->offset = a->offset + 1;
		s->reth_len = a->reth_len;
		check_reth(v, f, s);
		changed = true;
	}
	tail_update(&f->rq, s);
	return changed;
}

/* b is the next neighbour of a and inherits its state. */
static void link_behind(struct verify *v, struct flow *f, struct sent *a, struct sent *b)
{
	b->anchored = true;
	check_order(v, f, a, b);
	while (b != NULL && follow(v, f, a, b)) {
		a = b;
		b = behind(&f->rq, a);
	}
}

/* Find a new packet's place among its neighbours. */
static void settle(struct verify *v, struct flow *f, struct sent *s)
{
	struct requests *rq = &f->rq;
	struct sent *a = before(rq, s->psn), *b = behind(rq, s);

	if (a != NULL) {
		check_order(v, f, a, s);
		s->anchored = true;
		follow(v, f, a, s);
	} else if (b != NULL) {
		s->epoch = b->epoch;
		s->done = b->done - ends(b);
	} else {
		s->epoch = ++rq->epochs;
		s->done = ends(s);
	}
	if (b != NULL)
		link_behind(v, f, s, b);
}

struct sent *sent_add(struct verify *v, struct flow *f, const struct pkt *p, uint32_t span)
{
	const struct rocemu_hdrs *h = &p->p.h;
	struct sent *s = sent_place(v, &f->rq, h->psn);

	if (s == NULL) {
		v->out_of_memory = true;
		return NULL;
	}
	*s = (struct sent){
		.number = p->number,
		.ts_ns = p->rec->ts_ns,
		.psn = h->psn,
		.len = p->p.payload_len,
		.digest = digest(p),
		.whole = has_all(p),
		.hides = p->hides,
		.ip_ids = {p->rec->ip.ip_id},
		.opcode = h->opcode,
		.span = span,
		.copies = 1,
		.begin_known = (p->ops & ROCEMU_OP_FIRST) != 0 && has_all(p),
		.used = true,
	};
	if (pkt_has(p, ROCEMU_HDR_RETH))
		s->reth_len = h->reth.length;
	if (pkt_has(p, ROCEMU_HDR_XRCETH))
		s->srqn = h->xrceth.srqn;
	if (s->begin_known)
		check_reth(v, f, s);
	settle(v, f, s);
	if (span > 1)
		sent_span(v, f, s, span); /* the ring may move */
	return sent_find(&f->rq, h->psn);
}

void sent_span(struct verify *v, struct flow *f, struct sent *s, uint32_t span)
{
	uint32_t psn = s->psn, last = psn_add(psn, span - 1);
	struct sent tail, *place, *b;

	s->span = span;
	tail = *s;
	if (span > 1 && sent_find(&f->rq, last) == NULL) {
		place = sent_place(v, &f->rq, last);
		if (place == NULL) {
			v->out_of_memory = true;
			return;
		}
		tail.psn = last;
		tail.span = 1;
		tail.tail = true;
		*place = tail;
	}
	s = sent_find(&f->rq, psn);
	b = s != NULL ? behind(&f->rq, s) : NULL;
	if (b != NULL && !b->anchored)
		link_behind(v, f, s, b);
}
