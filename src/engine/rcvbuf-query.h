/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests the sockets of receivers (rcvbuf.h) from the agent, in the lane's loop: one request at a
 * time, over a separate connection, without the lane's lock.
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
	struct rcvbuf_addr addr; /* the requested one */
	struct loop_io io;
};

void rcvbuf_query_init(struct rcvbuf_query *a, struct lane *l, struct loop *loop);
void rcvbuf_query_fini(struct rcvbuf_query *a);
/** Send the next request if there is one. Lane's lock not held. */
void rcvbuf_query_start(struct rcvbuf_query *a);

#endif
