/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface that a path's packets leave by, and destinations that are refused. A device's
 * packets leave by its own interface, as those of an adapter or of Soft-RoCE do, even where the
 * kernel's routes prefer another one.
 *
 * A socket that is bound to an interface does not reach this host's other addresses: the kernel
 * would send such packets out. And an IPv4 destination without a route by the interface would be
 * taken for a neighbour. Such paths take sockets that are not bound. The tables of routes are read
 * when a path is made, not for packets.
 */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "base/mutex.h"
#include "base/why.h"
#include "engine/lane-internal.h"
#include "wire/ip.h"

/*
 * Addresses to which no packet of the path would arrive, whatever is sent: this host would drop it,
 * or the receiver. The reasons that depend on routes are not here, for these may change.
 */
static int check_destination(const struct lane *l, const struct rocemu_path *path)
{
	static const struct rocemu_gid any4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any6;
	char to[ADDR_TEXT_LEN];

	if (rocemu_gid_equal(&path->dgid, &any4) || rocemu_gid_equal(&path->dgid, &any6))
		return REFUSE(-EINVAL, 0,
			      "%s: dgid is %s, which is no address: read the GID of the peer's "
			      "port, at an index that is in use",
			      l->device, addr_gid_text(&path->dgid, to));
	if (gid_is_scopeless_group(&path->dgid))
		return REFUSE(-EINVAL, 0,
			      "%s: dgid is %s, a group of the reserved scope 0: no host takes such "
			      "packets (RFC 4291 2.7): use ff02:: or a wider scope",
			      l->device, addr_gid_text(&path->dgid, to));
	return 0;
}

/* The same by what the kernel's tables have. */
static int check_way(const struct lane *l, const struct rocemu_path *path, const struct route *r)
{
	char to[ADDR_TEXT_LEN], from[ADDR_TEXT_LEN];

	if (r->kind == ROUTE_BROADCAST)
		return REFUSE(-EINVAL, 0,
			      "%s: dgid is %s, a broadcast address: UD QPs send to several hosts "
			      "by a multicast address",
			      l->device, addr_gid_text(&path->dgid, to));
	if (addr_gid_is_loopback(&path->sgid) && r->kind != ROUTE_LOCAL && r->kind != ROUTE_UNKNOWN)
		return REFUSE(-EINVAL, 0,
			      "%s: dgid is %s, and packets from %s reach this host only: use a "
			      "device with an address of the network",
			      l->device, addr_gid_text(&path->dgid, to),
			      addr_gid_text(&path->sgid, from));
	return 0;
}

/* No route by the device's interface leads to the destination, or it is not known. */
static void say_other(const struct lane *l, const struct rocemu_path *path, const struct route *r)
{
	char to[ADDR_TEXT_LEN], by[IF_NAMESIZE];

	if (r->kind == ROUTE_UNKNOWN)
		why_say(l->ifindex,
			"%s: packets may leave by another interface than the device's: the "
			"kernel's routes cannot be read: allow rtnetlink, a socket of AF_NETLINK",
			l->device);
	else if (r->kind == ROUTE_FILTERED)
		why_say(l->ifindex,
			"%s: packets to %s leave by %s, which is not the device's interface: "
			"this host drops answers that come in by the device's (rp_filter is 1): "
			"set net.ipv4.conf.all.rp_filter to 2, or add routing rules for its "
			"address (`ip rule add from`)",
			l->device, addr_gid_text(&path->dgid, to),
			if_indextoname(r->ifindex, by) ? by : "another interface");
	else if (r->kind == ROUTE_OTHER)
		why_say(l->ifindex,
			"%s: packets to %s leave by %s, which is not the device's interface: no "
			"route by that one leads there: add one (`ip route`) if they should",
			l->device, addr_gid_text(&path->dgid, to),
			if_indextoname(r->ifindex, by) ? by : "another interface");
}

int lane_find_interface(struct lane *l, struct rocemu_path *path)
{
	UNCANCELLED;
	struct route r;
	int err;

	if (l->dead)
		return -ENODEV;
	path->own_interface = false;
	err = check_destination(l, path);
	if (err)
		return err;
	if (!l->ifindex || rocemu_gid_is_multicast(&path->dgid))
		return 0;
	err = route_cached(&l->ways, lane_now(), l->ifindex, &path->sgid, &path->dgid, &r);
	if (!err)
		err = check_way(l, path, &r);
	if (err)
		return err;
	path->own_interface = r.bind != 0;
	if (log_enabled(LOG_LVL_WHY) && !(route_interface_flags(l->ifindex) & IFF_LOOPBACK))
		say_other(l, path, &r);
	return 0;
}
