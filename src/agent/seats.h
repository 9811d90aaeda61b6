/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manages the places that clients hold by a token: a lane's slot, a GSI client's number. A token is
 * a pair of connected Unix sockets. The client has one end, the agent the other; the place is in
 * use as long as the client's end is open somewhere, which the kernel shows at the agent's end. No
 * name is involved that others could take. A client that comes back to another worker of the agent
 * writes a random number to its end and sends the same number with its request: only the owner can
 * do that.
 *
 * A place's owner is the user that had it last: see seats_pick_lowest().
 */
#ifndef AGENT_SEATS_H
#define AGENT_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct seat {
	int token;	     /* owned: the agent's end; -1: never used */
	uint32_t uid;	     /* of the owner, when it was ever used */
	uint16_t next_index; /* where the next owner's numbering starts */
	uint64_t nonce;	     /* the last that the owner wrote; 0: none */
};

struct seats {
	struct seat seat[AGENT_SEATS]; /* 0 is never given out */
};

/** Which are in use. */
struct seats_used {
	bool is[AGENT_SEATS];
};

/** Numbering starts at random, so that it differs from what an earlier agent gave. */
void seats_init(struct seats *s);
void seats_fini(struct seats *s);

void seats_look(const struct seats *s, struct seats_used *used);

/** Is one place in use? */
bool seats_is_used(const struct seats *s, unsigned place);

/** How many of those in use are the user's? */
unsigned seats_count(const struct seats *s, const struct seats_used *used, uint32_t uid);

/** How many a user has or was the last to have. */
unsigned seats_owned(const struct seats *s, uint32_t uid);

/**
 * The lowest place that is not in use, of these: the user's own; if there is none, one that was
 * never used; if there is none, another user's. @return 1..1023, or -ENOSPC.
 */
int seats_pick_lowest(const struct seats *s, const struct seats_used *used, uint32_t uid);

/** Where the numbering of the place's next but one owner starts. */
uint16_t seats_following_index(const struct seats *s, unsigned place);

/** Did the place's owner write that number? It counts once. */
bool seats_prove(struct seats *s, unsigned place, uint64_t nonce);

/** Make a token. @return 0 or -errno. */
int seats_new_token(int *ours, int *theirs);

#endif
