/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder and packets before their turn: kept, executed in order, reported when a gap is one
 * and once; dropped where nothing may be kept; and bounded whatever a peer sends.
 */
#include "hostile.h"

#include <stdio.h>
#include <string.h>

static struct hostile h;

/* What a QP may have kept alone, and another one of its peer then. */
enum { ALONE = 2 * KEEP_SLOTS / 3 + 1, SECOND = (4 * KEEP_SLOTS - 5 * ALONE) / 5 + 1 };

#define KEEP(name) TEST(resp_keep, name)

/* A WRITE of 8 bytes to the place of its PSN, with or without AckReq. */
static void write_at(uint32_t psn, bool ackreq)
{
	struct rocemu_hdrs hdrs = {
		.opcode = ROCEMU_RC_WRITE_ONLY,
		.psn = psn & ROCEMU_PSN_MASK,
		.ackreq = ackreq,
		.reth = {.va = (uintptr_t)h.mem + psn % 1024 * 8, .rkey = h.rkey, .length = 8},
	};

	memset(h.payload, (int)(psn % 251 + 1), 8);
	hostile_send_hdrs(&h, &hdrs, 8);
}

static bool written(uint32_t psn)
{
	uint8_t want[8];

	memset(want, (int)(psn % 251 + 1), 8);
	return memcmp(h.mem + psn % 1024 * 8, want, 8) == 0;
}

static void writes(uint32_t from, uint32_t to)
{
	for (uint32_t psn = from; psn <= to; psn++)
		write_at(psn, false);
}

static void start(void)
{
	hostile_start(&h, IBV_QPT_RC);
}

static void finish(void)
{
	struct keep *k = &h.ep->keep;

	assert_int_equal(rocemu_qp_destroy(h.qp), 0);
	assert_int_equal(k->nfree, KEEP_SLOTS);
	assert_true(list_empty(&k->holders));
	hostile_free(&h);
}

static const struct rocemu_ep_stats *stats(void)
{
	return rocemu_ep_get_stats(h.ep);
}

/* ---- when a gap is reported ---- */

KEEP(two_packets_ahead__silence_and_nothing_placed)
{
	start();
	writes(1, 2);
	EXPECT(&h, "");
	assert_false(written(1) || written(2));
	assert_int_equal(stats()->kept, 2);
	write_at(0, false);
	EXPECT(&h, "ack 2/3");
	assert_true(written(0) && written(1) && written(2));
	assert_int_equal(stats()->naks_sent, 0);
	finish();
}

KEEP(three_packets_ahead__one_nak)
{
	start();
	writes(1, 3);
	EXPECT(&h, "nak 60 0/0");
	writes(4, 20);
	EXPECT(&h, "");
	write_at(0, true);
	EXPECT(&h, "ack 20/21");
	assert_int_equal(stats()->naks_sent, 1);
	finish();
}

/** Every 100th packet is lost, and the peer repeats it alone: three times. 300 is missing. */
static void three_gaps(void)
{
	writes(1, 99);
	EXPECT(&h, "nak 60 0/0");
	writes(101, 199);
	write_at(0, false);
	EXPECT(&h, "nak 60 100/100");
	writes(201, 299);
	write_at(100, false);
	EXPECT(&h, "nak 60 200/200");
	writes(301, 399);
	write_at(200, false);
	EXPECT(&h, "nak 60 300/300");
}

KEEP(peer_fills_gaps_alone__those_behind_the_first_are_named)
{
	char hint[32];

	start();
	three_gaps();
	writes(401, 402);
	EXPECT(&h, "");
	write_at(403, false);
	snprintf(hint, sizeof(hint), "ack %d/300", 400 + (1 << 24) - RECOVER_HINT_BEHIND);
	EXPECT(&h, hint);
	writes(404, 499);
	EXPECT(&h, "");
	write_at(400, false);
	write_at(300, false);
	EXPECT(&h, "ack 499/500");
	finish();
}

KEEP(peer_goes_back__only_the_first_gap_is_named)
{
	start();
	three_gaps();
	writes(297, 299);
	EXPECT(&h, "ack 299/300");
	writes(401, 499);
	EXPECT(&h, "");
	write_at(300, false);
	EXPECT(&h, "nak 60 400/400");
	finish();
}

KEEP(one_packet_that_asks_for_an_answer_ahead__nak_at_once)
{
	start();
	write_at(1, true);
	EXPECT(&h, "nak 60 0/0");
	finish();
}

KEEP(late_packets_trickle_in__no_nak_for_each)
{
	start();
	writes(5, 6);
	for (uint32_t psn = 0; psn < 5; psn++) {
		write_at(psn, false);
		EXPECT(&h, psn == 4 ? "ack 6/7" : "");
	}
	assert_int_equal(stats()->naks_sent, 0);
	finish();
}

