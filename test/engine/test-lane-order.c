/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program gets an answer: its request has completed before, as with an adapter, whose peer sends
 * the ACK before its program can answer. Both ends are driven by this thread.
 */
#include "test.h"

#include <stdlib.h>

#include "node.h"

enum { ROUNDS = 100, ROUNDS_MAX = 5 * ROUNDS, SMALL = 8, MOST = 8 };

/** What the other side's program does with a request. */
struct answer {
	unsigned writes, sends; /* in this order, with one post or several */
	uint32_t write_len, send_len;
};

/* Poll until there is a completion. */
static enum ibv_wc_opcode next_of(struct node *n)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	struct rocemu_cqe cqe;

	while (!rocemu_cq_poll(n->cq, &cqe, 1)) {
		lane_poll(n->lane);
		if (lane_now() > end)
			fail_msg("no completion within %u ms", NODE_PATIENCE_MS);
	}
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	return cqe.opcode;
}

static void answer(struct node *b, struct node *a, const struct answer *how)
{
	struct ibv_sge sge = {.addr = (uintptr_t)b->mem, .lkey = rocemu_mr_lkey(b->mr)};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)a->mem;
	wr.wr.rdma.rkey = rocemu_mr_rkey(a->mr);
	lane_lock(b->lane);
	for (unsigned i = 0; i < how->writes + how->sends; i++) {
		wr.opcode = i < how->writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
		sge.length = i < how->writes ? how->write_len : how->send_len;
		assert_int_equal(rocemu_qp_post_send(b->qp, lane_now(), &wr, NULL), 0);
	}
	lane_kick(b->lane);
	lane_unlock(b->lane);
}

static void rounds(struct answer how, bool rings)
{
	const rocemu_ns_t end = lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.2", "127.0.0.3");
	while (rings && (!node_stats(&a).tx_rings || !node_stats(&b).tx_rings)) {
		node_ping_pong(&a, &b, 1, SMALL);
		assert_true(lane_now() < end);
	}
	/*
	 * Only ACKs that wait for the answer show something. On a slow machine or with a sanitizer
	 * the answer takes too long, and few of them wait.
	 */
	for (unsigned i = 0;
	     i < ROUNDS || (!HAVE_TSAN && i < ROUNDS_MAX && node_stats(&b).acks_held < ROUNDS);
	     i++) {
		assert_true(lane_now() < end);
		node_recv(&b, 0, SMALL);
		for (unsigned k = 0; k < how.sends; k++)
			node_recv(&a, 0, how.send_len);
		node_send(&a, 0, SMALL, true);
		assert_int_equal(next_of(&b), IBV_WC_RECV);
		answer(&b, &a, &how);
		assert_int_equal(next_of(&a), IBV_WC_SEND);
		for (unsigned k = 0; k < how.sends; k++)
			assert_int_equal(next_of(&a), IBV_WC_RECV);
	}
	assert_int_equal(node_stats(&b).tx_rings > 0, rings);
	node_close_pair(&a, &b);
}

static void all_rounds(bool rings)
{
	static const struct answer answers[] = {
		{.sends = 1, .send_len = SMALL},
		{.sends = 1, .send_len = 0},
		{.sends = MOST, .send_len = SMALL},
		{.sends = MOST, .send_len = 0},
		{.sends = 1, .send_len = 5000},
		{.sends = 1, .send_len = 1 << 20},
		{.writes = 1, .write_len = 1 << 20, .sends = 1, .send_len = SMALL},
		{.writes = 1, .write_len = 3000, .sends = MOST, .send_len = SMALL},
		{.writes = MOST, .write_len = SMALL, .sends = 2, .send_len = 1 << 20},
	};

	for (unsigned i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		rounds(answers[i], rings);
}

TEST(lane_order, answer_by_sockets__request_has_completed)
{
	all_rounds(false);
}

TEST(lane_order, link_is_long__request_has_completed)
{
	setenv("ROCEMU_IMPAIR", "delay=20us", 1);
	all_rounds(false);
	unsetenv("ROCEMU_IMPAIR");
}

TEST(lane_order, answer_by_a_ring__request_has_completed)
{
	setenv("ROCEMU_WIRE", "shm", 1);
	all_rounds(true);
	unsetenv("ROCEMU_WIRE");
}
