/* SPDX-License-Identifier: BSD-2-Clause */
/* GID tables that change: nothing moves, holes are filled. */
#include "test.h"

#include <string.h>

#include "engine/netdev.h"

static struct rocemu_gid ip(uint8_t last)
{
	return (struct rocemu_gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, last}};
}

/** An interface with the addresses 10.0.0.X for each X of a string of digits. */
static struct netdev with(const char *digits)
{
	struct netdev d = {.active = true, .mtu = 1500};

	for (; *digits; digits++)
		d.gids[d.ngids++].gid = ip((uint8_t)(*digits - '0'));
	return d;
}

/** The table as such a string, '-' for a hole. */
static const char *text(const struct netdev *d)
{
	static char buf[ROCEMU_MAX_GID + 1];

	for (unsigned i = 0; i < d->ngids; i++)
		buf[i] = d->gids[i].gone ? '-' : (char)('0' + d->gids[i].gid.raw[15]);
	buf[d->ngids] = 0;
	return buf;
}

static unsigned merge(struct netdev *d, const char *now)
{
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	const struct netdev n = with(now);

	return netdev_merge(d, &n, change);
}

TEST(merge, address_removed__hole_and_the_others_stay)
{
	struct netdev d = with("123");

	assert_int_equal(merge(&d, "13"), 1);
	assert_string_equal(text(&d), "1-3");
	assert_int_equal(merge(&d, "1"), 1);
	assert_string_equal(text(&d), "1--");
	assert_int_equal(merge(&d, "1"), 0);
}

TEST(merge, address_comes_back__has_its_old_index)
{
	struct netdev d = with("123");

	merge(&d, "");
	assert_string_equal(text(&d), "---");
	assert_int_equal(merge(&d, "2"), 1);
	assert_string_equal(text(&d), "-2-");
}

TEST(merge, new_address__first_hole_else_the_end)
{
	struct netdev d = with("123");

	merge(&d, "13");
	assert_int_equal(merge(&d, "143"), 1);
	assert_string_equal(text(&d), "143");
	assert_int_equal(merge(&d, "51436"), 2);
	assert_string_equal(text(&d), "14356");
}

TEST(merge, one_for_another__both_told_hole_first)
{
	struct netdev d = with("12"), now = with("13");
	struct netdev_change change[2 * ROCEMU_MAX_GID];

	assert_int_equal(netdev_merge(&d, &now, change), 2);
	assert_true(change[0].index == 1 && !change[0].added);
	assert_true(change[1].index == 1 && change[1].added);
	assert_string_equal(text(&d), "13");
}

TEST(merge, more_than_fit__left_out_until_there_is_room)
{
	struct netdev d = with(""), now = with("");
	struct netdev_change change[2 * ROCEMU_MAX_GID];

	for (; d.ngids < ROCEMU_MAX_GID; d.ngids++)
		d.gids[d.ngids].gid = ip((uint8_t)(100 + d.ngids));
	now = d;
	now.gids[7].gid = ip(1);
	assert_int_equal(netdev_merge(&d, &now, change), 2);
	assert_int_equal(d.gids[7].gid.raw[15], 1);
	now = d;
	memmove(&now.gids[1], &now.gids[0], (ROCEMU_MAX_GID - 1) * sizeof(now.gids[0]));
	now.gids[0].gid = ip(2);
	/* The last one has gone, the new one takes its place. */
	assert_int_equal(netdev_merge(&d, &now, change), 2);
	assert_int_equal(d.ngids, ROCEMU_MAX_GID);
	assert_int_equal(d.gids[ROCEMU_MAX_GID - 1].gid.raw[15], 2);
}

TEST(merge, link_and_mtu__taken_over)
{
	struct netdev d = with("1"), now = with("1");
	struct netdev_change change[2 * ROCEMU_MAX_GID];

	now.active = false;
	now.mtu = 9000;
	assert_int_equal(netdev_merge(&d, &now, change), 0);
	assert_false(d.active);
	assert_int_equal(d.mtu, 9000);
}