KEEP(gap_filled__enough_beyond_the_next__nak_at_once)
{
	start();
	writes(1, 3); /* 0 is lost, 4 is lost */
	writes(5, 7);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, false);
	EXPECT(&h, "nak 60 4/4");
	write_at(4, false);
	EXPECT(&h, "ack 7/8");
	finish();
}

KEEP(gap_filled__one_packet_beyond_the_next__it_may_be_late)
{
	start();
	writes(1, 3);
	write_at(5, false);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, false);
	EXPECT(&h, "ack 3/4");
	write_at(4, false);
	EXPECT(&h, "ack 5/6");
	finish();
}

KEEP(gap_filled_by_one_that_asks__next_gap_is_the_answer)
{
	start();
	writes(1, 3);
	write_at(5, false);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, true);
	EXPECT(&h, "nak 60 4/4");
	finish();
}

/*
 * Single packets with AckReq are worth it; a peer that sends all again must not be stopped for
 * each.
 */
KEEP(neighbouring_gaps__nak_for_each_answer_asked_but_few_in_a_row)
{
	start();
	writes(10, 12);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, true);
	EXPECT(&h, "nak 60 1/1");
	write_at(1, true);
	EXPECT(&h, "nak 60 2/2");
	write_at(2, true);
	EXPECT(&h, "nak 60 3/3");
	write_at(3, true);
	EXPECT(&h, "ack 3/4");
	writes(4, 9);
	EXPECT(&h, "ack 12/13");
	/* The next gap is another matter. */
	writes(14, 16);
	EXPECT(&h, "nak 60 13/13");
	finish();
}

KEEP(everything_again_after_the_gap__acked_cheaply)
{
	start();
	writes(1, 40);
	EXPECT(&h, "nak 60 0/0");
	writes(0, 39);
	write_at(40, true);
	EXPECT(&h, "ack 40/41");
	assert_int_equal(stats()->acks_sent, 1);
	assert_int_equal(stats()->duplicates, 40);
	finish();
}

/* The peer went back and the same packet was lost again: without another NAK it would wait for its
 * timeout. */
KEEP(kept_packets_again_but_not_the_missing_one__nak_repeated_once_per_repetition)
{
	start();
	writes(1, 8);
	write_at(9, true);
	EXPECT(&h, "nak 60 0/0");
	for (unsigned i = 0; i < 3; i++) {
		writes(1, 4);
		EXPECT(&h, "");
		write_at(5, true);
		EXPECT(&h, "nak 60 0/0");
		writes(6, 8);
		write_at(9, true);
		EXPECT(&h, "");
	}
	writes(0, 9);
	EXPECT(&h, "ack 9/10");
	finish();
}

/* Whatever the peer repeats when a NAK is lost, its oldest request makes progress. */
KEEP(nak_lost__oldest_request_again__answered_or_fills_the_gap)
{
	start();
	writes(0, 1);
	writes(3, 5);
	EXPECT(&h, "nak 60 2/2");
	write_at(0, true); /* what was acknowledged only by the NAK */
	EXPECT(&h, "ack 1/2");
	write_at(2, true);
	EXPECT(&h, "ack 5/6");
	finish();
}

/* ---- what is replayed ---- */

KEEP(messages_of_all_kinds__executed_in_order)
{
	hostile_new(&h, IBV_QPT_RC, true);
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_recv(&h, 1, 0, 1024);
	hostile_recv(&h, 2, 2048, 1024);
	hostile_send(&h, ROCEMU_RC_SEND_LAST, 2, 4);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 4, 64, 5, 0);
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 5, 0, 64, 8);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY_IMM, 6, 7);
	memset(h.mem + 64, 0, 8);
	write_at(3, false);
	hostile_send(&h, ROCEMU_RC_SEND_MIDDLE, 1, HOSTILE_MTU);
	EXPECT(&h, "nak 60 0/0");
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	EXPECT(&h, "atomic 4/3 =0; only 5+8; ack 6/5; recv 1 len 516; recv 2 len 7 imm 1020304");
	assert_true(written(3));
	finish();
}

/* An ACK may not bear a READ's PSN. */
KEEP(gap_before_a_read__its_response_is_the_answer)
{
	start();
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 1, 0, 0, 3 * HOSTILE_MTU);
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 4, 0, 0, 8);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, false);
	EXPECT(&h, "first 1+256; middle 2+256; last 3+256; only 4+8");
	assert_int_equal(stats()->acks_sent, 0);
	finish();
}

