/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion notification packets: their form (IBTA A17.9.3), how many are sent (A17.9.2), and
 * those from other ports. test/scenario/cnp.scenario has the rest.
 */
#include "hostile.h"

#include <string.h>

#include "transport/peer.h"

enum { CE = 3, US = 1000, OTHER = 0x1111, FAR = 0x200000 };

static struct hostile h;

static const struct rocemu_ep_stats *stats(void)
{
	return rocemu_ep_get_stats(h.ep);
}

static void start(void)
{
	hostile_start(&h, IBV_QPT_RC);
	h.now = 1000 * US;
}

TEST(cnp, marked_write__in_the_form_of_the_annex)
{
	static const uint8_t zero[ROCEMU_CNP_LEN];
	struct rocemu_tx tx[2];
	struct rocemu_packet p;
	uint8_t buf[64] = {0};

	start();
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

TEST(cnp, many_marked__one_in_fifty_microseconds)
{
	start();
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

/** The peer is on another host. */
static void start_far(void)
{
	start();
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
	start();
	assert_true(h.qp->req.peer->nearby);
	write_with_id(0x4711, 0);
	assert_false(shrinks(OTHER));
	hostile_free(&h);
}
