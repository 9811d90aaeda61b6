/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester whose peer answers at random: most answers match an outstanding request, in opcode or
 * PSN or both, but none is a responder's. Whatever comes, each request completes once and in order,
 * and the accounting of packets in flight is consistent.
 */
#include "req-bench.h"

#include <stdlib.h>

#include "base/rng.h"
#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/req-wqe.h"

enum { SEEDS = 1000, STEPS = 120 };

static const enum ibv_wr_opcode ops[] = {
	IBV_WR_SEND,	  IBV_WR_RDMA_WRITE,	       IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
};
static const enum rocemu_opcode answers[] = {
	ROCEMU_RC_ACK,
	ROCEMU_RC_ACK,
	ROCEMU_RC_READ_RESP_FIRST,
	ROCEMU_RC_READ_RESP_MIDDLE,
	ROCEMU_RC_READ_RESP_LAST,
	ROCEMU_RC_READ_RESP_ONLY,
	ROCEMU_RC_ATOMIC_ACK,
};

/** What lies in [acked_psn, send_psn), counted anew. */
static void books_check(const struct bench *b)
{
	const struct rocemu_qp *qp = b->qp;
	const struct qp_req *req = &qp->req;
	uint32_t psn = req->acked_psn, i = req->acked;
	uint64_t cost = 0;
	uint32_t fetches = 0;

	if (rocemu_qp_state(qp) != IBV_QPS_RTS) {
		assert_null(req->peer);
		assert_int_equal(qp->sq.tail, qp->sq.head);
		return;
	}
	while (psn != req->send_psn) {
		const struct swqe *w = sq_wqe(&qp->sq, i++);
		uint32_t from = swqe_pkt(w, psn);
		uint32_t left = (req->send_psn - psn) & ROCEMU_PSN_MASK;
		uint32_t to = MIN(w->npkts, from + left);

		cost += swqe_cost(req, w, w->npkts, from, to);
		if (swqe_expects_response(w))
			fetches += swqe_fetches_ended(req, w, from, to);
		psn = (psn + to - from) & ROCEMU_PSN_MASK;
	}
	assert_int_equal(req->inflight, cost);
	assert_int_equal(req->peer->inflight, cost);
	assert_int_equal(req->rd_atomic_out, fetches);
	assert_int_equal(req->acked_psn, qp->comp.una_psn);
	assert_int_equal(req->acked, qp->sq.tail);
	assert_true(rocemu_psn_diff(req->send_psn, req->acked_psn) >= 0);
	assert_true(rocemu_psn_diff(req->next_psn, req->send_psn) >= 0);
	assert_true(req->acked_psn == req->send_psn || req->rnr_wait || timer_running(&qp->timer));
}

static void done_check(struct bench *b, uint64_t *next)
{
	struct rocemu_cqe c;

	while (rocemu_cq_poll(b->cq, &c, 1))
		assert_int_equal(c.wr_id, ++*next);
}

/** Anything at all. */
static void answer_junk(struct bench *b, struct rng *r)
{
	const struct qp_req *req = &b->qp->req;
	uint32_t out = (req->next_psn - req->acked_psn) & ROCEMU_PSN_MASK;
	int32_t psn = rocemu_psn_diff(req->acked_psn + rng_below(r, out + 4) - 2, BENCH_PSN);
	enum rocemu_opcode op = answers[rng_below(r, ARRAY_LEN(answers))];

	if (rocemu_opcode_ops((uint8_t)op) & ROCEMU_OP_READ_RESP)
		bench_read_resp(b, op, psn, 0xee, rng_below(r, 4) ? 256 : rng_below(r, 300));
	else
		bench_answer(b, op, psn, (uint8_t)rng_u32(r), NULL, 0);
}

/** Of a response: packet pkt of its READ. */
static enum rocemu_opcode read_opcode(uint32_t pkt, bool last)
{
	if (!pkt)
		return last ? ROCEMU_RC_READ_RESP_ONLY : ROCEMU_RC_READ_RESP_FIRST;
	return last ? ROCEMU_RC_READ_RESP_LAST : ROCEMU_RC_READ_RESP_MIDDLE;
}

