/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lets any number of threads sleep until a socket's state changes. Each polls the descriptors given
 * by the socket's kind. The first thread takes an event and wakes the others by an eventfd that all
 * of them poll as well.
 */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct rs;

/** Of a socket; guarded by its lock. */
struct rs_sleep {
	int fd;		     /* owned; -1: no thread has slept yet */
	unsigned sleepers;   /* threads that gave up the lock to sleep */
	unsigned due;	     /* of those, the ones that have not seen the last rs_wake() yet; fd is
			      * readable until then
			      */
	uint32_t generation; /* counts rs_wake() */
	bool closing;	     /* rclose(): all waits end with -EBADF */
};

enum { RS_SLEEP_FDS = 5 }; /* RS_WAIT_FDS and the eventfd */

/** A thread's sleep. */
struct rs_sleeper {
	uint32_t generation;
};

void rs_sleep_init(struct rs_sleep *sleep);
void rs_sleep_fini(struct rs_sleep *sleep);

/**
 * Lock held. Arm the socket and return the descriptors to poll; the caller checks ready() once
 * more, then releases the lock. @return entries in fds; -errno: no descriptor available.
 */
int rs_sleep_begin(struct rs *rs, struct rs_sleeper *me, short events, struct pollfd *fds);
/** Lock held. Of what rs_sleep_begin() gave, fds have the results of poll() (0: it was not called).
 */
void rs_sleep_end(struct rs *rs, const struct rs_sleeper *me, const struct pollfd *fds, int n);

/** Lock held. Something was taken or has changed that others may sleep for: they look again. */
void rs_wake(struct rs *rs);

#endif
