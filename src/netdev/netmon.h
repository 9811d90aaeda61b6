/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells when network interfaces and their addresses change. One thread a process listens to the
 * kernel (rtnetlink) as long as anybody wants to know; what has changed beyond a link's state, the
 * listener reads for himself (netdev.h). The same thread has a timer for what else changes a
 * device.
 */
#ifndef NETDEV_NETMON_H
#define NETDEV_NETMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum netmon_what {
	NETMON_LINK,	  /* up or down, MTU: see active */
	NETMON_GONE,	  /* the interface is no more */
	NETMON_ADDRESSES, /* have come or gone */
	NETMON_TIMER,	  /* the timer expired with a change, or netmon_wake() */
	NETMON_ANYTHING,  /* news were lost: look at everything (ifindex 0) */
};

struct netmon_event {
	enum netmon_what what;
	unsigned ifindex;
	bool active; /* NETMON_LINK: up and running at that moment */
};

/** A listener, embedded in what listens. */
struct netmon_listener {
	struct list node;
	/** Called on the thread, one at a time, no lock held: news of any interface, in order. */
	void (*notify)(void *user, const struct netmon_event *event);
	void *user;
};

/**
 * Begin to listen; the first starts the thread. tell and user are set. Errors leave the listener
 * out: -errno, the system does not let us listen.
 */
int netmon_add(struct netmon_listener *l);

/**
 * For a listener that could not look at what the news were about: it is called again in a moment,
 * with NETMON_ANYTHING.
 */
void netmon_repeat(void);

/** End; when it returns, tell is not called any more. The last ends the thread. Twice is harmless,
 * and so is a listener of which netmon_add() failed, or one from before fork(). */
void netmon_remove(struct netmon_listener *l);

/** A timer on the thread. The calls of one timer never overlap. */
struct netmon_timer {
	/** The thread begins. now: CLOCK_MONOTONIC. @return when the timer expires; UINT64_MAX:
	 * never. */
	uint64_t (*start)(uint64_t now);
	/** It has expired. *due: when it does next. @return true: the listeners are told
	 * NETMON_TIMER. */
	bool (*expire)(uint64_t now, uint64_t *due);
	/** The thread has ended, or this is a forked child without it. */
	void (*stop)(void);
};

/** Use this timer, which stays borrowed, from the thread's next start on. */
void netmon_set_timer(const struct netmon_timer *timer);

/** Have the thread tell all listeners NETMON_TIMER, after calling first here. Without a thread:
 * nothing. */
void netmon_wake(void (*first)(void));

#endif
