/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping for what happens to a socket, by any number of threads. Each polls the descriptors that
 * the socket's kind names; what comes is taken by whoever is there first, so that one tells the
 * others, by an eventfd that all of them poll as well.
 */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct rs;

/** Of a socket; guarded by its lock. */
struct rs_sleep {
	int fd;		   /* owned; -1: nobody has slept yet */
	unsigned sleepers; /* threads that gave up the lock to sleep */
	unsigned due; /* of those, who has not seen the last rs_wake() yet; fd is readable till then
		       */
	uint32_t generation; /* counts rs_wake() */
	bool closing;	     /* rclose(): all waits end with -EBADF */
};

enum { RS_SLEEP_FDS = 5 }; /* RS_WAIT_FDS and ours */

/** A thread's sleep. */
struct rs_sleeper {
	uint32_t generation;
};

void rs_sleep_init(struct rs_sleep *sleep);
void rs_sleep_fini(struct rs_sleep *sleep);

/**
 * Lock held. Arm the socket and say what to poll; ready() is to be asked once more, then the lock
 * is given up. @return entries in fds; -errno: no descriptor to be had.
 */
int rs_sleep_begin(struct rs *rs, struct rs_sleeper *me, short events, struct pollfd *fds);
/** Lock held. Of what rs_sleep_begin() gave, fds have the results of poll() (0: it was not called).
 */
void rs_sleep_end(struct rs *rs, const struct rs_sleeper *me, const struct pollfd *fds, int n);

/** Lock held. Something was taken or has changed that others may sleep for: they look again. */
void rs_wake(struct rs *rs);

#endif
