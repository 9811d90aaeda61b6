/* SPDX-License-Identifier: BSD-2-Clause */
/* See op.h. */
#include "op.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

const char *op_text(enum op_kind kind)
{
	static const char *const text[] = {
#define X(name, t) [OP_##name] = t,
		OPS(X)
#undef X
	};

	return text[kind];
}

static enum ibv_wr_opcode wr_opcode(enum op_kind kind)
{
	switch (kind) {
	case OP_SEND_IMM:
		return IBV_WR_SEND_WITH_IMM;
	case OP_WRITE:
	case OP_WRITE_INLINE:
		return IBV_WR_RDMA_WRITE;
	case OP_WRITE_IMM:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	case OP_READ:
		return IBV_WR_RDMA_READ;
	case OP_CAS:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	case OP_FAA:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case OP_ATOMIC_WRITE:
		return (enum ibv_wr_opcode)ROCEMU_WR_ATOMIC_WRITE;
	case OP_FLUSH:
		return (enum ibv_wr_opcode)ROCEMU_WR_FLUSH;
	default:
		return IBV_WR_SEND;
	}
}

bool op_needs_recv(enum op_kind kind)
{
	return kind == OP_SEND || kind == OP_SEND_IMM || kind == OP_SEND_INLINE ||
	       kind == OP_WRITE_IMM;
}

static bool is_send(enum op_kind kind)
{
	return op_needs_recv(kind) && kind != OP_WRITE_IMM;
}

void op_way_init(struct op_way *w, struct sim_qp *from, struct sim_qp *to, uint32_t bytes)
{
	*w = (struct op_way){.from = from, .to = to};
	w->local = sim_mem_new(from->sim, from->node->index, bytes, SIM_ACCESS_ALL);
	w->remote = sim_mem_new(to->sim, to->node->index, bytes, SIM_ACCESS_ALL);
}

void op_way_fini(struct op_way *w)
{
	free(w->todo);
}

static struct sim_recv_todo *todo_add(struct op_way *w)
{
	if (w->todo_len == w->todo_size) {
		w->todo_size = w->todo_size ? 2 * w->todo_size : 64;
		w->todo = realloc(w->todo, w->todo_size * sizeof(*w->todo));
		if (!w->todo)
			abort();
	}
	return &w->todo[w->todo_len++];
}

/** Spread [off, off+len) over n SGEs of sizes that are nothing in particular. */
static void add_sges(struct sim_wr *wr, struct rng *rng, const struct sim_mem *m, uint32_t off,
		     uint32_t len, unsigned n)
{
	while (n-- > 1) {
		uint32_t part = rng_below(rng, len + 1);

		sim_wr_local(wr, m, off, part);
		off += part;
		len -= part;
	}
	sim_wr_local(wr, m, off, len);
}

static void prepare_atomic(struct op_way *w, const struct op *o, struct sim_wr *wr, uint32_t off,
			   uint32_t roff)
{
	struct rng *rng = &w->from->sim->rng;
	uint64_t old = sim_mem_u64(w->remote, roff), swap = rng_u64(rng), arg = rng_u64(rng),
		 new = old + arg;

	if (o->kind == OP_CAS) {
		if (rng_chance(rng, 0.5))
			arg = old;
		new = arg == old ? swap : old;
	}
	wr->wr.wr.atomic.compare_add = arg;
	wr->wr.wr.atomic.swap = swap;
	sim_want_u64(w->local, off, old);
	sim_want_u64(w->remote, roff, new);
}

static void note_recv(struct op_way *w, const struct op *o, const struct sim_wr *wr, uint32_t roff,
		      uint32_t room)
{
	bool has_imm = o->kind == OP_SEND_IMM || o->kind == OP_WRITE_IMM;

	*todo_add(w) = (struct sim_recv_todo){
		.off = roff,
		.len = room,
		.message = o->len,
		.opcode = o->kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.has_imm = has_imm,
		.imm = has_imm ? ntohl(wr->wr.imm_data) : 0,
	};
}

bool op_post(struct op_way *w, const struct op *o)
{
	struct sim *s = w->from->sim;
	bool atomic = o->kind == OP_CAS || o->kind == OP_FAA;
	bool flush = o->kind == OP_FLUSH, word = atomic || o->kind == OP_ATOMIC_WRITE;
	bool inl = o->kind == OP_SEND_INLINE || o->kind == OP_WRITE_INLINE;
	uint32_t len = word ? 8 : o->len, room = len + rng_below(&s->rng, 64);
	uint32_t lused = w->local->used, rused = w->remote->used;
	uint32_t off = sim_mem_take(w->local, len), roff = sim_mem_take(w->remote, room);
	struct sim_wr wr = sim_wr(wr_opcode(o->kind), o->flags | (inl ? IBV_SEND_INLINE : 0));
	struct rng before = s->rng;
	int rc;

	wr.wr.imm_data = rng_u32(&s->rng);
	if (flush)
		wr.wr.invalidate_rkey = ROCEMU_FLUSH_GLOBAL | ROCEMU_FLUSH_RANGE
								      << ROCEMU_FETH_LEVEL_SHIFT;
	add_sges(&wr, &s->rng, w->local, off, len, atomic || flush ? 1 : o->nsge);
	if (!is_send(o->kind))
		sim_wr_remote(&wr, w->remote, roff);
	if (atomic)
		prepare_atomic(w, o, &wr, off, roff);
	rc = sim_post(w->from, &wr);
	if (rc == -ENOMEM) {
		s->rng = before;
		w->local->used = lused;
		w->remote->used = rused;
		if (atomic) {
			sim_want_any(w->local, off, 8);
			sim_want_any(w->remote, roff, 8);
		}
		return false;
	}
	if (rc != 0)
		sim_fail(s, "post of %s, %u bytes in %u pieces: %d", op_text(o->kind), len, o->nsge,
			 rc);
	w->posted++;
	if (o->kind == OP_READ)
		sim_want_copy(w->local, off, w->remote, roff, len);
	else if (!atomic && !flush)
		sim_want_copy(w->remote, roff, w->local, off, len);
	if (op_needs_recv(o->kind))
		note_recv(w, o, &wr, roff, room);
	/* Inline data was copied by the post: its owner may change it at once. */
	if (inl)
		for (uint32_t i = 0; i < len; i++)
			w->local->buf[off + i] = w->local->want[off + i] =
				(uint8_t)~w->local->buf[off + i];
	return true;
}

void op_post_recvs(struct op_way *w, size_t n)
{
	while (n-- && w->todo_next < w->todo_len) {
		const struct sim_recv_todo *t = &w->todo[w->todo_next];
		/* A WRITE with immediate consumes a receive but not its buffer. */
		struct sim_srq *srq = w->to->srq;
		struct sim_ledger *l = srq ? &srq->rq : &w->to->rq;
		int rc = srq ? sim_srq_post(srq, w->remote, t->off, t->len)
			     : sim_post_recv(w->to, w->remote, t->off, t->len);
		struct sim_done *e;

		if (rc == -ENOMEM)
			return;
		sim_assert(w->to->sim, rc == 0);
		e = &l->e[l->n - 1];
		e->opcode = t->opcode;
		e->want_len = t->message;
		e->want_imm = t->has_imm;
		e->imm = t->imm;
		w->todo_next++;
	}
}
