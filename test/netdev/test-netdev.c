/* SPDX-License-Identifier: BSD-2-Clause */
/* GID tables: which address has which index, and tables that change: nothing moves. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "netdev/netdev.h"

/** '1'..'9': 10.0.0.X; 'a'..'z': fd00::X, 'A'..'Z': fe80::X. */
static struct rocemu_gid gid_of(char c)
{
	struct rocemu_gid g = {{[15] = (uint8_t)c}};

	if (c <= '9')
		return (struct rocemu_gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)c}};
	if (c >= 'a') {
		g.raw[0] = 0xfd;
		return g;
	}
	g.raw[0] = 0xfe;
	g.raw[1] = 0x80;
	return g;
}

/** An interface with these addresses; with '?' behind it one is tentative. */
static struct netdev interface(const char *addrs)
{
	struct netdev d = {.active = true, .mtu = 1500};

	for (; *addrs; addrs++)
		if (*addrs == '?')
			d.addrs[d.naddrs - 1].tentative = true;
		else
			d.addrs[d.naddrs++].gid = gid_of(*addrs);
	return d;
}

/** A device on it. */
static struct netdev with(const char *addrs, const char *layout)
{
	struct netdev d = interface(addrs);
	char err[128];

	assert_int_equal(netdev_set_layout(layout, &d, 1, err, sizeof(err)), 0);
	return d;
}

/** Its table: "0:1 2:a/v1", empty entries left out. */
static const char *text(const struct netdev *d)
{
	static char buf[8 * ROCEMU_MAX_GID];
	size_t at = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++)
		if (d->gids[i].here)
			at += (size_t)snprintf(buf + at, sizeof(buf) - at, "%s%u:%c%s",
					       at ? " " : "", i, d->gids[i].gid.raw[15],
					       d->gids[i].v1 ? "/v1" : "");
	return buf;
}

static unsigned merge(struct netdev *d, const char *now)
{
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	const struct netdev n = interface(now);

	return netdev_merge(d, &n, change);
}

static void expect_table(const char *addrs, const char *layout, const char *table)
{
	struct netdev d = with(addrs, layout);

	assert_string_equal(text(&d), table);
}

/* ---- layouts ---- */

TEST(layout, common__first_at_0_and_3_ipv6_at_1_others_where_mlx5_has_v2)
{
	expect_table("12abL", NULL, "0:1 1:L 3:1 5:2 7:a 9:b");
	expect_table("12abL", "common", "0:1 1:L 3:1 5:2 7:a 9:b");
	expect_table("1L", "", "0:1 1:L 3:1");
	expect_table("1LM", "", "0:1 1:L 3:1 5:M");
	expect_table("aL", "", "0:a 1:L 3:a");
}

TEST(layout, common_without_link_local__another_at_1)
{
	expect_table("1a", "", "0:1 1:a 3:1");
	expect_table("12", "", "0:1 1:1 3:1 5:2");
	expect_table("a", "", "0:a 1:a 3:a");
	expect_table("L", "", "0:L 1:L 3:L");
}

TEST(layout, mlx5__pairs_link_local_first)
{
	expect_table("12aL", "mlx5", "0:L/v1 1:L 2:1/v1 3:1 4:2/v1 5:2 6:a/v1 7:a");
	expect_table("1", "mlx5", "2:1/v1 3:1");
}

TEST(layout, rxe__link_local_first)
{
	expect_table("12aL", "rxe", "0:L 1:1 2:2 3:a");
	expect_table("1", "rxe", "1:1");
}

TEST(layout, unknown__einval_and_the_names)
{
	struct netdev d = with("1", NULL);
	char err[128] = "";

	assert_int_equal(netdev_set_layout("mlx4", &d, 1, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "mlx4"));
	assert_non_null(strstr(err, "common, mlx5 or rxe"));
	assert_string_equal(text(&d), "0:1 1:1 3:1");
}

TEST(layout, duplicate_detection__entries_wait_for_their_addresses)
{
	static const char *const layouts[] = {"common", "mlx5", "rxe"};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		struct netdev d = with("1a?L?", layouts[i]);
		char late[256];

		/* Another address comes first and takes no place of theirs. */
		assert_int_not_equal(merge(&d, "12a?L?"), 0);
		merge(&d, "1a?L?");
		assert_int_not_equal(merge(&d, "1aL?"), 0);
		assert_int_not_equal(merge(&d, "1aL"), 0);
		assert_int_equal(merge(&d, "1aL"), 0);
		snprintf(late, sizeof(late), "%s", text(&d));
		expect_table("1aL", layouts[i], late);
	}
}

TEST(find, address_of_both_versions__v2)
{
	const struct rocemu_gid one = gid_of('1'), none = gid_of('2');
	struct netdev d = with("1aL", "mlx5");

	assert_int_equal(netdev_find_gid(&d, &one), 3);
	assert_int_equal(netdev_find_gid(&d, &none), -1);
	assert_int_equal(netdev_find_family(&d, true), 3);
	assert_int_equal(netdev_find_family(&d, false), 1);
	d = with("1", NULL);
	assert_int_equal(netdev_find_gid(&d, &one), 0);
	assert_int_equal(netdev_find_family(&d, false), -1);
}

