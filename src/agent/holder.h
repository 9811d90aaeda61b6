/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent is two processes: the worker, which serves clients, and the holder, which only keeps a
 * copy of the store. When the worker dies, the holder forks the next one, which has store and
 * descriptors by inheritance; when the holder dies, the worker forks another. The holder reads from
 * the worker alone, and no data from clients.
 */
#ifndef AGENT_HOLDER_H
#define AGENT_HOLDER_H

#include "agent/store.h"

/** The worker: serve until the agent has to end. fd: the socket to the holder. @return its exit
 * code. */
typedef int holder_work_fn(void *user, struct store *st, int fd);

/** Block or unblock (SIG_BLOCK, SIG_UNBLOCK) SIGTERM and SIGINT; a worker starts with both blocked.
 */
void holder_mask_signals(int how);

/** Be the holder: start workers until one ends the agent. @return the exit code. */
int holder_run(struct store *st, holder_work_fn *work, void *user);

/**
 * In the worker: start another holder, which starts workers by the same function. forget: frees in
 * the holder what `of`, the worker, has beside the store; its descriptors are closed by then.
 * @return a descriptor, on which end of file means that the holder has died, or -errno.
 */
int holder_fork(struct store *st, holder_work_fn *work, void *user, void (*forget)(void *of),
		void *of, pid_t *pid);

/** In the worker: send the holder a change. @return 0, or -errno: start another holder. */
int holder_update(int fd, const struct store_change *c, const int *fds, unsigned n);

/**
 * Wait until the holder has applied all changes, for about a second at most. @return whether it
 * has.
 */
bool holder_catches_up(int fd);

#endif
