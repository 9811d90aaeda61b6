/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the links and addresses of this network namespace from the kernel (rtnetlink, which needs
 * no privilege): all of them by a few system calls, or those of one interface.
 */
#ifndef NETDEV_RTNL_H
#define NETDEV_RTNL_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include <rocemu/wire.h>

struct rtnl_link {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	unsigned flags;	      /* IFF_UP, ... */
	unsigned mtu;	      /* 0: not known */
	uint8_t mac[6];	      /* zero where it is no Ethernet */
	unsigned master;      /* the interface that it is a part of; 0: none */
	char master_kind[16]; /* "bridge", "bond", "vrf" ...; empty: not known */
};

struct rtnl_address {
	unsigned ifindex;
	struct rocemu_gid gid;
	bool tentative; /* duplicate address detection runs or has failed: not usable */
};

/** What is read. */
struct rtnl_listing {
	struct rtnl_link *links; /* owned, as is the next */
	struct rtnl_address *addresses;
	unsigned nlinks, naddresses;
};

/**
 * Read all links and addresses, or (ifindex not 0) one link and its addresses.
 * @return 0: rtnl_free() is the caller's; -ENODEV: there is no such interface; or -errno.
 */
int rtnl_read(unsigned ifindex, struct rtnl_listing *out);
void rtnl_free(struct rtnl_listing *l);

/**
 * Decode a message of the kernel: RTM_NEWLINK, RTM_NEWADDR. data[0..len) begins with the message's
 * header, which is aligned. @return false: it is none, of another family, or not well-formed.
 */
bool rtnl_decode_link(const void *data, size_t len, struct rtnl_link *out);
bool rtnl_decode_address(const void *data, size_t len, struct rtnl_address *out);

#endif
