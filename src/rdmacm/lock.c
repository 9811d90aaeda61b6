/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/lock.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/mutex.h"

struct CAPABILITY("rdmacm's lock") rcm_lock {
	struct mutex mutex;
	pthread_cond_t woken;
};

struct rcm_lock rcm_lock = {MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

void rcm_lock_take(void) NO_THREAD_SAFETY_ANALYSIS
{
	mutex_lock(&rcm_lock.mutex);
}

bool rcm_lock_take_at_exit(void) NO_THREAD_SAFETY_ANALYSIS
{
	return mutex_lock_at_exit(&rcm_lock.mutex);
}

void rcm_lock_drop(void) NO_THREAD_SAFETY_ANALYSIS
{
	mutex_unlock(&rcm_lock.mutex);
}

void rcm_lock_wait(void)
{
	mutex_wait(&rcm_lock.mutex, &rcm_lock.woken);
}

void rcm_lock_wake_all(void)
{
	pthread_cond_broadcast(&rcm_lock.woken);
}

void rcm_lock_forget(void)
{
	pthread_cond_init(&rcm_lock.woken, NULL);
}

rocemu_ns_t rcm_now(void)
{
	return monotonic_ns();
}