/* ---- changes ---- */

TEST(merge, address_removed__its_entries_empty_and_the_others_stay)
{
	struct netdev d = with("123", NULL);

	assert_string_equal(text(&d), "0:1 1:1 3:1 5:2 7:3");
	assert_int_equal(merge(&d, "13"), 1);
	assert_string_equal(text(&d), "0:1 1:1 3:1 7:3");
	assert_int_equal(merge(&d, "3"), 3);
	assert_string_equal(text(&d), "7:3");
	assert_int_equal(merge(&d, "3"), 0);
}

TEST(merge, address_comes_back__has_its_old_indices)
{
	struct netdev d = with("123L", NULL);

	merge(&d, "");
	assert_string_equal(text(&d), "");
	assert_int_equal(merge(&d, "2"), 1);
	assert_string_equal(text(&d), "5:2");
	assert_int_equal(merge(&d, "12L"), 3);
	assert_string_equal(text(&d), "0:1 1:L 3:1 5:2");
	d = with("12", "mlx5");
	merge(&d, "2");
	merge(&d, "12");
	assert_string_equal(text(&d), "2:1/v1 3:1 4:2/v1 5:2");
}

TEST(merge, new_address__first_empty_place)
{
	struct netdev d = with("123", NULL);

	merge(&d, "13");
	assert_int_equal(merge(&d, "143"), 1);
	assert_string_equal(text(&d), "0:1 1:1 3:1 5:4 7:3");
	assert_int_equal(merge(&d, "51436"), 2);
	assert_string_equal(text(&d), "0:1 1:1 3:1 5:4 7:3 9:5 11:6");
	/* Another one for the first. */
	assert_int_equal(merge(&d, "75436"), 6);
	assert_string_equal(text(&d), "0:7 1:7 3:7 5:4 7:3 9:5 11:6");
	d = with("1L", "rxe");
	merge(&d, "L");
	merge(&d, "2L");
	assert_string_equal(text(&d), "0:L 1:2");
}

TEST(merge, one_for_another__both_told_removal_first)
{
	struct netdev d = with("12", NULL), now = interface("13");
	struct netdev_change change[2 * ROCEMU_MAX_GID];

	assert_int_equal(netdev_merge(&d, &now, change), 2);
	assert_true(change[0].index == 5 && !change[0].added);
	assert_true(change[1].index == 5 && change[1].added);
	assert_string_equal(text(&d), "0:1 1:1 3:1 5:3");
}

/** Addresses from one on, so many. */
static struct netdev crowd(unsigned first, unsigned n)
{
	struct netdev d = interface("");

	for (; d.naddrs < n; d.naddrs++) {
		d.addrs[d.naddrs].gid = gid_of('1');
		d.addrs[d.naddrs].gid.raw[14] = (uint8_t)(first + d.naddrs);
	}
	return d;
}

TEST(merge, more_than_fit__left_out_until_there_is_room)
{
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	struct netdev d = crowd(0, ROCEMU_MAX_GID), now = crowd(1, ROCEMU_MAX_GID);
	const struct rocemu_gid last = now.addrs[ROCEMU_MAX_GID - 1].gid;

	netdev_make_gids(&d);
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++)
		assert_true(d.gids[i].here);
	assert_int_equal(netdev_find_gid(&d, &d.addrs[ROCEMU_MAX_GID - 1].gid), -1);
	netdev_merge(&d, &now, change);
	assert_int_equal(netdev_find_gid(&d, &last), -1);
	now = crowd(ROCEMU_MAX_GID, 1);
	netdev_merge(&d, &now, change);
	assert_true(netdev_find_gid(&d, &last) >= 0);
	for (unsigned i = 0; i < 3; i++) { /* pairs fit or do not */
		d = crowd(0, 20 + i * 20);
		d.layout = NETDEV_LAYOUT_MLX5;
		netdev_make_gids(&d);
		assert_int_equal(d.gids[ROCEMU_MAX_GID - 1].here, i >= 1);
	}
}

TEST(layout, common_with_many_ipv4__1_is_kept_for_ipv6)
{
	struct netdev d = crowd(0, ROCEMU_MAX_GID);

	d.addrs[ROCEMU_MAX_GID - 1].gid = gid_of('L');
	netdev_make_gids(&d);
	assert_int_equal(d.gids[1].gid.raw[15], 'L');
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++)
		assert_true(d.gids[i].here);
}

TEST(merge, link_and_mtu__taken_over)
{
	struct netdev d = with("1", NULL), now = interface("1");
	struct netdev_change change[2 * ROCEMU_MAX_GID];

	now.active = false;
	now.mtu = 9000;
	assert_int_equal(netdev_merge(&d, &now, change), 0);
	assert_false(d.active);
	assert_int_equal(d.mtu, 9000);
}
