/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages the reuseport groups: per address the sockets of slots. A socket's place in its group is
 * the order of bind(); the steering program of the group has the place of each slot. When a
 * member of a group closes, the kernel moves the last one into its place. So while a group is in
 * use its sockets are not closed, with two exceptions: the last ones when making them failed, last
 * first; and a socket with a successor, which is bound first and which the kernel moves into its
 * place.
 *
 * Slot 0's socket, at place 0, gets packets for QP 0 and QP 1 and for slots without a socket: see
 * qp1.h.
 */
#ifndef AGENT_GROUP_H
#define AGENT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"
#include "agent/seat-set.h"
#include "base/hash.h"
#include "base/list.h"

enum { GROUPS_MAX = 4096 };

struct group_place {
	int fd; /* owned */
	uint16_t slot;
};

struct group {
	struct list node;
	struct hash_node by_address;
	struct rocemu_gid addr;
	uint32_t scope_id;
	unsigned count, room;	    /* places 0 .. count - 1 */
	struct group_place *places; /* owned */
	uint64_t dropped;	    /* packets to slot 0 that were not for QP 1 */
	struct seat_set slots;	    /* slots whose owner has requested their socket */
	struct seat_set given;	    /* slots whose user has, or had, a copy of their socket */
	void *user;		    /* the server's QP 1 on slot 0's socket */
};

struct groups {
	struct list all; /* of group, oldest first; owned */
	struct hash by_address;
	unsigned count;
};

void groups_init(struct groups *gs);
/** Close everything. */
void groups_fini(struct groups *gs);

struct group *groups_find(const struct groups *gs, const struct rocemu_gid *addr,
			  uint32_t scope_id);
/** An empty one. @return NULL: out of memory, or GROUPS_MAX exist. */
struct group *groups_add(struct groups *gs, const struct rocemu_gid *addr, uint32_t scope_id);
/** Close its sockets, last first. */
void groups_free(struct groups *gs, struct group *g);
/** A slot has a new owner, which has not requested any socket yet. */
void groups_unuse(struct groups *gs, unsigned slot);

/** The place of a slot's socket; -1: it has none. */
int group_place(const struct group *g, unsigned slot);

/**
 * Take over n sockets of slots slot, slot + 1, ... as places first, first + 1, ..., closing the
 * previous ones. first <= count. @return 0, or -EBADMSG or -ENOMEM: nothing was taken.
 */
int group_set(struct group *g, unsigned first, unsigned slot, const int *fds, unsigned n);

/** Sockets to be made of an address: of slots slot .. slot + n - 1, at places from first on. */
struct group_bind {
	struct rocemu_gid addr;
	uint32_t scope_id;
	bool guarded; /* each socket must receive only packets for its slot, whatever its user does
			 with it: data_socket_guard() */
	unsigned first, slot, n;
	int fds[AGENT_SLOTS]; /* of the n */
};

/**
 * Which sockets are to be made next, so that in the end the slot has one: those of the slots below
 * and some above it where a quarter of these use the address, so that the next slots find theirs;
 * else the slot's alone. A process with n devices has n slots, each of which needs one address: all
 * lower slots' sockets at each would be n * n. g: NULL: none yet. @return false: it has one.
 */
bool group_next(const struct group *g, unsigned slot, struct group_bind *b);

/**
 * Bind the sockets of b, all or nothing. Place 0 is bound so that no foreign sockets are in the
 * group.
 * @return 0, or -errno: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EMFILE, ...
 */
int group_bind(struct group_bind *b);

/**
 * Have the kernel deliver to the sockets of g (NULL: none yet) and of b (NULL: none), which must be
 * in the group already. @return 0 or -errno.
 */
int group_steer(const struct group *g, const struct group_bind *b);

/**
 * Bind a successor of a place's socket. From then on the earlier one receives nothing, in any of
 * its copies; the caller closes it (group_set()).
 * @return the descriptor or -errno: nothing has changed.
 */
int group_replace(const struct group *g, unsigned place, bool guarded);

#endif
