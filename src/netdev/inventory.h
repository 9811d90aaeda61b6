/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interfaces of this network namespace with their addresses, as the kernel reports them: the
 * input of netdev_list() and netdev_reread().
 */
#ifndef NETDEV_INVENTORY_H
#define NETDEV_INVENTORY_H

#include "base/hash.h"
#include "netdev/netdev.h"
#include "netdev/rtnl.h"

struct inventory_if {
	struct hash_node by_name;
	struct rtnl_link link;
	const struct rtnl_address *addrs; /* in the inventory; by kind: IPv4, IPv6, link-local */
	unsigned naddrs;
	bool usable; /* one of them is not tentative */
};

struct inventory {
	struct inventory_if *ifs; /* owned. In order of preference: active ones first, loopback
				     last */
	unsigned n;
	struct rtnl_listing listing;	/* owned */
	struct inventory_place *places; /* owned: of the addresses, in by_gid */
	struct hash by_name, by_gid;
	int query_fd; /* owned: a socket for ioctl() */
};

/** Of all interfaces, or of one. @return as rtnl_read(). */
int inventory_take(struct inventory *inv, unsigned ifindex);
void inventory_free(struct inventory *inv);

/** The interface of that name; NULL: none has it. */
const struct inventory_if *inventory_find_name(const struct inventory *inv, const char *name);
/** The interface with a usable address, the first one in the order of preference; *index: the
 * address's number there. NULL: none has it. */
const struct inventory_if *inventory_find_address(const struct inventory *inv,
						  const struct rocemu_gid *gid, unsigned *index);

/** Up and running? */
bool inventory_is_active(const struct inventory_if *i);
bool inventory_is_loopback(const struct inventory_if *i);
/**
 * Are its packets those of another interface, which has the addresses? A port of a bridge, bond,
 * team or Open vSwitch is such a part of it; an interface in a VRF is none.
 */
bool inventory_is_port(const struct inventory_if *i);

/**
 * The interface as a device without name and GUID. Of more addresses than a GID table can have, it
 * has the first of each kind.
 */
void inventory_netdev(const struct inventory *inv, const struct inventory_if *i,
		      struct netdev *out);

/** One of its addresses. */
struct netdev_addr inventory_address(const struct inventory_if *i, unsigned index);

/** "lo (127.0.0.1, ::1), eth0 (10.0.0.1)": for messages. @return buf. */
const char *inventory_text(const struct inventory *inv, char *buf, size_t len);

#endif
