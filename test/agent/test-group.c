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
static struct stash stash;
static char text[400];

static void make(void)
{
	struct agent_realm realm;

	env_enter();
	assert_int_equal(agent_realm_init(&realm, false), 0);
	assert_int_equal(stash_init(&stash, &realm), 0);
	groups_init(&groups);
}

static void unmake(void)
{
	groups_fini(&groups);
	stash_fini(&stash);
}

static int need(const struct rocemu_gid *addr, unsigned slot, struct group **g)
{
	return groups_need(&groups, addr, 0, slot, &stash, g, text, sizeof(text));
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

TEST(group, taken_over_from_the_stash__place_is_slot_number_and_it_grows_on)
{
	struct rocemu_gid addr[2] = {gid_v4(127, 0, 0, 1), gid_v6_loopback()};
	struct group *g;

	make();
	for (unsigned slot = 1; slot < 20; slot += 6)
		for (unsigned a = 0; a < 2; a++)
			assert_int_equal(need(&addr[a], slot, &g), 0);
	groups_fini(&groups); /* as when the agent dies: the stash keeps the sockets */
	assert_int_equal(stash_load(&stash, groups_adopt, &groups), 0);
	assert_int_equal(groups_steer(&groups), 0);
	assert_int_equal(groups.count, 2);
	for (unsigned a = 0; a < 2; a++) {
		assert_int_equal(need(&addr[a], 40, &g), 0);
		assert_places(g);
	}
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
	assert_non_null(strstr(text, "too many open files"));
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
	fd = data_socket_open(&addr, 0, true);
	assert_true(fd >= 0);
	assert_int_equal(need(&addr, 1, &g), -EADDRINUSE);
	assert_non_null(strstr(text, "UDP port 4791 of ::1 is taken"));
	assert_null(groups_find(&groups, &addr, 0));
	close(fd);
	assert_int_equal(need(&addr, 1, &g), 0);
	unmake();
}

TEST(group, records_that_leave_a_gap_or_are_no_data_sockets__refused)
{
	struct rocemu_gid addr = gid_v4(127, 0, 0, 1), other = gid_v4(127, 0, 0, 2);
	int fd;

	make();
	fd = data_socket_open(&addr, 0, true);
	assert_true(fd >= 0);
	assert_int_equal(groups_adopt(&groups, &addr, 0, 1, &fd, 1), -EBADMSG);
	assert_int_equal(groups_adopt(&groups, &other, 0, 0, &fd, 1), -EBADMSG);
	assert_int_equal(groups_adopt(&groups, &addr, 0, 0, &stash.r, 1), -EBADMSG);
	assert_int_equal(groups_adopt(&groups, &addr, 0, 0, &fd, 1), 0);
	unmake();
}
