/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that go and addresses that change while IDs are on them. */
#ifndef RDMACM_DEVICE_WATCH_H
#define RDMACM_DEVICE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "rdmacm/lock.h"

struct rcm_device_watch {
	bool network;		     /* listens to the network */
	atomic_bool network_changed; /* guarded by nothing else */
};

/** Devices or the network may have changed: report it to the IDs that it concerns. */
void rcm_device_watch_run(void) EXCLUDES(rcm_lock);
/** From now on QP 1 of addresses that come is opened too, for wildcard listeners. */
void rcm_device_watch_network(void) EXCLUDES(rcm_lock);

#endif
