/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A responder whose peer leaves gaps and never fills them, sends wrong packets behind a gap, or
 * floods it with congestion notifications.
 */
#include "hostile.h"

#include <malloc.h>
#include <string.h>

enum { EARLY = 5000, CNP_LEN = 16 };

static struct hostile h;

static size_t allocated(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	while ((text = strstr(text, word)) != NULL) {
		n++;
		text++;
	}
	return n;
}

static void write_at(uint32_t psn)
{
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, psn, 8, 8 * (uint64_t)(psn % 512), 8);
}

TEST(hostile_resp, gap_never_filled__bounded_memory_one_nak)
{
	unsigned naks = 0, acks = 0;
	const char *text;
	size_t before;

	hostile_start(&h, IBV_QPT_RC);
	memset(h.mem, 0, sizeof(h.mem));
	before = allocated();
	for (uint32_t psn = 1; psn <= EARLY; psn++) {
		write_at(psn);
		if (psn % 16 == 0) {
			text = hostile_effects(&h);
			naks += count(text, "nak ");
			acks += count(text, "ack ");
		}
	}
	assert_true(allocated() <= before);
	assert_int_equal(naks, 1);
	assert_int_equal(acks, 0);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	/* Nothing is placed before its turn. */
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(h.mem[i], 0);
	/* The gap is filled: acknowledged, or shown by a NAK for the next one. */
	write_at(0);
	text = hostile_effects(&h);
	assert_true(strstr(text, "ack ") || strstr(text, "nak 60 "));
	assert_null(strstr(text, "nak 60 0/"));
	hostile_free(&h);
}

TEST(hostile_resp, gap_then_reset__what_was_early_is_gone)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	hostile_start(&h, IBV_QPT_RC);
	memset(h.mem, 0, sizeof(h.mem));
	for (int round = 0; round < 500; round++) {
		for (uint32_t psn = 1; psn < 40; psn++)
			write_at(psn);
		hostile_effects(&h);
		assert_int_equal(rocemu_qp_modify(h.qp, h.now, &reset, IBV_QP_STATE), 0);
		hostile_connect(&h, IBV_QPS_RTS);
	}
	assert_int_equal(rocemu_ep_get_stats(h.ep)->kept_full, 0);
	write_at(0);
	EXPECT(&h, "ack 0/1");
	for (size_t i = 8; i < 4096; i++)
		assert_int_equal(h.mem[i], 0);
	hostile_free(&h);
}

TEST(hostile_resp, gaps_filled_or_qp_in_error__room_is_given_back)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, err = {.qp_state = IBV_QPS_ERR};
	uint32_t psn = 0;

	hostile_start(&h, IBV_QPT_RC);
	for (int round = 0; round < 100; round++, psn += 20) {
		for (uint32_t i = 1; i < 20; i++)
			write_at(psn + i);
		write_at(psn);
		hostile_effects(&h);
	}
	assert_int_equal(rocemu_ep_get_stats(h.ep)->kept, 1900);
	for (int round = 0; round < 100; round++) {
		for (uint32_t i = 1; i < 20; i++)
			write_at(psn + i);
		assert_int_equal(rocemu_qp_modify(h.qp, h.now, &err, IBV_QP_STATE), 0);
		hostile_effects(&h);
		assert_int_equal(rocemu_qp_modify(h.qp, h.now, &reset, IBV_QP_STATE), 0);
		h.psn = psn;
		hostile_connect(&h, IBV_QPS_RTS);
	}
	assert_int_equal(rocemu_ep_get_stats(h.ep)->kept_full, 0);
	h.psn = 0;
	hostile_free(&h);
}

/* What is wrong counts when it is its turn, not before (IBTA 9.7.5.1.1: a PSN check comes first).
 */
TEST(hostile_resp, wrong_packet_behind_a_gap__qp_lives_until_its_turn)
{
	struct rocemu_hdrs bad = {.opcode = ROCEMU_RC_WRITE_ONLY, .psn = 2, .ackreq = true};

	hostile_start(&h, IBV_QPT_RC);
	bad.reth.va = (uintptr_t)h.mem;
	bad.reth.rkey = h.rkey ^ 0x100;
	bad.reth.length = 8;
	hostile_send_hdrs(&h, &bad, 8);
	hostile_send(&h, ROCEMU_RC_SEND_LAST, 3, 8);
	hostile_send(&h, ROCEMU_RC_READ_RESP_ONLY, 4, 8);
	hostile_effects(&h);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	write_at(0);
	hostile_effects(&h);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	hostile_free(&h);
}

TEST(hostile_resp, psn_far_ahead__no_harm)
{
	static const uint32_t ahead[] = {65, 1000, 0x100000, 0x7ffffe, 0x7fffff};
	const char *text;

	hostile_start(&h, IBV_QPT_RC);
	for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++)
		write_at(ahead[i]);
	hostile_effects(&h);
	write_at(0);
	text = hostile_effects(&h);
	assert_true(strstr(text, "ack 0/1") || strstr(text, "nak 60 1/1"));
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	hostile_free(&h);
}

static void flood(enum ibv_qp_type type)
{
	static const uint32_t lengths[] = {CNP_LEN, 0, 1, CNP_LEN - 1, CNP_LEN + 1, 256};
	size_t before;

	hostile_start(&h, type);
	before = allocated();
	for (uint32_t i = 0; i < EARLY; i++) {
		struct rocemu_hdrs cnp = {
			.opcode = ROCEMU_CNP, .becn = i % 3 != 0, .psn = i * 77 & ROCEMU_PSN_MASK};

		hostile_send_hdrs(&h, &cnp, lengths[i % 6]);
		h.log[0] = 0;
	}
	assert_true(allocated() <= before);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	/* Nothing is answered. */
	hostile_output(&h, ROCEMU_OUTPUT_BATCH);
	assert_string_equal(h.log, "");
	hostile_free(&h);
}

TEST(hostile_resp, cnp_flood__rc_uc_ud_xrc_live)
{
	flood(IBV_QPT_RC);
	flood(IBV_QPT_UC);
	flood(IBV_QPT_UD);
	flood(IBV_QPT_XRC_RECV);
}
