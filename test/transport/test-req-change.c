/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of the requester that change while the send queue is drained (SQD). */
#include "req-bench.h"

#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

enum {
	TIMEOUT_1 = 8192, /* IBTA 9.7.6.1.3 */
	TIMEOUT_3 = 4 * TIMEOUT_1,
};

static void change(struct bench *b, const struct ibv_qp_attr *a, int mask)
{
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, a, mask), 0);
}

static void to_sqd(struct bench *b)
{
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, IBV_QP_STATE);
}

TEST(req_change, retry_cnt_in_sqd__counts_from_now_on)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 7});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	to_sqd(b);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .retry_cnt = 1},
	       IBV_QP_STATE | IBV_QP_RETRY_CNT);
	bench_wait(b, TIMEOUT_1);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	bench_wait(b, TIMEOUT_1);
	assert_string_equal(bench_done(b), "1 RETRY_EXC");
	bench_free(b);
}

TEST(req_change, rnr_retry_in_sqd__counts_from_now_on)
{
	struct bench *b = bench_new(&(struct bench_opts){.rnr_retry = 7});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	to_sqd(b);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .rnr_retry = 1},
	       IBV_QP_STATE | IBV_QP_RNR_RETRY);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	bench_wait(b, 10000);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	assert_string_equal(bench_done(b), "1 RNR_RETRY_EXC");
	bench_free(b);
}

TEST(req_change, timeout_in_sqd__of_what_is_in_flight_too)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .retry_cnt = 1});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	to_sqd(b);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .timeout = 3},
	       IBV_QP_STATE | IBV_QP_TIMEOUT);
	bench_wait(b, TIMEOUT_3 - 1);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->timeouts, 0);
	bench_wait(b, 1);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->timeouts, 1);
	bench_free(b);
}

TEST(req_change, timeout_in_sqd__does_not_end_an_rnr_wait)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	to_sqd(b);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .timeout = 1},
	       IBV_QP_STATE | IBV_QP_TIMEOUT);
	bench_wait(b, 9999);
	assert_string_equal(bench_out(b), "");
	bench_wait(b, 1);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	bench_free(b);
}

TEST(req_change, max_rd_atomic_in_sqd__as_many_as_that)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 1});

	to_sqd(b);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD, .max_rd_atomic = 3},
	       IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC);
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_STATE);
	for (int i = 0; i < 4; i++)
		bench_post(b, IBV_WR_RDMA_READ, 4);
	assert_string_equal(bench_out(b),
			    "READ_REQUEST 0+4 A; READ_REQUEST 1+4 A; READ_REQUEST 2+4 A");
	bench_free(b);
}

/** To another host. */
static void move_away(struct bench *b)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD,
				.ah_attr = {.is_global = 1, .port_num = 1}};
	static const struct rocemu_gid other = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 9}};

	memcpy(a.ah_attr.grh.dgid.raw, other.raw, sizeof(other.raw));
	change(b, &a, IBV_QP_STATE | IBV_QP_AV);
}

TEST(req_change, address_in_sqd__other_window_and_those_behind_go_on)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 2 * (256 + 512)});
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});
	struct peer *before = first->req.peer;

	bench_post(b, IBV_WR_SEND, 512);
	bench_out(b);
	b->qp = second;
	bench_post(b, IBV_WR_SEND, 512);
	assert_string_equal(bench_out(b), "");
	b->qp = first;
	to_sqd(b);
	move_away(b);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A");
	assert_ptr_not_equal(first->req.peer, before);
	assert_ptr_equal(second->req.peer, before);
	assert_int_equal(first->req.peer->inflight, first->req.inflight);
	assert_int_equal(before->inflight, second->req.inflight);
	bench_free(b);
}

TEST(req_change, address_that_waits_for_the_window__goes_on_with_the_other)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 2 * (256 + 512)});
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 256);
	bench_out(b);
	b->qp = second;
	bench_post(b, IBV_WR_SEND, 3 * 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0 A");
	to_sqd(b);
	move_away(b);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 1 A");
	assert_int_equal(first->req.peer->inflight, first->req.inflight);
	bench_free(b);
}
