/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts what each user of a system-wide agent holds and how much of the agent's time it takes, and
 * refuses what would be more than a user's quota. Root has no quota, and an agent that is not
 * system-wide has none. Constant time, whatever others hold. Pure.
 */
#ifndef AGENT_QUOTA_H
#define AGENT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

enum quota {
	QUOTA_PORTS,	 /* ports and service IDs */
	QUOTA_EXIT_MADS, /* of live clients, and of ended ones until they are done */
	QUOTA_QUEUED,	 /* frames that clients have not read, behind the sockets' buffers */
	QUOTA_KINDS,
};

/** Of one user. */
enum { QUOTA_PORTS_MAX = 8192, QUOTA_EXIT_MADS_MAX = 32768, QUOTA_QUEUED_MAX = 16384 };

/* The time of a user in one round of the agent's loop, which serves all users in turn. */
enum { QUOTA_NS = 1000000, QUOTA_CELLS = 256 };

struct quotas {
	struct hash by_uid; /* of users that hold something */
	bool limited;	    /* a system-wide agent's */
	unsigned round;
	uint64_t spent_ns[QUOTA_CELLS]; /* in the round; users may share a cell */
};

void quotas_init(struct quotas *q, bool limited);

/** One more for the user. @return 0, -ENOBUFS: the user has as many as allowed, -ENOMEM. */
int quota_take(struct quotas *q, uint32_t uid, enum quota kind);

/** n less: each was taken. */
void quota_release(struct quotas *q, uint32_t uid, enum quota kind, unsigned n);

/**
 * Has the user time left in this round? If not, what it wants waits for the next one. round: a
 * number that changes with each.
 */
bool quota_has_time(struct quotas *q, uint32_t uid, unsigned round);

/** The user's request took that long. */
void quota_spend(struct quotas *q, uint32_t uid, uint64_t ns);

#endif
