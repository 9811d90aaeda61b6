/* SPDX-License-Identifier: BSD-2-Clause */
/* Another address while the send queue is drained (SQD): two QPs and their windows. */
#include "req-bench.h"

#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

static void change(struct bench *b, const struct ibv_qp_attr *a, int mask)
{
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, a, mask), 0);
}

static void to_sqd(struct bench *b)
{
	change(b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_SQD}, IBV_QP_STATE);
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
	assert_int_equal(first->req.peer->cc.unit, 256 + 512);
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
