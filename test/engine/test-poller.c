/* SPDX-License-Identifier: BSD-2-Clause */
/* Real threads that poll, sleep, compute, or get no processor. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/poller.h"

enum { SPAN_NS = 1000000, PATIENCE_NS = 1000000000 };

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
	const uint64_t end = monotonic_ns() + 60ull * PATIENCE_NS;
	struct poller p = {.tid = w->tid};
	bool waits;

	poller_waits(&p, monotonic_ns());
	do {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
		waits = poller_waits(&p, monotonic_ns());
	} while (waits != wanted && monotonic_ns() < end);
	return waits;
}

/* This thread and this one only may use the processor. */
static cpu_set_t pin(struct worker *w)
{
	cpu_set_t all;
	int cpu = 0;

	assert_return_code(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET((size_t)cpu, &all))
		cpu++;
	CPU_ZERO(&w->cpu);
	CPU_SET((size_t)cpu, &w->cpu);
	return all;
}

/* ---- turns ---- */

static atomic_uint yields;

int sched_yield(void)
{
	yields++;
	return (int)syscall(SYS_sched_yield);
}

/* A poller on this thread's processor. */
static void *polls_once(void *arg)
{
	(void)arg;
	poller_vain(poller_here(), 1);
	return NULL;
}

static void let_another_poll(void)
{
	pthread_t id;

	assert_int_equal(pthread_create(&id, NULL, polls_once, NULL), 0);
	assert_int_equal(pthread_join(id, NULL), 0);
}

/* Vain polls, one each microsecond. @return yields in them. */
static unsigned poll_in_vain(uint64_t *now, unsigned polls)
{
	const unsigned before = yields;

	for (unsigned i = 0; i < polls; i++)
		poller_vain(poller_here(), *now += 1000);
	return yields - before;
}

TEST(poller, processor_is_its_own__never_yields)
{
	struct worker here = {0};
	const cpu_set_t all = pin(&here);
	uint64_t now = 1000;

	assert_return_code(sched_setaffinity(0, sizeof(here.cpu), &here.cpu), 0);
	poll_in_vain(&now, 100); /* other threads were here before */
	assert_int_equal(poll_in_vain(&now, 100000), 0);
	assert_false(poller_is_displaced(poller_here()));
	assert_false(poller_takes_turns());
	assert_return_code(sched_setaffinity(0, sizeof(all), &all), 0);
}

TEST(poller, another_one_was_here__yields_after_its_turn)
{
	struct worker here = {0};
	const cpu_set_t all = pin(&here);
	uint64_t now = 1000;

	assert_return_code(sched_setaffinity(0, sizeof(here.cpu), &here.cpu), 0);
	for (unsigned i = 0; i < 100; i++) {
		let_another_poll();
		assert_true(poller_is_displaced(poller_here()));
		assert_int_equal(poll_in_vain(&now, 1), 0);
		assert_false(poller_is_displaced(poller_here()));
		assert_true(poller_takes_turns());
		assert_int_equal(poll_in_vain(&now, POLLER_TURN_NS / 1000 - 1), 0);
		assert_int_equal(poll_in_vain(&now, 1), 1);
	}
	/* It has gone: a few times, and no more. */
	assert_in_range(poll_in_vain(&now, 100), 1, 20);
	assert_int_equal(poll_in_vain(&now, 100000), 0);
	assert_false(poller_takes_turns());
	assert_return_code(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* Two processes, with the user's table: each sees that the other one was there. */
TEST(poller, shared_table__seen_by_another_process)
{
	char dir[] = "/tmp/test-poller-XXXXXX";
	struct worker here = {0};
	const cpu_set_t all = pin(&here);
	struct stat st;
	int fd, status;
	pid_t child;

	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(fd, errno);
	assert_return_code(sched_setaffinity(0, sizeof(here.cpu), &here.cpu), 0);
	poller_share(fd);
	assert_return_code(fstatat(fd, "pollers", &st, 0), errno);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	poller_vain(poller_here(), 1000);
	assert_false(poller_is_displaced(poller_here()));
	child = fork();
	if (!child) {
		poller_forget();
		if (!poller_is_displaced(poller_here()))
			_exit(1);
		poller_vain(poller_here(), 1000);
		_exit(poller_is_displaced(poller_here()));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(poller_is_displaced(poller_here()));
	assert_return_code(sched_setaffinity(0, sizeof(all), &all), 0);
	assert_return_code(unlinkat(fd, "pollers", 0), errno);
	close(fd);
	assert_return_code(rmdir(dir), errno);
}

/* ---- waits ---- */

TEST(poller, own_number__that_of_the_system)
{
	assert_int_equal(poller_self(), gettid());
	assert_int_equal(poller_self(), gettid());
}

TEST(poller, nobody_polled__does_not_wait)
{
	struct poller p = {0};

	assert_false(poller_is_displaced((struct poller_place){0}));
	assert_false(poller_waits(&p, 1000));
	assert_false(poller_waits(&p, 2000));
}

TEST(poller, this_thread_polls__does_not_wait)
{
	const uint64_t begin = monotonic_ns();
	struct poller p;

	do {
		poller_note(&p, monotonic_ns());
		assert_int_equal(p.tid, gettid());
		while (monotonic_ns() < p.at_ns + SPAN_NS)
			;
	} while (poller_waits(&p, monotonic_ns()) && monotonic_ns() < begin + 60ull * PATIENCE_NS);
	assert_true(monotonic_ns() < begin + 60ull * PATIENCE_NS);
}

TEST(poller, sleeps__does_not_wait)
{
	struct worker w = {0};
	struct poller p;

	begin(&w, sleeps);
	p = (struct poller){.tid = w.tid};
	while (look(&w, false)) /* it is on its way to sleep */
		;
	assert_false(poller_waits(&p, monotonic_ns()));
	end(&w);
	/* It has gone. */
	assert_false(poller_waits(&p, monotonic_ns()));
}

TEST(poller, computes__does_not_wait)
{
	struct worker w = {0};

	begin(&w, computes);
	assert_false(look(&w, false));
	end(&w);
}

TEST(poller, others_have_its_processor__waits)
{
	struct worker poller = {.policy = SCHED_IDLE}, other = {0};

	pin(&poller);
	other.cpu = poller.cpu;
	begin(&poller, computes);
	begin(&other, computes);
	assert_true(look(&poller, true));
	end(&other);
	end(&poller);
}
