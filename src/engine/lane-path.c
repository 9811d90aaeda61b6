/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface that a path's packets leave by. A device's packets leave by its own interface, as
 * those of an adapter or of Soft-RoCE do, even where the kernel's routes prefer another one.
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
	if (!l->ifindex || rocemu_gid_is_multicast(&path->dgid))
		return 0;
	err = route_cached(&l->ways, lane_now(), l->ifindex, &path->sgid, &path->dgid, &r);
	if (err)
		return err;
	path->own_interface = r.bind != 0;
	if (log_enabled(LOG_LVL_WHY) && !(route_interface_flags(l->ifindex) & IFF_LOOPBACK))
		say_other(l, path, &r);
	return 0;
}
