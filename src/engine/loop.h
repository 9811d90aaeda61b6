/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread's event loop: descriptors to read, deadlines, and a wakeup by other threads. It
 * allocates nothing, keeps no state of the process, and never ends the process: what the system
 * refuses is an error of loop_init() or loop_watch(). (libev, which the agent uses, aborts there.)
 *
 * All functions but loop_wake() are called on the loop's thread, or while it has none.
 */
#ifndef ENGINE_LOOP_H
#define ENGINE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum { LOOP_BATCH = 16 };

/** Embedded in what reads the descriptor. */
struct loop_io {
	int fd; /* borrowed; has to be open while watched */
	void (*readable)(struct loop_io *io);
	void *data; /* the owner's */
	bool watched;
};

/** Embedded in what waits. */
struct loop_timer {
	struct list node;
	uint64_t due_ms;
	void (*due)(struct loop_timer *t);
	void *data;
};

struct loop {
	int epoll_fd, wake_fd; /* owned; -1: not there */
	bool stopped;
	struct loop_io wake_io;
	struct list timers;
	uint64_t spin_until_ns; /* until then it polls instead of sleeping; 0: it sleeps */
	struct loop_io
		*batch[LOOP_BATCH]; /* of which readable() is to be called; NULL: not any more */
	unsigned nbatch;
	void (*woken)(struct loop *l);
	bool (*look)(struct loop *l);
	void *data;
};

/** The state without descriptors, which loop_fini() takes too. */
void loop_none(struct loop *l);
/**
 * woken() is called on the thread after loop_wake(). look(): see loop_spin(); true: something was
 * found and handled. @return 0 or -errno.
 */
int loop_init(struct loop *l, void (*woken)(struct loop *l), bool (*look)(struct loop *l),
	      void *data);
void loop_fini(struct loop *l);

void loop_io_init(struct loop_io *io, int fd, void (*readable)(struct loop_io *io), void *data);
/** Level triggered; errors and hangups count as readable. @return 0, also if watched; or -errno. */
int loop_watch(struct loop *l, struct loop_io *io);
/** readable is not called any more. Before the descriptor is closed. */
void loop_unwatch(struct loop *l, struct loop_io *io);

void loop_timer_init(struct loop_timer *t, void (*due)(struct loop_timer *t), void *data);
/** Once, after this many milliseconds; replaces an earlier time. */
void loop_timer_set(struct loop *l, struct loop_timer *t, unsigned ms);
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_is_set(const struct loop_timer *t);

/** From any thread. */
void loop_wake(struct loop *l);

/**
 * For this long the thread polls instead of sleeping, and lets others run between: first those that
 * it has just woken. Most times it calls look(), which is cheaper than polling the descriptors.
 */
void loop_spin(struct loop *l, uint64_t ns);
/** Was what is readable found by polling? */
static inline bool loop_spins(const struct loop *l)
{
	return l->spin_until_ns != 0;
}

/** Until loop_stop(). @return 0, or -errno: the descriptors were closed. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

#endif
