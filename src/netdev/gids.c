/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assigns the addresses of an interface to indices of the GID table.
 *
 * Like a NIC's under Linux, a table has a fixed length and empty entries; addresses keep their
 * indices as long as they are there, and have them back when they return. An address whose
 * duplicate detection still runs has its entries already, empty until it ends, so that the table
 * does not depend on when a program looks.
 *
 * The kernel puts the default GID (link-local) first, one entry for each RoCE version of the
 * device, then the other addresses in the order of their addition, likewise:
 *
 *     mlx5   0 link-local v1   1 link-local v2   2 address v1   3 address v2   4 ... v1   5 ... v2
 *     rxe    0 link-local      1 address         2 ...          (v2 alone)
 *
 * Programs have these indices built in. The common layout is mlx5's without its v1 entries, since
 * packets are RoCE v2; of the entries that this leaves free, 0 has the same address as 3, the first
 * one (IPv4 where there is one), because most tutorials use index 0. 1 has the first IPv6 address,
 * link-local before others; without any, the first address.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "netdev/addr.h"
#include "netdev/netdev.h"
#include "wire/ip.h"

/* Of the common layout. */
enum { FIRST = 0, IPV6 = 1, FIRST_MLX5 = 3, OTHERS = 5 };

/** A table that is being changed, and what was. */
struct update {
	struct netdev *d;
	const struct netdev *now;  /* has the addresses */
	struct netdev_change *out; /* or NULL */
	unsigned n;
};

static const struct netdev_addr *find_address(const struct netdev *d, const struct rocemu_gid *gid)
{
	for (unsigned i = 0; i < d->naddrs; i++)
		if (rocemu_gid_equal(&d->addrs[i].gid, gid))
			return &d->addrs[i];
	return NULL;
}

static void note(struct update *u, unsigned index, bool added)
{
	if (u->out)
		u->out[u->n] = (struct netdev_change){.index = index, .added = added};
	u->n++;
}

/** Free: not in use and not reserved for a tentative address. */
static bool is_free(const struct update *u, unsigned index)
{
	static const struct rocemu_gid none;
	const struct netdev_gid *g = &u->d->gids[index];

	return !g->here && (rocemu_gid_equal(&g->gid, &none) || !find_address(u->now, &g->gid));
}

static void put(struct update *u, unsigned index, const struct netdev_addr *a, bool v1)
{
	u->d->gids[index] = (struct netdev_gid){
		.gid = a->gid,
		.scope_id = a->scope_id,
		.here = !a->tentative,
		.v1 = v1,
	};
	if (!a->tentative)
		note(u, index, true);
}

/** The first free index of from, from + step ... @return ROCEMU_MAX_GID: none. */
static unsigned next_free(const struct update *u, unsigned from, unsigned step)
{
	while (from < ROCEMU_MAX_GID && !is_free(u, from))
		from += step;
	return MIN(from, (unsigned)ROCEMU_MAX_GID);
}

static bool has_ipv6(const struct netdev *d)
{
	for (unsigned i = 0; i < d->naddrs; i++)
		if (!gid_is_ipv4(&d->addrs[i].gid))
			return true;
	return false;
}

/** Does a link-local address take the index of IPv6: another one, or this one? */
static bool suits_ipv6(const struct update *u, const struct netdev_addr *a)
{
	if (gid_is_ipv4(&a->gid))
		return !has_ipv6(u->now);
	if (addr_gid_is_link_local(&a->gid))
		return true;
	for (unsigned i = 0; i < u->now->naddrs; i++)
		if (addr_gid_is_link_local(&u->now->addrs[i].gid))
			return false;
	return true;
}

static void add_common(struct update *u, const struct netdev_addr *a)
{
	bool placed = false;
	unsigned at;

	if (is_free(u, FIRST)) {
		put(u, FIRST, a, false);
		placed = true;
	}
	if (placed && is_free(u, FIRST_MLX5))
		put(u, FIRST_MLX5, a, false);
	if (is_free(u, IPV6) && suits_ipv6(u, a)) {
		put(u, IPV6, a, false);
		placed = true;
	}
	if (placed)
		return;
	at = next_free(u, OTHERS, 2);
	if (at == ROCEMU_MAX_GID)
		at = next_free(u, FIRST + 1, 1);
	/* Kept for IPv6, which comes last. */
	if (at == IPV6 && has_ipv6(u->now))
		at = next_free(u, IPV6 + 1, 1);
	if (at < ROCEMU_MAX_GID)
		put(u, at, a, false);
}

