/* SPDX-License-Identifier: BSD-2-Clause */
/* An interface slower than the program: transmit sockets that are full. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/lane-internal.h"
#include "netns.h"
#include "node.h"
#include "test.h"

enum { LEN = 256 << 10, SEND_BUFFER = 1 /* what the kernel gives at least */ };

/* A bottleneck on lo: what waits in it stays charged to its socket. */
static void slow_down(void)
{
	netns_enter_once();
	if (system("PATH=$PATH:/usr/sbin:/sbin tc qdisc replace dev lo root tbf rate 50mbit burst "
		   "32k limit 10m")) {
		print_message("skipped: tc cannot shape lo here\n");
		skip();
	}
}

static void speed_up(void)
{
	assert_int_equal(system("PATH=$PATH:/usr/sbin:/sbin tc qdisc del dev lo root"), 0);
}

static void shrink_buffers(struct node *n)
{
	const int size = SEND_BUFFER;

	lane_lock(n->lane);
	for (unsigned i = 0; i < n->lane->tx.set[0]->count; i++)
		assert_int_equal(setsockopt(n->lane->tx.set[0]->sock[i].fd, SOL_SOCKET, SO_SNDBUF,
					    &size, sizeof(size)),
				 0);
	lane_unlock(n->lane);
}

static void first_packet(struct node *a, struct node *b)
{
	node_write(a, b, 0, 1, true); /* opens its socket */
	node_poll(a);
	shrink_buffers(a);
	for (uint32_t i = 0; i < LEN; i++)
		a->mem[i] = (uint8_t)(i * 7 + i / 251);
}

TEST(lane_backlog, socket_full__lock_free_and_all_arrives)
{
	struct node a, b;

	slow_down();
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	first_packet(&a, &b);
	node_write(&a, &b, 0, LEN, true);
	node_poll(&a);
	/* Where the socket was full, the call came back: it did not wait for the interface with the
	 * lock held. */
	assert_true(node_stats(&a).tx_backlogged > 0);
	assert_memory_equal(a.mem, b.mem, LEN);
	assert_int_equal(node_stats(&a).tx_errors, 0);
	node_close_pair(&a, &b);
	speed_up();
}

TEST(lane_backlog, nobody_polls__the_thread_sends_it)
{
	struct node a, b;

	slow_down();
	node_open_pair(&a, &b, "127.0.0.1", "127.0.0.2");
	first_packet(&a, &b);
	node_write(&a, &b, 0, LEN, true);
	node_wait(&a);
	assert_true(node_stats(&a).tx_backlogged > 0);
	assert_memory_equal(a.mem, b.mem, LEN);
	node_close_pair(&a, &b);
	speed_up();
}
