/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests events of interfaces: which listener gets which, and that listening begins and ends at any
 * moment.
 */
#include "test.h"

#include <dirent.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "netdev/netmon.h"
#include "netns.h"

enum { PATIENCE_S = 20 };

struct ear {
	struct netmon_listener listener;
	pthread_mutex_t lock;
	pthread_cond_t got;
	char text[256]; /* "up", "down", of lo; guarded by lock */
	bool down;
	atomic_uint calls;
};

/* The kernel may repeat events: only changes count. lo is up in the beginning. */
static void on_event(void *user, const struct netmon_event *event)
{
	struct ear *e = user;

	atomic_fetch_add(&e->calls, 1);
	if (event->what != NETMON_LINK || event->ifindex != if_nametoindex("lo"))
		return;
	pthread_mutex_lock(&e->lock);
	if (event->active == e->down) {
		e->down = !event->active;
		strncat(e->text, event->active ? "up " : "down ",
			sizeof(e->text) - strlen(e->text) - 1);
	}
	pthread_cond_signal(&e->got);
	pthread_mutex_unlock(&e->lock);
}

static void ear_init(struct ear *e)
{
	memset(e, 0, sizeof(*e));
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->got, NULL);
	e->listener.notify = on_event;
	e->listener.user = e;
}

/** Wait until it has got this many events. @return whether they are these. */
static bool got(struct ear *e, const char *text)
{
	struct timespec end;
	bool same;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&e->lock);
	while (!err && strlen(e->text) < strlen(text))
		err = pthread_cond_timedwait(&e->got, &e->lock, &end);
	same = !strcmp(e->text, text);
	pthread_mutex_unlock(&e->lock);
	return same;
}

static void set_lo_by(int fd, bool up)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};

	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
}

static void set_lo(bool up)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	set_lo_by(fd, up);
	close(fd);
}

static atomic_uint starts, turns, stops, firsts;
static atomic_bool enough;

static uint64_t timer_start(uint64_t now)
{
	atomic_fetch_add(&starts, 1);
	return now;
}

/* Each second time it has no event. */
static bool timer_expire(uint64_t now, uint64_t *due)
{
	const bool over = atomic_load(&enough);

	*due = over ? UINT64_MAX : now + 1000000;
	return !over && atomic_fetch_add(&turns, 1) % 2 == 0;
}

static void timer_stop(void)
{
	atomic_fetch_add(&stops, 1);
}

static void first(void)
{
	atomic_fetch_add(&firsts, 1);
}

static void on_timer(void *user, const struct netmon_event *event)
{
	struct ear *e = user;

	if (event->what != NETMON_TIMER)
		return;
	pthread_mutex_lock(&e->lock);
	strncat(e->text, atomic_load(&firsts) ? "woken " : "turn ",
		sizeof(e->text) - strlen(e->text) - 1);
	pthread_cond_signal(&e->got);
	pthread_mutex_unlock(&e->lock);
}

/** Wait until it has got the words. */
static bool got_words(struct ear *e, const char *words)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&e->lock);
	while (!err && !strstr(e->text, words))
		err = pthread_cond_timedwait(&e->got, &e->lock, &end);
	pthread_mutex_unlock(&e->lock);
	return !err;
}

TEST(netmon, timer__runs_with_the_thread_and_tells_its_changes)
{
	static const struct netmon_timer timer = {timer_start, timer_expire, timer_stop};
	struct ear a;

	netns_enter_once();
	ear_init(&a);
	a.listener.notify = on_timer;
	netmon_set_timer(&timer);
	netmon_wake(first); /* there is no thread */
	assert_int_equal(atomic_load(&firsts), 0);
	assert_int_equal(netmon_add(&a.listener), 0);
	netmon_set_timer(NULL); /* from the next start on */
	assert_true(got_words(&a, "turn turn "));
	atomic_store(&enough, true);
	pthread_mutex_lock(&a.lock);
	a.text[0] = '\0'; /* room for what follows */
	pthread_mutex_unlock(&a.lock);
	netmon_wake(first);
	assert_true(got_words(&a, "woken "));
	assert_int_equal(atomic_load(&firsts), 1);
	netmon_remove(&a.listener);
	assert_int_equal(atomic_load(&starts), 1);
	assert_int_equal(atomic_load(&stops), 1);
	netmon_set_timer(NULL);
	assert_int_equal(netmon_add(&a.listener), 0);
	netmon_remove(&a.listener);
	assert_int_equal(atomic_load(&starts), 1);
}

