/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/lock.h"

#include <pthread.h>
#include <time.h>

struct CAPABILITY("rdmacm's lock") rcm_lock {
	pthread_mutex_t mutex;
	pthread_cond_t woken;
};

struct rcm_lock rcm_lock = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

void rcm_lock_take(void) NO_THREAD_SAFETY_ANALYSIS
{
	pthread_mutex_lock(&rcm_lock.mutex);
}

void rcm_lock_drop(void) NO_THREAD_SAFETY_ANALYSIS
{
	pthread_mutex_unlock(&rcm_lock.mutex);
}

void rcm_lock_wait(void)
{
	pthread_cond_wait(&rcm_lock.woken, &rcm_lock.mutex);
}

void rcm_lock_wake_all(void)
{
	pthread_cond_broadcast(&rcm_lock.woken);
}

void rcm_lock_forget(void)
{
	pthread_mutex_init(&rcm_lock.mutex, NULL);
	pthread_cond_init(&rcm_lock.woken, NULL);
}

rocemu_ns_t rcm_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (rocemu_ns_t)ts.tv_sec * 1000000000u + (rocemu_ns_t)ts.tv_nsec;
}
