/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices: what ibv_get_device_list() lists. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "base/hash.h"
#include "netdev/netdev.h"
#include "verbs/call.h"

struct vb_device {
	struct ibv_device base; /* first: what programs see */
	/*
	 * Provider libraries look behind an ibv_device for their own private header's fields (an
	 * ops pointer to compare with their own, at most some words): they must find memory, and
	 * zeros.
	 */
	uint64_t provider_view[64];
	struct netdev netdev; /* as it was when listed last; guarded by the registry's lock */
	int index;	      /* place in that list; likewise */
	unsigned refs;	      /* lists and contexts that hold it; guarded by the registry's lock */
	struct hash_node by_address, by_name; /* in the registry */
};

struct vb_device *vb_device_of(struct ibv_device *device);
void vb_device_get(struct vb_device *dev);
/** The interface as it was when it was listed last. */
void vb_device_netdev(struct vb_device *dev, struct netdev *out);
void vb_device_put(struct vb_device *dev);
/** As ibv_get_device_list(), with loopback where that one leaves it out. */
struct ibv_device **vb_device_list_all(void);

#endif