TEST(netmon, link_down_and_up__each_told_in_order)
{
	struct ear a, b;

	netns_enter_once();
	ear_init(&a);
	ear_init(&b);
	assert_int_equal(netmon_add(&a.listener), 0);
	/* A listener need not be quick to read it. */
	set_lo(false);
	set_lo(true);
	assert_true(got(&a, "down up "));
	assert_int_equal(netmon_add(&b.listener), 0);
	set_lo(false);
	set_lo(true);
	assert_true(got(&a, "down up down up "));
	assert_true(got(&b, "down up "));
	netmon_remove(&a.listener);
	netmon_remove(&a.listener);
	set_lo(false);
	set_lo(true);
	assert_true(got(&b, "down up down up "));
	assert_string_equal(a.text, "down up down up ");
	netmon_remove(&b.listener);
	/* The thread has ended; another begins. */
	assert_int_equal(netmon_add(&a.listener), 0);
	set_lo(false);
	set_lo(true);
	assert_true(got(&a, "down up down up down up "));
	netmon_remove(&a.listener);
}

static atomic_bool flap_on;

static void *flap(void *arg)
{
	(void)arg;
	while (atomic_load(&flap_on)) {
		set_lo(false);
		set_lo(true);
	}
	return NULL;
}

static void *come_and_go(void *arg)
{
	struct ear *e = arg;

	for (unsigned i = 0; i < 200; i++) {
		unsigned calls;

		if (netmon_add(&e->listener))
			return NULL;
		netmon_remove(&e->listener);
		/* No more events, whatever happens. */
		calls = atomic_load(&e->calls);
		sched_yield();
		if (atomic_load(&e->calls) != calls)
			return NULL;
	}
	return e;
}

TEST(netmon, listeners_come_and_go_while_told__never_told_after)
{
	struct ear e[3];
	pthread_t t[3], flapper;
	void *ok;

	netns_enter_once();
	atomic_store(&flap_on, true);
	assert_int_equal(pthread_create(&flapper, NULL, flap, NULL), 0);
	for (unsigned i = 0; i < 3; i++) {
		ear_init(&e[i]);
		assert_int_equal(pthread_create(&t[i], NULL, come_and_go, &e[i]), 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(t[i], &ok);
		assert_ptr_equal(ok, &e[i]);
	}
	atomic_store(&flap_on, false);
	pthread_join(flapper, NULL);
}

struct slow {
	struct netmon_listener listener;
	sem_t told;
	atomic_bool removing, done;
};

static void notify_slowly(void *user, const struct netmon_event *event)
{
	struct slow *s = user;

	(void)event;
	sem_post(&s->told);
	while (!atomic_load(&s->removing))
		sched_yield();
	/* Time for netmon_remove() to come back too early. */
	for (unsigned i = 0; i < 20; i++)
		sched_yield();
	atomic_store(&s->done, true);
}

TEST(netmon, removed_while_told__waits_for_the_end)
{
	struct slow s = {.listener = {.notify = notify_slowly, .user = &s}};
	struct ear other;

	netns_enter_once();
	sem_init(&s.told, 0, 0);
	ear_init(&other); /* keeps the thread */
	assert_int_equal(netmon_add(&other.listener), 0);
	assert_int_equal(netmon_add(&s.listener), 0);
	set_lo(false);
	while (sem_wait(&s.told))
		;
	atomic_store(&s.removing, true);
	netmon_remove(&s.listener);
	assert_true(atomic_load(&s.done));
	set_lo(true);
	assert_true(got(&other, "down up "));
	netmon_remove(&other.listener);
	sem_destroy(&s.told);
}

TEST(netmon, forked_child__listens_for_itself)
{
	struct ear parent, child;
	int status = -1;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	netns_enter_once();
	ear_init(&parent);
	assert_int_equal(netmon_add(&parent.listener), 0);
	pid = fork();
	if (pid == 0) {
		ear_init(&child);
		netmon_remove(&parent.listener); /* was the parent's: harmless */
		if (netmon_add(&child.listener))
			_exit(1);
		set_lo(false);
		set_lo(true);
		if (!got(&child, "down up "))
			_exit(2);
		netmon_remove(&child.listener);
		_exit(parent.text[0] ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(got(&parent, "down up "));
	netmon_remove(&parent.listener);
}

static sem_t busy, go_on, anything;

/* Is slow with the first event. */
static void on_event_slowly(void *user, const struct netmon_event *event)
{
	struct ear *e = user;

	if (atomic_fetch_add(&e->calls, 1) == 0) {
		sem_post(&busy);
		while (sem_wait(&go_on))
			;
	}
	if (event->what == NETMON_ANYTHING)
		sem_post(&anything);
}

/* Has the kernel lost events for a socket in this namespace? */
static bool news_were_lost(void)
{
	FILE *f = fopen("/proc/thread-self/net/netlink", "re");
	unsigned drops, lost = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %u", &drops) == 1)
			lost += drops;
	fclose(f);
	return lost;
}

/* More events than the kernel keeps: it is not known which are lost. */
TEST(netmon, listener_too_slow__told_that_anything_may_have_changed)
{
	struct timespec end;
	struct ear a;

	netns_enter_once();
	ear_init(&a);
	a.listener.notify = on_event_slowly;
	sem_init(&busy, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&anything, 0, 0);
	assert_int_equal(netmon_add(&a.listener), 0);
	set_lo(false);
	while (sem_wait(&busy))
		;
	while (!news_were_lost()) {
		set_lo(true);
		set_lo(false);
	}
	set_lo(true);
	sem_post(&go_on);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	assert_int_equal(sem_timedwait(&anything, &end), 0);
	netmon_remove(&a.listener);
}

static void set_mtu(int mtu)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_mtu = mtu};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFMTU, &ifr), 0);
	close(fd);
}

