/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holds the state that must outlive the agent's worker: the owner of each place, and the sockets of
 * all groups. Two processes have a copy, the worker and the holder (holder.h), each with its own
 * descriptors. It changes by store_apply() alone: first in the worker, then, by the same message,
 * in the holder.
 */
#ifndef AGENT_STORE_H
#define AGENT_STORE_H

#include <stdint.h>

#include "agent/group.h"
#include "agent/protocol.h"
#include "agent/seats.h"

struct store {
	int listener;			      /* owned */
	uint64_t started_ms;		      /* monotonic: when the first worker started */
	struct seats seats[AGENT_KIND_COUNT]; /* by enum agent_kind */
	struct groups groups;
};

enum store_change_type {
	STORE_SEAT = 1, /* a place gets a new owner; 1 fd: the agent's end of its token; 0: free */
	STORE_PLACES,	/* sockets of slots place, place + 1, ... at a group's places first, first +
			   1, ...: new, or in the place of earlier ones */
	STORE_USE,	/* a slot uses a group */
	STORE_DROP,	/* a group is removed */
	STORE_LEAVE,	/* to the holder: the agent ends; value: its exit code */
};

struct store_change {
	uint32_t type;		/* enum store_change_type */
	uint32_t uid;		/* SEAT */
	struct rocemu_gid addr; /* PLACES, USE, DROP */
	uint32_t scope_id;	/* likewise */
	uint16_t kind, place;	/* SEAT: which; PLACES, USE: place is the slot */
	uint16_t first;		/* PLACES; the group's count, or less */
	uint16_t next_index;	/* SEAT */
	uint32_t value;		/* LEAVE */
};

/** Takes over the listener. */
void store_init(struct store *st, int listener);
/** Close everything: the data sockets first, the listener last. */
void store_fini(struct store *st);

/** @return 0: the store owns the descriptors; -ENOMEM, -EBADMSG: the caller does. */
int store_apply(struct store *st, const struct store_change *c, const int *fds, unsigned n);

/** In a child: close all descriptors but standard input, output and error, the store's, and keep.
 */
void store_close_others(const struct store *st, int keep);

#endif
