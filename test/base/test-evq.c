/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/evq.h"

/* ---- a write that takes its time ---- */

static struct {
	atomic_int fd; /* of these; -1: none */
	atomic_bool begun, may_go_on;
} slow_write = {.fd = -1};

enum { WRITE_TURNS = 2000 };

/* Until it may go on, or for so many turns: what may not happen before it cannot be waited for. */
static void before_write(int fd)
{
	if (fd != slow_write.fd)
		return;
	slow_write.fd = -1;
	atomic_store(&slow_write.begun, true);
	for (unsigned i = 0; i < WRITE_TURNS && !atomic_load(&slow_write.may_go_on); i++)
		sched_yield();
}

typedef long syscall_fn(long number, ...);

static syscall_fn *libc_syscall(void)
{
	void *found = dlsym(RTLD_NEXT, "syscall");
	syscall_fn *fn;

	memcpy(&fn, &found, sizeof(fn));
	return fn;
}

/* In place of the C library's, see base/syssocket.h: with sanitizers write(), else syscall(). */
ssize_t write(int fd, const void *buf, size_t len)
{
	before_write(fd);
	return libc_syscall()(SYS_write, fd, buf, len);
}

long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < sizeof(a) / sizeof(a[0]); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_write)
		before_write((int)a[0]);
	return libc_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static bool readable(const struct evq *q)
{
	struct pollfd p = {.fd = q->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void init(struct evq *q, struct evq_source *a, struct evq_source *b)
{
	assert_int_equal(evq_init(q), 0);
	evq_source_init(a);
	evq_source_init(b);
	fcntl(q->fd, F_SETFL, fcntl(q->fd, F_GETFL) | O_NONBLOCK);
}

TEST(evq, empty_and_nonblocking__eagain)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	assert_false(readable(&q));
	assert_null(evq_get(&q));
	assert_int_equal(errno, EAGAIN);
	evq_fini(&q);
}

TEST(evq, three_posted__one_per_get_then_eagain)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post(&q, &a, false);
	evq_post(&q, &b, false);
	evq_post(&q, &a, false);
	assert_ptr_equal(evq_get(&q), &a);
	assert_ptr_equal(evq_get(&q), &b);
	assert_true(readable(&q));
	assert_ptr_equal(evq_get(&q), &a);
	assert_false(readable(&q));
	assert_null(evq_get(&q));
	evq_fini(&q);
}

TEST(evq, posted_once_twice__one_event)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post(&q, &a, true);
	evq_post(&q, &a, true);
	assert_ptr_equal(evq_get(&q), &a);
	assert_null(evq_get(&q));
	evq_post(&q, &a, true);
	assert_ptr_equal(evq_get(&q), &a);
	evq_fini(&q);
}

TEST(evq, dropped__events_gone_and_delivered_counted)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post(&q, &a, false);
	assert_ptr_equal(evq_get(&q), &a);
	evq_post(&q, &a, false);
	evq_post(&q, &a, false);
	evq_post(&q, &b, false);
	assert_int_equal(evq_drop(&q, &a), 1);
	assert_ptr_equal(evq_get(&q), &b);
	assert_false(readable(&q));
	assert_null(evq_get(&q));
	evq_fini(&q);
}

TEST(evq, dropped_while_blocking_fd__fd_blocks_again)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	fcntl(q.fd, F_SETFL, fcntl(q.fd, F_GETFL) & ~O_NONBLOCK);
	evq_post(&q, &a, false);
	evq_drop(&q, &a);
	assert_int_equal(fcntl(q.fd, F_GETFL) & O_NONBLOCK, 0);
	assert_false(readable(&q));
	evq_fini(&q);
}

TEST(evq, posted_while_a_thread_looks__left_to_it_without_token)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	assert_false(evq_has(&q));
	assert_false(evq_is_looked_at(&q));
	evq_look(&q);
	assert_true(evq_is_looked_at(&q));
	evq_post(&q, &a, false);
	assert_true(evq_has(&q));
	assert_false(readable(&q));
	evq_post(&q, &b, false); /* one thread takes one */
	assert_true(readable(&q));
	assert_ptr_equal(evq_look_end(&q), &a);
	assert_ptr_equal(evq_get(&q), &b);
	assert_false(evq_has(&q));
	assert_null(evq_get(&q));
	evq_fini(&q);
}

TEST(evq, nothing_left_to_the_thread_that_looked__null)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post(&q, &a, false);
	evq_look(&q);
	assert_null(evq_look_end(&q));
	assert_ptr_equal(evq_get(&q), &a);
	evq_look(&q);
	assert_null(evq_look_end(&q));
	evq_post(&q, &a, false);
	assert_true(readable(&q));
	evq_fini(&q);
}

