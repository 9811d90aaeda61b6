/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast over real sockets: lanes of one process on several loopback addresses. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netns.h"
#include "node.h"
#include "test.h"

enum { GRH = 40, QKEY = 0x1234, LEN = 600, BURST = 24, HOP_LIMIT = 3 };

/** Does the kernel's list of memberships have the group? */
static bool is_joined(const char *list, const char *group)
{
	char line[256];
	bool found = false;
	FILE *f = fopen(list, "re");

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, group) != NULL;
	fclose(f);
	return found;
}

static const struct rocemu_gid group4 = {{[10] = 0xff, [11] = 0xff, 239, 7, 8, 9}};
static const struct rocemu_gid group6 = {{0xff, 0x15, [14] = 0xab, [15] = 0xcd}};

static void send_group(struct node *n, const struct rocemu_gid *group, unsigned count)
{
	struct ibv_sge sge = {.addr = (uintptr_t)n->mem, .length = LEN};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = HOP_LIMIT}};
	struct rocemu_path path;

	sge.lkey = rocemu_mr_lkey(n->mr);
	memcpy(ah.grh.dgid.raw, group->raw, 16);
	wr.wr.ud.remote_qpn = ROCEMU_MCAST_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	lane_lock(n->lane);
	assert_int_equal(rocemu_path_resolve(lane_ep(n->lane), &ah, &path), 0);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(rocemu_qp_post_send(n->qp, lane_now(), &wr, &path), 0);
	lane_kick(n->lane);
	lane_unlock(n->lane);
}

static void attach(struct node *n, const struct rocemu_gid *group)
{
	char err[512];
	int r;

	lane_lock(n->lane);
	r = lane_attach_mcast(n->lane, n->qp, group, err, sizeof(err));
	lane_unlock(n->lane);
	if (r)
		fail_msg("attach: %d %s", r, err);
}

static int detach(struct node *n, const struct rocemu_gid *group)
{
	int r;

	lane_lock(n->lane);
	r = lane_detach_mcast(n->lane, n->qp, group);
	lane_unlock(n->lane);
	return r;
}

static void expect_datagram(const struct node *n, uint32_t offset, const struct node *from,
			    const struct rocemu_gid *group)
{
	const uint8_t *ip = n->mem + offset + (rocemu_gid_is_ipv4(group) ? 20 : 0);

	assert_memory_equal(n->mem + offset + GRH, from->mem, LEN);
	assert_int_equal(rocemu_gid_is_ipv4(group) ? ip[8] : ip[7], HOP_LIMIT);
	if (rocemu_gid_is_ipv4(group))
		assert_memory_equal(ip + 16, group->raw + 12, 4);
	else
		assert_memory_equal(ip + 24, group->raw, 16);
}

static void pair_open(struct node *a, struct node *b, const char *first, const char *second)
{
	node_open_ud(a, first, QKEY);
	node_open_ud(b, second, QKEY);
	for (unsigned i = 0; i < LEN; i++)
		a->mem[i] = (uint8_t)(i * 7);
}

static void sent_to_both(const char *first, const char *second, const struct rocemu_gid *group)
{
	struct node a, b;

	pair_open(&a, &b, first, second);
	attach(&a, group);
	attach(&b, group);
	for (unsigned i = 0; i < BURST; i++) {
		node_recv(&a, 4096 + i * 1024, GRH + LEN);
		node_recv(&b, 4096 + i * 1024, GRH + LEN);
	}
	send_group(&a, group, BURST);
	for (unsigned i = 0; i < BURST; i++) {
		node_wait(&b);
		expect_datagram(&b, 4096 + i * 1024, &a, group);
		node_poll(&a);
		expect_datagram(&a, 4096 + i * 1024, &a, group);
	}
	assert_int_equal(detach(&a, group), 0);
	assert_int_equal(detach(&b, group), 0);
	node_close(&a);
	node_close(&b);
}

TEST(mcast, ipv4_burst__every_lane_gets_it_the_senders_too)
{
	sent_to_both("127.0.0.1", "127.0.0.2", &group4);
}

TEST(mcast, ipv6_burst__every_lane_gets_it_the_senders_too)
{
	netns_enter_once();
	/* The kernel has no route for groups over lo; see docs/troubleshooting.md. */
	if (system("ip -6 route replace local ff00::/8 dev lo table local") != 0)
		skip();
	sent_to_both("::1", "::1", &group6);
}

TEST(mcast, detached__the_kernel_leaves_and_nothing_comes)
{
	struct node a, b;

	pair_open(&a, &b, "127.0.0.1", "127.0.0.2");
	assert_int_equal(detach(&b, &group4), -EINVAL);
	attach(&a, &group4);
	attach(&b, &group4);
	assert_true(is_joined("/proc/net/igmp", "090807EF"));
	assert_int_equal(detach(&b, &group4), 0);
	node_recv(&b, 4096, GRH + LEN);
	node_recv(&a, 4096, GRH + LEN);
	send_group(&a, &group4, 1);
	node_wait(&a); /* by then it would have reached the other's socket, too */
	assert_false(node_try(&b));
	/* Attached again, it is in again. */
	attach(&b, &group4);
	node_recv(&a, 8192, GRH + LEN);
	send_group(&a, &group4, 1);
	node_wait(&b);
	node_wait(&a);
	expect_datagram(&b, 4096, &a, &group4);
	assert_int_equal(detach(&b, &group4), 0);
	assert_int_equal(detach(&a, &group4), 0);
	node_close(&a);
	node_close(&b);
	assert_false(is_joined("/proc/net/igmp", "090807EF"));
}

TEST(mcast, two_groups_in_one_lane__each_packet_once)
{
	const struct rocemu_gid other = {{[10] = 0xff, [11] = 0xff, 239, 7, 8, 10}};
	struct node a, b;

	pair_open(&a, &b, "127.0.0.1", "127.0.0.2");
	attach(&b, &group4);
	attach(&b, &other);
	node_recv(&b, 4096, GRH + LEN);
	node_recv(&b, 8192, GRH + LEN);
	node_recv(&b, 12288, GRH + LEN);
	send_group(&a, &group4, 1);
	node_wait(&b);
	send_group(&a, &other, 1);
	node_wait(&b);
	expect_datagram(&b, 4096, &a, &group4);
	expect_datagram(&b, 8192, &a, &other);
	assert_false(node_try(&b));
	/* Closed while attached. */
	node_close(&a);
	node_close(&b);
}

/* The loop's sockets come and go while its thread and a caller receive. */
TEST(mcast, attached_and_detached_under_traffic__nothing_breaks)
{
	const struct rocemu_gid other = {{[10] = 0xff, [11] = 0xff, 239, 7, 8, 10}};
	struct node a, b;

	pair_open(&a, &b, "127.0.0.1", "127.0.0.2");
	attach(&b, &group4);
	for (unsigned i = 0; i < 200; i++) {
		node_recv(&b, 4096, GRH + LEN);
		attach(&b, &other);
		send_group(&a, &other, 1);
		if (i % 3)
			node_poll(&b);
		else
			node_wait(&b);
		assert_int_equal(detach(&b, &other), 0);
		node_recv(&b, 4096, GRH + LEN);
		send_group(&a, &group4, 1);
		node_wait(&b);
	}
	node_close(&a);
	node_close(&b);
}
