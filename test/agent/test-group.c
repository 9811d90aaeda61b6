/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/group.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/socket.h"
#include "base/bytes.h"
#include "peer.h"
#include "test.h"

#define QPN(slot, index) ((uint32_t)(slot) << 14 | (index))

static struct groups groups;

static void make(void)
{
	env_enter();
	groups_init(&groups);
}

static void unmake(void)
{
	groups_fini(&groups);
}

/* As the agent does, apart from its store. */
static int need(const struct rocemu_gid *addr, unsigned slot, struct group **g)
{
	struct group_bind b = {.addr = *addr, .n = group_places_for(slot)};
	int r;

	*g = groups_find(&groups, addr, 0);
	b.first = *g ? (*g)->count : 0;
	if (b.n <= b.first)
		return 0;
	r = group_bind(&b);
	if (r)
		return r;
	if (!*g)
		*g = groups_add(&groups, addr, 0);
	assert_int_equal(group_set(*g, b.first, b.fds + b.first, b.n - b.first), 0);
	return data_socket_steer((*g)->fds[0], (*g)->count);
}

/* On loopback a datagram is there when send has returned. @return the place it went to, -1:
 * nowhere. */
static int place_of(const struct group *g, uint32_t qpn)
{
	uint8_t packet[64];
	int place = -1;

	send_to_qpn(&g->addr, qpn);
	for (unsigned i = 0; i < g->count; i++) {
		while (recv(g->fds[i], packet, sizeof(packet), MSG_DONTWAIT) >= 8) {
			assert_int_equal(place, -1);
			assert_int_equal(get_be32(packet + 4) & 0xffffff, qpn);
			place = (int)i;
		}
	}
	return place;
}

static void assert_places(const struct group *g)
{
	for (unsigned slot = 0; slot < g->count; slot++)
		assert_int_equal(place_of(g, QPN(slot, slot)), slot);
	/* To slots that have no socket, up to the last possible one: slot 0's. */
	assert_int_equal(place_of(g, QPN(g->count, 1)), 0);
	assert_int_equal(place_of(g, 0xffffff), 0);
}

TEST(group, grown_slot_by_slot__place_is_slot_number)
{
	static const unsigned slots[] = {1, 5, 3, 17, 70};
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;

	make();
	for (unsigned i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		assert_int_equal(need(&addr, slots[i], &g), 0);
		assert_true(g->count > slots[i]);
		assert_places(g);
	}
	unmake();
}

/* Replace a place's socket as the agent does. @return a copy of the old one. */
static int replace(struct group *g, unsigned place)
{
	int copy = dup(g->fds[place]), fd = group_replace(g, place, false);

	assert_true(copy >= 0 && fd >= 0);
	assert_int_equal(group_set(g, place, &fd, 1), 0);
	return copy;
}

TEST(group, sockets_replaced__places_stay_right_and_copies_of_the_old_ones_get_nothing)
{
	static const unsigned places[] = {3, 1, 15, 3, 8};
	struct rocemu_gid addr[2] = {gid_v4(127, 0, 0, 1), gid_v6_loopback()};
	int copies[sizeof(places) / sizeof(places[0])];
	struct group *g;
	uint8_t packet[64];

	make();
	for (unsigned a = 0; a < 2; a++) {
		assert_int_equal(need(&addr[a], 15, &g), 0);
		for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			copies[i] = replace(g, places[i]);
			assert_places(g);
		}
		assert_int_equal(need(&addr[a], 20, &g), 0);
		assert_places(g);
		for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			assert_int_equal(recv(copies[i], packet, sizeof(packet), MSG_DONTWAIT), -1);
			close(copies[i]);
		}
		assert_places(g);
	}
	unmake();
}

TEST(group, replaced_under_traffic__packets_for_other_places_all_arrive)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;

	make();
	assert_int_equal(need(&addr, 3, &g), 0);
	for (unsigned i = 0; i < 200; i++) {
		close(replace(g, 1));
		assert_int_equal(place_of(g, QPN(2, i)), 2);
		assert_int_equal(place_of(g, QPN(3, i)), 3);
		assert_int_equal(place_of(g, QPN(1, i)), 1);
	}
	unmake();
}

/* Two agents of one user would have shared the port, each with half of the packets. */
TEST(group, first_socket__shares_with_nobody)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group_bind b = {.addr = addr, .n = 4};
	struct group *g;

	make();
	assert_int_equal(need(&addr, 1, &g), 0);
	assert_int_equal(group_bind(&b), -EADDRINUSE);
	assert_places(g);
	unmake();
}

TEST(group, guarded_socket__takes_nothing_else_and_the_guard_stays)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group_bind b = {.addr = addr, .guarded = true, .n = 4};
	uint8_t packet[64];
	int off = 0;

	make();
	assert_int_equal(group_bind(&b), 0);
	assert_int_equal(data_socket_steer(b.fds[0], 4), 0);
	assert_int_equal(setsockopt(b.fds[3], SOL_SOCKET, SO_DETACH_FILTER, &off, sizeof(off)), -1);
	assert_int_equal(setsockopt(b.fds[3], SOL_SOCKET, SO_LOCK_FILTER, &off, sizeof(off)), -1);
	send_to_qpn(&addr, QPN(3, 1));
	assert_int_equal(recv(b.fds[3], packet, sizeof(packet), MSG_DONTWAIT), 16);
	/* When place 1's socket leaves, the kernel moves the last one to its place. */
	assert_int_equal(data_socket_stop_input(b.fds[1]), 0);
	send_to_qpn(&addr, QPN(1, 1));
	assert_int_equal(recv(b.fds[3], packet, sizeof(packet), MSG_DONTWAIT), -1);
	for (unsigned i = 0; i < 4; i++)
		close(b.fds[i]);
	unmake();
}

TEST(group, out_of_descriptors_while_growing__says_so_and_places_stay_right)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct rlimit had, few;
	struct group *g;
	unsigned count;

	make();
	assert_int_equal(need(&addr, 1, &g), 0);
	count = g->count;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
	few = had;
	few.rlim_cur = (rlim_t)g->fds[count - 1] + 10;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(need(&addr, 100, &g), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(groups_find(&groups, &addr, 0)->count, count);
	assert_int_equal(need(&addr, 100, &g), 0);
	assert_places(g);
	unmake();
}

TEST(group, port_taken__no_group_is_left)
{
	struct rocemu_gid addr = gid_v6_loopback();
	struct group *g;
	int fd;

	make();
	fd = data_socket_open_unbound(&addr, true);
	assert_true(fd >= 0);
	assert_int_equal(data_socket_bind(fd, &addr, 0, AGENT_PORT), 0);
	assert_int_equal(need(&addr, 1, &g), -EADDRINUSE);
	assert_null(groups_find(&groups, &addr, 0));
	close(fd);
	assert_int_equal(need(&addr, 1, &g), 0);
	unmake();
}

TEST(group, sockets_that_leave_a_gap_or_are_too_many__refused)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;
	int fd = -1;

	make();
	assert_int_equal(need(&addr, 1, &g), 0);
	assert_int_equal(group_set(g, g->count + 1, &fd, 1), -EBADMSG);
	assert_int_equal(group_set(g, g->count, &fd, AGENT_SLOTS), -EBADMSG);
	unmake();
}
