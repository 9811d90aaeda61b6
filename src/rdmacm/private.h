/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that only rocemu's libibverbs has. */
#ifndef RDMACM_PRIVATE_H
#define RDMACM_PRIVATE_H

#include <errno.h>
#include <pthread.h>

#include "base/why.h"
#include "verbs/private.h"

/** Each is NULL under another libibverbs. */
struct rcm_private {
	pthread_once_t once;
	private_capture_fn *capture;
	private_devices_fn *devices;
	private_emulates_fn *emulates;
	private_fault_fn *fault;
	private_gids_fn *gids;
	private_unpolled_fn *unpolled;
};

const struct rcm_private *rcm_private(void);

/** A call begins: 0, or the -errno with which fault injection makes it fail: rules and counters are
 * libibverbs', for the whole process. Lock not held. */
int rcm_fault(enum fault_verb verb);

/** The same with a pointer that must not be NULL: -EINVAL. */
static inline int rcm_begin(const void *id, enum fault_verb verb)
{
	return id ? rcm_fault(verb)
		  : REFUSE(-EINVAL, 0,
			   "a call of rdma_cm with an ID that is NULL: an ID is needed: pass one");
}

#endif