static void add_mlx5(struct update *u, const struct netdev_addr *a)
{
	unsigned at = 0;

	if (!addr_gid_is_link_local(&a->gid) || !is_free(u, at))
		at = next_free(u, 2, 2);
	if (at == ROCEMU_MAX_GID)
		return;
	put(u, at, a, true);
	put(u, at + 1, a, false);
}

static void add_rxe(struct update *u, const struct netdev_addr *a)
{
	unsigned at = 0;

	if (!addr_gid_is_link_local(&a->gid) || !is_free(u, at))
		at = next_free(u, 1, 1);
	if (at < ROCEMU_MAX_GID)
		put(u, at, a, false);
}

static void add(struct update *u, const struct netdev_addr *a)
{
	switch (u->d->layout) {
	case NETDEV_LAYOUT_COMMON:
		add_common(u, a);
		break;
	case NETDEV_LAYOUT_MLX5:
		add_mlx5(u, a);
		break;
	case NETDEV_LAYOUT_RXE:
		add_rxe(u, a);
		break;
	}
}

void netdev_make_gids(struct netdev *d)
{
	struct update u = {.d = d, .now = d};

	memset(d->gids, 0, sizeof(d->gids));
	for (unsigned i = 0; i < d->naddrs; i++)
		add(&u, &d->addrs[i]);
}

int netdev_set_layout(const char *text, struct netdev *devs, unsigned n, char *errbuf,
		      size_t errlen)
{
	static const char *const names[] = {
		[NETDEV_LAYOUT_COMMON] = "common",
		[NETDEV_LAYOUT_MLX5] = "mlx5",
		[NETDEV_LAYOUT_RXE] = "rxe",
	};
	unsigned layout = NETDEV_LAYOUT_COMMON;

	if (text && *text)
		while (layout < ARRAY_LEN(names) && strcmp(text, names[layout]) != 0)
			layout++;
	if (layout == ARRAY_LEN(names)) {
		snprintf(errbuf, errlen,
			 "\"%s\" is not a layout of GID tables: common, mlx5 or rxe", text);
		return -EINVAL;
	}
	for (unsigned i = 0; i < n; i++) {
		devs[i].layout = (enum netdev_layout)layout;
		netdev_make_gids(&devs[i]);
	}
	return 0;
}

int netdev_find_gid(const struct netdev *d, const struct rocemu_gid *gid)
{
	int found = -1;

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		const struct netdev_gid *g = &d->gids[i];

		if (!g->here || !rocemu_gid_equal(&g->gid, gid))
			continue;
		if (!g->v1)
			return (int)i;
		if (found < 0)
			found = (int)i;
	}
	return found;
}

int netdev_find_family(const struct netdev *d, bool ipv4)
{
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++)
		if (d->gids[i].here && !d->gids[i].v1 && gid_is_ipv4(&d->gids[i].gid) == ipv4)
			return (int)i;
	return -1;
}

/* ---- changes ---- */

static bool is_usable(const struct netdev *d, const struct rocemu_gid *gid)
{
	const struct netdev_addr *a = find_address(d, gid);

	return a && !a->tentative;
}

/** Entries that are reserved for an address are filled with it. @return there are some. */
static bool restore(struct update *u, const struct netdev_addr *a)
{
	bool any = false;

	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		struct netdev_gid *g = &u->d->gids[i];

		if (!rocemu_gid_equal(&g->gid, &a->gid))
			continue;
		any = true;
		if (!g->here)
			put(u, i, a, g->v1);
	}
	return any;
}

unsigned netdev_merge(struct netdev *d, const struct netdev *now, struct netdev_change *out)
{
	struct update u = {.d = d, .now = now, .out = out};

	d->active = now->active;
	d->mtu = now->mtu;
	d->speed_mbps = now->speed_mbps;
	for (unsigned i = 0; i < ROCEMU_MAX_GID; i++) {
		if (!d->gids[i].here || is_usable(now, &d->gids[i].gid))
			continue;
		d->gids[i].here = false;
		note(&u, i, false);
	}
	for (unsigned i = 0; i < now->naddrs; i++)
		if (!restore(&u, &now->addrs[i]))
			add(&u, &now->addrs[i]);
	return u.n;
}
