/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA devices of this host: which network interface or address each one stands on, and its GID
 * table. Only looks (getifaddrs, ioctls, /proc/net): opens no port and keeps nothing. Reads no
 * environment: the caller hands over what ROCEMU_DEVICES says.
 */
#ifndef ENGINE_NETDEV_H
#define ENGINE_NETDEV_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum { NETDEV_NAME_MAX = 64 }; /* a device's name with its 0 byte, as IBV_SYSFS_NAME_MAX */

struct netdev_gid {
	struct rocemu_gid gid;
	uint32_t scope_id; /* interface index for link-local IPv6, else 0 */
};

struct netdev {
	char name[NETDEV_NAME_MAX]; /* of the RDMA device: "rocemu_eth0", or as the spec says */
	char ifname[IF_NAMESIZE];
	unsigned ifindex;
	unsigned mtu;	     /* bytes of an IP packet */
	unsigned speed_mbps; /* 0: not known, as for lo */
	bool loopback;
	bool active;	/* up and running */
	uint8_t mac[6]; /* zero where there is none */
	uint64_t guid;	/* node GUID as a number, most significant byte first on the wire */
	unsigned ngids; /* at least 1 */
	struct netdev_gid gids[ROCEMU_MAX_GID];
};

/**
 * Find the devices. spec NULL or "": one for each interface with an address, real ones before
 * loopback, those that run before those that do not. Else a list, separated by commas, of
 * name=interface, name=address, interface or address; an address of 127.0.0.0/8 is good for lo
 * whether the interface lists it or not.
 *
 * GID table: IPv4 first (index 0 is what programs take that do not ask), then global IPv6, then
 * link-local.
 *
 * @param out an array of *n devices, for the caller to free(); untouched on error.
 * @return 0, or -EINVAL: something in the spec is wrong, errbuf says what, and which interfaces
 * there are;
 *         -ENOMEM and what getifaddrs() says, also with errbuf.
 */
int netdev_list(const char *spec, struct netdev **out, unsigned *n, char *errbuf, size_t errlen);

/**
 * Read state, MTU and speed again; they stay as they were when the interface is gone (then not
 * active).
 */
void netdev_refresh(struct netdev *d);

/**
 * The largest path MTU whose longest packet fits into IP packets of mtu bytes. The headers count as
 * an IPv6 header, so that one device has one answer.
 */
enum ibv_mtu netdev_active_mtu(unsigned mtu);

#endif
