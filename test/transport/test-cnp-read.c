/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests congestion at a requester: its READs cause the responses, so its own window shrinks. */
#include "req-bench.h"

#include "transport/peer.h"
#include "transport/qp.h"

enum { CE = 3 };

static uint64_t window(const struct bench *b)
{
	return b->qp->req.peer->cc.cwnd;
}

static void read_one(struct bench *b, uint8_t fill)
{
	bench_post(b, IBV_WR_RDMA_READ, 8);
	bench_out(b);
	assert_int_equal(bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, fill, fill, 8),
			 ROCEMU_DROP_NONE);
}

TEST(cnp_read, marked_response__window_shrinks_and_sender_gets_a_cnp)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint64_t before = window(b);

	read_one(b, 0);
	assert_int_equal(window(b), before);
	b->ecn = CE;
	read_one(b, 1);
	assert_true(window(b) < before);
	assert_string_equal(bench_out(b), "CNP");
	assert_int_equal(rocemu_ep_get_stats(b->ep)->cnps_sent, 1);
	bench_free(b);
}

TEST(cnp_read, response_through_a_full_buffer__window_shrinks)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint64_t before = window(b);

	b->congested = true;
	read_one(b, 0);
	assert_true(window(b) < before);
	assert_string_equal(bench_out(b), "");
	bench_free(b);
}

/* No window holds ACKs back. */
TEST(cnp_read, marked_ack__nothing)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint64_t before = window(b);

	b->ecn = CE;
	b->congested = true;
	bench_post(b, IBV_WR_SEND, 8);
	bench_out(b);
	bench_ack(b, 0);
	assert_int_equal(window(b), before);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}
