/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent is two processes: the worker, which serves clients, and the holder, which has a copy of
 * the store and does nothing but to keep it. When the worker dies, the holder forks the next one,
 * which has store and descriptors by inheritance; when the holder dies, the worker forks another.
 * The holder reads from the worker alone and nothing that a client sent.
 */
#ifndef AGENT_HOLDER_H
#define AGENT_HOLDER_H

#include "agent/store.h"

/** The worker: serve until the agent is to end, fd being the way to the holder. @return its exit
 * code. */
typedef int holder_work_fn(void *user, struct store *st, int fd);

/** Block or unblock (SIG_BLOCK, SIG_UNBLOCK) SIGTERM and SIGINT; a worker starts with both blocked.
 */
void holder_mask_signals(int how);

/** Be the holder: start workers until one says that the agent ends. @return the exit code. */
int holder_run(struct store *st, holder_work_fn *work, void *user);

/**
 * In the worker: have another holder, which goes on with workers by the same function.
 * @return a descriptor, on which end of file says that the holder has died, or -errno.
 */
int holder_fork(struct store *st, holder_work_fn *work, void *user, pid_t *pid);

/** In the worker: tell the holder of a change. @return 0 or -errno: have another holder. */
int holder_update(int fd, const struct store_change *c, const int *fds, unsigned n);

/** Wait until the holder has made all changes. @return whether it has, after about a second at
 * most. */
bool holder_catches_up(int fd);

#endif
