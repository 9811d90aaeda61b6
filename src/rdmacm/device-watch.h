/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows removed devices and changed addresses of IDs. */
#ifndef RDMACM_DEVICE_WATCH_H
#define RDMACM_DEVICE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "rdmacm/lock.h"

struct rcm_device_watch {
	bool network;		     /* listens to the network */
	atomic_bool network_changed; /* guarded by nothing else */
};

/** Devices or the network may have changed: report it to the affected IDs. */
void rcm_device_watch_run(void) EXCLUDES(rcm_lock);
/** From now on open QP 1 of added addresses too, for wildcard listeners. */
void rcm_device_watch_network(void) EXCLUDES(rcm_lock);

#endif
