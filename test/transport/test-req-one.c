/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One small message in one pass (req-one.c) against the general path: two requesters do the same,
 * but one makes single packets, which the general path makes. Packets, completions and state
 * are the same, whatever the answers are. Messages have one packet: of longer ones the general path
 * measures other packets if it makes one at a time.
 */
#include "req-bench.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "transport/peer.h"
#include "transport/qp.h"

enum { SEEDS = 300, STEPS = 200, MTU = 256, INLINE_MAX = 64 };

static const enum ibv_wr_opcode ops[] = {
	IBV_WR_SEND,	   IBV_WR_SEND,	      IBV_WR_SEND_WITH_IMM,	  IBV_WR_SEND_WITH_INV,
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
};

struct two {
	struct bench *b[2];
	int32_t answered; /* requests of the peer */
	unsigned at_once; /* messages that went out in the pass */
};

static void same_state(const struct two *t)
{
	const struct rocemu_qp *x = t->b[0]->qp, *y = t->b[1]->qp;

	assert_int_equal(x->state, y->state);
	assert_int_equal(x->sq.head, y->sq.head);
	assert_int_equal(x->sq.next, y->sq.next);
	assert_int_equal(x->sq.tail, y->sq.tail);
	assert_int_equal(x->req.acked_psn, y->req.acked_psn);
	assert_int_equal(x->req.send_psn, y->req.send_psn);
	assert_int_equal(x->req.next_psn, y->req.next_psn);
	assert_int_equal(x->req.cur, y->req.cur);
	assert_int_equal(x->req.since_ackreq, y->req.since_ackreq);
	assert_int_equal(x->req.inflight, y->req.inflight);
	assert_int_equal(x->req.rtt_valid, y->req.rtt_valid);
	assert_int_equal(x->req.rtt_psn, y->req.rtt_psn);
	assert_int_equal(x->req.rtt_at, y->req.rtt_at);
	assert_int_equal(x->req.srtt, y->req.srtt);
	assert_int_equal(x->timer.pos, y->timer.pos);
	assert_int_equal(x->timer.deadline, y->timer.deadline);
	if (x->req.peer)
		assert_int_equal(x->req.peer->inflight, y->req.peer->inflight);
	assert_memory_equal(&x->stats, &y->stats, sizeof(x->stats));
	assert_memory_equal(t->b[0]->ep->stats, t->b[1]->ep->stats, sizeof(*x->ep->stats));
}

/* Of what went out, the ACKs or the requests: where a call is for one packet, the ACK is first. */
static void only(bool acks, const char *from, char *to, size_t size)
{
	size_t used = 0;

	to[0] = '\0';
	while (*from) {
		const size_t len = strcspn(from, ";");

		if (!strncmp(from, "ACK", 3) == acks)
			used += (size_t)snprintf(to + used, size - used, "%.*s;", (int)len, from);
		from += len;
		from += strspn(from, "; ");
	}
}

static void same_packet(const struct rocemu_tx *x, const struct rocemu_tx *y)
{
	assert_int_equal(rocemu_tx_len(x), rocemu_tx_len(y));
	assert_memory_equal(x->hdr, y->hdr, x->hdr_len);
	assert_int_equal(x->own, y->own);
	assert_int_equal(x->niov, y->niov);
}

static void same_output(struct two *t)
{
	char out[sizeof(t->b[0]->out)], other[sizeof(out)];

	bench_out(t->b[0]);
	bench_out(t->b[1]);
	for (unsigned acks = 0; acks < 2; acks++) {
		only(acks, t->b[0]->out, out, sizeof(out));
		only(acks, t->b[1]->out, other, sizeof(other));
		assert_string_equal(out, other);
	}
	if (t->b[0]->last.hdr[0] == t->b[1]->last.hdr[0])
		same_packet(&t->b[0]->last, &t->b[1]->last);
	snprintf(out, sizeof(out), "%s", bench_done(t->b[0]));
	assert_string_equal(out, bench_done(t->b[1]));
	same_state(t);
}

static void post(struct two *t, struct rng *r)
{
	const enum ibv_wr_opcode op = ops[rng_below(r, ARRAY_LEN(ops))];
	const uint32_t len = rng_below(r, MTU + 1);
	unsigned flags = rng_below(r, 4) ? 0 : IBV_SEND_SOLICITED;
	const uint32_t imm = rng_u32(r);

	if (rng_below(r, 16) == 0)
		flags |= IBV_SEND_FENCE;
	if (len <= INLINE_MAX && op != IBV_WR_RDMA_READ && rng_below(r, 2))
		flags |= IBV_SEND_INLINE;
	for (unsigned i = 0; i < ARRAY_LEN(t->b); i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = bench_wr(t->b[i], op, 0, len, &sge);

		if (flags & IBV_SEND_INLINE)
			sge.addr = (uintptr_t)t->b[i]->buf;
		wr.send_flags = flags;
		wr.imm_data = imm;
		bench_post_wr(t->b[i], &wr);
	}
}

