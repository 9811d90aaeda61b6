/* SPDX-License-Identifier: BSD-2-Clause */
/* End-to-end credits: a peer that counts its receives (IBTA 9.7.7.2). */
#include "req-bench.h"

#include "transport/peer.h"
#include "transport/qp.h"

static enum rocemu_drop ack(struct bench *b, int32_t psn, uint8_t credits)
{
	return bench_answer(b, ROCEMU_RC_ACK, psn, (uint8_t)(ROCEMU_AETH_ACK | credits), NULL, 0);
}

/** One SEND is answered with so many credits; PSN 0 is used up. */
static struct bench *limited_to(const struct bench_opts *o, uint8_t credits)
{
	struct bench *b = bench_new(o);

	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	ack(b, 0, credits);
	return b;
}

static void post_sends(struct bench *b, unsigned n)
{
	while (n--)
		bench_post(b, IBV_WR_SEND, 4);
}

TEST(req_credit, two_credits__two_and_one_beyond)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 2);

	post_sends(b, 6);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A; SEND_ONLY 2 A; SEND_ONLY 3 A");
	ack(b, 1, 1);
	assert_string_equal(bench_out(b), "");
	ack(b, 3, 1);
	assert_string_equal(bench_out(b), "SEND_ONLY 4 A; SEND_ONLY 5 A");
	ack(b, 5, 0);
	assert_string_equal(bench_out(b), "SEND_ONLY 6 A");
	bench_free(b);
}

TEST(req_credit, none_left__one_at_a_time)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 0);

	post_sends(b, 3);
	for (int32_t psn = 1; psn <= 3; psn++) {
		assert_int_equal(bench_out(b)[0], 'S');
		assert_string_equal(bench_out(b), "");
		ack(b, psn, 0);
	}
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK; 4 OK");
	bench_free(b);
}

TEST(req_credit, long_message_beyond_the_limit__first_packet_asks)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 0);

	bench_post(b, IBV_WR_SEND, 1000);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	ack(b, 1, 0);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2; SEND_MIDDLE 3; SEND_LAST 4 A");
	ack(b, 4, 0);
	assert_string_equal(bench_out(b), "SEND_ONLY 5 A");
	bench_free(b);
}

/* The next one may have to wait for more credits, which only an ACK brings. */
TEST(req_credit, beyond_the_limit_in_a_wide_window__end_of_each_message_asks)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 512 << 10});

	b->qp->req.peer->cc.cwnd = 512 << 10; /* as after many ACKs */
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	ack(b, 0, 0);
	for (int i = 0; i < 5; i++)
		bench_post(b, IBV_WR_SEND, 512);
	assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	ack(b, 1, 0);
	assert_string_equal(bench_out(b), "SEND_LAST 2 A");
	bench_free(b);
}

TEST(req_credit, long_message_beyond_the_limit__waits_for_those_before_too)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 1);

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 600);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A; SEND_FIRST 2 A");
	ack(b, 1, 0);
	assert_string_equal(bench_out(b), "");
	ack(b, 2, 0);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 3; SEND_LAST 4 A");
	bench_free(b);
}

/* The newest ACK once more, because receives were posted. */
TEST(req_credit, unsolicited_ack__more_may_go)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 0);

	bench_post(b, IBV_WR_SEND, 600);
	post_sends(b, 2);
	assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	assert_int_equal(ack(b, -1, 4), ROCEMU_DROP_GHOST); /* an old one */
	assert_string_equal(bench_out(b), "");
	assert_int_equal(ack(b, 0, 2), ROCEMU_DROP_NONE);
	assert_string_equal(bench_out(b),
			    "SEND_MIDDLE 2; SEND_LAST 3 A; SEND_ONLY 4 A; SEND_ONLY 5 A");
	bench_free(b);
}

TEST(req_credit, what_takes_no_receive__counts_and_goes)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 3);

	bench_post(b, IBV_WR_RDMA_WRITE, 4);
	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_post(b, IBV_WR_RDMA_WRITE_WITH_IMM, 4);
	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_WRITE, 4);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "WRITE_ONLY 1 A; READ_REQUEST 2+4 A; WRITE_ONLY_IMM 3 A; "
					  "SEND_ONLY 4 A; WRITE_ONLY 5 A");
	bench_free(b);
}

TEST(req_credit, first_credits_come_late__what_is_under_way_counts)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	post_sends(b, 4);
	bench_out(b);
	ack(b, 0, 2); /* three are under way */
	post_sends(b, 2);
	assert_string_equal(bench_out(b), "");
	ack(b, 1, 2);
	assert_string_equal(bench_out(b), "SEND_ONLY 4 A");
	bench_free(b);
}

/* The ACK came between two output calls, and nothing that is under way requests another. */
TEST(req_credit, fewer_credits_within_a_message__goes_on_until_it_asks)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 2);
	struct rocemu_tx tx[3];

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 1000);
	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, 3), 3);
	ack(b, 1, 0); /* the receive for the second one is in use */
	assert_string_equal(bench_out(b), "SEND_MIDDLE 4; SEND_LAST 5 A");
	bench_free(b);
}

TEST(req_credit, invalid_credits__no_limit)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 0);

	bench_post(b, IBV_WR_SEND, 600);
	post_sends(b, 1);
	assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	ack(b, 0, ROCEMU_AETH_NO_CREDITS);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2; SEND_LAST 3 A; SEND_ONLY 4 A");
	bench_free(b);
}

TEST(req_credit, acks_are_lost__sent_again_and_no_deadlock)
{
	struct bench *b = limited_to(&(struct bench_opts){.retry_cnt = 7}, 0);

	bench_post(b, IBV_WR_SEND, 600);
	assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	for (int i = 0; i < 3; i++) {
		bench_wait(b, 8192); /* the ACK timeout */
		assert_string_equal(bench_out(b), "SEND_FIRST 1 A");
	}
	ack(b, 1, 0);
	assert_string_equal(bench_out(b), "SEND_MIDDLE 2; SEND_LAST 3 A");
	bench_free(b);
}

/* IBTA 9.7.7.2: the codes stand for powers of two and what lies half way between. */
TEST(req_credit, codes__numbers)
{
	static const unsigned number[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24};

	for (uint8_t code = 0; code < 10; code++) {
		struct bench *b = limited_to(&(struct bench_opts){0}, code);

		assert_int_equal(b->qp->req.credit.limit, 1 + number[code]);
		ack(b, 0, 30);
		assert_int_equal(b->qp->req.credit.limit, 1 + 32768);
		bench_free(b);
	}
}

/* The READ's last response comes first; the one that completes it has no credits. */
TEST(req_credit, nothing_in_flight__one_goes)
{
	struct bench *b = limited_to(&(struct bench_opts){0}, 0);
	static const uint8_t data[256];

	bench_post(b, IBV_WR_RDMA_READ, 3 * 256);
	bench_post(b, IBV_WR_RDMA_READ, 4);
	post_sends(b, 2);
	bench_out(b);
	bench_answer(b, ROCEMU_RC_READ_RESP_FIRST, 1, 0, data, 256);
	bench_answer(b, ROCEMU_RC_READ_RESP_LAST, 3, 0, data, 256);
	bench_answer(b, ROCEMU_RC_READ_RESP_ONLY, 4, 0, data, 4);
	assert_string_equal(bench_out(b), "READ_REQUEST 2+256 A");
	bench_answer(b, ROCEMU_RC_READ_RESP_MIDDLE, 2, 0, data, 256);
	assert_string_equal(bench_out(b), "SEND_ONLY 5 A");
	bench_free(b);
}
