/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP's requests and the ACK that it owes meanwhile: which of them goes out first. */
#include <string.h>

#include "req-bench.h"
#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"
#include "wire/opcode.h"

/* A request of the peer comes, for which an ACK is owed. */
static void receive_one(struct bench *b)
{
	const struct ibv_recv_wr wr = {.wr_id = 99};

	assert_int_equal(rocemu_qp_post_recv(b->qp, b->now, &wr, NULL), 0);
	assert_int_equal(bench_answer(b, ROCEMU_RC_SEND_ONLY, -(int32_t)BENCH_PSN, 0, NULL, 0),
			 ROCEMU_DROP_NONE);
}

TEST(req_ack, message_of_several_outputs__ack_after_its_last_packet)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	const char *out;

	receive_one(b);
	bench_post(b, IBV_WR_SEND, 100 * 256);
	b->batch = 16;
	out = bench_out(b);
	assert_non_null(strstr(out, "SEND_LAST 99 A; ACK 2"));
	assert_string_equal(strstr(out, "ACK"), "ACK 2");
	bench_free(b);
}

TEST(req_ack, window_full__ack_does_not_wait_for_it)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 3 * (256 + 512)});

	receive_one(b);
	bench_post(b, IBV_WR_SEND, 5 * 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1; SEND_MIDDLE 2 A; ACK 2");
	bench_free(b);
}

TEST(req_ack, very_long_message__ack_within_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	const char *ack;

	b->qp->req.peer->cc.cwnd = UINT32_MAX;
	receive_one(b);
	bench_post(b, IBV_WR_SEND, 400 * 256);
	ack = strstr(bench_out(b), "ACK 2; SEND_MIDDLE");
	assert_non_null(ack);
	bench_free(b);
}

/* ---- a message that completes a receive is not ahead of the ACK ---- */

enum { MSG = 256, COST = 256 + 512, ANY = UINT32_MAX };

/** What a program posts: a WRITE, messages that complete receives, a WRITE. */
struct answer {
	unsigned before, after; /* packets of the WRITEs; 0: none */
	enum ibv_wr_opcode op;
	unsigned n, packets; /* messages, and of each */
};

/** Under which it goes out. */
struct conditions {
	unsigned batch;	   /* descriptors of an output call */
	uint32_t window;   /* packets */
	unsigned others;   /* packets of another QP, first in the first call */
	unsigned ack_from; /* the call before which the ACK becomes due */
};

static void post_answer(struct bench *b, const struct answer *a)
{
	if (a->before)
		bench_post(b, IBV_WR_RDMA_WRITE, a->before * MSG);
	for (unsigned i = 0; i < a->n; i++)
		bench_post(b, a->op, a->packets * MSG);
	if (a->after)
		bench_post(b, IBV_WR_RDMA_WRITE, a->after * MSG);
}

static void post_others(struct bench *b, unsigned packets)
{
	struct rocemu_qp *qp = b->qp;

	b->qp = bench_qp(b, &(struct bench_opts){0});
	bench_post(b, IBV_WR_RDMA_WRITE, packets * MSG);
	b->qp = qp;
}

/** One output call. @return packets of b->qp; *ack: one is the ACK, *ends: one ends a receive. */
static unsigned output_call(struct bench *b, unsigned batch, bool *ack, bool *ends)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	const unsigned n = rocemu_ep_output(b->ep, b->now, tx, batch);
	unsigned own = 0;

	*ack = *ends = false;
	for (unsigned i = 0; i < n; i++) {
		if (tx[i].lqpn != rocemu_qp_num(b->qp))
			continue;
		own++;
		*ack |= tx[i].hdr[0] == ROCEMU_RC_ACK;
		*ends |= opcode_ends_receive(tx[i].hdr[0]);
	}
	return own;
}

/* The order within a call is txgroup_order()'s. */
static void check_order(const struct answer *a, const struct conditions *c)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	bool due = false, done = false;

	b->qp->req.peer->cc.cwnd = c->window == ANY ? ANY : c->window * COST;
	if (c->others)
		post_others(b, c->others);
	post_answer(b, a);
	for (unsigned call = 0; rocemu_ep_has_output(b->ep) || b->qp->req.inflight; call++) {
		bool ack, ends;
		unsigned n;

		if (call == c->ack_from) {
			receive_one(b);
			due = true;
		}
		n = output_call(b, c->batch, &ack, &ends);
		done |= ack;
		if (due && !done && ends)
			fail_msg("WRITE %u, %u of %u, WRITE %u; batch %u, window %u, others %u, "
				 "ACK due in call %u: a receive ends in call %u, before the ACK",
				 a->before, a->n, a->packets, a->after, c->batch, c->window,
				 c->others, c->ack_from, call);
		if (!n && b->qp->req.inflight)
			bench_ack(b, rocemu_psn_diff(b->qp->req.send_psn, BENCH_PSN) - 1);
		assert_true(call < 2000);
	}
	assert_true(done || !due);
	bench_free(b);
}

static void check_all(const struct answer *a)
{
	static const unsigned batches[] = {1, 2, 5, 16, ROCEMU_OUTPUT_BATCH};
	static const uint32_t windows[] = {3, 40, ANY};
	static const unsigned others[] = {0, 1, 119, 120, 125, 126, 127};

	for (unsigned i = 0; i < ARRAY_LEN(batches); i++)
		for (unsigned k = 0; k < ARRAY_LEN(windows); k++)
			for (unsigned m = 0; m < ARRAY_LEN(others); m++)
				for (unsigned call = 0; call < 3; call++)
					check_order(a, &(struct conditions){batches[i], windows[k],
									    others[m], call});
}

TEST(req_ack, receive_ends_before_a_long_write__ack_in_that_call)
{
	check_all(&(struct answer){0, 400, IBV_WR_SEND, 1, 1});
	check_all(&(struct answer){1, 400, IBV_WR_SEND, 1, 1});
	check_all(&(struct answer){1, 400, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 3});
	check_all(&(struct answer){8, 400, IBV_WR_SEND, 8, 1});
}

/* ... and as the last packets that have room in it. */
TEST(req_ack, receive_ends_with_a_full_call__ack_in_that_call)
{
	for (unsigned before = 117; before <= 128; before++) {
		check_all(&(struct answer){before, 0, IBV_WR_SEND, 1, 1});
		check_all(&(struct answer){before, 400, IBV_WR_SEND, 1, 1});
		check_all(&(struct answer){before, 0, IBV_WR_SEND, 60, 1});
	}
}

TEST(req_ack, receives_end_in_many_calls__ack_with_the_first)
{
	check_all(&(struct answer){0, 0, IBV_WR_SEND, 2, 256});
	check_all(&(struct answer){1, 300, IBV_WR_SEND, 60, 5});
}
