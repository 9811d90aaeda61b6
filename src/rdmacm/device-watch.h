/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows removed devices and changed addresses of IDs. */
#ifndef RDMACM_DEVICE_WATCH_H
#define RDMACM_DEVICE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include <rocemu/wire.h>

#include "rdmacm/lock.h"

struct rcm_device_watch {
	bool network;		     /* listens to the network */
	atomic_bool network_changed; /* guarded by nothing else */
	bool relist;		     /* the network has changed since the devices were listed */
	rocemu_ns_t not_before;	     /* when they may be listed again; the thread's */
};

/**
 * Devices or the network may have changed: report it to the affected IDs. @return after how many ms
 * it is to be called again; -1: not until there are changes.
 */
int rcm_device_watch_run(void) EXCLUDES(rcm_lock);
/** A message came to an address whose device is not open: open it. */
void rcm_device_watch_arrival(const struct rocemu_gid *gid, uint32_t scope_id) EXCLUDES(rcm_lock);
/** From now on open QP 1 of added addresses too, for wildcard listeners. */
void rcm_device_watch_network(void) EXCLUDES(rcm_lock);

#endif
