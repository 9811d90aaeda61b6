/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks under which system calls are made, and pthread_cancel().
 *
 * Most system calls are cancellation points: a thread that is cancelled in one while it holds a
 * lock would leave the lock taken, and the process with it. So a thread that holds such a lock is
 * not cancelled; a pending cancellation acts at the next cancellation point after the unlock. The
 * cost is a store to the thread's own memory at either end.
 *
 * Nested locks are released in reverse order.
 */
#ifndef BASE_MUTEX_H
#define BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

/** No cancellation from here on. @return for cancel_restore(). */
static inline int cancel_disable(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_restore(int before)
{
	int ignored;

	pthread_setcancelstate(before, &ignored);
}

static inline void cancel_restore_at(const int *before)
{
	cancel_restore(*before);
}

/** Declares: no cancellation until the end of the block. */
#define UNCANCELLED \
	__attribute__((unused, cleanup(cancel_restore_at))) const int uncancelled = cancel_disable()

struct mutex {
	pthread_mutex_t m;
	int before; /* cancellation state of the thread that holds the lock */
};

#define MUTEX_INITIALIZER                      \
	{                                      \
		.m = PTHREAD_MUTEX_INITIALIZER \
	}

/** Also in a forked child, whatever state the parent's threads left it in. */
static inline void mutex_init(struct mutex *m)
{
	pthread_mutex_init(&m->m, NULL);
}

static inline void mutex_destroy(struct mutex *m)
{
	pthread_mutex_destroy(&m->m);
}

static inline void mutex_lock(struct mutex *m)
{
	const int before = cancel_disable();

	pthread_mutex_lock(&m->m);
	m->before = before;
}

static inline bool mutex_trylock(struct mutex *m)
{
	const int before = cancel_disable();

	if (pthread_mutex_trylock(&m->m)) {
		cancel_restore(before);
		return false;
	}
	m->before = before;
	return true;
}

static inline void mutex_unlock(struct mutex *m)
{
	const int before = m->before;

	pthread_mutex_unlock(&m->m);
	cancel_restore(before);
}

enum { MUTEX_EXIT_WAIT_S = 1 };

/**
 * For destructors. A program may exit in a signal's handler: then this thread may have been
 * interrupted while it holds the lock, and does not get it. Another thread that keeps the lock is
 * waited for at most so long. @return is the lock taken?
 */
static inline bool mutex_lock_at_exit(struct mutex *m)
{
	const int before = cancel_disable();
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += MUTEX_EXIT_WAIT_S;
#ifdef __GLIBC__
	if (__atomic_load_n(&m->m.__data.__owner, __ATOMIC_RELAXED) == gettid()) {
		cancel_restore(before);
		return false;
	}
#endif
	if (pthread_mutex_timedlock(&m->m, &end)) {
		cancel_restore(before);
		return false;
	}
	m->before = before;
	return true;
}

/** For destructors, before calls that take the lock. @return would mutex_lock_at_exit() get it? */
static inline bool mutex_works_at_exit(struct mutex *m)
{
	const bool works = mutex_lock_at_exit(m);

	if (works)
		mutex_unlock(m);
	return works;
}

static inline void mutex_unlock_at(struct mutex *const *m)
{
	mutex_unlock(*m);
}

static inline struct mutex *mutex_locked(struct mutex *m)
{
	mutex_lock(m);
	return m;
}

/** Declares: the lock is held until the end of the block. */
#define MUTEX_HELD(m) \
	__attribute__((unused, cleanup(mutex_unlock_at))) struct mutex *const held = mutex_locked(m)

/** As pthread_cond_wait(), but no cancellation point. */
static inline void mutex_wait(struct mutex *m, pthread_cond_t *cond)
{
	const int before = m->before;

	pthread_cond_wait(cond, &m->m);
	m->before = before;
}

#endif
