/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets from another source port than the peer's, and sweeps over PSNs from whichever port.
 * test/scenario/resp-port.scenario has the responder's, but for a region that is too large for it.
 */
#include "hostile.h"
#include "req-bench.h"

#include "transport/port.h"

enum { OTHER = 0x1111, THIRD = 0x2222, FAR = 0x200000 };

static struct hostile h;

static const struct rocemu_ep_stats *stats(void)
{
	return rocemu_ep_get_stats(h.ep);
}

static void write_from(uint16_t sport, uint32_t psn)
{
	h.sport = sport;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	h.sport = 0;
}

/* An adapter requests all of a READ at once, whatever its length, and what is lost of it again. */
TEST(resp_port, part_of_a_long_read_repeated__no_sweep)
{
	enum { BYTES = 2 * PORT_FAR * HOSTILE_MTU };
	static uint8_t mem[BYTES]; /* never touched */
	struct rocemu_hdrs read = {.opcode = ROCEMU_RC_READ_REQUEST};
	struct rocemu_mr *mr;

	hostile_start(&h, IBV_QPT_RC);
	assert_int_equal(rocemu_mr_reg(h.pd, mem, BYTES, 0, IBV_ACCESS_REMOTE_READ, &mr), 0);
	write_from(0, 0);
	read.psn = 1;
	read.reth.rkey = rocemu_mr_rkey(mr);
	read.reth.length = BYTES;
	hostile_send_hdrs(&h, &read, 0);
	assert_int_equal(h.qp->resp.epsn, 1 + 2 * PORT_FAR);
	read.psn = 1 + PORT_FAR / 2;
	read.reth.va = BYTES / 4;
	read.reth.length -= BYTES / 4;
	hostile_send_hdrs(&h, &read, 0);
	write_from(0, 0);
	assert_int_equal(stats()->psn_sweeps, 0);
	write_from(0, -PORT_FAR & ROCEMU_PSN_MASK);
	assert_int_equal(stats()->psn_sweeps, 1);
	assert_int_equal(rocemu_mr_dereg(mr), 0);
	hostile_free(&h);
}

static struct bench *four_sent(void)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	/* One was answered: the port is known. */
	bench_post(b, IBV_WR_SEND, 8);
	bench_out(b);
	bench_ack(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	for (int i = 0; i < 4; i++)
		bench_post(b, IBV_WR_SEND, 8);
	bench_out(b);
	return b;
}

TEST(comp_port, first_answer_from_another_port__taken)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	for (int i = 0; i < 4; i++)
		bench_post(b, IBV_WR_SEND, 8);
	bench_out(b);
	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 2), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK");
	bench_free(b);
}

TEST(comp_port, answers_from_another_port_than_requests__both_taken)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_PORT);
	b->now += PORT_TRIAL_NS;
	b->sport = 0;
	/* A request, of PSN 0, which finds no receive. */
	assert_int_equal(bench_answer(b, ROCEMU_RC_SEND_ONLY, -BENCH_PSN, 0, NULL, 0),
			 ROCEMU_DROP_NO_RECV);
	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	bench_free(b);
}

TEST(comp_port, answer_due_from_another_port__taken)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 1), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK");
	bench_free(b);
}

TEST(comp_port, later_answer_from_another_port__taken_when_it_comes_again)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_PORT);
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_PORT);
	b->now += PORT_TRIAL_NS;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK; 5 OK");
	bench_free(b);
}

TEST(comp_port, later_answer_from_another_port__not_while_the_peers_is_in_use)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_PORT);
	b->now += PORT_TRIAL_NS;
	b->sport = 0;
	assert_int_equal(bench_ack(b, 1), ROCEMU_DROP_NONE);
	b->sport = OTHER;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_PORT);
	assert_int_equal(bench_nak(b, 3, ROCEMU_NAK_REM_ACCESS), ROCEMU_DROP_PORT);
	assert_string_equal(bench_done(b), "2 OK");
	bench_free(b);
}

static const uint8_t syndromes[] = {ROCEMU_AETH_ACK | ROCEMU_AETH_NO_CREDITS,
				    ROCEMU_AETH_RNR,
				    ROCEMU_NAK_PSN_SEQ,
				    ROCEMU_NAK_INV_REQ,
				    ROCEMU_NAK_REM_ACCESS,
				    ROCEMU_NAK_REM_OP};

