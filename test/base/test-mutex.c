/* SPDX-License-Identifier: BSD-2-Clause */
/* What destructors get of a lock. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "test.h"

static struct mutex lock = MUTEX_INITIALIZER;
static atomic_bool has_it, give_it;

static void *hold(void *unused)
{
	mutex_lock(&lock);
	atomic_store(&has_it, true);
	while (!atomic_load(&give_it))
		sched_yield();
	mutex_unlock(&lock);
	return unused;
}

static pthread_t held_elsewhere(void)
{
	pthread_t thread;

	atomic_store(&has_it, false);
	atomic_store(&give_it, false);
	assert_int_equal(pthread_create(&thread, NULL, hold, NULL), 0);
	while (!atomic_load(&has_it))
		sched_yield();
	return thread;
}

TEST(mutex, free_at_exit__taken)
{
	assert_true(mutex_lock_at_exit(&lock));
	assert_false(mutex_trylock(&lock));
	mutex_unlock(&lock);
	assert_true(mutex_works_at_exit(&lock));
	assert_true(mutex_trylock(&lock));
	mutex_unlock(&lock);
}

/* As in a signal's handler that interrupted the holder. */
TEST(mutex, own_at_exit__not_taken)
{
	mutex_lock(&lock);
	assert_false(mutex_lock_at_exit(&lock));
	assert_false(mutex_works_at_exit(&lock));
	mutex_unlock(&lock);
	assert_true(mutex_works_at_exit(&lock));
}

TEST(mutex, kept_elsewhere_at_exit__not_taken)
{
	const pthread_t thread = held_elsewhere();

	assert_false(mutex_lock_at_exit(&lock));
	atomic_store(&give_it, true);
	pthread_join(thread, NULL);
	assert_true(mutex_works_at_exit(&lock));
}

static void *give_late(void *begin)
{
	const uint64_t end = *(uint64_t *)begin + MUTEX_EXIT_WAIT_S * 1200000000ull;

	while (monotonic_ns() < end)
		sched_yield();
	atomic_store(&give_it, true);
	return NULL;
}

/* As by a thread that writes to a slow file. */
TEST(mutex, leaf_kept_elsewhere_for_long__waited_for)
{
	const pthread_t holder = held_elsewhere();
	uint64_t begin = monotonic_ns();
	pthread_t giver;

	assert_int_equal(pthread_create(&giver, NULL, give_late, &begin), 0);
	assert_true(mutex_works_at_exit(&lock));
	assert_true(atomic_load(&give_it));
	pthread_join(giver, NULL);
	pthread_join(holder, NULL);
}
