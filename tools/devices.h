/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the ports for "rocemu devices": emulated ones from the interfaces, real ones by queries.
 */
#ifndef TOOLS_DEVICES_H
#define TOOLS_DEVICES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { PORT_GIDS_MAX = 64, PORT_NAME_MAX = 64 };

struct port_gid {
	unsigned index; /* in the port's table */
	char text[INET6_ADDRSTRLEN];
};

struct port_info {
	char name[PORT_NAME_MAX]; /* the device's */
	bool real;
	unsigned port;
	char ifname[IF_NAMESIZE]; /* empty: not known */
	const char *state;	  /* static: "active", "down", ... */
	unsigned mtu;		  /* of the interface; 0: not known */
	unsigned path_mtu;	  /* 0: not known */
	uint64_t guid;
	unsigned ngids;
	struct port_gid gids[PORT_GIDS_MAX];
};

/**
 * The ports of the real devices that programs see beside the emulated ones. Failed queries are
 * reported on stderr, prefixed with who. @return how many; *out is for the caller to free().
 */
unsigned real_ports(const char *who, struct port_info **out);

#endif
