/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/keepalive.h"

#include <string.h>
#include <time.h>

#include "base/forks.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/timescale.h"
#include "rsocket/rs.h"
#include "rsocket/setting.h"

static struct {
	pthread_mutex_t lock;	/* a leaf: nothing is taken under it */
	pthread_cond_t changed; /* the list, a due time, or what is under way */
	struct list watched;	/* rs.keep.node */
	struct rs *under_way;	/* whose tick is being called, without the lock */
	bool running;		/* the thread */
} keepalive = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { SECOND = 1000000000 };

void rs_keepalive_init(struct rs_keepalive *keep)
{
	*keep = (struct rs_keepalive){0};
	list_init(&keep->node);
}

/* ---- options ---- */

unsigned rs_keepalive_idle_s(const struct rs *rs)
{
	return rs->keep.idle ? rs->keep.idle : rs_system_keepalive()->idle;
}

unsigned rs_keepalive_interval_s(const struct rs *rs)
{
	return rs->keep.interval ? rs->keep.interval : rs_system_keepalive()->interval;
}

unsigned rs_keepalive_count(const struct rs *rs)
{
	return rs->keep.count ? rs->keep.count : rs_system_keepalive()->count;
}

/** The device has refused an invalid time scale already. */
static uint64_t scaled(unsigned seconds)
{
	char text[256];
	double scale;

	if (timescale_get(&scale, text, sizeof(text)) < 0)
		scale = 1;
	return timescale_wait(scale, (uint64_t)seconds * SECOND);
}

uint64_t rs_keepalive_idle(const struct rs *rs)
{
	return scaled(rs_keepalive_idle_s(rs));
}

uint64_t rs_keepalive_interval(const struct rs *rs)
{
	return scaled(rs_keepalive_interval_s(rs));
}

/* ---- the thread ---- */

/** The socket with the earliest time; NULL: there is none. */
static struct rs *first_due(void)
{
	struct rs *first = NULL;

	list_for_each (it, &keepalive.watched) {
		struct rs *rs = list_entry(it, struct rs, keep.node);

		if (!first || rs->keep.due < first->keep.due)
			first = rs;
	}
	return first;
}

/** Keepalive lock held before and after, released meanwhile. */
static void tick(struct rs *rs)
{
	uint64_t next;

	/* A time set during the tick is newer than its result. */
	rs->keep.due = 0;
	keepalive.under_way = rs;
	pthread_mutex_unlock(&keepalive.lock);

	mutex_lock(&rs->lock);
	next = rs->sleep.closing || !rs->keep.on ? 0 : rs->ops->tick(rs);
	mutex_unlock(&rs->lock);

	pthread_mutex_lock(&keepalive.lock);
	keepalive.under_way = NULL;
	if (rs->keep.due == 0 && next == 0)
		list_remove(&rs->keep.node);
	else if (rs->keep.due == 0)
		rs->keep.due = next;
	pthread_cond_broadcast(&keepalive.changed);
}

static void *thread_main(void *unused)
{
	struct timespec at;
	struct rs *rs;

	pthread_mutex_lock(&keepalive.lock);
	while ((rs = first_due())) {
		if (rs_now() >= rs->keep.due) {
			tick(rs);
			continue;
		}
		at.tv_sec = (time_t)(rs->keep.due / SECOND);
		at.tv_nsec = (long)(rs->keep.due % SECOND);
		pthread_cond_timedwait(&keepalive.changed, &keepalive.lock, &at);
	}
	keepalive.running = false;
	pthread_mutex_unlock(&keepalive.lock);
	return unused;
}

static void spawn(void)
{
	pthread_t thread;
	const int err = thread_start(&thread, "rocemu-keep", thread_main, NULL);

	keepalive.running = err == 0;
	if (err)
		log_warn("no thread for SO_KEEPALIVE: %s", strerror(-err));
	else
		pthread_detach(thread);
}

/* ---- fork: the child has no thread, and does not use its parent's connections ---- */

static void new_cond(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&keepalive.changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&keepalive.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&keepalive.lock);
}

static void fork_child(void)
{
	list_for_each_safe (it, tmp, &keepalive.watched)
		list_remove(it);
	keepalive.under_way = NULL;
	keepalive.running = false;
	new_cond();
	pthread_mutex_unlock(&keepalive.lock);
}

__attribute__((constructor)) static void set_up(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	list_init(&keepalive.watched);
	new_cond();
	forks_add(FORK_KEEPALIVE, &handlers);
}

/* ---- watched sockets ---- */

void rs_keepalive_update(struct rs *rs)
{
	uint64_t due = 0;

	if (!rs->ops->tick)
		return;
	/* The tick determines whether there is a peer, and the next time. */
	if (rs->keep.on && !rs->sleep.closing)
		due = rs_now() + MIN(rs_keepalive_idle(rs), rs_keepalive_interval(rs));
	if (due == 0 && !list_linked(&rs->keep.node))
		return;
	pthread_mutex_lock(&keepalive.lock);
	if (due == 0) {
		list_remove(&rs->keep.node);
	} else {
		if (!list_linked(&rs->keep.node))
			list_append(&keepalive.watched, &rs->keep.node);
		rs->keep.due = due;
		if (!keepalive.running)
			spawn();
	}
	pthread_cond_broadcast(&keepalive.changed);
	pthread_mutex_unlock(&keepalive.lock);
}

void rs_keepalive_stop(struct rs *rs)
{
	if (!rs->ops->tick)
		return;
	pthread_mutex_lock(&keepalive.lock);
	while (keepalive.under_way == rs)
		pthread_cond_wait(&keepalive.changed, &keepalive.lock);
	if (list_linked(&rs->keep.node)) {
		list_remove(&rs->keep.node);
		pthread_cond_broadcast(&keepalive.changed); /* it may have been the last */
	}
	pthread_mutex_unlock(&keepalive.lock);
}
