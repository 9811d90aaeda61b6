/* SPDX-License-Identifier: BSD-2-Clause */
/* Contains all per-process state of this library. Each part is private to its file. */
#ifndef RDMACM_GLOBALS_H
#define RDMACM_GLOBALS_H

#include "rdmacm/agent.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/device.h"
#include "rdmacm/mad.h"
#include "rdmacm/private.h"
#include "rdmacm/rej-retry.h"
#include "rdmacm/timer.h"

struct rcm_globals {
	/* Guarded by rcm_lock. */
	struct rcm_core core;
	struct rcm_agent agent;
	struct mad_state mads;
	struct rcm_timers timers;
	struct rcm_rej_retries rej_retries;
	struct rcm_device_watch device_watch;
	/* Guarded otherwise. */
	struct rcm_devices devices;
	struct rcm_private private;
};

extern struct rcm_globals rcm_globals;

/**
 * In a forked child: reset all state, which belongs to the parent. Memory is leaked, since freeing
 * is not safe after fork() in a process with threads.
 */
void rcm_globals_forget(void);

#endif
