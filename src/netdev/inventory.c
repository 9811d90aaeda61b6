/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/inventory.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
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

/* ---- what the kernel says of an interface ---- */

/*
 * By ioctl and not from /sys/class/net: a sysfs shows the network namespace of whoever mounted it,
 * which need not be ours.
 */
static bool ask(const char *ifname, unsigned long request, struct ifreq *ifr, void *data)
{
	int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return false;
	memset(ifr, 0, sizeof(*ifr));
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", ifname);
	if (data)
		ifr->ifr_data = data;
	ok = ioctl(fd, request, ifr) == 0;
	close(fd);
	return ok;
}

static unsigned ask_mtu(const char *ifname, unsigned otherwise)
{
	struct ifreq ifr;

	return ask(ifname, SIOCGIFMTU, &ifr, NULL) && ifr.ifr_mtu > 0 ? (unsigned)ifr.ifr_mtu
								      : otherwise;
}

static unsigned ask_speed_mbps(const char *ifname)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr;
	uint32_t speed;

	if (!ask(ifname, SIOCETHTOOL, &ifr, &cmd))
		return 0;
	speed = ethtool_cmd_speed(&cmd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

/**
 * True when the kernel does not yet, or no longer, use the address (duplicate address detection).
 */
static bool ipv6_unusable(const struct in6_addr *addr, unsigned ifindex)
{
	char hex[33], line[128], want[33];
	unsigned idx, plen, scope, flags;
	bool bad = false;
	FILE *f = fopen("/proc/net/if_inet6", "re");

	if (!f)
		return false;
	for (unsigned i = 0; i < 16; i++)
		snprintf(want + 2 * i, 3, "%02x", addr->s6_addr[i]);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%32s %x %x %x %x", hex, &idx, &plen, &scope, &flags) != 5)
			continue;
		if (idx == ifindex && !strcmp(hex, want))
			bad = (flags & IFA_F_DADFAILED) ||
			      ((flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC));
	}
	fclose(f);
	return bad;
}

/* ---- all of them ---- */

static void interface_read(struct netdev *d, unsigned flags)
{
	d->loopback = flags & IFF_LOOPBACK;
	d->active = (flags & IFF_UP) && (flags & IFF_RUNNING);
	d->mtu = ask_mtu(d->ifname, d->mtu);
	d->speed_mbps = d->loopback ? 0 : ask_speed_mbps(d->ifname);
}

void netdev_refresh(struct netdev *d)
{
	struct ifreq ifr;

	if (ask(d->ifname, SIOCGIFFLAGS, &ifr, NULL))
		interface_read(d, (unsigned short)ifr.ifr_flags);
	else
		d->active = false;
}

static struct netdev *inventory_interface(struct inventory *inv, const struct ifaddrs *ifa)
{
	struct netdev *d;

	for (unsigned i = 0; i < inv->n; i++)
		if (!strcmp(inv->ifs[i].ifname, ifa->ifa_name))
			return &inv->ifs[i];
	if (inv->n == INVENTORY_MAX || strlen(ifa->ifa_name) >= IF_NAMESIZE)
		return NULL;
	d = &inv->ifs[inv->n++];
	memset(d, 0, sizeof(*d));
	snprintf(d->ifname, sizeof(d->ifname), "%s", ifa->ifa_name);
	d->ifindex = if_nametoindex(d->ifname);
	d->mtu = 1500;
	interface_read(d, ifa->ifa_flags);
	return d;
}

/** Rank of an address among an interface's. */
static unsigned address_class(const struct rocemu_gid *g)
{
	return gid_is_ipv4(g) ? 0 : addr_gid_is_link_local(g) ? 2 : 1;
}

static void address_insert(struct netdev *d, const struct netdev_addr *a)
{
	unsigned at = d->naddrs;

	for (unsigned i = 0; i < d->naddrs; i++)
		if (addr_gid_equal(&d->addrs[i].gid, &a->gid))
			return;
	if (d->naddrs == ARRAY_LEN(d->addrs))
		return;
	while (at > 0 && address_class(&d->addrs[at - 1].gid) > address_class(&a->gid)) {
		d->addrs[at] = d->addrs[at - 1];
		at--;
	}
	d->addrs[at] = *a;
	d->naddrs++;
}

static void inventory_address(struct netdev *d, const struct sockaddr *sa)
{
	struct netdev_addr a = {0};

	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof(in));
		gid_from_ipv4(&a.gid, (const uint8_t *)&in.sin_addr);
	} else if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		a.tentative = ipv6_unusable(&in6.sin6_addr, d->ifindex);
		memcpy(a.gid.raw, &in6.sin6_addr, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
			a.scope_id = d->ifindex;
	} else {
		return;
	}
	address_insert(d, &a);
}

static void inventory_mac(struct netdev *d, const struct sockaddr *sa)
{
	struct sockaddr_ll ll;

	memcpy(&ll, sa, sizeof(ll));
	if (ll.sll_hatype == ARPHRD_ETHER && ll.sll_halen == 6)
		memcpy(d->mac, ll.sll_addr, 6);
}

/**
 * Order of the default device list: what a program that takes the first device wants comes first.
 */
static int by_use(const void *va, const void *vb)
{
	const struct netdev *a = va, *b = vb;

	if (a->loopback != b->loopback)
		return a->loopback ? 1 : -1;
	if (a->active != b->active)
		return a->active ? -1 : 1;
	return a->ifindex < b->ifindex ? -1 : a->ifindex > b->ifindex;
}

int inventory_take(struct inventory *inv)
{
	struct ifaddrs *all;

	inv->n = 0;
	inv->ifs = calloc(INVENTORY_MAX, sizeof(*inv->ifs));
	if (!inv->ifs)
		return -ENOMEM;
	if (getifaddrs(&all) < 0) {
		int err = errno;

		free(inv->ifs);
		return -err;
	}
	for (const struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
		struct netdev *d = ifa->ifa_addr ? inventory_interface(inv, ifa) : NULL;

		if (!d)
			continue;
		if (ifa->ifa_addr->sa_family == AF_PACKET)
			inventory_mac(d, ifa->ifa_addr);
		else
			inventory_address(d, ifa->ifa_addr);
	}
	freeifaddrs(all);
	qsort(inv->ifs, inv->n, sizeof(*inv->ifs), by_use);
	return 0;
}

const char *inventory_text(const struct inventory *inv, char *buf, size_t len)
{
	char addr[ADDR_TEXT_LEN];
	size_t at = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < inv->n && at < len; i++) {
		const struct netdev *d = &inv->ifs[i];

		at += (size_t)snprintf(buf + at, len - at, "%s%s (", i ? ", " : "", d->ifname);
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
