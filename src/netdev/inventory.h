/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists the interfaces of this network namespace with their addresses, as the kernel reports them:
 * the input of netdev_list() and netdev_refresh().
 */
#ifndef NETDEV_INVENTORY_H
#define NETDEV_INVENTORY_H

#include "netdev/netdev.h"

enum { INVENTORY_MAX = 256 };

struct inventory {
	struct netdev *ifs; /* owned: free() it; name and guid are empty. In order of preference:
			       active ones first, loopback last */
	unsigned n;
};

/** -ENOMEM, or -errno of getifaddrs(): there is nothing to free. */
int inventory_take(struct inventory *inv);

/** "lo (127.0.0.1, ::1), eth0 (10.0.0.1)": for messages. @return buf. */
const char *inventory_text(const struct inventory *inv, char *buf, size_t len);

#endif
