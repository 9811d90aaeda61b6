/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers, going back, RNR. */
#include "req-bench.h"

#include "transport/peer.h"
#include "transport/qp.h"

/* IBTA 9.7.6.1.3, code 1 */
enum { TIMEOUT = 8192 };

TEST(retry_timeout, nothing_answers__sent_1_plus_retry_cnt_times)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 2});

	bench_post(b, IBV_WR_SEND, 300);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A; SEND_ONLY 2 A");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rocemu_ep_deadline(b->ep), b->now + TIMEOUT);
		bench_wait(b, TIMEOUT - 1);
		assert_string_equal(bench_out(b), "");
		bench_wait(b, 1);
		assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A; SEND_ONLY 2 A");
		assert_string_equal(bench_done(b), "");
	}
	bench_wait(b, TIMEOUT);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 RETRY_EXC; 2 FLUSH");
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->retransmits, 6);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->timeouts, 3);
	bench_free(b);
}

TEST(retry_timeout, progress__time_and_count_start_anew)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 1});

	bench_post(b, IBV_WR_SEND, 4 * 256);
	bench_out(b);
	for (int psn = 0; psn < 3; psn++) {
		bench_wait(b, TIMEOUT - 1);
		bench_ack(b, psn);
		bench_wait(b, TIMEOUT - 1);
		assert_string_equal(bench_out(b), "");
		bench_wait(b, 1);
		assert_string_not_equal(bench_out(b), "");
	}
	bench_ack(b, 3);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

TEST(retry_timeout, all_acknowledged__no_deadline)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_ack(b, 0);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

TEST(retry_timeout, code_0__probes_for_ever)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 1});

	b->qp->attr.timeout = 0;
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	for (int i = 0; i < 20; i++) {
		b->now = rocemu_ep_deadline(b->ep);
		bench_wait(b, 0);
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	}
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

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

TEST(retry_nak, sequence_error__sends_what_it_names_once)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 600);
	bench_out(b);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_done(b), "1 OK");
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2 A");
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "");
	bench_nak(b, 3, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_LAST 3 A");
	assert_int_equal(rocemu_ep_get_stats(b->ep)->naks_rcvd, 3);
	bench_free(b);
}

/* A NAK for what was given up and is sent again anyway. */
TEST(retry_nak, halfway_through_resending__not_again_from_the_start)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_tx tx[2];

	bench_post(b, IBV_WR_SEND, 5 * 256);
	bench_out(b);
	bench_wait(b, TIMEOUT);
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 2), 2);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2; SEND_MIDDLE 3; SEND_LAST 4 A");
	bench_free(b);
}

/* A packet treated as lost did arrive. */
TEST(retry_ack, beyond_what_was_sent_again__goes_on_behind_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_tx tx[1];

	bench_post(b, IBV_WR_SEND, 5 * 256);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_wait(b, TIMEOUT);
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 1), 1);
	bench_ack(b, 3);
	assert_string_equal(bench_out(b), "SEND_LAST 4 A; SEND_ONLY 5 A");
	bench_ack(b, 5);
	assert_string_equal(bench_done(b), "1 OK; 2 OK");
	assert_int_equal(b->qp->req.inflight, 0);
	assert_int_equal(b->qp->req.peer->inflight, 0);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

TEST(retry_window, gone_back_often__charged_once)
{
	struct bench *b = bench_new(&(struct bench_opts){.retry_cnt = 7});
	uint64_t charged;

	bench_post(b, IBV_WR_SEND, 5 * 256);
	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_out(b);
	charged = b->qp->req.inflight;
	assert_int_equal(b->qp->req.peer->inflight, charged);
	for (int i = 0; i < 5; i++) {
		bench_wait(b, TIMEOUT);
		bench_out(b);
		assert_int_equal(b->qp->req.inflight, charged);
		assert_int_equal(b->qp->req.peer->inflight, charged);
		assert_int_equal(b->qp->req.rd_atomic_out, 1);
	}
	bench_free(b);
}

TEST(retry_silence, second_probe__nothing_new_until_an_answer)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	bench_post(b, IBV_WR_SEND, 256);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	for (int i = 0; i < 2; i++) {
		bench_wait(b, rocemu_ep_deadline(b->ep) - b->now);
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	}
	bench_post(b, IBV_WR_SEND, 512);
	bench_post(b, IBV_WR_RDMA_READ, 256);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(b->qp->req.inflight, 0);
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "SEND_FIRST 1; SEND_LAST 2 A; READ_REQUEST 3+256 A");
	bench_free(b);
}

TEST(retry_silence, goes_back__one_packet_asks)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	bench_post(b, IBV_WR_SEND, 512);
	bench_post(b, IBV_WR_SEND, 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A; SEND_ONLY 2 A");
	while (!b->ep->stats->timeouts) {
		bench_wait(b, rocemu_ep_deadline(b->ep) - b->now);
		assert_string_equal(bench_out(b), "SEND_FIRST 0 A");
	}
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "SEND_LAST 1 A; SEND_ONLY 2 A");
	bench_free(b);
}

TEST(retry_rnr, nak__waits_as_long_as_told)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 8);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(rocemu_ep_deadline(b->ep), b->now + 10000);
	bench_post(b, IBV_WR_SEND, 4);
	bench_wait(b, 9999);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1); /* a duplicate: does not count and does not wait */
	assert_string_equal(bench_out(b), "");
	bench_wait(b, 1);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A; SEND_ONLY 1 A; SEND_ONLY 2 A");
	bench_free(b);
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

TEST(retry_rnr, never_ready__sent_1_plus_rnr_retry_times)
{
	struct bench *b = bench_new(&(struct bench_opts){.rnr_retry = 2});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A; SEND_ONLY 1 A");
		bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
		bench_wait(b, 10000);
	}
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A; SEND_ONLY 1 A");
	bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
	assert_string_equal(bench_done(b), "1 RNR_RETRY_EXC; 2 FLUSH");
	bench_free(b);
}

TEST(retry_rnr, rnr_retry_7__for_ever)
{
	struct bench *b = bench_new(&(struct bench_opts){.rnr_retry = 7});

	bench_post(b, IBV_WR_SEND, 4);
	for (int i = 0; i < 20; i++) {
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
		bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
		bench_wait(b, 10000);
	}
	assert_string_equal(bench_done(b), "");
	bench_free(b);
}

TEST(retry_rnr, sequence_nak_after_each__retries_not_used_up)
{
	struct bench *b = bench_new(&(struct bench_opts){.rnr_retry = 7});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A; SEND_ONLY 1 A");
	for (int i = 0; i < 20; i++) {
		bench_nak(b, 0, ROCEMU_AETH_RNR | 1);
		bench_wait(b, 10000);
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A; SEND_ONLY 1 A");
		bench_nak(b, 0, ROCEMU_NAK_PSN_SEQ);
		assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	}
	assert_string_equal(bench_done(b), "");
	bench_free(b);
}

TEST(retry_rnr, code_0__655_ms)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_AETH_RNR);
	assert_int_equal(rocemu_ep_deadline(b->ep), b->now + 655360000);
	bench_free(b);
}
