/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC under loss (IBTA 9.8): nothing is acknowledged and nothing repeated; a message that lost a
 * packet never completes at the receiver, the next one does, and takes the receive that the damaged
 * one did not use up.
 */
#include <string.h>

#include "duo.h"

enum { MESSAGES = 4, MTU = 256, PACKETS = 3, LEN = 2 * MTU + 100 };

static struct sim_qp_opts uc_opts(void)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.type = IBV_QPT_UC;
	o.psn = 0xfffffd;
	return o;
}

static struct duo uc_duo(const char *name, unsigned mask)
{
	struct sim_qp_opts o = uc_opts();
	struct duo d = duo_new(name, &o);

	d.s->cfg.seed = mask;
	d.s->link[0][1].c.loss_mask = mask;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_SEQUENCE;
	return d;
}

static bool all_arrived(unsigned mask, unsigned message)
{
	return (mask >> message * PACKETS & 7) == 0;
}

/** Bytes of the message that arrived before its first loss. */
static uint32_t prefix(unsigned mask, unsigned message)
{
	uint32_t n = 0;

	while (n < PACKETS && !(mask >> (message * PACKETS + n) & 1))
		n++;
	return n == PACKETS ? LEN : n * MTU;
}

static void send_under_mask(unsigned mask)
{
	struct duo d = uc_duo("uc-send", mask);
	unsigned whole = 0;

	for (unsigned i = 0; i < MESSAGES; i++)
		sim_recv(d.b, d.mb, i * 1024, LEN);
	for (unsigned i = 0; i < MESSAGES; i++)
		sim_send(d.a, d.ma, i * 1024, LEN);
	sim_run(d.s);
	for (unsigned i = 0; i < MESSAGES; i++)
		if (all_arrived(mask, i))
			sim_want_copy(d.mb, whole++ * 1024, d.ma, i * 1024, LEN);
	sim_assert(d.s, d.b->rq.good == whole && d.b->rq.bad == 0);
	sim_assert(d.s, d.a->sq.good == MESSAGES);
	/* A damaged message may have left something in the receive that waits for the next. */
	if (whole < MESSAGES)
		sim_want_any(d.mb, whole * 1024, LEN);
	sim_end(d.s);
}

TEST(uc_send, first_8_packets_lost_in_any_pattern__whole_messages_complete_in_order)
{
	for (unsigned mask = 0; mask < 256; mask++)
		send_under_mask(mask);
}

static void write_under_mask(unsigned mask, bool imm)
{
	struct duo d = uc_duo(imm ? "uc-write-imm" : "uc-write", mask);
	unsigned whole = 0;

	for (unsigned i = 0; i < MESSAGES; i++) {
		struct sim_wr w = sim_wr(imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
					 IBV_SEND_SIGNALED);

		if (imm)
			sim_recv(d.b, d.mb, 32768, 16);
		sim_wr_local(&w, d.ma, i * 1024, LEN);
		sim_wr_remote(&w, d.mb, i * 1024);
		assert_int_equal(sim_post(d.a, &w), 0);
		/* What came before the first loss is placed, nothing after it (9.8.3.2.1: the
		 * rest is dropped). */
		sim_want_copy(d.mb, i * 1024, d.ma, i * 1024, prefix(mask, i));
		whole += all_arrived(mask, i);
	}
	sim_run(d.s);
	sim_assert(d.s, d.b->rq.good == (imm ? whole : 0) && d.b->rq.bad == 0);
	sim_assert(d.s, d.a->sq.good == MESSAGES);
	sim_end(d.s);
}

TEST(uc_write, first_8_packets_lost_in_any_pattern__placed_up_to_the_loss)
{
	for (unsigned mask = 0; mask < 256; mask++)
		write_under_mask(mask, false);
}

TEST(uc_write_imm, first_8_packets_lost_in_any_pattern__whole_messages_complete)
{
	for (unsigned mask = 0; mask < 256; mask++)
		write_under_mask(mask, true);
}

TEST(uc_send, no_receive_posted__dropped_and_the_next_one_taken)
{
	struct sim_qp_opts o = uc_opts();
	struct duo d = duo_new("uc-no-recv", &o);

	sim_send(d.a, d.ma, 0, LEN);
	sim_run(d.s);
	assert_true(duo_stats(&d, 1)->drops[ROCEMU_DROP_NO_RECV] > 0);
	assert_int_equal(rocemu_qp_state(d.b->qp), IBV_QPS_RTS);
	sim_recv(d.b, d.mb, 0, LEN);
	sim_send(d.a, d.ma, 1024, LEN);
	sim_want_copy(d.mb, 0, d.ma, 1024, LEN);
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv OK");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_SEQUENCE;
	sim_end(d.s);
}

TEST(uc_write, wrong_rkey__dropped_without_a_word)
{
	struct sim_qp_opts o = uc_opts();
	struct duo d = duo_new("uc-rkey", &o);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);

	sim_wr_local(&w, d.ma, 0, LEN);
	sim_wr_remote(&w, d.mb, 0);
	w.wr.wr.rdma.rkey ^= 0x100;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	assert_string_equal(
		sim_effects(d.s),
		"A WRITE_FIRST 16777213; A WRITE_MIDDLE 16777214; A WRITE_LAST 16777215");
	assert_true(duo_stats(&d, 1)->drops[ROCEMU_DROP_ACCESS] > 0);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_SEQUENCE;
	sim_end(d.s);
}

TEST(uc, operations_that_only_rc_has__complete_with_an_error)
{
	struct sim_qp_opts o = uc_opts();
	struct duo d = duo_new("uc-only-rc", &o);
	static const enum ibv_wr_opcode rc_only[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned i = 0; i < 3; i++) {
		struct sim_wr w = sim_wr(rc_only[i], IBV_SEND_SIGNALED);

		sim_wr_local(&w, d.ma, 0, 8);
		sim_wr_remote(&w, d.mb, 0);
		assert_int_equal(sim_post(d.a, &w), 0);
		sim_run(d.s);
		sim_qp_state(d.a, IBV_QPS_RTS);
	}
	assert_string_equal(sim_done(d.a), "send LOC_QP_OP; send LOC_QP_OP; send LOC_QP_OP");
	sim_end(d.s);
}
