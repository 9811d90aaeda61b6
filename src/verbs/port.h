/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows changes of a context's interface. */
#ifndef VERBS_PORT_H
#define VERBS_PORT_H

#include <pthread.h>

#include "base/mutex.h"
#include "netdev/netdev.h"
#include "netdev/netmon.h"
#include "verbs/event.h"

enum vb_port_event { VB_PORT_GID_CHANGE, VB_PORT_ACTIVE, VB_PORT_ERR, VB_PORT_FATAL };

/** Follows changes of a context's interface (port.c). */
struct vb_port {
	struct mutex update; /* serialises updates; before the lane's lock */
	/* Of an update under way, guarded by its lock: too large for small stacks. */
	struct netdev before, now;
	struct netdev_change change[2 * ROCEMU_MAX_GID];
	/* Guards gone, down, and vb_context.netdev but for its index, MAC and names; a leaf. */
	pthread_mutex_t lock;
	bool gone; /* the interface */
	bool down; /* by fault injection, whatever the interface's state */
	struct netmon_listener listener;
	struct vb_async events[4]; /* by enum vb_port_event */
};

/** Follow the interface from now on; the lane exists. */
int vb_port_start(struct vb_context *c); /* -errno */
/** Stop, before the lane is freed. */
void vb_port_stop(struct vb_context *c);
/** A copy of the port and its GID table, holes included. @return false: the interface is gone. */
bool vb_port_get(struct vb_context *c, struct netdev *now);
/** The largest path MTU that a QP may have. */
enum ibv_mtu vb_port_mtu(struct vb_context *c);
/**
 * The device fails by fault injection: of this context at once, of the process's others soon. No
 * lock held.
 */
void vb_port_fail(struct vb_context *c);
/** Has the device failed, or is its interface gone? */
bool vb_port_is_gone(struct vb_context *c);
/** An entry of the GID table. -EINVAL beyond its end, -ENODATA a hole (*gid: what was there). */
int vb_port_gid(struct vb_context *c, uint32_t index, struct rocemu_gid *gid);
/** The index of an address, or -1. */
int vb_port_find_gid(struct vb_context *c, const struct rocemu_gid *gid);

#endif
