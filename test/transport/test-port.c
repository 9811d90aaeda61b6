/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets from another source port than the peer's, and sweeps over PSNs from whichever port. */
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

/** A request that ends the connection where it is due. */
static void bad_write_from(uint16_t sport, uint32_t psn)
{
	h.rkey ^= 0x100;
	write_from(sport, psn);
	h.rkey ^= 0x100;
}

TEST(resp_port, packet_due_from_another_port__taken_and_the_peer_is_there)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	write_from(OTHER, 1);
	write_from(OTHER, 2);
	EXPECT(&h, "ack 2/3");
	assert_int_equal(stats()->port_moves, 1);
	/* The NAK that reports its lost packets. */
	write_from(OTHER, 4);
	EXPECT(&h, "nak 60 3/3");
	hostile_free(&h);
}

TEST(resp_port, request_that_ends_the_connection_from_another_port__no_sweep__ends_it)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	bad_write_from(OTHER, 1);
	EXPECT(&h, "drop ACCESS; nak 62 1/1; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}

TEST(resp_port, packet_before_its_turn_from_another_port__not_kept)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	bad_write_from(OTHER, 2);
	EXPECT(&h, "drop PORT; ack 0/1");
	write_from(0, 1);
	write_from(0, 2);
	EXPECT(&h, "ack 2/3");
	hostile_free(&h);
}

/* The first packet from there was lost. */
TEST(resp_port, first_packets_from_another_port__kept)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(OTHER, 1);
	write_from(OTHER, PORT_FIRST + 1);
	write_from(OTHER, 0);
	EXPECT(&h, "drop PORT; ack 1/2");
	hostile_free(&h);
}

TEST(resp_port, repeated_packet_from_another_port__answered)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	write_from(0, 1);
	hostile_effects(&h);
	write_from(OTHER, 0);
	EXPECT(&h, "ack 1/2");
	assert_int_equal(stats()->port_moves, 0);
	hostile_free(&h);
}

/* As a sweep does it: all PSNs, the one that is due among them. */
TEST(resp_port, sweep_from_another_port__nothing_of_it_is_taken)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	for (uint32_t psn = FAR; psn; psn -= 64) {
		h.log[0] = 0;
		bad_write_from(OTHER, psn + 1);
	}
	bad_write_from(OTHER, 1);
	assert_int_equal(stats()->drops[ROCEMU_DROP_PORT], FAR / 64 + 1);
	assert_int_equal(stats()->psn_sweeps, 1);
	h.log[0] = 0;
	/* The peer does not notice. */
	write_from(0, 1);
	EXPECT(&h, "ack 1/2");
	hostile_free(&h);
}

TEST(resp_port, sweep_over__the_peer_may_move_again)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(OTHER, FAR);
	write_from(THIRD, 0);
	h.now += PORT_GUARD_NS;
	write_from(THIRD, 0);
	EXPECT(&h, "drop PORT; drop PORT; ack 0/1");
	hostile_free(&h);
}

TEST(resp_port, near_but_never_due__becomes_a_sweep)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	hostile_effects(&h);
	for (unsigned i = 0; i <= PORT_STRIKES; i++) {
		h.log[0] = 0;
		write_from(OTHER, 2 + i);
	}
	assert_int_equal(stats()->psn_sweeps, 1);
	h.log[0] = 0;
	bad_write_from(OTHER, 1);
	EXPECT(&h, "drop PORT");
	hostile_free(&h);
}

TEST(resp_port, sweep_from_the_peers_own_port__nothing_ends_the_connection)
{
	hostile_start(&h, IBV_QPT_RC);
	write_from(0, 0);
	hostile_effects(&h);
	bad_write_from(0, FAR);
	hostile_effects(&h);
	bad_write_from(0, 1);
	hostile_send(&h, ROCEMU_RC_SEND_LAST, 1, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_FIRST, 1, 8);
	EXPECT(&h, "drop SWEEP; drop SWEEP; drop SWEEP");
	write_from(0, 1);
	EXPECT(&h, "ack 1/2");
	/*
	 * A correct peer that violated the protocol repeats the request, and gets the NAK in the
	 * end.
	 */
	bad_write_from(0, 2);
	h.now += PORT_GUARD_NS;
	bad_write_from(0, 2);
	EXPECT(&h, "drop SWEEP; drop ACCESS; nak 62 2/2; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
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

TEST(resp_port, peer_that_spreads_over_ports__early_packets_are_kept)
{
	uint32_t psn = 0;

	hostile_start(&h, IBV_QPT_RC);
	for (; psn < PORT_MOVES_SPREAD; psn++)
		write_from((uint16_t)(OTHER + psn), psn);
	hostile_effects(&h);
	write_from(THIRD, psn + 1);
	write_from(THIRD + 1, psn);
	EXPECT(&h, "ack 9/10");
	hostile_free(&h);
}

TEST(resp_port, uc_and_ud__any_port)
{
	hostile_start(&h, IBV_QPT_UC);
	h.sport = OTHER;
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY, FAR, 8);
	EXPECT(&h, "");
	assert_int_equal(stats()->rx_packets, 1);
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
