/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that writes to its buffer while a request is under way. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/lane-internal.h"
#include "node.h"
#include "test.h"

enum { SMALL = 96, SMALL_WRITES = 10000, LARGE = 64 << 10, LARGE_WRITES = 100 };

struct scribbler {
	pthread_t thread;
	volatile uint8_t *at;
	uint32_t len;
	atomic_bool stop;
};

/* A race on purpose: a NIC reads memory that a program writes to. */
__attribute__((no_sanitize("thread"))) static void *scribble(void *arg)
{
	struct scribbler *s = arg;

	for (uint8_t value = 0; !atomic_load(&s->stop); value++)
		for (uint32_t i = 0; i < s->len; i++)
			s->at[i] = value;
	return NULL;
}

static void scribbler_start(struct scribbler *s, uint8_t *at, uint32_t len)
{
	s->at = at;
	s->len = len;
	atomic_init(&s->stop, false);
	assert_int_equal(pthread_create(&s->thread, NULL, scribble, s), 0);
}

static void scribbler_end(struct scribbler *s)
{
	atomic_store(&s->stop, true);
	pthread_join(s->thread, NULL);
}

static uint64_t icrc_drops(struct node *n)
{
	uint64_t drops;

	lane_lock(n->lane);
	drops = rocemu_ep_get_stats(lane_ep(n->lane))->drops[ROCEMU_DROP_ICRC];
	lane_unlock(n->lane);
	return drops;
}

static void write_while_scribbled(struct node *a, struct node *b, uint32_t len, unsigned writes)
{
	struct scribbler s;

	scribbler_start(&s, a->mem, len);
	for (unsigned i = 0; i < writes; i++) {
		node_write(a, b, 0, len, true);
		node_poll(a);
	}
	scribbler_end(&s);
}

TEST(lane_tx, small_payload_changed_meanwhile__right_icrc)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	write_while_scribbled(&a, &b, SMALL, SMALL_WRITES);
	assert_int_equal(icrc_drops(&b), 0);
	node_close_pair(&a, &b);
}

/* Some of its packets are torn on the way to the kernel. The second time they leave from a copy, so
 * that the retries of the QP suffice however long the program keeps on. */
TEST(lane_tx, large_payload_changed_meanwhile__arrives)
{
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	write_while_scribbled(&a, &b, LARGE, LARGE_WRITES);
	/* Once writing has stopped the last one arrives whole. */
	memset(a.mem, 0x5a, LARGE);
	node_write(&a, &b, 0, LARGE, true);
	node_poll(&a);
	assert_memory_equal(a.mem, b.mem, LARGE);
	node_close_pair(&a, &b);
}

/* The same with what others READ. */
TEST(lane_tx, large_memory_changed_while_read__arrives)
{
	struct scribbler s;
	struct node a, b;

	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	scribbler_start(&s, b.mem, LARGE);
	for (unsigned i = 0; i < LARGE_WRITES; i++) {
		node_read(&a, &b, 0, LARGE);
		node_poll(&a);
	}
	scribbler_end(&s);
	memset(b.mem, 0x5a, LARGE);
	node_read(&a, &b, 0, LARGE);
	node_poll(&a);
	assert_memory_equal(a.mem, b.mem, LARGE);
	node_close_pair(&a, &b);
}

/* What goes out again is a copy: memory changed between the seal and the send cannot spoil it. */
TEST(tx_flatten, pieces__one_piece_elsewhere)
{
	uint8_t left[3] = {1, 2, 3}, right[2] = {4, 5}, copy[8] = {0};
	struct rocemu_tx t = {.payload_len = 5, .niov = 2, .iov = {{left, 3}, {right, 2}}};

	rocemu_tx_flatten(&t, copy);
	left[0] = right[1] = 99;
	assert_int_equal(t.niov, 1);
	assert_ptr_equal(t.iov[0].iov_base, copy);
	assert_int_equal(t.iov[0].iov_len, 5);
	assert_memory_equal(copy, ((uint8_t[]){1, 2, 3, 4, 5}), 5);
	t = (struct rocemu_tx){0};
	rocemu_tx_flatten(&t, copy);
	assert_int_equal(t.niov, 0);
}
