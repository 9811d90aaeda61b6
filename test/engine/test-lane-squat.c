/* SPDX-License-Identifier: BSD-2-Clause */
/* Another user has the names by which lanes find each other: they do, nevertheless. */
#include "node.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/lane-shm.h"
#include "squat.h"
#include "test.h"
#include "user.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* All squatters, one after the other: how far has each got? */
static const enum squat_how hows[] = {SQUAT_BINDS, SQUAT_LISTENS, SQUAT_IMITATES};

static rocemu_ns_t end_of_patience(void)
{
	return lane_now() + NODE_PATIENCE_MS * (rocemu_ns_t)1000000;
}

static void begin(struct squat *s, enum squat_how how)
{
	const char *name = getenv("ROCEMU_AGENT_NAME");
	char instance[FORWARD_INSTANCE_LEN];

	snprintf(instance, sizeof(instance), ":%s", name ? name : "");
	squat_begin(s, instance, how);
}

/* The test is in the nodes' namespace, and their slots are squatted. */
static void enter(void)
{
	struct node n;

	user_need(SQUATTER, NULL);
	node_open(&n, "127.0.0.1");
	assert_in_range(n.lane->slot, 1, SQUAT_SLOTS / 2);
	node_close(&n);
}

/* A burst whose second packet is b's comes to a, as GRO makes of packets with one source port. */
static void send_misrouted(struct node *a, struct node *b)
{
	enum { SEG = 32 };
	uint8_t data[2 * SEG] = {0};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	const int seg = SEG, fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	put_be24(data + 5, rocemu_qp_num(a->qp));
	put_be24(data + SEG + 5, rocemu_qp_num(b->qp));
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &seg, sizeof(seg)), 0);
	assert_int_equal(sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(data));
	close(fd);
}

static void expect_forwarded(struct node *a, struct node *b)
{
	const rocemu_ns_t end = end_of_patience();
	const uint64_t was = node_stats(b).rx_datagrams;

	send_misrouted(a, b);
	while (node_stats(b).rx_datagrams == was && lane_now() < end) {
		if (node_stats(a).rx_misrouted)
			fail_msg("the packet was not forwarded");
		sched_yield();
	}
	assert_true(node_stats(b).rx_datagrams > was);
	assert_int_equal(node_stats(b).rx_misrouted, 0);
}

TEST(lane_squat, misrouted_packet__forwarded)
{
	struct node a, b;
	struct squat s;

	enter();
	for (unsigned i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		begin(&s, hows[i]);
		node_open(&a, "127.0.0.1");
		node_open(&b, "127.0.0.1");
		assert_true(b.lane->slot <= SQUAT_SLOTS);
		expect_forwarded(&a, &b);
		expect_forwarded(&b, &a);
		node_close_pair(&a, &b);
		squat_end(&s);
	}
}

/* The name becomes free when the lane that had it ends: the squatter is faster than the next one.
 */
TEST(lane_squat, name_taken_when_a_lane_ends__next_lane_is_found)
{
	struct node a, b;
	struct squat s, more;
	uint32_t slot;

	enter();
	node_open(&a, "127.0.0.1");
	node_open(&b, "127.0.0.1");
	slot = b.lane->slot;
	begin(&s, SQUAT_LISTENS);
	expect_forwarded(&a, &b);
	node_close(&b);
	begin(&more, SQUAT_LISTENS);
	assert_true(more.n > 0);
	node_open(&b, "127.0.0.1");
	assert_int_equal(b.lane->slot, slot);
	expect_forwarded(&a, &b);
	node_close_pair(&a, &b);
	squat_end(&s);
	squat_end(&more);
}

TEST(lane_squat, rings__formed)
{
	struct node a, b;
	struct squat s;

	enter();
	assert_int_equal(setenv("ROCEMU_WIRE", "shm", 1), 0);
	for (unsigned i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		const rocemu_ns_t end = end_of_patience();

		begin(&s, hows[i]);
		node_open_pair(&a, &b, "127.0.0.2", "127.0.0.3");
		while (!node_stats(&a).tx_rings || !node_stats(&b).tx_rings) {
			node_ping_pong(&a, &b, 1, 100);
			assert_true(lane_now() < end);
			lane_lock(a.lane);
			if (a.lane->shm->tx[b.lane->slot] &&
			    a.lane->shm->tx[b.lane->slot]->retry_at)
				fail_msg("no ring was offered");
			lane_unlock(a.lane);
		}
		node_close_pair(&a, &b);
		squat_end(&s);
	}
	unsetenv("ROCEMU_WIRE");
}
