/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock of rdmacm, and its clock. */
#ifndef RDMACM_LOCK_H
#define RDMACM_LOCK_H

#include <rocemu/endpoint.h> /* rocemu_ns_t */

#include "base/util.h"

/** Guards all state of this layer except that listed in device.h. */
struct CAPABILITY("rdmacm's lock") rcm_lock;
extern struct rcm_lock rcm_lock;
void rcm_lock_take(void) ACQUIRE(rcm_lock);
/** As mutex_lock_at_exit(). */
bool rcm_lock_take_at_exit(void) TRY_ACQUIRE(true, rcm_lock);
void rcm_lock_drop(void) RELEASE(rcm_lock);
/** Wait until rcm_lock_wake_all(); the lock is dropped meanwhile. */
void rcm_lock_wait(void) REQUIRES(rcm_lock);
void rcm_lock_wake_all(void) REQUIRES(rcm_lock);
/** In a forked child: not held. */
void rcm_lock_forget(void);

rocemu_ns_t rcm_now(void);

#endif
