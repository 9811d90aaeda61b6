/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the RDMA devices of this host: the network interface or address of each one, and its GID
 * table. Only reads the host's state (rtnetlink, ioctls); opens no port and keeps no state. Reads
 * no environment: the caller passes the value of ROCEMU_DEVICES.
 */
#ifndef NETDEV_NETDEV_H
#define NETDEV_NETDEV_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

enum { NETDEV_NAME_MAX = 64 }; /* a device's name with its 0 byte, as IBV_SYSFS_NAME_MAX */

/** An address of an interface. */
struct netdev_addr {
	struct rocemu_gid gid;
	uint32_t scope_id; /* interface index for link-local IPv6, else 0 */
	bool tentative;	   /* not usable yet: the kernel's duplicate address detection runs */
};

/** An entry of a GID table. */
struct netdev_gid {
	struct rocemu_gid gid; /* empty: kept for that address, or zero */
	uint32_t scope_id;     /* as netdev_addr's */
	bool here;	       /* else the entry is empty */
	bool v1;	       /* reported as RoCE v1 */
};

/** Which address has which index of a GID table: gids.c. */
enum netdev_layout {
	NETDEV_LAYOUT_COMMON, /* usable at the indices that programs have built in */
	NETDEV_LAYOUT_MLX5,
	NETDEV_LAYOUT_RXE,
};

struct netdev {
	char name[NETDEV_NAME_MAX]; /* of the RDMA device: "rocemu_eth0", or the name in the spec */
	char ifname[IF_NAMESIZE];
	unsigned ifindex;
	unsigned mtu;	     /* bytes of an IP packet */
	unsigned speed_mbps; /* 0: not known, as for lo */
	bool loopback;
	bool active;	  /* up and running */
	bool one_address; /* the device stands on its address, not on the interface */
	uint8_t mac[6];	  /* zero where there is none */
	uint64_t guid;	  /* node GUID as a number, most significant byte first on the wire */
	unsigned naddrs;  /* when listed at least 1, one of them not tentative */
	struct netdev_addr addrs[ROCEMU_MAX_GID]; /* by kind: IPv4, IPv6, link-local */
	enum netdev_layout layout;
	struct netdev_gid gids[ROCEMU_MAX_GID]; /* the GID table; its length never changes */
};

/**
 * Find the devices that programs list. spec NULL or "": one for each interface with an address,
 * those that run before those that do not; loopback only where no other interface with an address
 * runs, and no interface that is a port of another one (bridge, bond ...). Else a list, separated
 * by commas, of name=interface, name=address, interface or address; an address of 127.0.0.0/8
 * stands for lo whether the interface lists it or not.
 *
 * Their GID tables are of NETDEV_LAYOUT_COMMON.
 *
 * @param out an array of *n devices, for the caller to free(); untouched on error.
 * @return 0; *n is 0 where no interface has a usable address: errbuf has the reason and the remedy.
 * Or -EINVAL: the spec is wrong, with the error and the list of interfaces in errbuf; -ENOMEM or
 * another -errno, also with errbuf.
 */
int netdev_list(const char *spec, struct netdev **out, unsigned *n, char *errbuf, size_t errlen);

/** As netdev_list(), with loopback as the last device where that one leaves it out. */
int netdev_list_all(const char *spec, struct netdev **out, unsigned *n, char *errbuf,
		    size_t errlen);

/**
 * Lay out the GID tables of listed devices by the layout's name: "common", "mlx5" or "rxe"; NULL or
 * "": common. @return 0, or -EINVAL with errbuf: another name.
 */
int netdev_set_layout(const char *text, struct netdev *devs, unsigned n, char *errbuf,
		      size_t errlen);

/** Make the GID table of d's addresses. */
void netdev_make_gids(struct netdev *d);

/** The index of the address, RoCE v2 if there is a choice; -1: the table does not have it. */
int netdev_find_gid(const struct netdev *d, const struct rocemu_gid *gid);

/** The same for the first address of a family. */
int netdev_find_family(const struct netdev *d, bool ipv4);

/**
 * Read state, MTU and speed again. They stay as they were where that fails; of an interface that is
 * gone (-ENODEV), the state becomes inactive. @return 0 or -errno.
 */
int netdev_refresh(struct netdev *d);

/**
 * Read the state of d's interface, and of no other one, again: *now gets its state, MTU, speed and
 * the addresses that d is to have; name and GUID stay d's. Its GID table is not to be used.
 * @return 0, or -errno: -ENODEV the interface is gone; then *now is d without addresses, not
 * active.
 */
int netdev_reread(const struct netdev *d, struct netdev *now);

/** What netdev_merge() did to an entry of the table. */
struct netdev_change {
	unsigned index;
	bool added; /* else: it is a hole now */
};

/**
 * Bring d's GID table up to date with now's addresses without moving anything: an address that is
 * gone leaves its entries empty, a new one takes its former entries, else empty ones by the layout;
 * without an empty one it is left out.
 * @param out what has changed, holes first; room for 2 * ROCEMU_MAX_GID.
 * @return how much.
 */
unsigned netdev_merge(struct netdev *d, const struct netdev *now, struct netdev_change *out);

/**
 * A port's speed in InfiniBand's terms (IBTA 14.2.5.6): a number of lanes and the speed of each.
 */
struct netdev_speed {
	uint8_t width, speed; /* struct ibv_port_attr::active_width, active_speed */
	unsigned lanes, lane_mbps;
	const char *name; /* "QDR" */
};

/**
 * The rate nearest to an Ethernet speed. 0, not known (lo, most virtual interfaces): 10 Gbit/s,
 * which the kernel reports for veth.
 */
struct netdev_speed netdev_link_speed(unsigned mbps);

/**
 * The largest path MTU whose longest packet fits into IP packets of mtu bytes. An IPv6 header is
 * assumed, so that a device has the same path MTU for all its addresses.
 */
enum ibv_mtu netdev_active_mtu(unsigned mtu);

#endif