/* A request comes, which is to be acknowledged. */
static void request(struct two *t)
{
	const struct ibv_recv_wr recv = {.wr_id = 1000};
	const struct ibv_recv_wr *bad;

	for (unsigned i = 0; i < ARRAY_LEN(t->b); i++) {
		assert_int_equal(rocemu_qp_post_recv(t->b[i]->qp, t->b[i]->now, &recv, &bad), 0);
		/* Its PSNs begin at 0. */
		assert_int_equal(
			bench_answer(t->b[i], ROCEMU_RC_SEND_ONLY,
				     (int32_t)(ROCEMU_PSN_MASK + 1 - BENCH_PSN) + t->answered, 0,
				     NULL, 0),
			ROCEMU_DROP_NONE);
	}
	t->answered++;
}

static void answer(struct two *t, struct rng *r)
{
	static const uint8_t naks[] = {ROCEMU_NAK_PSN_SEQ, ROCEMU_AETH_RNR | 1};
	const struct qp_req *req = &t->b[0]->qp->req;
	const uint32_t out = (req->next_psn - req->acked_psn) & ROCEMU_PSN_MASK;
	const struct swqe *w = sq_wqe(&t->b[0]->qp->sq, t->b[0]->qp->sq.tail);
	const uint32_t nak = rng_below(r, 24);
	int32_t psn;

	if (!out)
		return;
	if (w->opcode == IBV_WR_RDMA_READ) {
		for (unsigned i = 0; i < ARRAY_LEN(t->b); i++)
			bench_read_resp(t->b[i], ROCEMU_RC_READ_RESP_ONLY,
					rocemu_psn_diff(w->first_psn, BENCH_PSN), 1, w->length);
		return;
	}
	psn = rocemu_psn_diff(req->acked_psn + (rng_below(r, 3) ? out - 1 : rng_below(r, out)),
			      BENCH_PSN);
	for (unsigned i = 0; i < ARRAY_LEN(t->b); i++)
		bench_answer(t->b[i], ROCEMU_RC_ACK, psn,
			     nak < ARRAY_LEN(naks) ? naks[nak]
						   : ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS,
			     NULL, 0);
}

static void step(struct two *t, struct rng *r)
{
	const uint32_t what = rng_below(r, 16), next = t->b[0]->qp->sq.next;

	if (what < 7 && t->b[0]->qp->sq.head - t->b[0]->qp->sq.tail < 60)
		post(t, r);
	else if (what < 10)
		request(t);
	else if (what < 15)
		answer(t, r);
	for (unsigned i = 0; i < ARRAY_LEN(t->b); i++)
		bench_wait(t->b[i], 1 + (what == 15 ? 2000000 : what * 100));
	if (rng_below(r, 4))
		same_output(t);
	t->at_once += t->b[0]->qp->sq.next - next == 1;
}

TEST(req_one, any_messages_and_answers__as_the_general_path)
{
	unsigned at_once = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct two t = {0};
		struct rng r;

		rng_init(&r, seed);
		for (unsigned i = 0; i < ARRAY_LEN(t.b); i++)
			t.b[i] = bench_new(&(struct bench_opts){
				.retry_cnt = 7,
				.rnr_retry = 7,
				.timeout = 18,
				.window = seed % 3 ? 0 : 4000,
			});
		t.b[1]->batch = 1;
		for (unsigned i = 0; i < STEPS && t.b[0]->qp->state == IBV_QPS_RTS; i++)
			step(&t, &r);
		at_once += t.at_once;
		for (unsigned i = 0; i < ARRAY_LEN(t.b); i++)
			bench_free(t.b[i]);
	}
	assert_true(at_once > 10 * SEEDS);
}

/* How much of it goes in the pass, for a program that waits for each answer. */
TEST(req_one, ping_pong__message_and_ack_in_one_call)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_tx tx[4];

	for (int32_t i = 0; i < 3; i++) {
		const struct ibv_recv_wr recv = {.wr_id = 1};
		const struct ibv_recv_wr *bad;

		assert_int_equal(rocemu_qp_post_recv(b->qp, b->now, &recv, &bad), 0);
		bench_answer(b, ROCEMU_RC_SEND_ONLY, (int32_t)(ROCEMU_PSN_MASK + 1 - BENCH_PSN) + i,
			     0, NULL, 0);
		bench_post(b, IBV_WR_SEND, 8);
		assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, ARRAY_LEN(tx)), 2);
		assert_int_equal(tx[0].hdr[0], ROCEMU_RC_SEND_ONLY);
		assert_int_equal(tx[1].hdr[0], ROCEMU_RC_ACK);
		assert_false(rocemu_ep_has_output(b->ep));
		bench_ack(b, i);
		assert_int_equal(b->qp->req.inflight, 0);
		assert_false(timer_running(&b->qp->timer));
	}
	bench_free(b);
}
