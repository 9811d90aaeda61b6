/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that make no packet (bind, local invalidate) among those that do: executed once, in
 * their turn, and completed in the order of posting, whatever is lost and sent again meanwhile.
 */
#include "req-bench.h"

#include <stdio.h>
#include <string.h>

#include "transport/qp.h"

struct fixture {
	struct bench *b;
	struct rocemu_mr *mr;
	struct rocemu_mw *mw;
};

static struct fixture start(const struct bench_opts *o)
{
	struct fixture f = {.b = bench_new(o)};

	assert_int_equal(rocemu_mr_reg(f.b->pd, f.b->buf, BENCH_BUF, 0,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &f.mr),
			 0);
	assert_int_equal(rocemu_mw_new(f.b->pd, IBV_MW_TYPE_2, &f.mw), 0);
	return f;
}

/* The window can be bound only once, so a second execution fails. */
static void post_bind(struct fixture *f, unsigned flags)
{
	struct ibv_mw mw = {.rkey = rocemu_mw_rkey(f->mw)};
	struct ibv_mr mr = {.lkey = rocemu_mr_lkey(f->mr)};
	struct ibv_send_wr wr = {
		.wr_id = ++f->b->next_wr,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = flags,
		.bind_mw.mw = &mw,
		.bind_mw.rkey = mw.rkey,
		.bind_mw.bind_info = {&mr, 0, 4096, IBV_ACCESS_REMOTE_WRITE},
	};

	bench_post_wr(f->b, &wr);
}

static void post_inval(struct fixture *f, unsigned flags)
{
	struct ibv_send_wr wr = {
		.wr_id = ++f->b->next_wr,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = flags,
		.invalidate_rkey = rocemu_mw_rkey(f->mw),
	};

	bench_post_wr(f->b, &wr);
}

static bool bound(const struct fixture *f)
{
	return f->mw->mr != NULL;
}

TEST(req_local, nothing_before_it__done_at_once_without_a_packet)
{
	struct fixture f = start(&(struct bench_opts){0});

	post_bind(&f, 0);
	assert_string_equal(bench_out(f.b), "");
	assert_string_equal(bench_done(f.b), "1 OK");
	assert_true(bound(&f));
	assert_int_equal(rocemu_ep_deadline(f.b->ep), ROCEMU_NEVER);
	bench_free(f.b);
}

