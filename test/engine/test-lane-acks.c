/* SPDX-License-Identifier: BSD-2-Clause */
/* ACKs that wait for a message in which they can leave: which do, and until when. */
#include "test.h"

#include "engine/lane-internal.h"
#include "node.h"
#include "transport/qp.h"

/* No timer of the requester may come to the rescue of an ACK that got lost on the way. */
static void wait_for_acks_for_ever(struct node *n)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};

	lane_lock(n->lane);
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &attr, IBV_QP_STATE), 0);
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &attr, IBV_QP_STATE | IBV_QP_TIMEOUT),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rocemu_qp_modify(n->qp, lane_now(), &attr, IBV_QP_STATE), 0);
	lane_unlock(n->lane);
}

/* As if every message so far had been answered at once: ACKs wait for the answer. */
static void expect_answers(struct node *n)
{
	lane_lock(n->lane);
	n->lane->delayed_ack.score = DELAYED_ACK_MAX_SCORE;
	n->lane->delayed_ack.open = false;
	lane_unlock(n->lane);
}

/*
 * A caller's poll leaves an ACK to the guard, and the guard ends before it expired: another caller
 * has requested the thread to watch again. The order is random, so it is tried often.
 */
TEST(lane, ack_held_for_a_guard_that_ends__sent_all_the_same)
{
	struct node a, b;
	unsigned held = 0;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	wait_for_acks_for_ever(&a);
	for (unsigned i = 0; i < 200; i++) {
		node_make_hasty(&b);
		node_ping_pong(&a, &b, 20, 16);
		expect_answers(&b);
		node_recv(&b, 0, 64);
		node_send(&a, 0, 64, true);
		lane_thread_request(b.lane, LANE_REQ_WATCH);
		node_poll(&b);
		lane_lock(b.lane);
		held += b.lane->delayed_ack.held;
		lane_unlock(b.lane);
		node_wait(&a);
	}
	print_message("ACKs found held: %u of 200\n", held);
	node_close_pair(&a, &b);
}

static void flush(struct node *n)
{
	lane_lock(n->lane);
	lane_flush(n->lane);
	lane_unlock(n->lane);
}

/* Connected, sockets warm, nothing under way; the lanes' threads have ended, so that the test alone
 * drives them. */
static void open_driven_pair(struct node *a, struct node *b)
{
	node_open_pair(a, b, "127.0.0.1", "127.0.0.2");
	node_ping_pong(a, b, 20, 16);
	lane_thread_stop(a->lane);
	lane_thread_stop(b->lane);
	flush(a);
	flush(b);
	flush(a);
	expect_answers(a);
	expect_answers(b);
}

/* The next look takes one datagram (several packets that GRO merged) at most. */
static void limit_to_one(struct node *n)
{
	lane_lock(n->lane);
	for (unsigned i = 0; i < n->lane->nsocks; i++)
		n->lane->socks[i]->several = 0;
	lane_unlock(n->lane);
}

static void look_once(struct node *n)
{
	limit_to_one(n);
	assert_false(node_try(n));
}

static bool holds_acks(struct node *n)
{
	bool held;

	lane_lock(n->lane);
	held = n->lane->delayed_ack.held;
	lane_unlock(n->lane);
	return held;
}

/* Half a message gets no answer, and its sender may wait for room to send the rest. */
TEST(lane, ack_within_a_message__does_not_wait_for_an_answer)
{
	enum { PACKETS = 100 }; /* several bursts; each 16th packet requests an ACK */
	struct node a, b;
	uint64_t sent, end;

	open_driven_pair(&a, &b);
	sent = node_stats(&b).tx_datagrams;
	end = node_stats(&b).rx_datagrams + PACKETS;
	node_write(&a, &b, 0, PACKETS * 1024, true);
	for (look_once(&b); node_stats(&b).rx_datagrams < end; look_once(&b))
		assert_false(holds_acks(&b));
	assert_true(holds_acks(&b)); /* the last one */
	assert_true(node_stats(&b).tx_datagrams > sent);
	flush(&b);
	node_poll(&a);
	node_close_pair(&a, &b);
}

/* It takes as long to take in a large message as to answer it. */
TEST(lane, ack_of_a_large_message__time_for_the_answer_begins_at_its_end)
{
	enum { PACKETS = 16 };
	struct node a, b;
	uint64_t end;

	open_driven_pair(&a, &b);
	end = node_stats(&b).rx_datagrams + PACKETS;
	node_write(&a, &b, 0, PACKETS * 1024, true);
	while (node_stats(&b).rx_datagrams < end)
		look_once(&b);
	assert_true(holds_acks(&b));
	lane_lock(b.lane);
	for (unsigned i = 0; i < b.lane->nsocks; i++)
		assert_true(b.lane->delayed_ack.since > b.lane->socks[i]->last_rx);
	lane_flush(b.lane);
	lane_unlock(b.lane);
	node_poll(&a);
	node_close_pair(&a, &b);
}

/* As on a device that cannot segment: each packet is a datagram of its own. */
static void send_one_by_one(struct node *n)
{
	lane_lock(n->lane);
	for (unsigned i = 0; i < ARRAY_LEN(n->lane->tx.set); i++)
		for (unsigned j = 0; n->lane->tx.set[i] && j < TXSOCK_PER_ADDRESS; j++)
			n->lane->tx.set[i]->sock[j].max_segments = 1;
	lane_unlock(n->lane);
}

TEST(lane, ack_held_and_another_comes_in__held_on)
{
	struct node a, b;
	uint64_t end;

	open_driven_pair(&a, &b);
	send_one_by_one(&a);
	node_write(&b, &a, 0, 64, true);
	while (!holds_acks(&a))
		look_once(&a);
	end = node_stats(&b).rx_datagrams + 3;
	node_write(&a, &b, 0, 1500, true); /* and the ACK */
	while (node_stats(&b).rx_datagrams < end - 1)
		look_once(&b);
	assert_true(holds_acks(&b));
	limit_to_one(&b);
	assert_true(node_try(&b));
	assert_int_equal(node_stats(&b).rx_datagrams, end);
	assert_true(holds_acks(&b));
	flush(&b);
	node_poll(&a);
	node_close_pair(&a, &b);
}
