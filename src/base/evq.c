/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/evq.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/syssocket.h"

enum { FLUSHED_AT_ONCE = 8 }; /* queues; further ones get their tokens at once */

_Thread_local unsigned evq_later;
static _Thread_local struct evq *later[FLUSHED_AT_ONCE] __attribute__((tls_model("initial-exec")));

static _Thread_local bool ended __attribute__((tls_model("initial-exec"))); /* evq_end() */

static void init_empty(struct evq *q)
{
	pthread_mutex_init(&q->lock, NULL);
	list_init(&q->ready);
	q->lookers = q->without_token = q->owed = 0;
	atomic_init(&q->flushers, 0);
	atomic_init(&q->writing, 0);
	atomic_init(&q->count, 0);
}

int evq_init(struct evq *q)
{
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (q->fd < 0)
		return -errno;
	init_empty(q);
	return 0;
}

bool evq_renew(struct evq *q)
{
	const int flags = fcntl(q->fd, F_GETFL), own = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	bool done;

	init_empty(q);
	if (own < 0)
		return false;
	done = flags >= 0 && fcntl(own, F_SETFL, flags) == 0 && dup3(own, q->fd, O_CLOEXEC) >= 0;
	close(own);
	return done;
}

void evq_fini_inherited(struct evq *q)
{
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
}

void evq_fini(struct evq *q)
{
	while (atomic_load_explicit(&q->flushers, memory_order_acquire))
		sched_yield(); /* for the duration of a write() */
	evq_fini_inherited(q);
}

void evq_source_init(struct evq_source *s)
{
	list_init(&s->node);
	s->waiting = 0;
	s->delivered = 0;
}

static void add_count(struct evq *q, int by)
{
	const unsigned count = atomic_load_explicit(&q->count, memory_order_relaxed);

	atomic_store_explicit(&q->count, count + (unsigned)by, memory_order_relaxed);
}

/*
 * Make the fd readable for so many more events. Cannot block: the counter's limit is 2^64 - 2.
 * Fails only if the program closed our fd.
 */
static bool put_tokens(struct evq *q, uint64_t n)
{
	return sys_write(q->fd, &n, sizeof(n)) > 0;
}

static void add_event(struct evq *q, struct evq_source *s)
{
	if (s->waiting++ == 0)
		list_append(&q->ready, &s->node);
	add_count(q, 1);
}

/* Is there a thread that looks for one event more? */
static bool leave_to_looker(struct evq *q)
{
	const bool left = q->without_token < q->lookers;

	q->without_token += left;
	return left;
}

void evq_post(struct evq *q, struct evq_source *s, bool once)
{
	if (unlikely(ended))
		return;
	pthread_mutex_lock(&q->lock);
	if ((!once || s->waiting == 0) && (leave_to_looker(q) || put_tokens(q, 1)))
		add_event(q, s);
	pthread_mutex_unlock(&q->lock);
}

/* @return will this thread flush the queue? */
static bool flush_later(struct evq *q)
{
	for (unsigned i = 0; i < evq_later; i++)
		if (later[i] == q)
			return true;
	if (evq_later == FLUSHED_AT_ONCE)
		return false;
	later[evq_later++] = q;
	atomic_fetch_add_explicit(&q->flushers, 1, memory_order_relaxed);
	return true;
}

void evq_post_later(struct evq *q, struct evq_source *s)
{
	if (unlikely(ended))
		return;
	pthread_mutex_lock(&q->lock);
	if (leave_to_looker(q)) {
		add_event(q, s);
	} else if (flush_later(q)) {
		q->owed++;
		add_event(q, s);
	} else if (put_tokens(q, 1)) {
		add_event(q, s);
	}
	pthread_mutex_unlock(&q->lock);
}

static void flush(struct evq *q)
{
	unsigned owed;

	pthread_mutex_lock(&q->lock);
	owed = q->owed;
	q->owed = 0;
	atomic_fetch_add_explicit(&q->writing, owed, memory_order_relaxed);
	pthread_mutex_unlock(&q->lock);
	/* Not with the lock: the reader takes it. */
	if (owed)
		put_tokens(q, owed);
	atomic_fetch_sub_explicit(&q->writing, owed, memory_order_release);
	atomic_fetch_sub_explicit(&q->flushers, 1, memory_order_release);
}