TEST(req_local, between_sends__executed_in_turn_and_completed_in_order)
{
	struct fixture f = start(&(struct bench_opts){0});

	bench_post(f.b, IBV_WR_SEND, 600);
	post_bind(&f, 0);
	post_inval(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_bind(&f, 0);
	assert_string_equal(bench_out(f.b),
			    "SEND_FIRST 0; SEND_MIDDLE 1; SEND_LAST 2 A; SEND_ONLY 3 A");
	assert_string_equal(bench_done(f.b), "");
	assert_true(bound(&f));
	bench_ack(f.b, 1);
	assert_string_equal(bench_done(f.b), "");
	bench_ack(f.b, 2);
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK; 3 OK");
	bench_ack(f.b, 3);
	assert_string_equal(bench_done(f.b), "4 OK; 5 OK");
	bench_free(f.b);
}

TEST(req_local, one_ack_for_all__all_in_order)
{
	struct fixture f = start(&(struct bench_opts){0});

	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_inval(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_bind(&f, 0);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0 A; SEND_ONLY 1 A");
	assert_string_equal(bench_done(f.b), "1 OK");
	bench_ack(f.b, 1);
	assert_string_equal(bench_done(f.b), "2 OK; 3 OK; 4 OK; 5 OK");
	bench_free(f.b);
}

TEST(req_local, sent_again__not_executed_again)
{
	struct fixture f = start(&(struct bench_opts){0});

	bench_post(f.b, IBV_WR_SEND, 8);
	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 300);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0 A; SEND_FIRST 1; SEND_LAST 2 A");
	bench_nak(f.b, 0, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0 A");
	bench_nak(f.b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(f.b), "SEND_FIRST 1 A");
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK");
	bench_wait(f.b, 1000000);
	assert_string_equal(bench_out(f.b), "SEND_FIRST 1; SEND_LAST 2 A");
	bench_ack(f.b, 2);
	assert_string_equal(bench_done(f.b), "3 OK");
	bench_free(f.b);
}

/* The ACK comes after everything was given up: it is beyond what is being sent again. */
TEST(req_local, ack_beyond_what_was_given_up__goes_on_behind_it)
{
	struct fixture f = start(&(struct bench_opts){0});

	bench_post(f.b, IBV_WR_SEND, 8);
	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_inval(&f, 0);
	(void)bench_out(f.b);
	bench_nak(f.b, 0, ROCEMU_AETH_RNR | 1);
	bench_ack(f.b, 0);
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK");
	bench_wait(f.b, 1000000);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 1 A");
	bench_ack(f.b, 1);
	assert_string_equal(bench_done(f.b), "3 OK; 4 OK");
	bench_free(f.b);
}

TEST(req_local, fence__waits_until_all_before_is_complete)
{
	struct fixture f = start(&(struct bench_opts){0});

	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_inval(&f, IBV_SEND_FENCE);
	bench_post(f.b, IBV_WR_SEND, 8);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0 A");
	assert_true(bound(&f));
	bench_ack(f.b, 0);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 1 A");
	assert_false(bound(&f));
	bench_ack(f.b, 1);
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK; 3 OK; 4 OK");
	bench_free(f.b);
}

TEST(req_local, behind_a_read__completes_after_it)
{
	struct fixture f = start(&(struct bench_opts){0});

	bench_post(f.b, IBV_WR_RDMA_READ, 8);
	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	assert_string_equal(bench_out(f.b), "READ_REQUEST 0+8 A; SEND_ONLY 1 A");
	bench_ack(f.b, 1); /* the READ's response is lost */
	assert_string_equal(bench_done(f.b), "");
	assert_string_equal(bench_out(f.b), "READ_REQUEST 0+8 A");
	bench_read_resp(f.b, ROCEMU_RC_READ_RESP_ONLY, 0, 7, 8);
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK; 3 OK");
	bench_free(f.b);
}

/* Executed: to report it as flushed would have the program bind again. */
TEST(req_local, qp_fails_behind_it__executed_ones_succeed_in_order)
{
	struct fixture f = start(&(struct bench_opts){0});
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	bench_post(f.b, IBV_WR_SEND, 8);
	post_bind(&f, 0);
	bench_post(f.b, IBV_WR_SEND, 8);
	bench_out(f.b);
	post_inval(&f, IBV_SEND_FENCE); /* waits: not executed */
	bench_out(f.b);
	assert_true(bound(&f));
	assert_int_equal(rocemu_qp_modify(f.b->qp, f.b->now, &err, IBV_QP_STATE), 0);
	assert_string_equal(bench_done(f.b), "1 FLUSH; 2 OK; 3 FLUSH; 4 FLUSH");
	assert_true(bound(&f));
	bench_free(f.b);
}

TEST(req_local, fails__those_before_complete_those_behind_are_flushed)
{
	struct fixture f = start(&(struct bench_opts){0});

	bench_post(f.b, IBV_WR_SEND, 8);
	post_inval(&f, 0); /* not bound */
	bench_post(f.b, IBV_WR_SEND, 8);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0 A");
	assert_string_equal(bench_done(f.b), "");
	bench_ack(f.b, 0);
	assert_string_equal(bench_out(f.b), "");
	assert_string_equal(bench_done(f.b), "1 OK; 2 MW_BIND; 3 FLUSH");
	assert_int_equal(rocemu_qp_state(f.b->qp), IBV_QPS_ERR);
	bench_free(f.b);
}

/* One output call, which fills nothing: there would be no second one. */
TEST(req_local, fails_alone__completed_by_the_same_output_call)
{
	struct fixture f = start(&(struct bench_opts){0});
	struct rocemu_tx tx[4];

	post_inval(&f, 0);
	assert_true(rocemu_ep_has_output(f.b->ep));
	assert_int_equal(rocemu_ep_output(f.b->ep, f.b->now, tx, 4), 0);
	assert_string_equal(bench_done(f.b), "1 MW_BIND");
	bench_free(f.b);
}

TEST(req_local, unsignaled__silent)
{
	struct fixture f = start(&(struct bench_opts){.sig_none = true});

	post_bind(&f, 0);
	post_inval(&f, IBV_SEND_SIGNALED);
	assert_string_equal(bench_out(f.b), "");
	assert_string_equal(bench_done(f.b), "2 OK");
	bench_free(f.b);
}

/* Entries of the ring are used again: no index may stay behind on one. */
TEST(req_local, ring_goes_round__bookkeeping_holds)
{
	struct fixture f = start(&(struct bench_opts){0});
	int32_t psn = 0;

	for (unsigned i = 0; i < 300; i++) {
		char want[64];
		uint64_t first = f.b->next_wr + 1;

		post_bind(&f, 0);
		post_inval(&f, 0);
		(void)bench_out(f.b);
		snprintf(want, sizeof(want), "%u OK; %u OK", (unsigned)first, (unsigned)first + 1);
		assert_string_equal(bench_done(f.b), want);
		if (i % 3)
			continue;
		bench_post(f.b, IBV_WR_SEND, 8);
		(void)bench_out(f.b);
		bench_nak(f.b, psn, ROCEMU_NAK_PSN_SEQ);
		snprintf(want, sizeof(want), "SEND_ONLY %d A", psn);
		assert_ptr_equal(strstr(bench_out(f.b), want), f.b->out); /* perhaps twice */
		bench_ack(f.b, psn++);
		snprintf(want, sizeof(want), "%u OK", (unsigned)first + 2);
		assert_string_equal(bench_done(f.b), want);
	}
	bench_free(f.b);
}

TEST(req_local, sqd__waits_for_rts)
{
	struct fixture f = start(&(struct bench_opts){0});
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD};

	assert_int_equal(rocemu_qp_modify(f.b->qp, f.b->now, &a, IBV_QP_STATE), 0);
	post_bind(&f, 0);
	assert_string_equal(bench_out(f.b), "");
	assert_false(bound(&f));
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(rocemu_qp_modify(f.b->qp, f.b->now, &a, IBV_QP_STATE), 0);
	assert_string_equal(bench_out(f.b), "");
	assert_string_equal(bench_done(f.b), "1 OK");
	bench_free(f.b);
}

TEST(req_local, uc__completes_in_order_with_the_sends)
{
	struct fixture f = start(&(struct bench_opts){.type = IBV_QPT_UC});

	post_bind(&f, IBV_SEND_FENCE);
	bench_post(f.b, IBV_WR_SEND, 8);
	post_inval(&f, IBV_SEND_FENCE);
	assert_string_equal(bench_out(f.b), "SEND_ONLY 0");
	assert_string_equal(bench_done(f.b), "1 OK; 2 OK; 3 OK");
	post_inval(&f, 0);
	assert_string_equal(bench_out(f.b), "");
	assert_string_equal(bench_done(f.b), "4 MW_BIND");
	bench_free(f.b);
}
