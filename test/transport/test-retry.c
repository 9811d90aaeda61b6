/* SPDX-License-Identifier: BSD-2-Clause */
/* The scale of the requester's times; scenario-retry has their rules. */
#include "req-bench.h"

/* The time that a request without any answer takes to fail. */
static rocemu_ns_t time_to_fail(double time_scale, uint8_t timeout)
{
	struct bench *b = bench_new(
		&(struct bench_opts){.retry_cnt = 7, .timeout = timeout, .time_scale = time_scale});
	const rocemu_ns_t begin = b->now;
	rocemu_ns_t took;

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	while (rocemu_ep_deadline(b->ep) != ROCEMU_NEVER) {
		bench_wait(b, rocemu_ep_deadline(b->ep) - b->now);
		bench_out(b);
	}
	assert_string_equal(bench_done(b), "1 RETRY_EXC");
	took = b->now - begin;
	bench_free(b);
	return took;
}

TEST(retry_timeout, time_scale__divides_the_time_to_fail)
{
	const rocemu_ns_t as_is = time_to_fail(0, 18);

	assert_int_equal(time_to_fail(1, 18), as_is);
	assert_true(time_to_fail(100, 18) < as_is / 90 && time_to_fail(100, 18) > as_is / 110);
	assert_true(time_to_fail(0.01, 18) > as_is * 90 && time_to_fail(0.01, 18) < as_is * 110);
}

TEST(retry_rnr, time_scale__divides_the_wait)
{
	struct bench *b = bench_new(&(struct bench_opts){.time_scale = 4});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	bench_wait(b, 10000 / 4 - 1);
	assert_string_equal(bench_out(b), "");
	bench_wait(b, 1);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	bench_free(b);
}