/* Each call reads the interface anew: what has changed meanwhile is one change. */
TEST(netmon, many_changes_while_a_listener_is_busy__one_call)
{
	enum { CHANGES = 40 }; /* for which the kernel's queue has room */
	struct ear a, last;

	netns_enter_once();
	ear_init(&a);
	ear_init(&last);
	a.listener.notify = on_event_slowly;
	sem_init(&busy, 0, 0);
	sem_init(&go_on, 0, 0);
	assert_int_equal(netmon_add(&a.listener), 0);
	assert_int_equal(netmon_add(&last.listener), 0);
	set_mtu(20000);
	assert_int_equal(sem_wait(&busy), 0);
	for (int i = 1; i <= CHANGES; i++)
		set_mtu(20000 + i);
	set_lo(false);
	set_lo(true);
	sem_post(&go_on);
	assert_true(got(&last, "down up "));
	netmon_remove(&a.listener);
	netmon_remove(&last.listener);
	set_mtu(65536);
	/* The first, those of the MTU, down and up, of which the kernel may make several. */
	assert_in_range(atomic_load(&a.calls), 3, 10);
}

TEST(netmon, listener_of_one_interface__not_called_for_others)
{
	struct ear own, other, all;

	netns_enter_once();
	ear_init(&own);
	ear_init(&other);
	ear_init(&all);
	own.listener.ifindex = if_nametoindex("lo");
	other.listener.ifindex = own.listener.ifindex + 1;
	assert_int_equal(netmon_add(&own.listener), 0);
	assert_int_equal(netmon_add(&other.listener), 0);
	assert_int_equal(netmon_add(&all.listener), 0);
	set_lo(false);
	set_lo(true);
	assert_true(got(&own, "down up "));
	assert_true(got(&all, "down up "));
	netmon_remove(&own.listener);
	netmon_remove(&other.listener);
	netmon_remove(&all.listener);
	assert_int_equal(atomic_load(&other.calls), 0);
}

/** The mask of blocked signals of the thread of that name. */
static unsigned long long blocked_signals(const char *thread)
{
	unsigned long long mask = 0;
	char path[300], line[128];
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *t;

	assert_non_null(tasks);
	while ((t = readdir(tasks))) {
		bool it_is = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", t->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			char name[32];

			if (sscanf(line, "Name: %31s", name) == 1)
				it_is = !strcmp(name, thread);
			if (it_is)
				sscanf(line, "SigBlk: %llx", &mask);
		}
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return mask;
}

/* They are for the program's threads, which may wait for them. */
TEST(netmon, its_thread__takes_no_signals)
{
	const unsigned long long wanted = 1ull << (SIGTERM - 1) | 1ull << (SIGUSR1 - 1) |
					  1ull << (SIGINT - 1) | 1ull << (SIGCHLD - 1);
	struct ear a;

	netns_enter_once();
	ear_init(&a);
	assert_int_equal(netmon_add(&a.listener), 0);
	/* It has begun: before, the C library blocks them all. */
	set_lo(false);
	set_lo(true);
	assert_true(got(&a, "down up "));
	assert_true((blocked_signals("rocemu-net") & wanted) == wanted);
	netmon_remove(&a.listener);
}

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

TEST(netmon, begun_and_ended_often__no_descriptor_is_left)
{
	struct ear a;
	unsigned before;

	netns_enter_once();
	ear_init(&a);
	before = open_files();
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(netmon_add(&a.listener), 0);
		netmon_remove(&a.listener);
	}
	assert_int_equal(open_files(), before);
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* As a program does that becomes a daemon: they would be readable without end. */
TEST(netmon, its_descriptors_closed_by_the_program__its_thread_ends)
{
	unsigned before;
	struct ear a;
	int any, first;

	netns_enter_once();
	ear_init(&a);
	before = threads();
	any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	first = dup(any);
	close(first);
	assert_int_equal(netmon_add(&a.listener), 0);
	assert_int_equal(threads(), before + 1);
	close(first);
	close(first + 1);
	/* poll() sees it at the next event. */
	while (threads() > before) {
		set_lo_by(any, false);
		set_lo_by(any, true);
	}
	netmon_remove(&a.listener);
	close(any);
}
