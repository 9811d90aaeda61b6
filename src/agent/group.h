/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages the reuseport groups: per address the sockets of all slots so far, and the rule that
 * makes steering correct: a socket's place in its group (the order of bind) is its slot's number.
 * When a member of a group closes, the kernel moves the last one into its place. So while a group
 * is in use its sockets are not closed, with two exceptions: the last ones when making them failed,
 * last first; and a socket with a successor, which is bound first and which the kernel moves into
 * its place.
 *
 * Slot 0's sockets get packets for QP 0 and QP 1 and for slots without a socket: see qp1.h.
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
	uint64_t dropped;      /* packets to slot 0 that were not for QP 1 */
	int fds[AGENT_SLOTS];  /* owned; in places' order */
	struct seat_set slots; /* slots that requested their socket */
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
/** An empty one. @return NULL: out of memory, or GROUPS_MAX exist. */
struct group *groups_add(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id);
/** Close its sockets, last first. */
void groups_free(struct groups *gs, struct group *g);
/** A slot has a new owner, which has not requested any socket yet. */
void groups_unuse(struct groups *gs, unsigned slot);

/** Take over n sockets as places first, first + 1, ..., closing the previous ones. first <=
 * count. @return 0, or -EBADMSG. */
int group_set(struct group *g, unsigned first, const int *fds, unsigned n);

/** Parameters of making sockets. */
struct group_bind {
	struct rocemu_gid addr;
	uint32_t scope_id;
	bool guarded; /* each socket must receive only packets for its slot, whatever its user does
			 with it: data_socket_guard() */
	unsigned first, n;
	int fds[AGENT_SLOTS];
};

/** How many places to have when the last slot is needed. */
unsigned group_places_for(unsigned slot);

/**
 * Bind sockets for places b->first to b->n, all or nothing, the group having b->first of them.
 * Place 0 is bound so that no foreign sockets are in the group.
 * @return 0, or -errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE, ...
 */
int group_bind(struct group_bind *b);

/**
 * Bind a successor of a place's socket. From then on the earlier one receives nothing, in any of
 * its copies; the caller closes it (group_set()).
 * @return the descriptor or -errno: nothing has changed.
 */
int group_replace(const struct group *g, unsigned place, bool guarded);

#endif
