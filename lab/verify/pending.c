/* SPDX-License-Identifier: BSD-2-Clause */
/* Tracks pending requests with an answer of their own: READs, atomics, FLUSH and ATOMIC WRITE.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { LEAST_MTU = 256, LEAST_ROOM = 4 };

uint32_t read_responses(uint32_t len, uint32_t mtu)
{
	return len <= mtu ? 1 : (uint32_t)(((uint64_t)len + mtu - 1) / mtu);
}

/* Room for one more, while there are few: most connections never have many at a time. */
static bool pending_grow(struct verify *v, struct requests *rq)
{
	uint32_t room = rq->pending_room != 0 ? rq->pending_room * 2 : LEAST_ROOM;
	uint32_t open = rq->open_read != NULL ? (uint32_t)(rq->open_read - rq->pending) : 0;
	struct pending *bigger = realloc(rq->pending, room * sizeof(*bigger));

	if (bigger == NULL)
		return false;
	v->sent_bytes += (room - rq->pending_room) * sizeof(*bigger);
	rq->pending = bigger;
	rq->pending_room = room;
	if (rq->open_read != NULL)
		rq->open_read = &rq->pending[open];
	return true;
}

struct pending *pending_add(struct verify *v, struct flow *f, const struct pkt *p, bool repeat)
{
	struct requests *rq = &f->rq;
	const struct rocemu_hdrs *h = &p->p.h;
	struct pending *a;

	if (rq->pending_n == rq->pending_room && rq->pending_room < MAX_PENDING &&
	    (rq->pending_room == 0 || v->sent_bytes < SENT_BYTES) && !pending_grow(v, rq)) {
		v->out_of_memory = true;
		return NULL;
	}
	if (rq->pending_n == rq->pending_room) {
		uint32_t half = rq->pending_room / 2;

		memmove(rq->pending, rq->pending + half, half * sizeof(*rq->pending));
		rq->pending_n = half;
		rq->open_read = NULL;
	}
	a = &rq->pending[rq->pending_n++];
	*a = (struct pending){
		.number = p->number,
		.psn = h->psn,
		.opcode = h->opcode,
		.repeat = repeat,
		.total = 1,
	};
	if (p->ops & ROCEMU_OP_READ_REQ && !pkt_has(p, ROCEMU_HDR_RETH)) {
		a->total = 0;
		return a;
	}
	if (p->ops & ROCEMU_OP_ATOMIC && !pkt_has(p, ROCEMU_HDR_ATOMICETH))
		return a;
	a->whole = true;
	if (p->ops & ROCEMU_OP_READ_REQ) {
		a->va = h->reth.va;
		a->rkey = h->reth.rkey;
		a->len = h->reth.length;
		a->total = f->mtu != 0		 ? read_responses(a->len, f->mtu)
			   : a->len <= LEAST_MTU ? 1
						 : 0;
	} else if (p->ops & ROCEMU_OP_ATOMIC) {
		a->va = h->atomiceth.va;
		a->rkey = h->atomiceth.rkey;
		a->swap_add = h->atomiceth.swap_add;
		a->compare = h->atomiceth.compare;
	}
	return a;
}

void request_mtu_known(struct verify *v, struct flow *f)
{
	struct requests *rq = &f->rq;
	struct sent *s;

	if (f->mtu == 0)
		return;
	for (uint32_t i = 0; i < rq->pending_n; i++) {
		struct pending *a = &rq->pending[i];

		if (!a->whole)
			continue;
		if (a->total == 0)
			a->total = read_responses(a->len, f->mtu);
		s = a->repeat ? NULL : sent_find(rq, a->psn);
		if (s != NULL && s->span == 0)
			sent_span(v, f, s, a->total);
	}
	if (rq->open_read == NULL || !rq->open_read->whole)
		return;
	rq->next = psn_add(rq->open_read->psn, rq->open_read->total);
	rq->next_open = false;
	rq->open_read = NULL;
}

void pending_settle_open(struct flow *f, uint32_t psn)
{
	struct requests *rq = &f->rq;
	struct pending *a = rq->open_read;

	if (!rq->next_open || rocemu_psn_diff(psn, rq->next) < 0)
		return;
	if (a != NULL && !a->whole)
		a->room = (uint32_t)rocemu_psn_diff(psn, a->psn);
	rq->next = psn;
	rq->next_open = false;
	rq->open_read = NULL;
}

struct pending *pending_original(const struct requests *rq, uint32_t psn)
{
	for (uint32_t i = 0; i < rq->pending_n; i++) {
		struct pending *a = &rq->pending[i];
		uint32_t n = a->total != 0 ? a->total : a->room != 0 ? a->room : 1;

		if (!a->repeat && (rocemu_opcode_ops(a->opcode) & ROCEMU_OP_READ_REQ) != 0 &&
		    rocemu_psn_diff(psn, a->psn) >= 0 &&
		    rocemu_psn_diff(psn, psn_add(a->psn, n)) < 0)
			return a;
	}
	return NULL;
}

bool read_elsewhere(const struct requests *rq, const struct pkt *p)
{
	const struct pending *o = pending_original(rq, p->p.h.psn);
	const struct rocemu_hdrs *h = &p->p.h;

	return o != NULL && o->psn == h->psn && o->whole && pkt_has(p, ROCEMU_HDR_RETH) &&
	       (h->reth.rkey != o->rkey || h->reth.va != o->va);
}

struct pending *read_again(struct verify *v, struct flow *f, const struct pkt *p)
{
	const struct pending *o = pending_original(&f->rq, p->p.h.psn);
	const struct rocemu_hdrs *h = &p->p.h;
	uint64_t skip;

	if (o != NULL && f->mtu != 0 && o->whole && pkt_has(p, ROCEMU_HDR_RETH)) {
		skip = (uint64_t)(uint32_t)rocemu_psn_diff(h->psn, o->psn) * f->mtu;
		if (h->reth.rkey != o->rkey || h->reth.va != o->va + skip ||
		    h->reth.length + skip > o->len ||
		    (skip == 0 && h->reth.length == 0 && o->len != 0))
			FOUND(v, f, READ_RESTART, p,
			      "PSN %u: %u bytes at 0x%" PRIx64
			      "; packet %s requested %u bytes at 0x%" PRIx64 " from PSN %u",
			      h->psn, h->reth.length, h->reth.va, packet_name(o->number), o->len,
			      o->va, o->psn);
	}
	return pending_add(v, f, p, true);
}
