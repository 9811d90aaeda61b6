/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where packets to a destination leave, by the kernel's tables of routes and neighbours (rtnetlink,
 * which needs no privilege); and sockets that send by one interface.
 */
#ifndef NETDEV_ROUTE_H
#define NETDEV_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/wire.h>

enum route_kind {
	ROUTE_UNKNOWN,	 /* the tables cannot be read */
	ROUTE_NONE,	 /* no route leads there */
	ROUTE_LOCAL,	 /* an address of this host */
	ROUTE_BROADCAST, /* a broadcast address of a network */
	ROUTE_OWN,	 /* a route by the interface leads there, or the interface is down */
	ROUTE_OTHER,	 /* only routes by other interfaces do */
	ROUTE_FILTERED, /* one by the interface does, but this host drops the answers (rp_filter) */
};

struct route {
	enum route_kind kind;
	unsigned ifindex;	/* OWN, OTHER, FILTERED: which packets take; else 0 */
	unsigned bind;		/* the interface to bind sockets to; 0: none */
	struct rocemu_gid next; /* the next hop there; the destination where that is a neighbour */
};

/** @return a socket for the calls below, or -errno. */
int route_open(void);

/**
 * Find the way from an address of an interface to a unicast address. ifindex 0: by any interface,
 * which counts as OWN; link-local destinations need one.
 */
void route_find(int fd, unsigned ifindex, const struct rocemu_gid *src,
		const struct rocemu_gid *dst, struct route *r);

/** Is the Ethernet address of r's next hop known, or not needed? A state that is not known counts
 * as yes. */
bool route_neighbour_known(int fd, const struct route *r);

/** Ways that were found a moment ago. All zeros at first. */
struct route_cache {
	struct route_entry {
		struct rocemu_gid src, dst;
		uint64_t until; /* found anew from then on; 0: empty */
		struct route route;
	} entry[256];
};

/**
 * As route_find(), at most once a second for each destination. ifindex 0: of the interface that has
 * src. now_ns: of any clock. @return 0, or -errno where descriptors or memory have run out.
 */
int route_cached(struct route_cache *c, uint64_t now_ns, unsigned ifindex,
		 const struct rocemu_gid *src, const struct rocemu_gid *dst, struct route *r);

/**
 * From now on the socket sends by the interface. A socket that is bound to an interface already
 * stays there (`ip vrf exec` binds each new socket). Strict by SO_BINDTOIFINDEX, which needs Linux
 * 5.7 or CAP_NET_RAW; else IPv6 takes another interface's route that has a lower metric.
 * @return 0, or -errno: none of the options is allowed.
 */
int route_bind_socket(int fd, bool ipv4, unsigned ifindex);

/** IFF_UP, IFF_LOOPBACK, ... of an interface; 0: they cannot be read. */
unsigned route_interface_flags(unsigned ifindex);

#endif
