/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every operation of RC and XRC under every loss mask over the first 8 packets: of the forward
 * direction, of the reverse direction, and of both counted together. Three operations of a kind are
 * posted back to back, so that a loss also meets what its neighbours have under way.
 */
#include "masked.h"
#include "op.h"
#include "test.h"

enum { POSTED = 3, RETRIES = 7 };

/** Eight losses are one more than seven retries survive when each try is one packet. */
static bool may_give_up(unsigned mask)
{
	return mask == 0xff;
}

static void run_mask(const char *name, enum ibv_qp_type type, const struct op *o,
		     enum direction dir, unsigned mask)
{
	struct sim *s = masked_new(name, dir, mask);
	struct sim_qp_opts opts = SIM_QP_OPTS;
	struct sim_pair p;
	struct op_way w;

	opts.type = type;
	opts.retry_cnt = RETRIES;
	opts.depth = 16;
	opts.psn = 0xfffffe; /* wraps within the run */
	p = sim_connect(s, 0, 1, &opts);
	op_way_init(&w, p.a, p.b, 16384);
	for (int i = 0; i < POSTED; i++)
		sim_assert(s, op_post(&w, o));
	op_post_recvs(&w, POSTED);
	sim_run(s);
	op_way_fini(&w);
	if (may_give_up(mask) && !sim_all_good(p.a)) {
		sim_assert(s, sim_quiescent(s));
		sim_assert(s, p.a->sq.e[p.a->sq.good].cqe.status == IBV_WC_RETRY_EXC_ERR);
		sim_free(s);
		return;
	}
	sim_assert(s, sim_all_good(p.a) && sim_all_good(p.b));
	if (p.b->srq)
		sim_assert(s, p.b->srq->rq.good == p.b->srq->rq.n);
	sim_end(s);
}

static void all_masks(const char *name, enum ibv_qp_type type, struct op o)
{
	const unsigned step = TEST_SANITIZED ? 5 : 1; /* 255 is a multiple of both */

	o.flags |= IBV_SEND_SIGNALED;
	if (o.nsge == 0)
		o.nsge = 1;
	for (enum direction dir = FORWARD; dir <= BOTH; dir++)
		for (unsigned mask = 0; mask < 256; mask += step)
			run_mask(name, type, &o, dir, mask);
}

/* clang-format off */
#define MASK_TEST(subject, ...)                                                                    \
	TEST(subject, first_8_packets_lost_in_any_pattern__exactly_once)                           \
	{                                                                                          \
		all_masks(#subject, IBV_QPT_RC, (struct op){__VA_ARGS__});                         \
	}                                                                                          \
                                                                                                   \
	TEST(xrc_##subject, first_8_packets_lost_in_any_pattern__exactly_once)                     \
	{                                                                                          \
		all_masks("xrc_" #subject, IBV_QPT_XRC_SEND, (struct op){__VA_ARGS__});            \
	}

MASK_TEST(send,                     OP_SEND, 100)
MASK_TEST(send_of_nothing,          OP_SEND, 0)
MASK_TEST(send_of_3_packets,        OP_SEND, 700)
MASK_TEST(send_of_4_sges,           OP_SEND, 513, 4)
MASK_TEST(send_inline,              OP_SEND_INLINE, 77)
MASK_TEST(send_inline_of_2_packets, OP_SEND_INLINE, 511, 3)
MASK_TEST(send_imm,                 OP_SEND_IMM, 256)
MASK_TEST(send_imm_of_3_packets,    OP_SEND_IMM, 768)
MASK_TEST(write,                    OP_WRITE, 1)
MASK_TEST(write_of_nothing,         OP_WRITE, 0)
MASK_TEST(write_of_3_packets,       OP_WRITE, 513)
MASK_TEST(write_of_4_sges,          OP_WRITE, 999, 4)
MASK_TEST(write_inline,             OP_WRITE_INLINE, 300, 2)
MASK_TEST(write_imm,                OP_WRITE_IMM, 255)
MASK_TEST(write_imm_of_nothing,     OP_WRITE_IMM, 0)
MASK_TEST(write_imm_of_3_packets,   OP_WRITE_IMM, 600)
MASK_TEST(read,                     OP_READ, 100)
MASK_TEST(read_of_nothing,          OP_READ, 0)
MASK_TEST(read_of_3_packets,        OP_READ, 700)
MASK_TEST(read_into_4_sges,         OP_READ, 1025, 4)
MASK_TEST(compare_and_swap,         OP_CAS)
MASK_TEST(fetch_and_add,            OP_FAA)
MASK_TEST(atomic_write,             OP_ATOMIC_WRITE)
MASK_TEST(flush,                    OP_FLUSH, 100)
/* clang-format on */