/** The peer answers as if nothing had come in between. */
static void expect_no_effect(struct bench *b)
{
	assert_string_equal(bench_done(b), "");
	assert_string_equal(bench_out(b), "");
	b->sport = 0;
	b->stranger = false;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK; 5 OK");
	bench_free(b);
}

TEST(comp_port, answers_from_another_address__no_effect)
{
	struct bench *b = four_sent();

	b->stranger = true;
	for (unsigned i = 0; i < ARRAY_LEN(syndromes); i++)
		for (int32_t psn = 0; psn < 6; psn++)
			assert_int_equal(bench_nak(b, psn, syndromes[i]), ROCEMU_DROP_SOURCE);
	expect_no_effect(b);
}

TEST(comp_port, answers_from_another_port__not_to_the_oldest__no_effect)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	for (unsigned i = 0; i < ARRAY_LEN(syndromes); i++)
		for (int32_t psn = 2; psn < 6; psn++)
			assert_int_equal(bench_nak(b, psn, syndromes[i]), ROCEMU_DROP_PORT);
	expect_no_effect(b);
}

TEST(comp_port, rnr_nak_to_the_oldest_from_another_port__costs_its_time)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	assert_int_equal(bench_nak(b, 1, ROCEMU_AETH_RNR), ROCEMU_DROP_NONE);
	assert_string_equal(bench_out(b), "");
	bench_wait(b, rocemu_rnr_timer_ns(0));
	assert_string_equal(bench_out(b),
			    "SEND_ONLY 1 A; SEND_ONLY 2 A; SEND_ONLY 3 A; SEND_ONLY 4 A");
	/* The peer is taken for one that has moved, and moves back. */
	b->sport = 0;
	assert_int_equal(bench_ack(b, 1), ROCEMU_DROP_NONE);
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK; 5 OK");
	bench_free(b);
}

TEST(comp_port, sweep_of_naks_from_another_port__nothing_of_it_is_taken)
{
	struct bench *b = four_sent();

	b->sport = OTHER;
	for (int32_t psn = FAR; psn >= 1; psn -= 64)
		assert_int_equal(bench_nak(b, psn, ROCEMU_NAK_INV_REQ), ROCEMU_DROP_PORT);
	b->sport = 0;
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK; 5 OK");
	bench_free(b);
}

TEST(comp_port, sweep_of_naks_from_the_peers_own_port__nothing_ends_the_connection)
{
	struct bench *b = four_sent();

	assert_int_equal(bench_nak(b, FAR, ROCEMU_NAK_INV_REQ), ROCEMU_DROP_GHOST);
	assert_int_equal(bench_nak(b, 1, ROCEMU_NAK_INV_REQ), ROCEMU_DROP_SWEEP);
	assert_int_equal(bench_nak(b, 4, ROCEMU_NAK_REM_OP), ROCEMU_DROP_SWEEP);
	assert_string_equal(bench_done(b), "");
	b->now += PORT_GUARD_NS;
	assert_int_equal(bench_nak(b, 1, ROCEMU_NAK_INV_REQ), ROCEMU_DROP_NONE);
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_ERR);
	bench_free(b);
}

/* They lie 2^22 behind what they mean, and are no sweep (see resp-early.c). */
TEST(comp_port, hint__no_sweep)
{
	struct bench *b = four_sent();

	bench_ack(b, 3 - RECOVER_HINT_BEHIND);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->psn_sweeps, 0);
	bench_ack(b, 3 - 2 * RECOVER_HINT_BEHIND + 1);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->psn_sweeps, 1);
	bench_free(b);
}

/* The network let an ACK overtake it, or doubled it. */
TEST(comp_port, late_hint__no_sweep__peer_may_still_end_the_connection)
{
	struct bench *b = four_sent();

	bench_ack(b, 3);
	bench_ack(b, 2 - RECOVER_HINT_BEHIND);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->psn_sweeps, 0);
	assert_int_equal(bench_nak(b, 4, ROCEMU_NAK_REM_ACCESS), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "2 OK; 3 OK; 4 OK; 5 REM_ACCESS");
	bench_free(b);
}

/* It was on its way when the requester went back. */
TEST(comp_port, hint_after_going_back__no_sweep)
{
	struct bench *b = four_sent();

	bench_nak(b, 1, ROCEMU_AETH_RNR | 31);
	bench_ack(b, 3 - RECOVER_HINT_BEHIND);
	assert_int_equal(rocemu_ep_get_stats(b->ep)->psn_sweeps, 0);
	bench_free(b);
}
