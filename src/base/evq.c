/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/evq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/syssocket.h"

static void init_empty(struct evq *q)
{
	pthread_mutex_init(&q->lock, NULL);
	list_init(&q->ready);
	q->lookers = q->without_token = 0;
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

void evq_fini(struct evq *q)
{
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
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
 * Make the fd readable for one more event. Cannot block: the counter's limit is 2^64 - 2. Fails
 * only if the program closed our fd.
 */
static bool put_token(struct evq *q)
{
	uint64_t one = 1;

	return sys_write(q->fd, &one, sizeof(one)) > 0;
}

void evq_post(struct evq *q, struct evq_source *s, bool once)
{
	pthread_mutex_lock(&q->lock);
	if (!once || s->waiting == 0) {
		const bool left = q->without_token < q->lookers;

		if (left || put_token(q)) {
			q->without_token += left;
			if (s->waiting++ == 0)
				list_append(&q->ready, &s->node);
			add_count(q, 1);
		}
	}
	pthread_mutex_unlock(&q->lock);
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
		put_token(q);
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

unsigned evq_drop(struct evq *q, struct evq_source *s)
{
	unsigned delivered;
	uint64_t token;
	int flags;

	pthread_mutex_lock(&q->lock);
	if (s->waiting > 0) {
		flags = fcntl(q->fd, F_GETFL);
		fcntl(q->fd, F_SETFL, flags | O_NONBLOCK);
		/* A reader may have the token already; it finds no event and waits again. */
		for (unsigned n = s->waiting; n > 0; n--) {
			if (q->without_token)
				q->without_token--;
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
