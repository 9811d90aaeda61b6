/* SPDX-License-Identifier: BSD-2-Clause */
/* All state that this library keeps for the process. Each part is its file's alone. */
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

/** In a forked child: what there was is the parent's. Memory is leaked, since freeing is not safe
 * after fork() in a process with threads. */
void rcm_globals_forget(void);

#endif