void evq_flush_all(void)
{
	while (evq_later)
		flush(later[--evq_later]);
}

void evq_end(void)
{
	ended = true;
	evq_later = 0;
}

static struct evq_source *take_first(struct evq *q)
{
	struct list *n = list_first(&q->ready);
	struct evq_source *s;

	if (!n)
		return NULL;
	s = list_entry(n, struct evq_source, node);
	list_remove(n);
	if (--s->waiting > 0)
		list_append(&q->ready, n);
	s->delivered++;
	add_count(q, -1);
	return s;
}

/*
 * A thread was cancelled while it waited. With glibc before 2.41, cancellation can act after read()
 * took a token: writing one token corrects the count. If read() took none, the extra token wakes a
 * reader without an event.
 */
static void wait_cancelled(void *arg)
{
	struct evq *q = arg;

	pthread_mutex_lock(&q->lock);
	if (!list_empty(&q->ready))
		put_tokens(q, 1);
	pthread_mutex_unlock(&q->lock);
}

/* A cancellation point, the only one of this file. @return false: no token was read, with errno. */
static bool take_token(struct evq *q)
{
	uint64_t token;
	ssize_t n;

	pthread_cleanup_push(wait_cancelled, q);
	n = read(q->fd, &token, sizeof(token));
	pthread_cleanup_pop(0);
	return n > 0;
}

struct evq_source *evq_get(struct evq *q)
{
	struct evq_source *s = NULL;

	while (!s) {
		bool empty = !take_token(q);
		bool really = true;

		if (empty && errno != EAGAIN)
			return NULL;
		pthread_mutex_lock(&q->lock);
		if (empty) /* or was it evq_drop() that made the fd non-blocking for a moment? */
			really = fcntl(q->fd, F_GETFL) & O_NONBLOCK;
		else
			s = take_first(q);
		pthread_mutex_unlock(&q->lock);
		if (empty && really) {
			errno = EAGAIN;
			return NULL;
		}
	}
	return s;
}

void evq_look(struct evq *q)
{
	pthread_mutex_lock(&q->lock);
	q->lookers++;
	pthread_mutex_unlock(&q->lock);
}

struct evq_source *evq_look_end(struct evq *q)
{
	struct evq_source *s = NULL;

	pthread_mutex_lock(&q->lock);
	q->lookers--;
	if (q->without_token) {
		q->without_token--;
		s = take_first(q);
	}
	pthread_mutex_unlock(&q->lock);
	return s;
}

bool evq_is_looked_at(struct evq *q)
{
	bool looked_at;

	pthread_mutex_lock(&q->lock);
	looked_at = q->lookers > 0;
	pthread_mutex_unlock(&q->lock);
	return looked_at;
}

/*
 * A token that is written after its event was dropped would make the fd readable for nothing. By
 * nanosleep(): sched_yield() of a real-time thread keeps the other from running.
 */
static void lock_between_writes(struct evq *q, const struct evq_source *s)
{
	static const struct timespec pause = {.tv_nsec = 20000};

	pthread_mutex_lock(&q->lock);
	while (s->waiting > 0 && atomic_load_explicit(&q->writing, memory_order_acquire)) {
		pthread_mutex_unlock(&q->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&q->lock);
	}
}

unsigned evq_drop(struct evq *q, struct evq_source *s)
{
	unsigned delivered;
	uint64_t token;
	int flags;

	lock_between_writes(q, s);
	if (s->waiting > 0) {
		flags = fcntl(q->fd, F_GETFL);
		fcntl(q->fd, F_SETFL, flags | O_NONBLOCK);
		/* A reader may have the token already; it finds no event and waits again. */
		for (unsigned n = s->waiting; n > 0; n--) {
			if (q->without_token)
				q->without_token--;
			else if (q->owed)
				q->owed--;
			else if (sys_read(q->fd, &token, sizeof(token)) <= 0)
				break;
		}
		fcntl(q->fd, F_SETFL, flags);
		add_count(q, -(int)s->waiting);
		s->waiting = 0;
		list_remove(&s->node);
	}
	delivered = s->delivered;
	pthread_mutex_unlock(&q->lock);
	return delivered;
}
