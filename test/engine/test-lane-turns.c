/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that polls several CQs of a lane in a loop. */
#include "test.h"

#include "engine/lane-internal.h"
#include "node.h"

enum { ROUNDS = 1000, LEN = 64 };
#define QUICK_NS 1000u /* half of the time for which a receive that found nothing counts */

/* A poll for the CQ with that turn. @return did it receive? */
static bool receives(struct node *n, uint32_t *turn)
{
	const uint32_t before = n->lane->turn;

	assert_true(lane_poll_in_turn(n->lane, turn));
	return n->lane->turn != before;
}

TEST(lane_turns, two_cqs_in_a_loop__one_receive_for_both)
{
	uint32_t one = 0, two = 0;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(b.lane);
	for (unsigned i = 0; i < ROUNDS; i++) {
		rocemu_ns_t begin;
		bool again;

		/* Whatever the other one did, at the second poll of a CQ it is its turn. */
		(void)receives(&b, &one);
		begin = lane_now();
		assert_true(receives(&b, &one));
		again = receives(&b, &two);
		if (lane_now() - begin < QUICK_NS)
			assert_false(again);
		(void)receives(&b, &two);
		assert_true(receives(&b, &two));
	}
	node_close_pair(&a, &b);
}

TEST(lane_turns, packet_after_a_receive_for_both__received_at_the_second_poll)
{
	uint32_t one = 0, two = 0;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	lane_thread_stop(b.lane);
	node_ping_pong(&a, &b, 1, LEN);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct rocemu_cqe cqe;

		node_recv(&b, 0, LEN);
		(void)receives(&b, &one);
		node_send(&a, 0, LEN, true);
		(void)receives(&b, &two);
		(void)receives(&b, &two);
		assert_int_equal(rocemu_cq_poll(b.cq, &cqe, 1), 1);
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		lane_lock(b.lane);
		lane_flush(b.lane); /* the acknowledgement */
		lane_unlock(b.lane);
		node_poll(&a);
	}
	node_close_pair(&a, &b);
}