/** What the entry at tail waits for, or an ACK or a harmless NAK for any outstanding PSN. */
static void answer_fitting(struct bench *b, struct rng *r)
{
	static const uint8_t syndromes[] = {
		ROCEMU_AETH_NO_CREDITS, ROCEMU_AETH_NO_CREDITS, ROCEMU_AETH_NO_CREDITS,
		ROCEMU_NAK_PSN_SEQ,	ROCEMU_AETH_RNR | 1,
	};
	const struct qp_req *req = &b->qp->req;
	const struct swqe *w = sq_wqe(&b->qp->sq, b->qp->sq.tail);
	uint32_t out = (req->next_psn - req->acked_psn) & ROCEMU_PSN_MASK;
	int32_t una = rocemu_psn_diff(req->acked_psn, BENCH_PSN);
	uint32_t pkt;

	if (!out)
		return;
	pkt = swqe_pkt(w, req->acked_psn);
	if (swqe_expects_response(w) && rng_below(r, 4)) {
		bool last = swqe_read_end(req, w->npkts, pkt) == pkt + 1;

		if (swqe_is_atomic(w))
			bench_answer(b, ROCEMU_RC_ATOMIC_ACK, una, ROCEMU_AETH_ACK, NULL, 0);
		else
			bench_read_resp(b, read_opcode(pkt, last), una, 0xaa,
					swqe_bytes(req, w, w->npkts, pkt, pkt + 1));
	} else {
		bench_nak(b, una + (int32_t)rng_below(r, out),
			  syndromes[rng_below(r, ARRAY_LEN(syndromes))]);
	}
}

static void run_seed(uint64_t seed, unsigned *ended_well)
{
	struct rng r;
	struct bench *b;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	uint64_t done = 0;

	rng_init(&r, seed);
	b = bench_new(&(struct bench_opts){
		.window = rng_below(&r, 2) ? 1 + rng_below(&r, 20000) : 0,
		.rd_atomic = (uint8_t)(1 + rng_below(&r, 4)),
		.retry_cnt = 7,
		.rnr_retry = 7,
	});
	for (int i = 0; i < STEPS; i++) {
		if (rng_below(&r, 3) == 0 && b->next_wr - done < 64) {
			enum ibv_wr_opcode op = ops[rng_below(&r, ARRAY_LEN(ops))];

			bench_post(b, op,
				   op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : rng_below(&r, 12000));
		}
		if (rng_below(&r, 2))
			bench_out(b);
		else if (rng_below(&r, 8) == 0)
			answer_junk(b, &r);
		else
			for (unsigned n = rng_below(&r, 20); n; n--)
				answer_fitting(b, &r);
		if (rng_below(&r, 10) == 0)
			bench_wait(b, rng_below(&r, 20000));
		done_check(b, &done);
		books_check(b);
	}
	*ended_well += rocemu_qp_state(b->qp) == IBV_QPS_RTS;
	rocemu_qp_modify(b->qp, b->now, &err, IBV_QP_STATE);
	done_check(b, &done);
	assert_int_equal(done, b->next_wr);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	assert_int_equal(b->ep->peers.n, 0);
	bench_free(b);
}

TEST(comp_input, random_answers__books_balance)
{
	unsigned ended_well = 0;

	const char *given = getenv("ROCEMU_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : 1;
	unsigned n = given ? 1 : SEEDS;

	for (unsigned i = 0; i < n; i++) {
		print_message("seed %llu\n", (unsigned long long)(seed + i));
		run_seed(seed + i, &ended_well);
	}
	if (given)
		return;
	print_message("%u ended well\n", ended_well);
	/* Both kinds of end must be common. */
	assert_in_range(ended_well, SEEDS / 10, SEEDS - SEEDS / 10);
}
