/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests which interface a path's packets leave by: which socket it takes. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/lane-internal.h"
#include "netns.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

enum { PORT = 0xd000, LQPN = 0x4001 };

static struct rocemu_gid gid_of(const char *text)
{
	struct rocemu_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, gid.raw + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

/* A lane of b0, whose routes the kernel does not prefer. */
static struct lane *open_lane(void)
{
	const struct lane_gid gid = {.gid = gid_of("10.1.1.2")};
	struct lane_config config = {.device = "b", .ep = {.seed = 1}, .gids = &gid, .ngids = 1};
	struct lane *l;
	char err[512];

	netns_enter();
	netns_ip("link add a0 type veth peer name a1");
	netns_ip("link add b0 type veth peer name b1");
	for (const char *const *n = (const char *[]){"a0", "a1", "b0", "b1", NULL}; *n; n++) {
		char line[60];

		snprintf(line, sizeof(line), "link set %s up", *n);
		netns_ip(line);
	}
	netns_ip("address add 10.1.1.1/24 dev a0");
	netns_ip("address add 10.1.1.2/24 dev b0");
	config.ifindex = if_nametoindex("b0");
	if (lane_new(&l, &config, err, sizeof(err)))
		fail_msg("%s", err);
	return l;
}

static struct rocemu_path path_to(const char *dst)
{
	return (struct rocemu_path){
		.sgid = gid_of("10.1.1.2"), .dgid = gid_of(dst), .sport = PORT, .hop_limit = 64};
}

/* The interface that a path's socket is bound to; 0: none. */
static int interface_of(struct lane *l, const struct rocemu_path *path) REQUIRES(l);
static int interface_of(struct lane *l, const struct rocemu_path *path)
{
	const struct txsock *s = lane_tx_sock(l, path);
	int ifindex = -1;
	socklen_t len = sizeof(ifindex);

	assert_non_null(s);
	assert_int_equal(getsockopt(s->fd, SOL_SOCKET, SO_BINDTOIFINDEX, &ifindex, &len), 0);
	return ifindex;
}

TEST(lane_prepare_path, a_neighbour_and_this_host__two_sockets_of_one_port)
{
	struct rocemu_path there = path_to("10.1.1.9"), here = path_to("10.1.1.1");
	struct lane *l = open_lane();

	lane_lock(l);
	assert_int_equal(lane_prepare_path(l, &there, 0), 0);
	assert_int_equal(lane_prepare_path(l, &here, 0), 0);
	assert_true(there.own_interface);
	assert_false(here.own_interface);
	assert_int_equal(interface_of(l, &there), if_nametoindex("b0"));
	assert_int_equal(interface_of(l, &here), 0);
	assert_int_equal(lane_tx_sock(l, &there)->port, PORT);
	assert_int_equal(lane_tx_sock(l, &here)->port, PORT);
	lane_unlock(l);
	lane_free(l);
}

/* Sockets of an address that goes, go. */
TEST(lane_prepare_path, address_replaced__no_socket_of_it)
{
	const struct rocemu_gid other = gid_of("10.1.1.3");
	struct rocemu_path there = path_to("10.1.1.9"), here = path_to("10.1.1.1");
	struct lane *l = open_lane();

	lane_lock(l);
	assert_int_equal(lane_prepare_path(l, &there, 0), 0);
	assert_int_equal(lane_prepare_path(l, &here, 0), 0);
	lane_tx_forget(l, 0, &other);
	for (unsigned i = 0; i < ARRAY_LEN(l->tx.set); i++)
		assert_null(l->tx.set[i]);
	lane_unlock(l);
	lane_free(l);
}

/* A QP that is connected again after the routes changed. */
TEST(lane_prepare_path, another_interface_than_before__another_socket)
{
	struct rocemu_path path = path_to("10.9.9.9");
	struct lane *l;

	l = open_lane();
	lane_lock(l);
	netns_ip("route add 10.9.9.0/24 dev a0");
	assert_int_equal(lane_prepare_path(l, &path, 0), 0);
	assert_false(path.own_interface);
	assert_ptr_equal(lane_tx_route(l, &path, LQPN)->sock, l->tx.set[0]->sock);
	netns_ip("route replace 10.9.9.0/24 dev b0");
	memset(&l->ways, 0, sizeof(l->ways)); /* a second later */
	assert_int_equal(lane_prepare_path(l, &path, 0), 0);
	assert_true(path.own_interface);
	assert_int_equal(interface_of(l, &path), if_nametoindex("b0"));
	assert_ptr_equal(lane_tx_route(l, &path, LQPN)->sock, (*lane_tx_set(l, &path))->sock);
	lane_unlock(l);
	lane_free(l);
}

TEST(lane_prepare_path, interface_is_down__its_own)
{
	struct rocemu_path path = path_to("10.1.1.9");
	struct lane *l = open_lane();

	lane_lock(l);
	netns_ip("link set b0 down");
	assert_int_equal(lane_prepare_path(l, &path, 0), 0);
	assert_true(path.own_interface);
	lane_unlock(l);
	lane_free(l);
}

TEST(lane_find_interface, destinations_that_no_packet_reaches__einval)
{
	static const char *const refused[][2] = {
		{"10.1.1.2", "0.0.0.0"},	 {"fd01::2", "::"},
		{"10.1.1.2", "255.255.255.255"}, {"10.1.1.2", "10.1.4.255"},
		{"127.0.0.1", "10.1.1.9"},	 {"::1", "fd01::9"},
		{"fd01::2", "ff00::5"},		 {"fd01::2", "ff10::5"},
	};
	static const char *const taken[][2] = {
		{"127.0.0.1", "10.1.1.2"}, {"127.0.0.1", "127.0.0.2"},
		{"::1", "fd01::2"},	   {"::1", "::1"},
		{"10.1.1.2", "127.0.0.1"}, {"10.1.1.2", "10.9.9.9"},
		{"fd01::2", "ff01::5"},	   {"10.1.1.2", "224.0.0.5"},
	};
	struct lane *l = open_lane();

	lane_lock(l);
	netns_ip("address add 10.1.4.1/24 broadcast 10.1.4.255 dev b0");
	netns_ip("address add fd01::2/64 dev b0 nodad");
	while (system("ip -6 route get fd01::2 | grep -q ^local") != 0)
		sched_yield();
	for (unsigned i = 0; i < ARRAY_LEN(refused); i++) {
		struct rocemu_path path = {.sgid = gid_of(refused[i][0]),
					   .dgid = gid_of(refused[i][1])};

		assert_int_equal(lane_find_interface(l, &path), -EINVAL);
	}
	for (unsigned i = 0; i < ARRAY_LEN(taken); i++) {
		struct rocemu_path path = {.sgid = gid_of(taken[i][0]),
					   .dgid = gid_of(taken[i][1])};

		assert_int_equal(lane_find_interface(l, &path), 0);
	}
	lane_unlock(l);
	lane_free(l);
}
