/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion notification packets: when they are sent (IBTA A17.9.2), their form (A17.9.3), and
 * peers that send too many or wrong ones. */
#include "hostile.h"

#include <string.h>

#include "transport/peer.h"

enum { CE = 3, US = 1000, OTHER = 0x1111, FAR = 0x200000 };

static struct hostile h;

static const struct rocemu_ep_stats *stats(void)
{
	return rocemu_ep_get_stats(h.ep);
}

static void start(enum ibv_qp_type type)
{
	hostile_start(&h, type);
	h.now = 1000 * US;
}

TEST(cnp, marked_write__sent_before_the_ack)
{
	start(IBV_QPT_RC);
	h.ecn = CE;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "cnp; ack 0/1");
	assert_int_equal(stats()->ecn_marked, 1);
	assert_int_equal(stats()->cnps_sent, 1);
	hostile_free(&h);
}

TEST(cnp, marked_write__in_the_form_of_the_annex)
{
	static const uint8_t zero[ROCEMU_CNP_LEN];
	struct rocemu_tx tx[2];
	struct rocemu_packet p;
	uint8_t buf[64] = {0};

	start(IBV_QPT_RC);
	h.ecn = CE;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	assert_int_equal(rocemu_ep_output_kind(h.ep), ROCEMU_OUTPUT_NOW);
	assert_int_equal(rocemu_ep_output(h.ep, h.now, tx, 2), 2);
	assert_int_equal(rocemu_tx_len(&tx[0]), ROCEMU_BTH_LEN + ROCEMU_CNP_LEN + ROCEMU_ICRC_LEN);
	memcpy(buf, tx[0].hdr, tx[0].hdr_len);
	memcpy(buf + tx[0].hdr_len, tx[0].iov[0].iov_base, ROCEMU_CNP_LEN);
	assert_int_equal(rocemu_packet_decode(&p, buf, rocemu_tx_len(&tx[0])), ROCEMU_DROP_NONE);
	assert_int_equal(p.h.opcode, ROCEMU_CNP);
	assert_int_equal(p.h.psn, 0);
	assert_int_equal(p.h.pkey, 0xffff);
	assert_int_equal(p.h.dqpn, HOSTILE_QPN);
	assert_true(p.h.becn);
	assert_false(p.h.fecn || p.h.se || p.h.ackreq || p.h.migreq);
	assert_memory_equal(p.payload, zero, ROCEMU_CNP_LEN);
	hostile_free(&h);
}

TEST(cnp, ecn_capable_but_not_marked__none)
{
	start(IBV_QPT_RC);
	for (h.ecn = 0; h.ecn < CE; h.ecn++)
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, h.ecn, 8);
	EXPECT(&h, "ack 2/3");
	assert_int_equal(stats()->ecn_marked, 0);
	hostile_free(&h);
}

TEST(cnp, many_marked__one_in_fifty_microseconds)
{
	start(IBV_QPT_RC);
	h.ecn = CE;
	for (uint32_t psn = 0; psn < 10; psn++) {
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
		h.now += 10 * US;
	}
	EXPECT(&h, "cnp; ack 9/10");
	assert_int_equal(stats()->cnps_sent,
			 1); /* the second is owed since 50 us, in the same call */
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 10, 8);
	EXPECT(&h, "cnp; ack 10/11");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 11, 8);
	EXPECT(&h, "ack 11/12");
	assert_int_equal(stats()->ecn_marked, 12);
	hostile_free(&h);
}

TEST(cnp, full_buffer__as_a_mark)
{
	start(IBV_QPT_RC);
	h.congested = true;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "cnp; ack 0/1");
	assert_int_equal(stats()->ecn_marked, 0);
	hostile_free(&h);
}

TEST(cnp, marked_read_request__before_the_response)
{
	start(IBV_QPT_RC);
	h.ecn = CE;
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 0, 0, 0, 2 * HOSTILE_MTU);
	EXPECT(&h, "cnp; first 0+256; last 1+256");
	hostile_free(&h);
}

TEST(cnp, marked_duplicate__sent_as_well)
{
	start(IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1");
	h.ecn = CE;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "cnp; ack 0/1");
	hostile_free(&h);
}

TEST(cnp, other_services__all_but_ud)
{
	start(IBV_QPT_UC);
	h.ecn = CE;
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "cnp");
	hostile_free(&h);
	start(IBV_QPT_XRC_RECV);
	h.ecn = CE;
	hostile_send(&h, ROCEMU_XRC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "cnp; ack 0/1");
	hostile_free(&h);
	start(IBV_QPT_UD);
	h.ecn = CE;
	h.congested = true;
	hostile_recv(&h, 1, 0, 256);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 8);
	assert_int_equal(stats()->cnps_sent, 0);
	assert_false(rocemu_ep_has_output(h.ep));
	hostile_free(&h);
}

TEST(cnp, packet_that_is_not_taken__none)
{
	start(IBV_QPT_RC);
	h.ecn = CE;
	h.dqpn = 0x77;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "drop QPN");
	assert_int_equal(stats()->ecn_marked, 0);
	hostile_free(&h);
}

TEST(cnp, qp_reset_before_it_left__none)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	start(IBV_QPT_RC);
	h.ecn = CE;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	assert_int_equal(rocemu_qp_modify(h.qp, h.now, &reset, IBV_QP_STATE), 0);
	EXPECT(&h, "");
	hostile_free(&h);
}

