/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/loop.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

enum {
	REFUSED_MS = 10, /* how long to wait when the system has no memory for epoll_wait() */
	LOOKS = 3,	 /* while it spins: in a row that find nothing */
	FINDS = 8,	 /* ... that find something; then others get their turn */
};

/* ---- life ---- */

static void on_wakeup(struct loop_io *io)
{
	struct loop *l = io->data;
	uint64_t count;

	if (read(io->fd, &count, sizeof(count)) < 0)
		return; /* taken already */
	l->woken(l);
}

void loop_none(struct loop *l)
{
	*l = (struct loop){.epoll_fd = -1, .wake_fd = -1};
	list_init(&l->timers);
}

int loop_init(struct loop *l, void (*woken)(struct loop *l), bool (*look)(struct loop *l),
	      void *data)
{
	int err = 0;

	loop_none(l);
	l->woken = woken;
	l->look = look;
	l->data = data;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd >= 0)
		l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0)
		err = -errno;
	loop_io_init(&l->wake_io, l->wake_fd, on_wakeup, l);
	if (!err)
		err = loop_watch(l, &l->wake_io);
	if (err)
		loop_fini(l);
	return err;
}

void loop_fini(struct loop *l)
{
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	l->epoll_fd = l->wake_fd = -1;
}

/* ---- descriptors ---- */

void loop_io_init(struct loop_io *io, int fd, void (*readable)(struct loop_io *io), void *data)
{
	*io = (struct loop_io){.fd = fd, .readable = readable, .data = data};
}

int loop_watch(struct loop *l, struct loop_io *io)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = io};

	if (io->watched)
		return 0;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, io->fd, &e) < 0)
		return -errno;
	io->watched = true;
	return 0;
}

void loop_unwatch(struct loop *l, struct loop_io *io)
{
	if (!io->watched)
		return;
	io->watched = false;
	/* Closing would not do: others may have the same open file. */
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	for (unsigned i = 0; i < l->nbatch; i++)
		if (l->batch[i] == io)
			l->batch[i] = NULL;
}

/* ---- timers ---- */

void loop_timer_init(struct loop_timer *t, void (*due)(struct loop_timer *t), void *data)
{
	*t = (struct loop_timer){.due = due, .data = data};
	list_init(&t->node);
}

void loop_timer_set(struct loop *l, struct loop_timer *t, unsigned ms)
{
	list_remove(&t->node);
	t->due_ms = monotonic_ms() + ms;
	list_append(&l->timers, &t->node);
}

void loop_timer_stop(struct loop_timer *t)
{
	list_remove(&t->node);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return list_linked(&t->node);
}

static struct loop_timer *first_timer(struct loop *l)
{
	struct loop_timer *first = NULL;

	list_for_each (it, &l->timers) {
		struct loop_timer *t = list_entry(it, struct loop_timer, node);

		if (!first || t->due_ms < first->due_ms)
			first = t;
	}
	return first;
}

static int sleep_ms(struct loop *l)
{
	const struct loop_timer *t = first_timer(l);
	uint64_t now;

	if (!t)
		return -1;
	now = monotonic_ms();
	return t->due_ms <= now ? 0 : (int)MIN(t->due_ms - now, 1000000u);
}

static void run_timers(struct loop *l)
{
	const uint64_t now = monotonic_ms();
	struct loop_timer *t;

	while (!l->stopped && (t = first_timer(l)) && t->due_ms <= now) {
		loop_timer_stop(t);
		t->due(t);
	}
}

/* ---- running ---- */

void loop_wake(struct loop *l)
{
	const uint64_t one = 1;

	if (write(l->wake_fd, &one, sizeof(one)) < 0)
		return; /* woken often enough */
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

void loop_spin(struct loop *l, uint64_t ns)
{
	l->spin_until_ns = monotonic_ns() + ns;
}

static int wait_events(struct loop *l, struct epoll_event e[LOOP_BATCH])
{
	unsigned finds = 0; /* since it last polled the descriptors */

	while (l->spin_until_ns) {
		bool found = false;
		int n;

		sched_yield();
		for (unsigned i = 0; i < LOOKS && !found; i++)
			found = l->look(l);
		if (found && ++finds < FINDS)
			continue;
		finds = 0;
		n = epoll_wait(l->epoll_fd, e, LOOP_BATCH, 0);
		if (n)
			return n;
		if (monotonic_ns() >= l->spin_until_ns)
			l->spin_until_ns = 0;
	}
	return epoll_wait(l->epoll_fd, e, LOOP_BATCH, sleep_ms(l));
}

/* Those that are readable, into the batch. @return 0, or -errno. */
static int wait_readable(struct loop *l)
{
	struct epoll_event e[LOOP_BATCH];
	const int n = wait_events(l, e);

	l->nbatch = 0;
	for (int i = 0; i < n; i++)
		l->batch[l->nbatch++] = e[i].data.ptr;
	if (n >= 0 || errno == EINTR)
		return 0;
	if (errno != ENOMEM)
		return -errno;
	nanosleep(&(struct timespec){.tv_nsec = REFUSED_MS * 1000000}, NULL);
	return 0;
}

int loop_run(struct loop *l)
{
	while (!l->stopped) {
		const int err = wait_readable(l);

		if (err)
			return err;
		for (unsigned i = 0; i < l->nbatch && !l->stopped; i++)
			if (l->batch[i])
				l->batch[i]->readable(l->batch[i]);
		l->nbatch = 0;
		if (!list_empty(&l->timers))
			run_timers(l);
	}
	return 0;
}
