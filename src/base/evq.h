/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of events behind a file descriptor, as completion, async and connection event channels
 * are: readable while something waits, one event per get, EAGAIN when empty and O_NONBLOCK. An
 * event is embedded in its object (struct evq_source), so posting allocates nothing.
 *
 * The fd is an eventfd semaphore with one token per waiting event, except for events left to
 * threads that look (evq_look()), which cost no system call. evq_get() blocks in read() and not in
 * poll(), so that SA_RESTART and EINTR work as they do with the kernel's fds. A reader that has
 * taken a token and finds its event dropped meanwhile goes back to read().
 *
 * Writing a token wakes a reader, which on the same core may run at once. It would then wait for
 * each lock that the writer holds. So a thread that holds a lock posts without a token
 * (evq_post_later()), and writes the token after it has released the lock (evq_flush()).
 */
#ifndef BASE_EVQ_H
#define BASE_EVQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/util.h"

struct evq {
	int fd; /* owned */
	/* A leaf: may be taken under the lane's lock; never held while blocking. */
	pthread_mutex_t lock;
	struct list ready;	/* struct evq_source, guarded by lock */
	unsigned lookers;	/* threads between evq_look() and evq_look_end(); guarded by lock */
	unsigned without_token; /* waiting events without a token, at most lookers; guarded by lock
				 */
	unsigned owed;		/* waiting events whose token evq_flush() writes; guarded by lock */
	atomic_uint flushers;	/* threads that will flush this queue; changed under lock */
	atomic_uint writing;	/* tokens that are no longer owed, and may not be written yet */
	atomic_uint count;	/* waiting events; changed under lock */
};

struct evq_source {
	struct list node;   /* on evq.ready while waiting > 0 */
	unsigned waiting;   /* events posted and not yet got; guarded by evq.lock */
	unsigned delivered; /* events got since init; guarded by evq.lock */
};

int evq_init(struct evq *q); /* -errno */
/**
 * In a forked child: drop all events. The descriptor keeps its number, but its file is no longer
 * shared with the parent. Async-signal-safe. False: it still is.
 */
bool evq_renew(struct evq *q);
/** Waits for threads between evq_post_later() and the end of evq_flush(). */
void evq_fini(struct evq *q);
/** In a forked child, which does not have the parent's threads: waits for none. */
void evq_fini_inherited(struct evq *q);

void evq_source_init(struct evq_source *s);

/** Post an event. once: not if one of this source waits already. */
void evq_post(struct evq *q, struct evq_source *s, bool once);
/** As evq_post(), not once; the fd is readable after this thread's evq_flush(). */
void evq_post_later(struct evq *q, struct evq_source *s);
/** Queues that this thread has to flush. */
extern _Thread_local unsigned evq_later __attribute__((tls_model("initial-exec")));
void evq_flush_all(void);
/** Write the tokens of the events that this thread posted by evq_post_later(). */
static inline void evq_flush(void)
{
	if (unlikely(evq_later))
		evq_flush_all();
}

/**
 * For destructors: the process exits in this thread, which may have been interrupted with the lock
 * of a queue, or before its evq_flush(). It posts no events any more, and flushes no queue.
 */
void evq_end(void);

/**
 * Wait for the next event and take it. @return NULL with errno: EAGAIN, EINTR or another errno of
 * read().
 */
struct evq_source *evq_get(struct evq *q);

/**
 * Is an event waiting? Read without the lock, so only a hint: another thread may be about to take
 * it.
 */
static inline bool evq_has(struct evq *q)
{
	return atomic_load_explicit(&q->count, memory_order_relaxed) > 0;
}

/**
 * The caller looks for events by evq_has() instead of sleeping, until evq_look_end(), which it must
 * call: an event that is posted meanwhile may be left to the caller, without waking another thread.
 */
void evq_look(struct evq *q);
/** @return an event that was left to the caller; NULL: none, but evq_get() may have one. */
struct evq_source *evq_look_end(struct evq *q);
/** Is a thread between these two? */
bool evq_is_looked_at(struct evq *q);

/**
 * Drop this source's waiting events. The source must not be posted again. @return events that were
 * delivered.
 */
unsigned evq_drop(struct evq *q, struct evq_source *s);

#endif
