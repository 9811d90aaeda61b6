/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A system-wide agent does not entrust its stash to clients of other users. So it has a process of
 * its own for that, the keeper: it holds the stash, sleeps, and when the agent has died waits for
 * the next one and hands it over.
 */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include "agent/protocol.h"
#include "agent/stash.h"

/** How long a keeper waits for the next agent. After that the groups of a dead agent go the way of
 * its clients. */
enum { KEEPER_WAIT_S = 60 };

/**
 * Fork a keeper. @return a descriptor whose end tells the keeper that the agent is dead (and the
 * agent that the keeper is), or -errno.
 */
int keeper_start(const struct agent_realm *realm, const struct stash *stash);

/** Nobody needs the stash any more: the keeper leaves. Closes the descriptor. */
void keeper_dismiss(int lifeline);

#endif
