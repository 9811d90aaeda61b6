/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/group.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/socket.h"
#include "base/bytes.h"
#include "base/rng.h"
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
	struct group_bind b = {.addr = *addr};
	int r = 0;

	*g = groups_find(&groups, addr, 0);
	while (!r && group_next(*g, slot, &b)) {
		r = group_bind(&b);
		if (r)
			break;
		if (!*g)
			*g = groups_add(&groups, addr, 0);
		assert_int_equal(group_set(*g, b.first, b.slot, b.fds, b.n), 0);
		r = group_steer(*g, NULL);
	}
	if (!r && slot)
		seat_set_add(&(*g)->slots, slot);
	return r;
}

/* On loopback a datagram is there when send has returned. @return the slot whose socket it went to,
 * -1: nowhere. */
static int slot_of(const struct group *g, uint32_t qpn)
{
	uint8_t packet[64];
	int slot = -1;

	send_to_qpn(&g->addr, qpn);
	for (unsigned i = 0; i < g->count; i++) {
		while (recv(g->places[i].fd, packet, sizeof(packet), MSG_DONTWAIT) >= 8) {
			assert_int_equal(slot, -1);
			assert_int_equal(get_be32(packet + 4) & 0xffffff, qpn);
			slot = g->places[i].slot;
		}
	}
	return slot;
}

static void assert_steered(const struct group *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		const unsigned slot = g->places[i].slot;

		assert_int_equal(slot_of(g, QPN(slot, i)), slot);
		assert_int_equal(group_place(g, slot), i);
		/* To neighbours, or to slot 0's if they have no socket. */
		if (group_place(g, slot + 1) < 0 && slot + 1 < AGENT_SLOTS)
			assert_int_equal(slot_of(g, QPN(slot + 1, 1)), 0);
		if (slot && group_place(g, slot - 1) < 0)
			assert_int_equal(slot_of(g, QPN(slot - 1, 1)), 0);
	}
}

TEST(group, grown_slot_by_slot__next_ones_are_there_in_order)
{
	static const unsigned slots[] = {1, 3, 5, 7, 8, 15, 16, 17, 31};
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;

	make();
	for (unsigned i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		assert_int_equal(need(&addr, slots[i], &g), 0);
		assert_true(g->count > slots[i] && g->count <= 2 * slots[i] + 2);
		for (unsigned slot = 0; slot < g->count; slot++)
			assert_int_equal(g->places[slot].slot, slot);
		assert_steered(g);
	}
	assert_int_equal(slot_of(g, 0xffffff), 0);
	unmake();
}

/* A process that uses many devices has a slot of its own for each of their addresses. */
TEST(group, one_high_slot__takes_no_sockets_of_others)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;

	make();
	assert_int_equal(need(&addr, 0, &g), 0);
	assert_int_equal(g->count, 1);
	assert_steered(g);
	assert_int_equal(need(&addr, 900, &g), 0);
	assert_int_equal(g->count, 2);
	assert_int_equal(need(&addr, 300, &g), 0);
	assert_int_equal(need(&addr, 301, &g), 0);
	assert_int_equal(need(&addr, 1023, &g), 0);
	assert_int_equal(g->count, 5);
	assert_steered(g);
	/* And the first ones. */
	assert_int_equal(need(&addr, 2, &g), 0);
	assert_int_equal(g->count, 5 + 3);
	assert_steered(g);
	unmake();
}

TEST(group, slots_at_random__each_has_its_packets_and_there_are_few_more)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;
	struct rng rng;

	make();
	rng_init(&rng, 3);
	for (unsigned asked = 1; asked < 150; asked++) {
		assert_int_equal(need(&addr, rng_below(&rng, AGENT_SLOTS), &g), 0);
		assert_true(g->count <= 4 + 5 * asked);
		if (asked % 10 == 0)
			assert_steered(g);
	}
	unmake();
}

/* The program that needs the most instructions: no two slots follow each other. */
TEST(group, every_other_slot_then_the_rest__steered)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1);
	struct group *g;

	make();
	for (unsigned slot = AGENT_SLOTS - 1; slot > 2; slot -= 2)
		assert_int_equal(need(&addr, slot, &g), 0);
	assert_int_equal(need(&addr, 600, &g), 0);
	assert_in_range(g->count, 512, AGENT_SLOTS);
	assert_steered(g);
	unmake();
}

/* Replace a place's socket as the agent does. @return a copy of the old one. */
static int replace(struct group *g, unsigned place)
{
	int copy = dup(g->places[place].fd), fd = group_replace(g, place, false);

	assert_true(copy >= 0 && fd >= 0);
	assert_int_equal(group_set(g, place, g->places[place].slot, &fd, 1), 0);
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
		assert_int_equal(need(&addr[a], 3, &g), 0);
		assert_int_equal(need(&addr[a], 5, &g), 0);
		assert_int_equal(need(&addr[a], 7, &g), 0);
		assert_int_equal(need(&addr[a], 15, &g), 0);
		for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			copies[i] = replace(g, places[i]);
			assert_steered(g);
		}
		assert_int_equal(need(&addr[a], 20, &g), 0);
		assert_steered(g);
		for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			assert_int_equal(recv(copies[i], packet, sizeof(packet), MSG_DONTWAIT), -1);
			close(copies[i]);
		}
		assert_steered(g);
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
		assert_int_equal(slot_of(g, QPN(2, i)), 2);
		assert_int_equal(slot_of(g, QPN(3, i)), 3);
		assert_int_equal(slot_of(g, QPN(1, i)), 1);
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
	assert_steered(g);
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
	assert_int_equal(group_steer(NULL, &b), 0);
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
	few.rlim_cur = (rlim_t)g->places[count - 1].fd + 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(need(&addr, 7, &g), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
	assert_int_equal(groups_find(&groups, &addr, 0)->count, count);
	assert_int_equal(need(&addr, 7, &g), 0);
	assert_steered(g);
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
	assert_int_equal(group_set(g, g->count + 1, 5, &fd, 1), -EBADMSG);
	assert_int_equal(group_set(g, g->count, 0, &fd, AGENT_SLOTS), -EBADMSG);
	assert_int_equal(group_set(g, g->count, AGENT_SLOTS - 1, &fd, 2), -EBADMSG);
	unmake();
}
