/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the thread that answers `rocemu stat` in each process that has a lane with a slot. It costs
 * the data path nothing: the requested data is copied under the lane's lock, some QPs at a time. A
 * separate thread, because it must answer when the other threads hang: it waits for locks for a
 * limited time only. It is left out where there is no directory, descriptor or thread for it.
 */
#ifndef ENGINE_STAT_SERVER_H
#define ENGINE_STAT_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/stat-msg.h"

/** Append lanes to b, and count them in *nlanes. stop: set when it is to come to an end. -errno:
 * some are missing. */
typedef int (*stat_fill_fn)(struct stat_buf *b, uint32_t *nlanes, const atomic_bool *stop);

/** One user more; the first starts it. */
void stat_server_use(stat_fill_fn fill);
/** One less; with the last it ends. Waits for the thread: no lock that fill takes may be held. */
void stat_server_unuse(void);
/** In a forked child: drop the parent's. Async-signal-safe. */
void stat_server_forget(void);
/** The process exits: remove the socket's name. */
void stat_server_exit(void);

#endif