/* ---- received ---- */

static void send_cnp(bool becn, uint32_t len)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_CNP, .becn = becn};

	hostile_send_hdrs(&h, &hdrs, len);
}

static uint64_t window(void)
{
	return h.qp->req.peer->cc.cwnd;
}

TEST(cnp_input, flood__window_shrinks_once_an_interval_and_qp_lives)
{
	uint64_t before, after;

	start(IBV_QPT_RC);
	before = window();
	for (int i = 0; i < 100; i++) {
		send_cnp(true, ROCEMU_CNP_LEN);
		EXPECT(&h, "drop CNP");
		if (!i)
			after = window();
	}
	assert_true(after < before);
	assert_int_equal(window(), after);
	for (int i = 0; i < 1000; i++) {
		h.now += 50 * US;
		send_cnp(true, ROCEMU_CNP_LEN);
		EXPECT(&h, "drop CNP");
	}
	assert_int_equal(window(), h.qp->req.full_cost);
	assert_int_equal(stats()->cnps_rcvd, 1100);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1");
	hostile_free(&h);
}

/** The peer is on another host. */
static void start_far(void)
{
	start(IBV_QPT_RC);
	h.qp->req.peer->nearby = false;
}

/** @return whether a CNP from that port shrinks the window. */
static bool shrinks(uint16_t sport)
{
	const uint64_t before = window();

	h.now += 1000 * US;
	h.sport = sport;
	send_cnp(true, ROCEMU_CNP_LEN);
	h.sport = 0;
	assert_string_equal(hostile_effects(&h), window() < before ? "drop CNP" : "drop PORT");
	return window() < before;
}

/** The peer's own packet with an IPv4 identification. */
static void write_with_id(uint16_t id, uint32_t psn)
{
	h.ip_id = id;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	h.ip_id = 0;
	hostile_effects(&h);
}

TEST(cnp_input, from_another_port__peer_sends_from_a_udp_socket__no_effect)
{
	start_far();
	write_with_id(0, 0);
	write_with_id(3, 1);
	assert_false(shrinks(OTHER));
	assert_true(shrinks(0));
	assert_int_equal(stats()->cnps_rcvd, 1);
	hostile_free(&h);
}

TEST(cnp_input, from_another_port__adapter__taken_but_not_during_a_sweep)
{
	start_far();
	write_with_id(0x4711, 0);
	assert_true(shrinks(OTHER));
	h.sport = OTHER;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, FAR, 8);
	EXPECT(&h, "drop PORT");
	assert_false(shrinks(OTHER));
	hostile_free(&h);
}

TEST(cnp_input, from_another_port__identification_of_a_stranger__no_effect)
{
	start_far();
	h.sport = OTHER;
	write_with_id(0x4711, 1);
	assert_false(shrinks(OTHER));
	hostile_free(&h);
}

TEST(cnp_input, from_another_port__adapters_ids_but_on_this_host__no_effect)
{
	start(IBV_QPT_RC);
	assert_true(h.qp->req.peer->nearby);
	write_with_id(0x4711, 0);
	assert_false(shrinks(OTHER));
	hostile_free(&h);
}

TEST(cnp_input, from_another_address__no_effect)
{
	uint64_t before;

	start(IBV_QPT_RC);
	before = window();
	h.peer.raw[15] ^= 1;
	send_cnp(true, ROCEMU_CNP_LEN);
	EXPECT(&h, "drop SOURCE");
	assert_int_equal(window(), before);
	hostile_free(&h);
}

TEST(cnp_input, malformed__dropped_without_effect)
{
	uint64_t before;

	start(IBV_QPT_RC);
	before = window();
	send_cnp(false, ROCEMU_CNP_LEN);
	send_cnp(true, 0);
	send_cnp(true, ROCEMU_CNP_LEN - 1);
	send_cnp(true, ROCEMU_MAX_MTU);
	EXPECT(&h, "drop LENGTH; drop LENGTH; drop LENGTH; drop LENGTH");
	assert_int_equal(window(), before);
	assert_int_equal(stats()->cnps_rcvd, 0);
	hostile_free(&h);
}

TEST(cnp_input, state_without_requests__dropped)
{
	hostile_new(&h, IBV_QPT_RC, false);
	hostile_connect(&h, IBV_QPS_RTR);
	send_cnp(true, ROCEMU_CNP_LEN);
	EXPECT(&h, "drop STATE");
	hostile_free(&h);
}

/* The window that a CNP for another kind of QP could shrink does not exist. */
TEST(cnp_input, qp_without_window__counted)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV};

	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		start(types[i]);
		send_cnp(true, ROCEMU_CNP_LEN);
		EXPECT(&h, "drop CNP");
		assert_int_equal(stats()->cnps_rcvd, 1);
		hostile_free(&h);
	}
}

/* A mark on a CNP is not answered by a CNP: two hosts would never end. */
TEST(cnp_input, marked__none_sent)
{
	start(IBV_QPT_RC);
	h.ecn = CE;
	h.congested = true;
	send_cnp(true, ROCEMU_CNP_LEN);
	EXPECT(&h, "drop CNP");
	assert_int_equal(stats()->cnps_sent, 0);
	hostile_free(&h);
}
