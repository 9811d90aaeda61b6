/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reuseport groups: per address the sockets of all slots so far, and the rule that makes
 * steering right: a socket's place in its group (the order of bind) is its slot's number. When a
 * member of a group closes, the kernel moves the last one into the hole; so nothing is closed here,
 * but the last ones when making them failed, last first.
 *
 * Slot 0's sockets get what is meant for QP 0 and QP 1 and for slots without socket: see qp1.h.
 */
#ifndef AGENT_GROUP_H
#define AGENT_GROUP_H

#include <stdint.h>

#include "agent/protocol.h"
#include "agent/stash.h"
#include "base/list.h"

enum { GROUPS_MAX = 256 };

struct group {
	struct list node;
	struct rocemu_gid addr;
	uint32_t scope_id;
	unsigned count; /* sockets: places 0 .. count - 1 */
	uint64_t dropped; /* what came to slot 0 and was not for QP 1 */
	int fds[AGENT_SLOTS]; /* owned; in places' order */
	void *user;	      /* the server's QP 1 on fds[0] */
};

struct groups {
	struct list all; /* of group, oldest first; owned */
	unsigned count;
};

void groups_init(struct groups *gs);
/** Close everything. */
void groups_fini(struct groups *gs);

struct group *groups_find(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id);

/**
 * The group of an address, with at least the places 0 .. slot: made or grown as needed, the new
 * sockets added to the stash.
 * @return 0, or -errno with one line in errbuf: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE,
 * -ENOSPC, ...
 */
int groups_need(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id, unsigned slot,
		struct stash *stash, struct group **out, char *errbuf, size_t errlen);

/** A stash_record_fn for an agent that takes over: user is the struct groups. */
int groups_adopt(void *user, const struct rocemu_gid *addr, uint32_t scope_id, unsigned first,
		 const int *fds, unsigned n);

/** Put the steering program of every group in order again, after groups_adopt(). @return 0 or
 * -errno. */
int groups_steer(struct groups *gs);

#endif
