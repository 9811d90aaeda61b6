/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sent again: several QPs, paths longer than the first delay, and states that are set by
 * hand; scenario-recover has the rest.
 */
#include "req-bench.h"

#include <string.h>

#include "base/util.h"
#include "transport/peer.h"
#include "transport/qp.h"

enum {
	MS = 1000 * 1000,
	TIMEOUT_14 = 67108864, /* IBTA 9.7.6.1.3 */
};

/** A QP with timeout 14 to which a round trip of 50 us is known. */
static struct bench *start(uint8_t retry_cnt)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .retry_cnt = retry_cnt});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_wait(b, 50000);
	bench_ack(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	assert_int_equal(b->qp->req.srtt, 50000);
	return b;
}

/** Post n requests of a packet each; they have the PSNs from 1 on. */
static void post(struct bench *b, int n)
{
	while (n--)
		bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_done(b);
}

/** Time goes on until the next timer runs out. */
static rocemu_ns_t expire(struct bench *b)
{
	rocemu_ns_t ns = rocemu_ep_deadline(b->ep) - b->now;

	bench_wait(b, ns);
	return ns;
}

/* The habit is the peer's: other QPs of it need not find it out. */
TEST(recover_nak, peer_goes_back__other_qps_profit_and_it_is_tried_again)
{
	struct bench *b = start(0);

	for (int i = 0; i < PEER_GOES_BACK; i++)
		peer_saw_drop(b->qp->req.peer);
	b->qp = bench_qp(b, &(struct bench_opts){.timeout = 14});
	for (int i = 0; i < PEER_GOES_BACK; i++) {
		bench_post(b, IBV_WR_SEND, 4);
		bench_post(b, IBV_WR_SEND, 4);
		bench_out(b);
		bench_nak(b, 2 * i, ROCEMU_NAK_PSN_SEQ);
		assert_int_equal(b->qp->req.send_psn, b->qp->req.acked_psn);
		bench_out(b);
		bench_ack(b, 2 * i + 1);
	}
	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 2 * PEER_GOES_BACK, ROCEMU_NAK_PSN_SEQ);
	assert_int_not_equal(b->qp->req.send_psn, b->qp->req.acked_psn);
	bench_free(b);
}

/* Half of all PSNs later the last one that was named seems to lie ahead of all in flight. */
TEST(recover_hint, first_one_for_a_long_time__sent)
{
	struct bench *b = start(1);

	post(b, 8);
	b->qp->req.again.hinted = (b->qp->req.send_psn + 1000) & ROCEMU_PSN_MASK;
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A");
	bench_ack(b, 5 - RECOVER_HINT_BEHIND);
	assert_string_equal(bench_out(b), "SEND_ONLY 5");
	bench_ack(b, 4 - RECOVER_HINT_BEHIND);
	assert_string_equal(bench_out(b), "");
	bench_free(b);
}

/*
 * A path longer than the first delay: each packet is sent several times, and each of them is
 * answered, until the delay has grown.
 */
TEST(recover_probe, path_longer_than_the_first_delay__is_measured)
{
	enum { RTT = 50 * MS };
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 18});
	rocemu_ns_t sent[3][8];
	int copies[3] = {0};

	for (int i = 0; i < 3; i++) {
		const rocemu_ns_t begin = b->now;

		bench_post(b, IBV_WR_SEND, 4);
		for (bench_out(b); b->now < begin + RTT; bench_out(b)) {
			sent[i][copies[i]++] = b->now;
			bench_wait(b, MIN(rocemu_ep_deadline(b->ep), begin + RTT) - b->now);
		}
		bench_ack(b, i);
		for (int k = 1; k < copies[i]; k++) {
			bench_wait(b, sent[i][k] - sent[i][k - 1]);
			bench_ack(b, i);
		}
	}
	assert_int_equal(copies[0], 3);
	assert_int_equal(copies[1], 2);
	assert_int_equal(copies[2], 1);
	assert_int_equal(b->qp->req.srtt, RTT);
	bench_free(b);
}

TEST(recover_probe, other_qps_of_the_lane__get_the_window_of_the_silent_one)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = 4 * (256 + 512)});
	struct rocemu_qp *silent = b->qp;

	bench_post(b, IBV_WR_SEND, 4 * 256);
	bench_out(b);
	b->qp = bench_qp(b, &(struct bench_opts){.timeout = 14});
	bench_post(b, IBV_WR_SEND, 2 * 256);
	assert_string_equal(bench_out(b), "");
	expire(b);
	bench_out(b);
	expire(b);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_LAST 1 A; SEND_FIRST 0 A");
	b->qp = silent;
	bench_ack(b, 3);
	assert_string_equal(bench_done(b), "1 OK");
	assert_int_equal(b->qp->req.inflight, 0);
	bench_free(b);
}

/* Two threads' readings of the clock may differ. */
TEST(recover_rtt, time_goes_back__not_measured)
{
	struct bench *b = start(0);

	post(b, 1);
	b->now -= 10;
	bench_ack(b, 1);
	assert_int_equal(b->qp->req.srtt, 50000);
	bench_free(b);
}

TEST(recover_nak, losses_are_frequent__sent_twice)
{
	struct bench *b = start(0);

	b->qp->req.again.spacing = 20;
	post(b, 4);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A; SEND_ONLY 2 A");
	bench_free(b);
}

/** A window that is full of packets of which many are likely lost. */
static struct bench *start_full(enum ibv_wr_opcode last)
{
	struct bench *b = bench_new(
		&(struct bench_opts){.timeout = 14, .window = 40 * (256 + 512), .rd_atomic = 4});

	b->qp->req.again.spacing = 10;
	for (int i = 0; i < 2; i++)
		bench_post(b, IBV_WR_SEND, 15 * 256);
	bench_post(b, last, 10 * 256);
	bench_post(b, IBV_WR_SEND, 256);
	bench_out(b);
	return b;
}

TEST(recover_fill, many_gaps_and_nothing_else_to_send__all_in_flight_once)
{
	struct bench *b = start_full(IBV_WR_SEND);

	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	bench_out(b);
	/* The one named twice, and each of those behind it. */
	assert_int_equal(rocemu_ep_get_stats(b->ep)->retransmits, 2 + 37);
	assert_int_equal(b->qp->req.peer->inflight, b->qp->req.inflight);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "");
	bench_free(b);
}

TEST(recover_fill, reads_in_flight__left_alone)
{
	struct bench *b = start_full(IBV_WR_RDMA_READ);

	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_null(strstr(bench_out(b), "READ_REQUEST"));
	assert_int_equal(rocemu_ep_get_stats(b->ep)->retransmits, 2 + 27);
	bench_free(b);
}

TEST(recover_fill, few_gaps__only_what_is_named)
{
	struct bench *b = start_full(IBV_WR_SEND);

	b->qp->req.again.spacing = 100;
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2 A; SEND_ONLY 40 A");
	bench_free(b);
}
