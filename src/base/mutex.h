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
#include <sys/types.h>
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

/** The thread that has the lock; 0: none, not known, or it has just taken it. */
static inline pid_t mutex_owner(struct mutex *m)
{
#ifdef __GLIBC__
	return __atomic_load_n(&m->m.__data.__owner, __ATOMIC_RELAXED);
#else
	(void)m;
	return 0;
#endif
}

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
	if (mutex_owner(m) == gettid() || pthread_mutex_timedlock(&m->m, &end)) {
		cancel_restore(before);
		return false;
	}
	m->before = before;
	return true;
}

/**
 * For destructors, before calls that take the lock, which is a leaf: another thread that has it may
 * be writing to a slow file, but waits for no lock, and is waited for.
 * @return false: this thread has been interrupted while it has the lock.
 */
static inline bool mutex_works_at_exit(struct mutex *m)
{
	while (!mutex_lock_at_exit(m)) {
		const pid_t owner = mutex_owner(m);

		if (!owner || owner == gettid())
			return false;
	}
	mutex_unlock(m);
	return true;
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
