/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of IDs and of MADs delayed by fault injection, called on the core's thread under the lock.
 */
#ifndef RDMACM_TIMER_H
#define RDMACM_TIMER_H

#include "base/list.h"
#include "rdmacm/lock.h"

struct rcm_timer {
	struct list node; /* by due time */
	rocemu_ns_t due;
	/* May drop the lock; then only rcm_timer_expiring() shows that the owner still exists. */
	void (*expire)(struct rcm_timer *t);
};

static inline void rcm_timer_init(struct rcm_timer *t)
{
	list_init(&t->node);
}

static inline bool rcm_timer_pending(const struct rcm_timer *t)
{
	return list_linked(&t->node);
}

struct rcm_timers {
	struct list pending;	    /* by due time */
	struct rcm_timer *expiring; /* NULL: stopped meanwhile */
};

/** Start it, or start it again. rcm_drive() has to follow. */
void rcm_timer_set(struct rcm_timer *t, rocemu_ns_t due, void (*expire)(struct rcm_timer *t))
	REQUIRES(rcm_lock);
void rcm_timer_stop(struct rcm_timer *t) REQUIRES(rcm_lock);
/** In its expire(): was it not stopped while the lock was dropped? t may be freed memory. */
bool rcm_timer_expiring(const struct rcm_timer *t) REQUIRES(rcm_lock);

/** For the core: when the next one is due, or ROCEMU_NEVER. */
rocemu_ns_t rcm_timers_deadline(void) REQUIRES(rcm_lock);
void rcm_timers_expire(rocemu_ns_t now) REQUIRES(rcm_lock);

#endif
