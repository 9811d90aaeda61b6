/* SPDX-License-Identifier: BSD-2-Clause */
/* What is sent again alone, by which answers, and how a peer that goes back is found out. */
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

TEST(recover_nak, peer_keeps__each_gap_sent_alone_at_once)
{
	struct bench *b = start(0);

	post(b, 8);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A");
	bench_wait(b, 50000);
	bench_nak(b, 5, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 5 A");
	bench_wait(b, 50000);
	bench_ack(b, 8);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(b->qp->req.inflight, 0);
	assert_int_equal(b->qp->req.peer->inflight, 0);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->retransmits, 2);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

TEST(recover_nak, new_ones_meanwhile__follow_in_turn)
{
	struct bench *b = start(0);

	post(b, 3);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A; SEND_ONLY 4 A");
	bench_free(b);
}

TEST(recover_nak, peer_goes_back__all_again_and_at_once_for_the_next)
{
	struct bench *b = start(0);

	post(b, 4);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A");
	bench_wait(b, 50000);
	bench_ack(b, 1);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A; SEND_ONLY 3 A; SEND_ONLY 4 A");
	bench_ack(b, 2);
	bench_nak(b, 3, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 3 A; SEND_ONLY 4 A");
	bench_ack(b, 4);
	assert_int_equal(b->qp->req.peer->inflight, 0);
	bench_free(b);
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

TEST(recover_nak, each_next_one_missing_too__goes_back_after_three)
{
	struct bench *b = start(0);

	post(b, 8);
	for (int psn = 1; psn <= 3; psn++) {
		bench_nak(b, psn, ROCEMU_NAK_PSN_SEQ);
		bench_out(b);
		assert_int_equal(b->qp->req.peer->goes_back, 0);
		bench_wait(b, 50000);
	}
	bench_nak(b, 4, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(
		bench_out(b),
		"SEND_ONLY 4 A; SEND_ONLY 5 A; SEND_ONLY 6 A; SEND_ONLY 7 A; SEND_ONLY 8 A");
	assert_int_not_equal(b->qp->req.peer->goes_back, 0);
	bench_free(b);
}

/* The answer to the original, which was late. */
TEST(recover_nak, acknowledged_sooner_than_a_round_trip__shows_nothing)
{
	struct bench *b = start(0);

	post(b, 4);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A");
	bench_wait(b, 10000);
	bench_ack(b, 1);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(b->qp->req.peer->goes_back, 0);
	bench_free(b);
}

TEST(recover_nak, no_retry__fails)
{
	struct bench *b = start(0);

	b->qp->attr.retry_cnt = b->qp->req.retry_left = 0;
	post(b, 2);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_done(b), "2 RETRY_EXC; 3 FLUSH");
	bench_free(b);
}

TEST(recover_hint, later_gap__sent_once)
{
	struct bench *b = start(1);

	post(b, 8);
	bench_nak(b, 2, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A");
	bench_ack(b, 5 - RECOVER_HINT_BEHIND);
	assert_string_equal(bench_out(b), "SEND_ONLY 5");
	bench_ack(b, 5 - RECOVER_HINT_BEHIND);
	bench_ack(b, 4 - RECOVER_HINT_BEHIND);
	bench_ack(b, 9 - RECOVER_HINT_BEHIND); /* not sent yet */
	bench_ack(b, 1 - RECOVER_HINT_BEHIND); /* acknowledged */
	assert_string_equal(bench_out(b), "");
	bench_ack(b, 7 - RECOVER_HINT_BEHIND);
	bench_ack(b, 7);
	assert_string_equal(bench_out(b), ""); /* it came meanwhile */
	bench_ack(b, 8);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(b->qp->req.inflight, 0);
	bench_free(b);
}

/* A peer that names all, again and again, in any order: 48 bytes cost one packet, once each. */
TEST(recover_hint, flood__each_packet_in_flight_sent_once)
{
	struct bench *b = start(1);
	unsigned sent = 0;

	post(b, 8);
	for (int round = 0; round < 100; round++) {
		for (int psn = 1; psn < 10; psn++) {
			bench_ack(b, (round % 2 ? 10 - psn : psn) - RECOVER_HINT_BEHIND);
			sent += strstr(bench_out(b), "SEND_ONLY") != NULL;
		}
	}
	/* Not the oldest one, which only a NAK names. */
	assert_int_equal(sent, 7);
	bench_ack(b, 8);
	assert_int_equal(b->qp->req.inflight, 0);
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

TEST(recover_probe, silence__one_packet_and_the_delay_doubles_five_times)
{
	struct bench *b = start(0);
	rocemu_ns_t want = MS; /* twice the round trip and more is less than the floor */

	post(b, 3);
	b->qp->attr.timeout = 20;
	bench_ack(b, 1);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(expire(b), want);
		assert_string_equal(bench_out(b), "SEND_ONLY 2 A");
		if (i < 5)
			want *= 2;
	}
	assert_int_equal(b->qp->req.retry_left, 2);
	bench_ack(b, 3);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK");
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	assert_int_equal(expire(b), MS);
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

/* However many probes: the time that the program set is what counts. */
TEST(recover_probe, silence_for_ever__fails_after_the_timeouts)
{
	struct bench *b = start(2);
	rocemu_ns_t begin = b->now;
	const char *done;

	post(b, 3);
	while (!*(done = bench_done(b))) {
		expire(b);
		bench_out(b);
	}
	assert_string_equal(done, "2 RETRY_EXC; 3 FLUSH; 4 FLUSH");
	assert_int_equal(rocemu_ep_get_stats(b->ep)->timeouts, 3);
	assert_in_range(b->now - begin, 3ull * TIMEOUT_14, 3ull * TIMEOUT_14 + 10);
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}

/* An ACK that was lost, or the end of what was sent. */
TEST(recover_probe, answer_acknowledges_all__no_more)
{
	struct bench *b = start(0);

	post(b, 3);
	expire(b);
	bench_out(b);
	bench_wait(b, 50000);
	bench_ack(b, 3);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK");
	bench_free(b);
}

TEST(recover_probe, end_of_window_lost__found_out_within_three_round_trips)
{
	struct bench *b = start(0);

	post(b, 6);
	expire(b);
	for (int psn = 1; psn <= 2; psn++) {
		bench_out(b);
		bench_wait(b, 50000);
		bench_ack(b, psn);
	}
	assert_string_equal(bench_out(b), "SEND_ONLY 3 A");
	bench_wait(b, 50000);
	bench_ack(b, 3);
	assert_string_equal(bench_out(b), "SEND_ONLY 4 A; SEND_ONLY 5 A; SEND_ONLY 6 A");
	bench_free(b);
}

/** What follows a probe of two READs of two responses each. The first is answered ns later. */
static const char *answer_read_probe(struct bench *b, rocemu_ns_t ns)
{
	bench_post(b, IBV_WR_RDMA_READ, 512);
	bench_post(b, IBV_WR_RDMA_READ, 512);
	bench_out(b);
	expire(b);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+512 A");
	bench_wait(b, ns);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 1, 0, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 2, 0, 256);
	return bench_out(b);
}

TEST(recover_probe, read_answered_a_round_trip_later__asks_for_the_next)
{
	struct bench *b = start(0);

	assert_string_equal(answer_read_probe(b, 50000), "READ_REQUEST 3+512 A");
	bench_free(b);
}

/* The peer was busy: the responses to the other READ come behind this one's. */
TEST(recover_probe, read_answered_later_than_that__others_not_requested_again)
{
	struct bench *b = start(0);

	assert_string_equal(answer_read_probe(b, MS / 2), "");
	assert_int_equal(rocemu_ep_get_stats(b->ep)->retransmits, 1);
	bench_free(b);
}

TEST(recover_probe, lost_after_a_nak__sooner)
{
	struct bench *b = start(0);

	post(b, 3);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A");
	assert_in_range(expire(b), 50000, 250000);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A");
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

TEST(recover_rtt, only_packets_that_were_sent_once)
{
	struct bench *b = start(0);

	post(b, 1);
	expire(b);
	bench_out(b);
	bench_wait(b, 30 * MS);
	bench_ack(b, 1);
	assert_int_equal(b->qp->req.srtt, 50000);
	post(b, 1);
	bench_wait(b, 90000);
	bench_ack(b, 2);
	assert_int_equal(b->qp->req.srtt, 55000);
	assert_int_equal(b->qp->req.min_rtt, 50000);
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

TEST(recover_window, sent_again__not_charged)
{
	struct bench *b = start(0);
	uint64_t charged;

	post(b, 3);
	charged = b->qp->req.peer->inflight;
	for (int i = 0; i < 2; i++) {
		expire(b);
		bench_out(b);
		if (i == 0)
			assert_int_equal(b->qp->req.peer->inflight, charged);
	}
	bench_ack(b, 3);
	assert_int_equal(b->qp->req.peer->inflight, 0);
	bench_free(b);
}

TEST(recover_rnr, nothing_sent_during_the_wait)
{
	struct bench *b = start(0);

	post(b, 3);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	bench_nak(b, 1, ROCEMU_AETH_RNR | 1);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "");
	bench_wait(b, 10000);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A; SEND_ONLY 2 A; SEND_ONLY 3 A");
	bench_free(b);
}

TEST(recover_fault, memory_gone_before_the_packet_is_sent_again__fails)
{
	struct bench *b = start(0);

	post(b, 3);
	rocemu_mr_dereg(b->mr);
	expire(b);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "2 LOC_PROT; 3 FLUSH; 4 FLUSH");
	bench_free(b);
}

/* Naks for what was not sent yet or is done do nothing. */
TEST(recover_nak, out_of_range__ghost)
{
	struct bench *b = start(0);

	post(b, 2);
	assert_int_equal(bench_nak(b, 3, ROCEMU_NAK_PSN_SEQ), ROCEMU_DROP_GHOST);
	assert_int_equal(bench_nak(b, 0, ROCEMU_NAK_PSN_SEQ), ROCEMU_DROP_GHOST);
	assert_string_equal(bench_out(b), "");
	bench_free(b);
}

/* A packet that was overtaken is no sign of congestion: what it takes to cut is that it was lost.
 */
TEST(recover_late, answered_before_it_was_sent_again__no_suspicion)
{
	struct bench *b = start(0);

	post(b, 4);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_true(b->qp->req.again.suspected);
	bench_out(b);
	bench_wait(b, 10000);
	bench_ack(b, 4);
	assert_false(b->qp->req.again.suspected);
	assert_int_not_equal(b->qp->req.again.lateness, 0);
	assert_int_equal(b->qp->req.again.spacing, 0);
	bench_free(b);
}

TEST(recover_late, answered_a_round_trip_later__was_lost)
{
	struct bench *b = start(0);

	post(b, 4);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	bench_out(b);
	bench_wait(b, 50000);
	bench_ack(b, 4);
	assert_false(b->qp->req.again.suspected);
	assert_int_equal(b->qp->req.again.lateness, 0);
	assert_int_not_equal(b->qp->req.again.spacing, 0);
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
