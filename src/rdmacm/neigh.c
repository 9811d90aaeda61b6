/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks that the next hop can be resolved. The kernel's rdma_cm resolves the neighbour's Ethernet
 * address, and reports ADDR_ERROR when there is no answer. The kernel delivers rocemu's packets, so
 * that address is not needed here; but without this check only the connection manager's timeout
 * would detect a wrong address, 103 s later.
 *
 * The kernel's neighbour table is read by rtnetlink, which needs no privilege. For a neighbour that
 * is not in it, an empty datagram to the discard port has the kernel look for it; the table is read
 * again until it is there, or the program's time is over. An unknown state counts as resolved.
 */
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/syssocket.h"
#include "netdev/route.h"
#include "rdmacm/addr.h"
#include "rdmacm/device.h"
#include "rdmacm/neigh.h"

enum { DISCARD_PORT = 9 /* RFC 863 */ };

/* Does the interface resolve neighbours' addresses? */
static bool has_neighbours(unsigned ifindex)
{
	const unsigned flags = route_interface_flags(ifindex);

	return flags && !(flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT));
}

/* By the interface that the program's packets take. @return false: the kernel does not allow it. */
static bool solicit(const struct sockaddr *to, const struct rcm_local *from,
		    const struct route *route)
{
	struct sockaddr_storage own, there;
	int fd = sys_socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool allowed;

	if (fd < 0)
		return false;
	rcm_addr_from_gid((struct sockaddr *)&own, &from->gid, 0, from->scope_id);
	rcm_addr_copy(&there, to);
	rcm_addr_set_port((struct sockaddr *)&there, DISCARD_PORT);
	allowed = !route_bind_socket(fd, to->sa_family == AF_INET, route->ifindex);
	if (allowed &&
	    bind(fd, (struct sockaddr *)&own, rcm_addr_len((struct sockaddr *)&own)) == 0)
		sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&there, rcm_addr_len(to));
	close(fd);
	return allowed;
}

bool rcm_neigh_known(const struct sockaddr *to, const struct rcm_local *from)
{
	const uint32_t scope = rcm_addr_scope(to);
	bool known = true;
	struct rocemu_gid gid;
	struct route route;
	int fd;

	if (rcm_addr_multicast(to))
		return true;
	fd = route_open();
	if (fd < 0)
		return true;
	rcm_addr_to_gid(to, &gid);
	route_find(fd, scope ? scope : from->dev->ifindex, &from->gid, &gid, &route);
	if (route.ifindex && !route_neighbour_known(fd, &route) && has_neighbours(route.ifindex)) {
		/* Often the answer has come by now. */
		known = !solicit(to, from, &route) || route_neighbour_known(fd, &route);
	}
	close(fd);
	return known;
}
