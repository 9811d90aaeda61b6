/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks the agent for the sockets of receivers (pace.h), in the lane's loop: one request at a time,
 * over a connection of its own, whose answer is waited for without the lane's lock.
 */
#ifndef ENGINE_PACE_ASK_H
#define ENGINE_PACE_ASK_H

#include "engine/loop.h"
#include "engine/pace.h"

struct lane;

/** The thread's own. */
struct pace_ask {
	struct lane *lane;   /* borrowed */
	struct loop *loop;   /* borrowed */
	int fd;		     /* connection with a request under way, owned; -1: none */
	struct pace_who who; /* asked for */
	struct loop_io io;
};

void pace_ask_init(struct pace_ask *a, struct lane *l, struct loop *loop);
void pace_ask_fini(struct pace_ask *a);
/** There may be something to ask. Lane's lock not held. */
void pace_ask_next(struct pace_ask *a);

#endif