KEEP(read_takes_the_psns_of_kept_packets__forgotten)
{
	start();
	writes(1, 3);
	EXPECT(&h, "nak 60 0/0");
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 0, 0, 0, 5 * HOSTILE_MTU);
	EXPECT(&h, "first 0+256; middle 1+256; middle 2+256; middle 3+256; last 4+256");
	assert_true(keep_empty(&h.qp->resp.early));
	write_at(5, true);
	EXPECT(&h, "ack 5/2");
	finish();
}

KEEP(more_reads_kept_than_allowed_at_a_time__fatal_in_their_turn)
{
	start();
	for (uint32_t psn = 1; psn <= HOSTILE_RD_ATOMIC + 1; psn++)
		hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, 0, 8);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, false);
	EXPECT(&h, "only 1+8; only 2+8; nak 61 3/3; event QP_REQ_ERR; ERR");
	assert_int_equal(stats()->drops[ROCEMU_DROP_SEQUENCE], 1);
	finish();
}

KEEP(rule_broken_by_a_kept_packet__error_and_the_rest_given_back)
{
	start();
	hostile_recv(&h, 1, 0, 64);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 2, 8, HOSTILE_MEM, 8);
	writes(3, 6);
	write_at(1, false);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, false);
	EXPECT(&h, "nak 62 2/2; recv 1 WR_FLUSH_ERR; event QP_ACCESS_ERR; ERR");
	assert_false(written(3));
	assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS);
	finish();
}

KEEP(memory_gone_meanwhile__remote_access_error)
{
	start();
	writes(1, 3);
	EXPECT(&h, "nak 60 0/0");
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 0, 0, 0);
	EXPECT(&h, "nak 62 1/1; event QP_ACCESS_ERR; ERR");
	finish();
}

KEEP(xrc_srq_gone_meanwhile__invalid_request)
{
	hostile_start(&h, IBV_QPT_XRC_RECV);
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 1, 8);
	EXPECT(&h, "nak 60 0/0");
	assert_int_equal(rocemu_srq_destroy(h.srq), 0);
	h.srq = NULL;
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 0, 8);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_ERR);
	assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS);
	hostile_free(&h);
}

KEEP(xrc__kept_packet_completes_where_its_srq_says)
{
	hostile_start(&h, IBV_QPT_XRC_RECV);
	hostile_recv(&h, 1, 0, 64);
	hostile_recv(&h, 2, 64, 64);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 1, 8);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 0, 4);
	EXPECT(&h, "ack 1/2; recv 1 len 4; recv 2 len 8");
	hostile_free(&h);
}

/* ---- where nothing is kept ---- */

KEEP(after_an_rnr_nak__dropped)
{
	start();
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; rnr 12 0/0");
	for (uint32_t psn = 1; psn <= 4; psn++)
		write_at(psn, true);
	EXPECT(&h, "drop PSN; drop PSN; drop PSN; drop PSN");
	assert_int_equal(stats()->kept, 0);
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1; recv 1 len 8");
	writes(2, 4); /* a gap as any other */
	EXPECT(&h, "nak 60 1/1");
	finish();
}

KEEP(kept_send_finds_no_receive__rnr_nak_and_the_rest_dropped)
{
	start();
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 1, 8);
	writes(2, 4);
	EXPECT(&h, "nak 60 0/0");
	write_at(0, true);
	EXPECT(&h, "rnr 12 1/1");
	assert_int_equal(stats()->drops[ROCEMU_DROP_NO_RECV], 1);
	assert_true(keep_empty(&h.qp->resp.early));
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 1, 8);
	EXPECT(&h, "ack 1/2; recv 1 len 8");
	assert_false(written(2));
	finish();
}

KEEP(error_and_reset__slots_given_back)
{
	static const enum ibv_qp_state to[] = {IBV_QPS_ERR, IBV_QPS_RESET};

	for (unsigned i = 0; i < ARRAY_LEN(to); i++) {
		struct ibv_qp_attr attr = {.qp_state = to[i]};

		start();
		writes(1, 9);
		assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS - 9);
		assert_int_equal(rocemu_qp_modify(h.qp, 0, &attr, IBV_QP_STATE), 0);
		assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS);
		hostile_effects(&h);
		finish();
	}
}

/* finish() looks. */
KEEP(destroyed__slots_given_back)
{
	start();
	writes(1, 9);
	assert_int_equal(h.ep->keep.nfree, KEEP_SLOTS - 9);
	finish();
}

/* ---- bounds ---- */

