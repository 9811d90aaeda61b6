/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/inventory.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "base/util.h"
#include "netdev/addr.h"
#include "wire/ip.h"

/* ---- an interface's state, as the kernel reports it ---- */

/*
 * By ioctl and not from /sys/class/net: a sysfs shows the network namespace in which it was
 * mounted, which can differ from the caller's.
 *
 * fd: any socket. @return 0 or -errno; -ENODEV: there is no such interface.
 */
static int query(int fd, const char *ifname, unsigned long request, struct ifreq *ifr, void *data)
{
	memset(ifr, 0, sizeof(*ifr));
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", ifname);
	if (data)
		ifr->ifr_data = data;
	return ioctl(fd, request, ifr) < 0 ? -errno : 0;
}

/* A socket for query(), or -errno. */
static int query_open(void)
{
	const int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static unsigned query_speed_mbps(int fd, const char *ifname)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr;
	uint32_t speed;

	if (query(fd, ifname, SIOCETHTOOL, &ifr, &cmd) < 0)
		return 0;
	speed = ethtool_cmd_speed(&cmd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

/* Flags, MTU and speed; -errno, -ENODEV: it has gone. */
static int interface_read(int fd, struct netdev *d)
{
	struct ifreq ifr;
	int ret = query(fd, d->ifname, SIOCGIFFLAGS, &ifr, NULL);
	unsigned flags;

	if (ret < 0)
		return ret;
	flags = (unsigned short)ifr.ifr_flags;
	ret = query(fd, d->ifname, SIOCGIFMTU, &ifr, NULL);
	if (ret < 0)
		return ret;
	if (ifr.ifr_mtu > 0)
		d->mtu = (unsigned)ifr.ifr_mtu;
	d->loopback = flags & IFF_LOOPBACK;
	d->active = (flags & IFF_UP) && (flags & IFF_RUNNING);
	d->speed_mbps = d->loopback ? 0 : query_speed_mbps(fd, d->ifname);
	return 0;
}

int netdev_refresh(struct netdev *d)
{
	const int fd = query_open();
	int ret;

	if (fd < 0)
		return fd;
	ret = interface_read(fd, d);
	close(fd);
	if (ret == -ENODEV)
		d->active = false;
	return ret;
}

/* ---- all of them ---- */

bool inventory_is_active(const struct inventory_if *i)
{
	return (i->link.flags & IFF_UP) && (i->link.flags & IFF_RUNNING);
}

bool inventory_is_loopback(const struct inventory_if *i)
{
	return i->link.flags & IFF_LOOPBACK;
}

bool inventory_is_port(const struct inventory_if *i)
{
	return i->link.master && strcmp(i->link.master_kind, "vrf") != 0;
}

/**
 * Order of the default device list: the most useful device comes first, for programs that take the
 * first one.
 */
static int by_use(const void *va, const void *vb)
{
	const struct inventory_if *a = va, *b = vb;

	if (inventory_is_loopback(a) != inventory_is_loopback(b))
		return inventory_is_loopback(a) ? 1 : -1;
	if (inventory_is_active(a) != inventory_is_active(b))
		return inventory_is_active(a) ? -1 : 1;
	return a->link.ifindex < b->link.ifindex ? -1 : a->link.ifindex > b->link.ifindex;
}

/** Rank of an address among an interface's. */
static unsigned address_class(const struct rocemu_gid *g)
{
	return gid_is_ipv4(g) ? 0 : addr_gid_is_link_local(g) ? 2 : 1;
}

/** An address, and which one it was in the kernel's list. */
struct placed {
	struct rtnl_address a;
	unsigned serial;
};

static int by_serial(const struct placed *a, const struct placed *b)
{
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/** Equal ones of an interface side by side, the first one first. */
static int by_gid(const void *va, const void *vb)
{
	const struct placed *a = va, *b = vb;
	int order;

	if (a->a.ifindex != b->a.ifindex)
		return a->a.ifindex < b->a.ifindex ? -1 : 1;
	order = memcmp(a->a.gid.raw, b->a.gid.raw, sizeof(a->a.gid.raw));
	return order ? order : by_serial(a, b);
}

/** Of each interface by kind, and in the kernel's order. */
static int by_kind(const void *va, const void *vb)
{
	const struct placed *a = va, *b = vb;
	const unsigned class_a = address_class(&a->a.gid), class_b = address_class(&b->a.gid);

	if (a->a.ifindex != b->a.ifindex)
		return a->a.ifindex < b->a.ifindex ? -1 : 1;
	if (class_a != class_b)
		return class_a < class_b ? -1 : 1;
	return by_serial(a, b);
}

/**
 * Has this process no sockets of IPv6? Its kernel may lack them, or a filter of system calls
 * refuses them, as systemd's RestrictAddressFamilies does. Then addresses of IPv6 are of no use.
 */
static bool ipv6_refused(void)
{
	int fd = sys_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno == EAFNOSUPPORT;
	close(fd);
	return false;
}

/** Sort them by interface and kind; one that an interface has twice, in two networks, stays once.
 */
static int sort_addresses(struct rtnl_listing *l)
{
	struct placed *p = calloc(l->naddresses + 1u, sizeof(*p));
	const bool no_ipv6 = ipv6_refused();
	unsigned usable = 0, n = 0;

	if (!p)
		return -ENOMEM;
	for (unsigned i = 0; i < l->naddresses; i++)
		if (!no_ipv6 || gid_is_ipv4(&l->addresses[i].gid))
			p[usable++] = (struct placed){l->addresses[i], i};
	qsort(p, usable, sizeof(*p), by_gid);
	for (unsigned i = 0; i < usable; i++)
		if (!n || p[n - 1].a.ifindex != p[i].a.ifindex ||
		    !rocemu_gid_equal(&p[n - 1].a.gid, &p[i].a.gid))
			p[n++] = p[i];
	qsort(p, n, sizeof(*p), by_kind);
	for (unsigned i = 0; i < n; i++)
		l->addresses[i] = p[i].a;
	l->naddresses = n;
	free(p);
	return 0;
}

static int by_ifindex(const void *va, const void *vb)
{
	const struct inventory_if *a = va, *b = vb;

	return a->link.ifindex < b->link.ifindex ? -1 : a->link.ifindex > b->link.ifindex;
}

/** Give each interface its part of the addresses. Both are sorted by interface. */
static void share_out(struct inventory *inv)
{
	const struct rtnl_listing *l = &inv->listing;
	unsigned at = 0;

	for (unsigned i = 0; i < inv->n; i++) {
		struct inventory_if *f = &inv->ifs[i];

		while (at < l->naddresses && l->addresses[at].ifindex < f->link.ifindex)
			at++;
		f->addrs = l->addresses + at;
		for (; at < l->naddresses && l->addresses[at].ifindex == f->link.ifindex; at++) {
			f->naddrs++;
			f->usable |= !l->addresses[at].tentative;
		}
	}
}

/* ---- look-ups ---- */

/** Where an address is. */
struct inventory_place {
	struct hash_node by_gid;
	const struct inventory_if *on;
	unsigned index;
};

static uint64_t name_key(const char *name)
{
	return hash_bytes(name, strlen(name));
}

static int make_index(struct inventory *inv)
{
	struct inventory_place *p = calloc(inv->listing.naddresses + 1u, sizeof(*p));

	inv->places = p;
	if (!p)
		return -ENOMEM;
	for (unsigned i = 0; i < inv->n; i++) {
		struct inventory_if *f = &inv->ifs[i];

		hash_add(&inv->by_name, &f->by_name, name_key(f->link.name));
		for (unsigned a = 0; a < f->naddrs; a++, p++) {
			p->on = f;
			p->index = a;
			hash_add(&inv->by_gid, &p->by_gid,
				 hash_bytes(&f->addrs[a].gid, sizeof(f->addrs[a].gid)));
		}
	}
	return 0;
}

const struct inventory_if *inventory_find_name(const struct inventory *inv, const char *name)
{
	hash_for_each (f, struct inventory_if, by_name, &inv->by_name, name_key(name))
		if (!strcmp(f->link.name, name))
			return f;
	return NULL;
}

const struct inventory_if *inventory_find_address(const struct inventory *inv,
						  const struct rocemu_gid *gid, unsigned *index)
{
	const struct inventory_place *found = NULL;

	hash_for_each (p, struct inventory_place, by_gid, &inv->by_gid,
		       hash_bytes(gid, sizeof(*gid))) {
		const struct rtnl_address *a = &p->on->addrs[p->index];

		if (!a->tentative && rocemu_gid_equal(&a->gid, gid) &&
		    (!found || p->on < found->on))
			found = p;
	}
	if (!found)
		return NULL;
	*index = found->index;
	return found->on;
}

int inventory_take(struct inventory *inv, unsigned ifindex)
{
	int ret;

	*inv = (struct inventory){.query_fd = query_open()};
	if (inv->query_fd < 0)
		return inv->query_fd;
	ret = rtnl_read(ifindex, &inv->listing);
	inv->n = inv->listing.nlinks;
	inv->ifs = ret ? NULL : calloc(inv->n + 1u, sizeof(*inv->ifs));
	if (ret == 0)
		ret = inv->ifs ? sort_addresses(&inv->listing) : -ENOMEM;
	for (unsigned i = 0; ret == 0 && i < inv->n; i++)
		inv->ifs[i].link = inv->listing.links[i];
	if (ret == 0) {
		qsort(inv->ifs, inv->n, sizeof(*inv->ifs), by_ifindex);
		share_out(inv);
		qsort(inv->ifs, inv->n, sizeof(*inv->ifs), by_use);
		ret = make_index(inv);
	}
	if (ret < 0)
		inventory_free(inv);
	return ret;
}

void inventory_free(struct inventory *inv)
{
	hash_fini(&inv->by_name);
	hash_fini(&inv->by_gid);
	free(inv->places);
	free(inv->ifs);
	rtnl_free(&inv->listing);
	close(inv->query_fd);
	*inv = (struct inventory){0};
}

struct netdev_addr inventory_address(const struct inventory_if *i, unsigned index)
{
	const struct rtnl_address *a = &i->addrs[index];

	return (struct netdev_addr){
		.gid = a->gid,
		.scope_id = addr_gid_is_link_local(&a->gid) ? a->ifindex : 0,
		.tentative = a->tentative,
	};
}

/** How many addresses of each class a table has room for. have: how many there are. */
static void ration(const unsigned have[3], unsigned room, unsigned get[3])
{
	unsigned later = (have[1] ? 1u : 0u) +
			 (have[2] ? 1u : 0u); /* one of each later class has its place */

	for (unsigned class = 0; class < 3; class ++) {
		if (class > 0)
			later -= have[class] ? 1 : 0;
		get[class] = MIN(have[class], room - later);
		room -= get[class];
	}
}

void inventory_netdev(const struct inventory *inv, const struct inventory_if *i, struct netdev *out)
{
	unsigned have[3] = {0}, get[3];

	*out = (struct netdev){
		.ifindex = i->link.ifindex,
		.mtu = i->link.mtu ? i->link.mtu : 1500,
		.loopback = inventory_is_loopback(i),
		.active = inventory_is_active(i),
	};
	memcpy(out->ifname, i->link.name, sizeof(out->ifname));
	memcpy(out->mac, i->link.mac, sizeof(out->mac));
	if (!out->loopback)
		out->speed_mbps = query_speed_mbps(inv->query_fd, out->ifname);
	for (unsigned a = 0; a < i->naddrs; a++)
		have[address_class(&i->addrs[a].gid)]++;
	ration(have, ARRAY_LEN(out->addrs), get);
	for (unsigned a = 0; a < i->naddrs; a++) {
		unsigned *left = &get[address_class(&i->addrs[a].gid)];

		if (!*left)
			continue;
		(*left)--;
		out->addrs[out->naddrs++] = inventory_address(i, a);
	}
}

const char *inventory_text(const struct inventory *inv, char *buf, size_t len)
{
	char addr[ADDR_TEXT_LEN];
	size_t at = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < inv->n && at < len; i++) {
		const struct inventory_if *d = &inv->ifs[i];

		at += (size_t)snprintf(buf + at, len - at, "%s%s (", i ? ", " : "", d->link.name);
		for (unsigned j = 0; j < d->naddrs && at < len; j++)
			at += (size_t)snprintf(buf + at, len - at, "%s%s%s", j ? ", " : "",
					       addr_gid_text(&d->addrs[j].gid, addr),
					       d->addrs[j].tentative ? " tentative" : "");
		if (at < len)
			at += (size_t)snprintf(buf + at, len - at, "%s)",
					       d->naddrs ? "" : "no address");
	}
	return buf;
}
