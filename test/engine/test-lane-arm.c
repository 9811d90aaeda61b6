/* SPDX-License-Identifier: BSD-2-Clause */
/* A program with an event loop: it gets a message, arms the CQ, empties it, answers, and sleeps. */
#include "test.h"

#include "engine/lane-internal.h"
#include "node.h"

enum { LEN = 64 };

/* No lane has a thread: what happens is what the calls do. Answers are expected of b, and no timer
 * is due during the test. */
static void open_pair(struct node *a, struct node *b, enum progress_mode mode)
{
	node_open_pair(a, b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(a->lane);
	lane_thread_stop(b->lane);
	node_ping_pong(a, b, 1, LEN);
	lane_lock(b->lane);
	lane_flush(b->lane);
	b->lane->progress.mode = mode;
	b->lane->delayed_ack = (struct delayed_ack){.score = DELAYED_ACK_MAX_SCORE, .calm = 20};
	lane_unlock(b->lane);
	node_recv(b, 0, LEN);
	node_send(a, 0, LEN, true);
	node_poll(b);
}

static bool holds_acks(struct node *n)
{
	bool held;

	lane_lock(n->lane);
	held = n->lane->delayed_ack.held;
	lane_unlock(n->lane);
	return held;
}

static void arm(struct node *n)
{
	lane_lock(n->lane);
	rocemu_cq_arm(n->cq, lane_now(), false);
	lane_arm_hint(n->lane);
	lane_unlock(n->lane);
}

TEST(lane_arm, answered_after_arming__acknowledgement_and_answer_in_one_call)
{
	struct node a, b;
	uint64_t calls;

	open_pair(&a, &b, PROGRESS_ARMED);
	calls = node_stats(&b).tx_syscalls;
	assert_true(holds_acks(&b));
	arm(&b);
	assert_true(holds_acks(&b));
	assert_false(node_try(&b));
	assert_true(holds_acks(&b));
	node_recv(&a, 0, LEN);
	node_send(&b, 0, LEN, false);
	assert_false(holds_acks(&b));
	assert_int_equal(node_stats(&b).tx_syscalls, calls + 1);
	node_poll(&a);
	node_poll(&a);
	node_close_pair(&a, &b);
}

TEST(lane_arm, sleeps_after_all__acknowledgement_is_sent)
{
	struct node a, b;

	open_pair(&a, &b, PROGRESS_ARMED);
	arm(&b);
	lane_lock(b.lane);
	lane_wait_hint(b.lane);
	lane_unlock(b.lane);
	assert_false(holds_acks(&b));
	node_poll(&a);
	node_close_pair(&a, &b);
}

static void let_time_pass(enum progress_mode mode)
{
	struct node a, b;

	open_pair(&a, &b, mode);
	arm(&b);
	lane_lock(b.lane);
	assert_true(b.lane->ack_due != ROCEMU_NEVER);
	lane_drive(b.lane, b.lane->ack_due);
	assert_int_equal(b.lane->delayed_ack.calm, 0); /* next time sooner */
	lane_unlock(b.lane);
	assert_false(holds_acks(&b));
	node_poll(&a);
	node_close_pair(&a, &b);
}

TEST(lane_arm, time_is_over__acknowledgement_is_sent)
{
	let_time_pass(PROGRESS_ARMED);
}

/* The acknowledgement was left to the guard, which is off now. */
TEST(lane_arm, time_is_over_after_polling__acknowledgement_is_sent)
{
	let_time_pass(PROGRESS_POLLED);
}

/* The thread watches the sockets for a program that is about to sleep. */
TEST(lane_arm, first_poll_in_vain_after_arming__no_call_to_the_kernel)
{
	struct node a, b;

	open_pair(&a, &b, PROGRESS_ARMED);
	node_recv(&b, 0, LEN);
	node_send(&a, 0, LEN, true);
	arm(&b);
	assert_false(node_try(&b)); /* although it is in the socket */
	node_poll(&b);
	node_close_pair(&a, &b);
}

/* With its threads: no answer is posted, and no thread polls. */
TEST(lane_arm, armed_and_no_answer__completion_comes)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	for (unsigned i = 0; i < 200; i++) {
		node_recv(&b, 0, LEN);
		node_send(&a, 0, LEN, true);
		node_poll(&b);
		arm(&b);
		node_wait(&a);
	}
	node_close_pair(&a, &b);
}
