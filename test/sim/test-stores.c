/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which instruction accesses which bytes of the program's memory, at both ends of each operation:
 * aligned words are read and written as a whole, each byte is written once, and the last bytes of a
 * message last. The source changes with each instruction, so the bytes that arrive show when they
 * were read.
 */
#include <string.h>
#include <unistd.h>

#include "duo.h"
#include "steps.h"

enum { MTU = 256, MARGIN = 64, MOST = 3 * MTU, ALL = MARGIN + MOST + MARGIN };

/* Shared with the child. */
struct memory {
	_Alignas(64) uint8_t source[ALL], target[ALL];
};

struct shape {
	size_t source, target; /* offsets, from MARGIN */
	size_t len;
	size_t sge;    /* length of the first of two SGEs; 0: there is one */
	uint64_t lost; /* packets of both directions */
};

struct run {
	struct sim *s;
	struct sim_qp *qp;
	struct sim_wr wr;
	struct memory *m;
	struct shape shape;
	bool only_words; /* the order of stores is the network's */
	unsigned step;
	unsigned stored[ALL]; /* the step at which a byte was stored; 0: not */
	uint8_t value[ALL];   /* which one */
	unsigned last;	      /* the step of the last store */
};

static void work(void *arg)
{
	struct run *r = arg;

	if (sim_post(r->qp, &r->wr))
		_exit(1);
	sim_run(r->s);
	if (!r->qp->sq.good)
		_exit(1);
}

static void seen(void *arg)
{
	static const uint8_t none[ALL];
	struct run *r = arg;

	memset(r->m->source, (int)(++r->step % 255 + 1), ALL);
	if (!memcmp(r->m->target, none, ALL))
		return;
	for (size_t i = 0; i < ALL; i++) {
		if (!r->m->target[i])
			continue;
		if (r->stored[i])
			fail_msg("the byte at %zu is stored again", i);
		r->stored[i] = r->last = r->step;
		r->value[i] = r->m->target[i];
		r->m->target[i] = 0;
	}
}

/** The word lies in one packet and one SGE. */
static bool is_one(const struct run *r, size_t from, size_t word)
{
	const size_t last = from + word - 1;

	return from / MTU == last / MTU && (from < r->shape.sge) == (last < r->shape.sge);
}

/** Of the message that begins at begin of the source or the target. */
static void assert_words_whole(const struct run *r, size_t begin, bool source)
{
	const size_t to = MARGIN + r->shape.target, end = begin + r->shape.len;

	for (size_t word = 2; word <= 8; word *= 2) {
		for (size_t at = (begin + word - 1) / word * word; at + word <= end; at += word) {
			const size_t from = at - begin;

			for (size_t i = from + 1; is_one(r, from, word) && i < from + word; i++) {
				if (source ? r->value[to + i] != r->value[to + from]
					   : r->stored[to + i] != r->stored[to + from])
					fail_msg("%zu bytes from %zu to %zu: of the %s, the word "
						 "of %zu at %zu is accessed in parts",
						 r->shape.len, r->shape.source, r->shape.target,
						 source ? "source" : "target", word, from);
			}
		}
	}
}

static void check(struct run *r)
{
	const size_t to = MARGIN + r->shape.target, end = to + r->shape.len;
	const size_t from = r->qp->type == IBV_QPT_UD ? to - sizeof(struct ibv_grh) : to;

	steps_run(work, seen, r);
	for (size_t i = 0; i < ALL; i++)
		if (i < from || i >= to)
			assert_int_equal(r->stored[i] != 0, i >= to && i < end);
	assert_words_whole(r, to, false);
	assert_words_whole(r, MARGIN + r->shape.source, true);
	if (!r->only_words)
		assert_int_equal(r->stored[end - 1], r->last);
}

static void region(struct sim *s, unsigned node, struct sim_mem *m, uint8_t *mem)
{
	*m = (struct sim_mem){.buf = mem, .iova = (uintptr_t)mem, .len = ALL};
	assert_int_equal(rocemu_mr_reg(s->node[node].pd, mem, ALL, m->iova, SIM_ACCESS_ALL, &m->mr),
			 0);
}

