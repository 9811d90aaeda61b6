/* SPDX-License-Identifier: BSD-2-Clause */
/* Real threads that sleep, compute, or get no processor. */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "engine/poller.h"

enum { SPAN_NS = 1000000, PATIENCE_NS = 1000000000, LOOKS = 50 };

struct worker {
	pthread_t id;
	_Atomic pid_t tid;
	atomic_bool stop;
	int fd[2]; /* reading sleeps until it is closed */
	cpu_set_t cpu;
	int policy;
};

static void *sleeps(void *arg)
{
	struct worker *w = arg;
	char c;

	w->tid = poller_self();
	if (read(w->fd[0], &c, 1))
		return NULL;
	return NULL;
}

static void *computes(void *arg)
{
	struct worker *w = arg;

	if (CPU_COUNT(&w->cpu))
		pthread_setaffinity_np(pthread_self(), sizeof(w->cpu), &w->cpu);
	sched_setscheduler(0, w->policy, &(struct sched_param){0});
	w->tid = poller_self();
	while (!w->stop)
		;
	return NULL;
}

static void begin(struct worker *w, void *(*work)(void *))
{
	assert_return_code(pipe(w->fd), 0);
	assert_int_equal(pthread_create(&w->id, NULL, work, w), 0);
	while (!w->tid)
		sched_yield();
}

static void end(struct worker *w)
{
	w->stop = true;
	close(w->fd[1]);
	pthread_join(w->id, NULL);
	close(w->fd[0]);
}

/* Check each millisecond. @return the last result: wanted, or not wanted each time. */
static bool look(struct worker *w, bool wanted)
{
	const struct timespec span = {.tv_nsec = SPAN_NS};
	struct poller p = {0};
	bool starves = !wanted;

	poller_starves(&p, w->tid, SPAN_NS, false);
	for (uint64_t ns = 0; ns < 60ull * PATIENCE_NS && starves != wanted; ns += SPAN_NS) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
		starves = poller_starves(&p, w->tid, SPAN_NS, false);
	}
	return starves;
}

TEST(poller, own_number__that_of_the_system)
{
	assert_int_equal(poller_self(), gettid());
	assert_int_equal(poller_self(), gettid());
}

TEST(poller, nobody_polled__does_not_starve)
{
	struct poller p = {0};

	assert_false(poller_starves(&p, 0, SPAN_NS, false));
	assert_false(poller_starves(&p, 0, SPAN_NS, false));
}

TEST(poller, sleeps__does_not_starve)
{
	struct worker w = {0};
	struct poller p = {0};

	begin(&w, sleeps);
	while (look(&w, false)) /* it is on its way to sleep */
		;
	poller_starves(&p, w.tid, SPAN_NS, false);
	assert_false(poller_starves(&p, w.tid, SPAN_NS, false));
	end(&w);
	/* It has gone. */
	assert_false(poller_starves(&p, w.tid, SPAN_NS, false));
}

TEST(poller, computes__does_not_starve)
{
	struct worker w = {0};

	begin(&w, computes);
	assert_false(look(&w, false));
	end(&w);
}

TEST(poller, others_have_its_processor__starves)
{
	const struct timespec span = {.tv_nsec = SPAN_NS};
	struct worker poller = {.policy = SCHED_IDLE}, other = {0};
	struct poller p = {0};
	cpu_set_t all;
	int cpu = 0;

	assert_return_code(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET((size_t)cpu, &all))
		cpu++;
	CPU_SET((size_t)cpu, &poller.cpu);
	other.cpu = poller.cpu;
	begin(&poller, computes);
	begin(&other, computes);
	assert_true(look(&poller, true));
	/* It polls all the same. */
	for (int i = 0; i < LOOKS; i++) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
		assert_false(poller_starves(&p, poller.tid, SPAN_NS, true));
	}
	end(&other);
	end(&poller);
}
