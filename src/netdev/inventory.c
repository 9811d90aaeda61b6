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

/**
 * Is the address not usable, because duplicate address detection runs or has failed? *out is false
 * where that cannot be determined: no /proc. @return 0 or -errno.
 */
static int ipv6_unusable(const struct in6_addr *addr, unsigned ifindex, bool *out)
{
	char hex[33], line[128], want[33];
	unsigned idx, plen, scope, flags;
	FILE *f = fopen("/proc/net/if_inet6", "re");

	*out = false;
	if (!f)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
	for (unsigned i = 0; i < 16; i++)
		snprintf(want + 2 * i, 3, "%02x", addr->s6_addr[i]);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%32s %x %x %x %x", hex, &idx, &plen, &scope, &flags) != 5)
			continue;
		if (idx == ifindex && !strcmp(hex, want))
			*out = (flags & IFA_F_DADFAILED) ||
			       ((flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC));
	}
	fclose(f);
	return 0;
}

/* ---- all of them ---- */

/* The interface of that name in *out, entered when it is new; NULL: there is no room, or it has
 * gone meanwhile. @return 0 or -errno. */
static int inventory_interface(struct inventory *inv, int fd, const char *name, struct netdev **out)
{
	struct ifreq ifr;
	struct netdev *d;
	int ret;

	for (unsigned i = 0; i < inv->n; i++)
		if (!strcmp(inv->ifs[i].ifname, name)) {
			*out = &inv->ifs[i];
			return 0;
		}
	*out = NULL;
	if (inv->n == INVENTORY_MAX || strlen(name) >= IF_NAMESIZE)
		return 0;
	d = &inv->ifs[inv->n];
	memset(d, 0, sizeof(*d));
	snprintf(d->ifname, sizeof(d->ifname), "%s", name);
	d->mtu = 1500;
	ret = query(fd, name, SIOCGIFINDEX, &ifr, NULL);
	if (ret == 0) {
		d->ifindex = (unsigned)ifr.ifr_ifindex;
		ret = interface_read(fd, d);
	}
	if (ret == -ENODEV)
		return 0;
	if (ret < 0)
		return ret;
	inv->n++;
	*out = d;
	return 0;
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
		if (rocemu_gid_equal(&d->addrs[i].gid, &a->gid))
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

static int inventory_address(struct netdev *d, const struct sockaddr *sa)
{
	struct netdev_addr a = {0};
	int ret;

	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof(in));
		gid_from_ipv4(&a.gid, (const uint8_t *)&in.sin_addr);
	} else if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof(in6));
		ret = ipv6_unusable(&in6.sin6_addr, d->ifindex, &a.tentative);
		if (ret < 0)
			return ret;
		memcpy(a.gid.raw, &in6.sin6_addr, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
			a.scope_id = d->ifindex;
	} else {
		return 0;
	}
	address_insert(d, &a);
	return 0;
}

static void inventory_mac(struct netdev *d, const struct sockaddr *sa)
{
	struct sockaddr_ll ll;

	memcpy(&ll, sa, sizeof(ll));
	if (ll.sll_hatype == ARPHRD_ETHER && ll.sll_halen == 6)
		memcpy(d->mac, ll.sll_addr, 6);
}

/**
 * Order of the default device list: the most useful device comes first, for programs that take the
 * first one.
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

static int inventory_fill(struct inventory *inv, int fd, const struct ifaddrs *all)
{
	int ret = 0;

	for (const struct ifaddrs *ifa = all; ifa && ret == 0; ifa = ifa->ifa_next) {
		struct netdev *d;

		if (!ifa->ifa_addr)
			continue;
		ret = inventory_interface(inv, fd, ifa->ifa_name, &d);
		if (ret < 0 || !d)
			continue;
		if (ifa->ifa_addr->sa_family == AF_PACKET)
			inventory_mac(d, ifa->ifa_addr);
		else
			ret = inventory_address(d, ifa->ifa_addr);
	}
	return ret;
}

int inventory_take(struct inventory *inv)
{
	struct ifaddrs *all;
	int ret, fd = query_open();

	inv->n = 0;
	inv->ifs = fd < 0 ? NULL : calloc(INVENTORY_MAX, sizeof(*inv->ifs));
	ret = fd < 0 ? fd : !inv->ifs ? -ENOMEM : getifaddrs(&all) < 0 ? -errno : 0;
	if (ret == 0) {
		ret = inventory_fill(inv, fd, all);
		freeifaddrs(all);
	}
	if (fd >= 0)
		close(fd);
	if (ret < 0) {
		free(inv->ifs);
		inv->ifs = NULL;
		return ret;
	}
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
