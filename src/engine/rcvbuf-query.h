/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks the agent for the sockets of receivers (rcvbuf.h), in the lane's loop: one request at a
 * time, over a connection of its own, whose answer is waited for without the lane's lock.
 */
#ifndef ENGINE_RCVBUF_QUERY_H
#define ENGINE_RCVBUF_QUERY_H

#include "engine/loop.h"
#include "engine/rcvbuf.h"

struct lane;

/** The thread's own. */
struct rcvbuf_query {
	struct lane *lane;	 /* borrowed */
	struct loop *loop;	 /* borrowed */
	int fd;			 /* connection with a request under way, owned; -1: none */
	struct rcvbuf_addr addr; /* asked for */
	struct loop_io io;
};

void rcvbuf_query_init(struct rcvbuf_query *a, struct lane *l, struct loop *loop);
void rcvbuf_query_fini(struct rcvbuf_query *a);
/** There may be something to ask. Lane's lock not held. */
void rcvbuf_query_start(struct rcvbuf_query *a);

#endif
