/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals for threads that wait for completion events. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "waits.h"

enum { ROUNDS = 30, PATIENCE_S = 10 };

#ifdef __SANITIZE_THREAD__
#define NEED_SIGNALS()                                                                             \
	do {                                                                                       \
		print_message("skipped: ThreadSanitizer keeps signals back, and a call that they " \
			      "interrupt goes on\n");                                              \
		skip();                                                                            \
	} while (0)
#else
#define NEED_SIGNALS() ((void)0)
#endif

static atomic_uint handled;
static _Thread_local sigjmp_buf *leave_to;

static void on_signal(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
	if (leave_to)
		siglongjmp(*leave_to, 1);
}

static void handle(int flags)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	atomic_store(&handled, 0);
}

/* The place of the one that looks is free, and an event is there for others. */
static void check_event(struct waits_end *a, struct waits_end *b)
{
	struct waits_thread w;

	waits_keen(b);
	waits_start(&w, b);
	waits_send(a, b);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.ret, 0);
	dev_poll(b->d.cq);
	dev_poll(a->send_cq);
}

TEST(wait, signal_or_cancellation_after_looking__as_from_read)
{
	struct waits_end a, b;
	struct waits_thread w;

	NEED_SIGNALS();
	handle(0);
	waits_open_both(&a, &b);
	for (unsigned i = 0; i < 20; i++) {
		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		waits_start(&w, &b);
		waits_until_asleep(&w);
		if (i % 2)
			pthread_cancel(w.thread);
		else
			pthread_kill(w.thread, SIGUSR2);
		pthread_join(w.thread, NULL);
		if (i % 2 == 0) {
			assert_int_equal(w.ret, -1);
			assert_int_equal(w.err, EINTR);
		}
		check_event(&a, &b);
	}
	waits_close_both(&a, &b);
}

/* Is the thread at its end? One that a signal did not wake is woken by another one. */
static bool ends(struct waits_thread *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (!pthread_timedjoin_np(w->thread, NULL, &until))
		return true;
	pthread_kill(w->thread, SIGUSR2);
	pthread_join(w->thread, NULL);
	return false;
}

TEST(wait, signal_while_it_looks__as_from_read)
{
	struct waits_end a, b;
	struct waits_thread w;
	unsigned lost = 0;

	NEED_SIGNALS();
	handle(0);
	waits_open_both(&a, &b);
	for (unsigned i = 0; i < ROUNDS && lost < 2; i++) {
		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		waits_start(&w, &b);
		waits_until_looking(&w);
		pthread_kill(w.thread, SIGUSR2);
		lost += !ends(&w);
		assert_int_equal(w.ret, -1);
		assert_int_equal(w.err, EINTR);
		check_event(&a, &b);
	}
	/* One may have come between the look and read(). */
	assert_true(lost < 2);
	waits_close_both(&a, &b);
}

TEST(wait, restarting_signal_while_it_looks__goes_on)
{
	struct waits_end a, b;
	struct waits_thread w;

	NEED_SIGNALS();
	handle(SA_RESTART);
	waits_open_both(&a, &b);
	for (unsigned i = 0; i < ROUNDS; i++) {
		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		waits_start(&w, &b);
		waits_until_looking(&w);
		pthread_kill(w.thread, SIGUSR2);
		while (atomic_load(&handled) <= i)
			sched_yield();
		waits_send(&a, &b);
		pthread_join(w.thread, NULL);
		assert_int_equal(w.ret, 0);
		dev_poll(b.d.cq);
		dev_poll(a.send_cq);
	}
	waits_close_both(&a, &b);
}

static void *wait_or_leave(void *arg)
{
	struct waits_thread *w = arg;
	struct ibv_cq *cq;
	sigjmp_buf env;
	void *user;

	if (!sigsetjmp(env, 1)) {
		leave_to = &env;
		atomic_store(&w->tid, gettid());
		w->ret = ibv_get_cq_event(w->end->d.channel, &cq, &user);
	}
	leave_to = NULL;
	return NULL;
}

TEST(wait, handler_that_jumps_out_while_it_looks__others_can_wait)
{
	struct waits_end a, b;

	NEED_SIGNALS();
	handle(0);
	waits_open_both(&a, &b);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct waits_thread w = {.end = &b, .ret = 1};

		waits_keen(&b);
		assert_int_equal(ibv_req_notify_cq(b.d.cq, 0), 0);
		assert_int_equal(pthread_create(&w.thread, NULL, wait_or_leave, &w), 0);
		waits_until_looking(&w);
		pthread_kill(w.thread, SIGUSR2);
		ends(&w);
		assert_int_equal(w.ret, 1);
		check_event(&a, &b);
	}
	waits_close_both(&a, &b);
}