TEST(evq, dropped_while_a_thread_looks__gone_for_both)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_look(&q);
	evq_post(&q, &a, false);
	evq_post(&q, &a, false);
	evq_post(&q, &b, false);
	assert_int_equal(evq_drop(&q, &a), 0);
	assert_true(evq_has(&q));
	assert_null(
		evq_look_end(&q)); /* what was left to it is gone; the other event has its token */
	assert_ptr_equal(evq_get(&q), &b);
	assert_false(readable(&q));
	evq_fini(&q);
}

TEST(evq, posted_later__readable_after_the_flush)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post_later(&q, &a);
	evq_post_later(&q, &b);
	evq_post_later(&q, &a);
	assert_true(evq_has(&q));
	assert_false(readable(&q));
	evq_flush();
	assert_ptr_equal(evq_get(&q), &a);
	assert_ptr_equal(evq_get(&q), &b);
	assert_ptr_equal(evq_get(&q), &a);
	assert_false(readable(&q));
	evq_flush();
	assert_false(readable(&q));
	evq_fini(&q);
}

/* As exit() in a signal's handler does, which has interrupted evq_post_later(). */
static void *end_with_lock(void *arg)
{
	struct evq *q = arg;
	struct evq_source a, b;

	evq_source_init(&a);
	evq_source_init(&b);
	evq_post_later(q, &a);
	pthread_mutex_lock(&q->lock);
	evq_end();
	evq_post(q, &b, false);
	evq_post_later(q, &b);
	evq_flush();
	pthread_mutex_unlock(&q->lock);
	assert_int_equal(b.waiting, 0);
	evq_drop(q, &a);
	return NULL;
}

TEST(evq, thread_ends_with_the_lock__queues_left_alone)
{
	struct evq_source a, b;
	pthread_t thread;
	struct evq q;

	init(&q, &a, &b);
	assert_int_equal(pthread_create(&thread, NULL, end_with_lock, &q), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(readable(&q));
	evq_fini_inherited(&q); /* the thread will not flush it */
}

TEST(evq, posted_later_while_a_thread_looks__left_to_it)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_look(&q);
	evq_post_later(&q, &a);
	assert_ptr_equal(evq_look_end(&q), &a);
	evq_flush();
	assert_false(readable(&q));
	evq_fini(&q);
}

TEST(evq, posted_later_and_dropped__no_token)
{
	struct evq_source a, b;
	struct evq q;

	init(&q, &a, &b);
	evq_post_later(&q, &a);
	evq_drop(&q, &a);
	evq_flush();
	assert_false(readable(&q));
	evq_post_later(&q, &a);
	evq_post(&q, &b, false);
	evq_post_later(&q, &b);
	evq_drop(&q, &a);
	evq_flush();
	assert_ptr_equal(evq_get(&q), &b);
	assert_ptr_equal(evq_get(&q), &b);
	assert_false(readable(&q));
	evq_fini(&q);
}

/* More than a thread keeps in mind. */
TEST(evq, posted_later_to_many_queues__all_readable_after_the_flush)
{
	enum { QUEUES = 20 };
	struct evq_source a[QUEUES], b;
	struct evq q[QUEUES];

	for (unsigned i = 0; i < QUEUES; i++) {
		init(&q[i], &a[i], &b);
		evq_post_later(&q[i], &a[i]);
	}
	evq_flush();
	for (unsigned i = 0; i < QUEUES; i++) {
		assert_ptr_equal(evq_get(&q[i]), &a[i]);
		assert_false(readable(&q[i]));
		evq_fini(&q[i]);
	}
}

struct later {
	struct evq q;
	struct evq_source a;
	atomic_bool posted, may_flush, ended;
};

static void *post_later_and_flush(void *arg)
{
	struct later *l = arg;

	evq_post_later(&l->q, &l->a);
	atomic_store(&l->posted, true);
	while (!atomic_load(&l->may_flush))
		sched_yield();
	evq_flush();
	return NULL;
}

static void *end_it(void *arg)
{
	struct later *l = arg;

	evq_fini(&l->q);
	atomic_store(&l->ended, true);
	return NULL;
}

/* The queue's owner cannot see that a thread still has to write. */
TEST(evq, ends_while_a_thread_has_to_flush__waits_for_it)
{
	enum { YIELDS = 1000 };
	struct evq_source b;
	struct later l = {0};
	pthread_t t, end;

	init(&l.q, &l.a, &b);
	assert_int_equal(pthread_create(&t, NULL, post_later_and_flush, &l), 0);
	while (!atomic_load(&l.posted))
		sched_yield();
	evq_drop(&l.q, &l.a);
	assert_int_equal(pthread_create(&end, NULL, end_it, &l), 0);
	for (unsigned i = 0; i < YIELDS; i++) {
		sched_yield();
		assert_false(atomic_load(&l.ended));
	}
	atomic_store(&l.may_flush, true);
	pthread_join(t, NULL);
	pthread_join(end, NULL);
}

static void *drop(void *arg)
{
	struct later *l = arg;

	evq_drop(&l->q, &l->a);
	atomic_store(&slow_write.may_go_on, true);
	return NULL;
}

