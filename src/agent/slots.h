/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which slot is whose. The kernel keeps the book: a slot is in use as long as its token, a Unix
 * socket bound to the slot's name, is open somewhere. So the table here is no more than where QP
 * numbering starts next, and losing it with the agent loses nothing.
 */
#ifndef AGENT_SLOTS_H
#define AGENT_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct slots {
	const struct agent_realm *realm; /* borrowed for the object's life */
	uint16_t next_index[AGENT_SLOTS];
};

/** Numbering starts at random, so that it differs from what an earlier agent gave. */
void slots_init(struct slots *s, const struct agent_realm *realm);

/**
 * Take the lowest free slot, 1..1023. *token: a descriptor that holds the slot, owned by the
 * caller.
 * @return the slot, -ENOSPC: all in use, or another -errno.
 */
int slots_take(struct slots *s, int *token, uint16_t *first_index);

/** Does that descriptor hold that slot? */
bool slots_is_token(const struct slots *s, int token, uint16_t slot);

#endif