static void local(struct run *r, const struct sim_mem *m, size_t off)
{
	const size_t len = r->shape.len, first = r->shape.sge ? r->shape.sge : len;

	sim_wr_local(&r->wr, m, (uint32_t)(MARGIN + off), (uint32_t)first);
	if (first < len)
		sim_wr_local(&r->wr, m, (uint32_t)(MARGIN + off + first), (uint32_t)(len - first));
}

static void receive(struct run *r, struct sim_qp *qp, const struct sim_mem *m)
{
	const size_t grh = qp->type == IBV_QPT_UD ? sizeof(struct ibv_grh) : 0;

	assert_int_equal(sim_post_recv(qp, m, (uint32_t)(MARGIN + r->shape.target - grh),
				       (uint32_t)(r->shape.len + grh)),
			 0);
}

static void run(struct memory *m, const struct shape *shape, enum ibv_qp_type type,
		enum ibv_wr_opcode opcode, unsigned flags)
{
	struct sim_config cfg = {.name = "words", .seed = 1, .loss_mask = shape->lost};
	const bool reads = opcode == IBV_WR_RDMA_READ, sends = opcode == IBV_WR_SEND;
	struct run r = {.m = m, .shape = *shape, .only_words = reads && shape->lost};
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem source, target;
	struct duo d;

	o.type = type;
	d = duo_of(&cfg, &o);
	r.s = d.s;
	r.qp = d.a;
	r.wr = sim_wr(opcode, IBV_SEND_SIGNALED | flags);
	region(d.s, reads, &source, m->source);
	region(d.s, !reads, &target, m->target);
	local(&r, reads ? &target : &source, reads ? shape->target : shape->source);
	if (sends)
		receive(&r, d.b, &target);
	else
		sim_wr_remote(&r.wr, reads ? &source : &target,
			      (uint32_t)(MARGIN + (reads ? shape->source : shape->target)));
	check(&r);
	rocemu_mr_dereg(source.mr);
	rocemu_mr_dereg(target.mr);
	sim_free(d.s);
}

static void each_shape(enum ibv_qp_type type, enum ibv_wr_opcode opcode, unsigned flags)
{
	static const struct shape SHAPES[] = {
		{.source = 4, .target = 4, .len = 4},
		{.source = 6, .target = 2, .len = 2},
		{.source = 3, .target = 0, .len = 12},
		{.source = 0, .target = 5, .len = 27},
		{.source = 4, .target = 0, .len = 100},
		{.source = 1, .target = 4, .len = 600},
		{.source = 8, .target = 1, .len = 600, .sge = 301},
		{.source = 0, .target = 0, .len = 768, .lost = 1},
		{.source = 2, .target = 6, .len = 700, .lost = 1 << 1},
	};
	struct memory *m = steps_memory(sizeof(*m));

	for (size_t i = 0; i < sizeof(SHAPES) / sizeof(SHAPES[0]); i++) {
		const struct shape *s = &SHAPES[i];

		if ((s->lost && type != IBV_QPT_RC) || (s->len > MTU && type == IBV_QPT_UD) ||
		    (s->len > ROCEMU_MAX_INLINE && (flags & IBV_SEND_INLINE)))
			continue;
		run(m, s, type, opcode, flags);
	}
}

TEST(words, rc_write)
{
	each_shape(IBV_QPT_RC, IBV_WR_RDMA_WRITE, 0);
}

TEST(words, rc_write_inline)
{
	each_shape(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
}

TEST(words, rc_read)
{
	each_shape(IBV_QPT_RC, IBV_WR_RDMA_READ, 0);
}

TEST(words, rc_send)
{
	each_shape(IBV_QPT_RC, IBV_WR_SEND, 0);
}

TEST(words, uc_write)
{
	each_shape(IBV_QPT_UC, IBV_WR_RDMA_WRITE, 0);
}

TEST(words, ud_send)
{
	each_shape(IBV_QPT_UD, IBV_WR_SEND, 0);
}