/* Its token would come after it, and make the descriptor readable for nothing. */
TEST(evq, dropped_while_its_token_is_written__no_token_is_left)
{
	struct later l = {.may_flush = true};
	struct evq_source b;
	pthread_t t, dropper;

	init(&l.q, &l.a, &b);
	slow_write.fd = l.q.fd;
	assert_int_equal(pthread_create(&t, NULL, post_later_and_flush, &l), 0);
	while (!atomic_load(&slow_write.begun))
		sched_yield();
	assert_int_equal(pthread_create(&dropper, NULL, drop, &l), 0);
	pthread_join(t, NULL);
	pthread_join(dropper, NULL);
	assert_false(readable(&l.q));
	evq_fini(&l.q);
}

enum { CROWD = 4, CROWD_EVENTS = 20000 };

struct crowd {
	struct evq q;
	atomic_uint taken;
};

static void *take_some(void *arg)
{
	struct crowd *c = arg;

	for (unsigned i = 0; atomic_load(&c->taken) < CROWD_EVENTS; i++) {
		struct evq_source *s = NULL;

		if (i % 2) {
			evq_look(&c->q);
			s = evq_look_end(&c->q);
		}
		if (!s)
			s = evq_get(&c->q);
		if (s)
			atomic_fetch_add(&c->taken, 1);
		else
			sched_yield();
	}
	return NULL;
}

/* However threads look, sleep and post: each event is taken once. */
TEST(evq, many_look_and_get__each_event_once)
{
	struct evq_source a, b;
	pthread_t t[CROWD];
	struct crowd c = {0};

	init(&c.q, &a, &b);
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&t[i], NULL, take_some, &c), 0);
	for (unsigned i = 0; i < CROWD_EVENTS; i++) {
		struct evq_source *s = i % 2 ? &a : &b;

		if (i % 3) {
			evq_post(&c.q, s, false);
			continue;
		}
		evq_post_later(&c.q, s);
		evq_flush();
	}
	for (unsigned i = 0; i < CROWD; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&c.taken), CROWD_EVENTS);
	assert_int_equal(evq_drop(&c.q, &a) + evq_drop(&c.q, &b), CROWD_EVENTS);
	assert_false(evq_has(&c.q));
	assert_false(readable(&c.q));
	evq_fini(&c.q);
}

struct waiter {
	struct evq *q;
	struct evq_source *got;
	int err;
	atomic_int tid; /* 0: it does not run yet */
};

static atomic_int signals;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&signals, 1);
}

static void *wait_for_one(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, gettid());
	w->got = evq_get(w->q);
	w->err = errno;
	return NULL;
}

/** Wait until the waiter sleeps: from its start on it does so in read() alone. @return false: it
 * has ended. */
static bool sleeps(const struct waiter *w)
{
	char path[64], line[256];

	while (!atomic_load(&w->tid))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&w->tid));
	for (;; sched_yield()) {
		FILE *f = fopen(path, "re");
		const char *state = NULL;

		if (!f)
			return false;
		if (fgets(line, sizeof(line), f))
			state = strrchr(line, ')');
		fclose(f);
		if (!state || state[2] == 'Z' || state[2] == 'X')
			return false;
		if (state[2] == 'S')
			return true;
	}
}

TEST(evq, blocked_reader__woken_by_post)
{
	struct evq_source a;
	struct waiter w = {0};
	struct evq q;
	pthread_t t;

	assert_int_equal(evq_init(&q), 0);
	evq_source_init(&a);
	w.q = &q;
	assert_int_equal(pthread_create(&t, NULL, wait_for_one, &w), 0);
	assert_true(sleeps(&w));
	evq_post(&q, &a, false);
	pthread_join(t, NULL);
	assert_ptr_equal(w.got, &a);
	evq_fini(&q);
}

/*
 * Programs end their event loop by a signal whose handler has no SA_RESTART, and are not ended by
 * one that has.
 */
TEST(evq, blocked_reader_gets_signal__eintr_only_without_sa_restart)
{
	struct sigaction restart = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct sigaction interrupt = {.sa_handler = on_signal};
	struct waiter w = {0};
	struct evq q;
	pthread_t t;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer keeps signals back, and a call that they interrupt "
		      "goes on\n");
	skip();
#endif
	sigaction(SIGUSR1, &restart, NULL);
	sigaction(SIGUSR2, &interrupt, NULL);
	assert_int_equal(evq_init(&q), 0);
	w.q = &q;
	assert_int_equal(pthread_create(&t, NULL, wait_for_one, &w), 0);
	assert_true(sleeps(&w));
	pthread_kill(t, SIGUSR1);
	while (!atomic_load(&signals))
		sched_yield();
	assert_true(sleeps(&w));
	pthread_kill(t, SIGUSR2);
	pthread_join(t, NULL);
	assert_null(w.got);
	assert_int_equal(w.err, EINTR);
	evq_fini(&q);
}
