/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that fail on purpose. */
#include "req-bench.h"

#include <string.h>

#include "transport/qp.h"

TEST(req_fail_last, in_its_turn__never_sent_and_the_rest_flushed)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_WRITE, 600);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_ACCESS_ERR);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK; 2 REM_ACCESS; 3 FLUSH");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_ERR);
	/* In the error state: flushed, whatever the request. */
	bench_post(b, IBV_WR_SEND, 4);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_ACCESS_ERR);
	assert_string_equal(bench_done(b), "4 FLUSH");
	bench_free(b);
}

TEST(req_fail_last, queue_entry_used_again__as_usual)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	bench_post(b, IBV_WR_SEND, 4);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_OP_ERR);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 REM_OP");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_SQE);
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &rts, IBV_QP_STATE), 0);
	for (int i = 0; i < 64; i++) {
		bench_post(b, IBV_WR_SEND, 4);
		bench_out(b);
		assert_null(strstr(bench_done(b), "REM_OP"));
	}
	bench_free(b);
}
