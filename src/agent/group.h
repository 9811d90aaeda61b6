/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reuseport groups: per address the sockets of all slots so far, and the rule that makes
 * steering right: a socket's place in its group (the order of bind) is its slot's number. When a
 * member of a group closes, the kernel moves the last one into the hole. So as long as a group is
 * in use nothing of it is closed, but the last ones when making them failed, last first, and a
 * socket that gets a successor, which is bound before, and which the kernel moves.
 *
 * Slot 0's sockets get what is meant for QP 0 and QP 1 and for slots without socket: see qp1.h.
 */
#ifndef AGENT_GROUP_H
#define AGENT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"
#include "agent/seat-set.h"
#include "base/list.h"

enum { GROUPS_MAX = 256 };

struct group {
	struct list node;
	struct rocemu_gid addr;
	uint32_t scope_id;
	unsigned count;	       /* sockets: places 0 .. count - 1 */
	uint64_t dropped;      /* what came to slot 0 and was not for QP 1 */
	int fds[AGENT_SLOTS];  /* owned; in places' order */
	struct seat_set slots; /* those that asked for their socket */
	void *user;	       /* the server's QP 1 on fds[0] */
};

struct groups {
	struct list all; /* of group, oldest first; owned */
	unsigned count;
};

void groups_init(struct groups *gs);
/** Close everything. */
void groups_fini(struct groups *gs);

struct group *groups_find(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id);
/** An empty one. @return NULL: out of memory, or GROUPS_MAX are there. */
struct group *groups_add(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id);
/** Close its sockets, last first. */
void groups_free(struct groups *gs, struct group *g);
/** A slot has another owner, who has not asked for any socket. */
void groups_unuse(struct groups *gs, unsigned slot);

/** Take over n sockets as places first, first + 1, ..., closing those that were there. first <=
 * count. @return 0, or -EBADMSG. */
int group_set(struct group *g, unsigned first, const int *fds, unsigned n);

/** What making sockets takes. */
struct group_bind {
	struct rocemu_gid addr;
	uint32_t scope_id;
	bool guarded; /* each socket is to receive nothing but what is for its slot, whatever its
			 user does with it: data_socket_guard() */
	unsigned first, n;
	int fds[AGENT_SLOTS];
};

/** How many places to have when the last slot is needed. */
unsigned group_places_for(unsigned slot);

/**
 * Bind sockets for places b->first to b->n, all or nothing, the group having b->first of them.
 * Place 0 is bound so that nobody else's sockets are in the group.
 * @return 0, or -errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE, ...
 */
int group_bind(struct group_bind *b);

/**
 * Bind a successor of a place's socket. From then on the earlier one receives nothing, whoever has
 * a copy of it; the caller closes it (group_set()).
 * @return the descriptor or -errno: nothing has changed.
 */
int group_replace(const struct group *g, unsigned place, bool guarded);

#endif