KEEP(far_ahead__reported_but_not_kept)
{
	start();
	write_at(KEEP_AHEAD + 1, true);
	EXPECT(&h, "drop PSN; nak 60 0/0");
	assert_int_equal(stats()->kept_full, 1);
	write_at(KEEP_AHEAD, false);
	EXPECT(&h, "");
	assert_int_equal(stats()->kept, 1);
	finish();
}

KEEP(no_room__dropped_and_asked_for_when_the_rest_was_replayed)
{
	uint32_t n = ALONE;

	start();
	writes(1, n);
	EXPECT(&h, "nak 60 0/0");
	writes(n + 1, n + 2);
	EXPECT(&h, "drop PSN; drop PSN");
	assert_int_equal(stats()->kept, n);
	assert_int_equal(stats()->kept_full, 2);
	write_at(0, true);
	h.now++;
	hostile_effects(&h);
	assert_int_equal(h.qp->resp.epsn, n + 1);
	assert_int_equal(stats()->naks_sent, 2);
	assert_int_equal(stats()->acks_sent, 0);
	write_at(n + 1, true);
	write_at(n + 2, true);
	hostile_effects(&h);
	assert_int_equal(stats()->acks_sent, 1);
	assert_true(keep_empty(&h.qp->resp.early));
	finish();
}

KEEP(psn_wraps__in_the_middle_of_what_is_kept)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.psn = 0xfffffe;
	hostile_connect(&h, IBV_QPS_RTS);
	writes(0xffffff, 0x1000002);
	EXPECT(&h, "nak 60 16777214/0");
	write_at(0xfffffe, false);
	EXPECT(&h, "ack 2/5");
	finish();
}

/* Copies of a kept packet, forged with other bytes, change nothing: the first one counts. */
KEEP(doubles_of_a_kept_packet__first_one_executed)
{
	start();
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 1, 8);
	EXPECT(&h, "nak 60 0/0");
	write_at(1, false);
	write_at(1, false);
	EXPECT(&h, "");
	assert_int_equal(stats()->kept, 1);
	assert_int_equal(stats()->duplicates, 2);
	write_at(0, true);
	EXPECT(&h, "ack 1/2; recv 1 len 8");
	finish();
}

KEEP(lengths_that_no_message_has__fatal_in_their_turn_only)
{
	start();
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 1, 2 * HOSTILE_MTU, 0, 8);
	EXPECT(&h, "nak 60 0/0");
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	write_at(0, false);
	EXPECT(&h, "nak 61 1/1; event QP_REQ_ERR; ERR");
	finish();
}

/** One more QP of the same endpoint, which is h.qp from now on. @return the old one. */
static struct rocemu_qp *another_qp(void)
{
	struct rocemu_qp_init init = {.type = IBV_QPT_RC,
				      .pd = h.pd,
				      .send_cq = h.cq,
				      .recv_cq = h.cq,
				      .cap = {16, 16, 4, 4, 64}};
	struct rocemu_qp *old = h.qp;

	assert_int_equal(rocemu_qp_create(h.ep, &init, &h.qp), 0);
	hostile_connect(&h, IBV_QPS_RTS);
	return old;
}

/* The dropped packets of the first one are requested again when its gap is filled after all. */
KEEP(qp_that_stands_still__another_takes_its_room_and_it_recovers)
{
	struct rocemu_qp *stuck, *busy;

	start();
	writes(1, ALONE);
	EXPECT(&h, "nak 60 0/0");
	stuck = another_qp();
	busy = h.qp;
	h.now = KEEP_STUCK_NS - 1;
	writes(1, SECOND + 1);
	EXPECT(&h, "drop PSN; nak 60 0/0");
	h.now = KEEP_STUCK_NS;
	writes(SECOND + 1, ALONE);
	EXPECT(&h, "");
	assert_int_equal(busy->resp.early.count, ALONE);
	assert_int_equal(stuck->resp.early.count, 0);
	h.qp = stuck;
	write_at(0, true);
	EXPECT(&h, "nak 60 1/1");
	writes(1, ALONE - 1);
	EXPECT(&h, "");
	write_at(ALONE, true);
	EXPECT(&h, "ack 683/684");
	assert_int_equal(rocemu_qp_destroy(busy), 0);
	finish();
}

/* ---- packets that come by memory ---- */

KEEP(headers_changed_in_memory__those_that_were_copied_count)
{
	start();
	h.by_memory = true;
	write_at(0, true);
	EXPECT(&h, "ack 0/1");
	writes(2, 3);
	EXPECT(&h, "");
	assert_int_equal(stats()->kept, 2);
	write_at(1, false);
	assert_true(written(0) && written(1) && written(2) && written(3));
	assert_int_equal(stats()->drops[ROCEMU_DROP_ICRC], 0);
	finish();
}
