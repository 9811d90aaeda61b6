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
	bool gone;	   /* a hole: the address was removed (netdev_merge()) */
};

struct netdev {
	char name[NETDEV_NAME_MAX]; /* of the RDMA device: "rocemu_eth0", or as the spec says */
	char ifname[IF_NAMESIZE];
	unsigned ifindex;
	unsigned mtu;	     /* bytes of an IP packet */
	unsigned speed_mbps; /* 0: not known, as for lo */
	bool loopback;
	bool active;	  /* up and running */
	bool one_address; /* the device stands on its address, not on the interface */
	uint8_t mac[6];	  /* zero where there is none */
	uint64_t guid;	  /* node GUID as a number, most significant byte first on the wire */
	unsigned ngids;	  /* at least 1 */
	struct netdev_gid gids[ROCEMU_MAX_GID];
};

/**
 * Find the devices that programs list. spec NULL or "": one for each interface with an address,
 * those that run before those that do not; loopback only where no other interface with an address
 * runs. Else a list, separated by commas, of name=interface, name=address, interface or address; an
 * address of 127.0.0.0/8 is good for lo whether the interface lists it or not.
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

/** As netdev_list(), with loopback as the last device where that one leaves it out. */
int netdev_list_all(const char *spec, struct netdev **out, unsigned *n, char *errbuf,
		    size_t errlen);

/**
 * Read state, MTU and speed again; they stay as they were when the interface is gone (then not
 * active).
 */
void netdev_refresh(struct netdev *d);

/**
 * Look at d's interface again: *now gets its state, MTU, speed and the addresses that d is to have,
 * in the order of netdev_list(); name and GUID stay d's.
 * @return 0, or -errno: -ENODEV the interface is gone; then *now is d without addresses, not
 * active; -EAGAIN: it was not found, but is there.
 */
int netdev_reread(const struct netdev *d, struct netdev *now);

/** What netdev_merge() did to an entry of the table. */
struct netdev_change {
	unsigned index;
	bool added; /* else: it is a hole now */
};

/**
 * Bring d's GID table up to date without moving anything: an address that is gone leaves a hole, a
 * new one takes the hole it had before, else the first hole, else the next index; beyond
 * ROCEMU_MAX_GID it is left out.
 * @param out what has changed, holes first; room for 2 * ROCEMU_MAX_GID.
 * @return how much.
 */
unsigned netdev_merge(struct netdev *d, const struct netdev *now, struct netdev_change *out);

/** A port's speed as InfiniBand says it (IBTA 14.2.5.6): so many lanes of such a kind. */
struct netdev_speed {
	uint8_t width, speed; /* struct ibv_port_attr::active_width, active_speed */
	unsigned lanes, lane_mbps;
	const char *name; /* "QDR" */
};

/** The rate nearest to an Ethernet speed. 0, not known (lo, most virtual interfaces): 10 Gbit/s,
 * what the kernel says of veth. */
struct netdev_speed netdev_link_speed(unsigned mbps);

/**
 * The largest path MTU whose longest packet fits into IP packets of mtu bytes. The headers count as
 * an IPv6 header, so that one device has one answer.
 */
enum ibv_mtu netdev_active_mtu(unsigned mtu);

#endif
