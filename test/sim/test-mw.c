/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows as storage protocols use them, over a network that loses packets: B binds a window
 * and sends its key; A writes through it and answers with SEND with invalidate. As soon as B has
 * that, it binds the window again under the same key, so that whatever of A's comes twice and is
 * executed twice would be seen: a WRITE would change memory, an invalidate would unbind.
 */
#include <string.h>

#include "masked.h"
#include "test.h"

enum { ROUNDS = 3, RETRIES = 7, STEP_NS = 10000, ROUND_MEM = 4096 };

struct exchange {
	struct sim *s;
	struct sim_pair p;
	struct sim_mem *ma, *mb, *part; /* part: where windows are bound to, each ROUND_MEM */
	struct rocemu_mw *mw[ROUNDS];
	uint32_t write_len, answer_len;
	unsigned answered, rebound;
};

static void post_bind(struct exchange *x, unsigned i)
{
	struct sim_wr w = sim_wr(IBV_WR_BIND_MW, IBV_SEND_SIGNALED);
	struct ibv_mw mw = {.rkey = rocemu_mw_rkey(x->mw[i])};
	struct ibv_mr mr = {.lkey = rocemu_mr_lkey(x->part->mr)};

	w.wr.bind_mw.mw = &mw;
	w.wr.bind_mw.rkey = mw.rkey;
	w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){&mr, x->part->iova + i * ROUND_MEM,
							   ROUND_MEM, IBV_ACCESS_REMOTE_WRITE};
	sim_assert(x->s, sim_post(x->p.b, &w) == 0);
}

/** A has the key of round i: data, then the answer that takes the key away. */
static void answer(struct exchange *x, unsigned i)
{
	uint32_t off = i * ROUND_MEM, key = rocemu_mw_rkey(x->mw[i]);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);

	sim_wr_local(&w, x->ma, off, x->write_len);
	sim_wr_remote(&w, x->part, off);
	w.wr.wr.rdma.rkey = key;
	sim_want_copy(x->part, off, x->ma, off, x->write_len);
	sim_assert(x->s, sim_post(x->p.a, &w) == 0);

	w = sim_wr(IBV_WR_SEND_WITH_INV, IBV_SEND_SIGNALED);
	sim_wr_local(&w, x->ma, off, x->answer_len);
	w.wr.invalidate_rkey = key;
	sim_want_copy(x->mb, off, x->ma, off, x->answer_len);
	sim_assert(x->s, sim_post(x->p.a, &w) == 0);
}

static bool received(const struct sim_qp *q, unsigned i)
{
	return q->rq.e[i].done && q->rq.e[i].cqe.status == IBV_WC_SUCCESS;
}

/** What the two programs do about what has come. @return true: something. */
static bool react(struct exchange *x)
{
	unsigned before = x->answered + x->rebound;

	while (x->answered < ROUNDS && received(x->p.a, x->answered))
		answer(x, x->answered++);
	while (x->rebound < ROUNDS && received(x->p.b, x->rebound)) {
		const struct rocemu_cqe *c = &x->p.b->rq.e[x->rebound].cqe;

		sim_assert(x->s, c->wc_flags == IBV_WC_WITH_INV);
		sim_assert(x->s, c->imm == rocemu_mw_rkey(x->mw[x->rebound]));
		sim_assert(x->s, c->byte_len == x->answer_len);
		post_bind(x, x->rebound++);
	}
	return x->answered + x->rebound != before;
}

static void begin(struct exchange *x)
{
	x->ma = sim_mem_new(x->s, 0, 2 * ROUNDS * ROUND_MEM, SIM_ACCESS_ALL);
	x->mb = sim_mem_new(x->s, 1, ROUNDS * ROUND_MEM, SIM_ACCESS_ALL);
	x->part = sim_mem_new(x->s, 1, ROUNDS * ROUND_MEM,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint32_t off = i * ROUND_MEM;
		uint32_t advert = ROUNDS * ROUND_MEM + off;

		sim_assert(x->s, rocemu_mw_new(x->p.b->node->pd, IBV_MW_TYPE_2, &x->mw[i]) == 0);
		sim_recv(x->p.a, x->ma, advert, 64);
		sim_recv(x->p.b, x->mb, off, ROUND_MEM);
		post_bind(x, i);
		sim_send(x->p.b, x->part, off + ROUND_MEM - 64, 64);
		sim_want_copy(x->ma, advert, x->part, off + ROUND_MEM - 64, 64);
	}
}

static void free_windows(struct exchange *x)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		rocemu_mw_free(x->mw[i]);
}

/** Eight losses of one direction are one more than seven retries survive. */
static bool gave_up(const struct exchange *x, uint64_t mask)
{
	return mask == 0xff && !(sim_all_good(x->p.a) && sim_all_good(x->p.b));
}

static void run(struct exchange *x, uint64_t mask)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.retry_cnt = RETRIES;
	o.psn = 0xfffffe;
	x->p = sim_connect(x->s, 0, 1, &o);
	begin(x);
	do {
		sim_run_for(x->s, STEP_NS);
	} while (react(x) || !sim_quiescent(x->s));
	if (gave_up(x, mask)) {
		free_windows(x);
		sim_free(x->s);
		return;
	}
	sim_assert(x->s, sim_all_good(x->p.a) && sim_all_good(x->p.b));
	sim_assert(x->s, x->rebound == ROUNDS);
	/* All were bound again, and none was unbound by what came late. */
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sim_wr w = sim_wr(IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED);

		w.wr.invalidate_rkey = rocemu_mw_rkey(x->mw[i]);
		sim_assert(x->s, sim_post(x->p.b, &w) == 0);
	}
	sim_run(x->s);
	sim_assert(x->s, sim_all_good(x->p.b));
	free_windows(x);
	sim_end(x->s);
}

static void run_mask(const char *name, uint32_t write_len, uint32_t answer_len, enum direction dir,
		     unsigned mask)
{
	struct exchange x = {.write_len = write_len, .answer_len = answer_len};

	x.s = masked_new(name, dir, mask);
	run(&x, mask);
}

static void all_masks(const char *name, uint32_t write_len, uint32_t answer_len)
{
	for (enum direction dir = FORWARD; dir <= BOTH; dir++)
		for (unsigned mask = 0; mask < 256; mask++)
			run_mask(name, write_len, answer_len, dir, mask);
}

TEST(send_inv, first_8_packets_lost_in_any_pattern__invalidated_once)
{
	all_masks("send-inv", 8, 100);
}

TEST(send_inv, of_nothing_first_8_packets_lost_in_any_pattern__invalidated_once)
{
	all_masks("send-inv-of-nothing", 0, 0);
}

TEST(send_inv, of_3_packets_first_8_packets_lost_in_any_pattern__invalidated_once)
{
	all_masks("send-inv-of-3-packets", 300, 700);
}

TEST(send_inv, lossy_duplicating_reordering_network__invalidated_once)
{
	for (unsigned seed = 1; seed <= 200; seed++) {
		struct sim_config cfg = {
			.name = "send-inv-random",
			.seed = seed,
			.link = {.delay_ns = 5 * SIM_US, .loss = 0.05, .dup = 0.2, .reorder = 0.2},
		};
		struct exchange x = {.write_len = 1000, .answer_len = 600};

		x.s = sim_new(&cfg);
		x.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
		run(&x, 0);
	}
}
