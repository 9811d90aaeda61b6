/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Implements SO_KEEPALIVE: a thread calls rs_ops.tick of sockets when they are due. It runs while
 * there is such a socket, and sleeps until the next one is due.
 */
#ifndef RSOCKET_KEEPALIVE_H
#define RSOCKET_KEEPALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct rs;

/** Of a socket. The seconds are options, guarded by its lock; 0: the system's default for TCP. */
struct rs_keepalive {
	unsigned idle, interval; /* idle seconds before the first probe, and between probes */
	unsigned count;		 /* unanswered probes after which the connection ends */
	bool on;

	/* Guarded by the keepalive lock. */
	struct list node; /* on the thread's list */
	uint64_t due;	  /* when to tick */
};

void rs_keepalive_init(struct rs_keepalive *keep);

/** Options or state have changed: watch the socket from now on, or no longer. Lock held. */
void rs_keepalive_update(struct rs *rs);
/** The socket ends: no tick is under way afterwards, and none comes. Lock not held;
 * rs->sleep.closing is set. */
void rs_keepalive_stop(struct rs *rs);

/** Nanoseconds; lock held. */
uint64_t rs_keepalive_idle(const struct rs *rs);
uint64_t rs_keepalive_interval(const struct rs *rs);
/** Options as they are in force. */
unsigned rs_keepalive_idle_s(const struct rs *rs);
unsigned rs_keepalive_interval_s(const struct rs *rs);
unsigned rs_keepalive_count(const struct rs *rs);

#endif
