/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that fail on purpose, and a FLUSH of two pieces; scenario-req has the others. */
#include "req-bench.h"

#include <errno.h>
#include <string.h>

#include "transport/qp.h"

static struct ibv_send_wr flush_wr(struct bench *b, uint32_t feth, uint32_t len,
				   struct ibv_sge *sge)
{
	struct ibv_send_wr wr = bench_wr(b, (enum ibv_wr_opcode)ROCEMU_WR_FLUSH, 0, len, sge);

	sge->lkey = 0; /* nothing of the SGE is read but its length */
	wr.invalidate_rkey = feth;
	return wr;
}

TEST(req_flush, two_pieces__einval)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge[2] = {{.length = 4}, {.length = 4}};
	struct ibv_send_wr wr = flush_wr(b, ROCEMU_FLUSH_GLOBAL, 8, sge);

	wr.num_sge = 2;
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, NULL), -EINVAL);
	bench_free(b);
}

/* ---- failing on purpose ---- */

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
