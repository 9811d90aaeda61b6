/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notifies listeners when network interfaces and their addresses change. One thread per process
 * listens to the kernel (rtnetlink) while there are listeners. A listener reads changes beyond a
 * link's state itself (netdev.h). The same thread has a timer for other changes of a device.
 */
#ifndef NETDEV_NETMON_H
#define NETDEV_NETMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum netmon_what {
	NETMON_LINK,	  /* up or down, MTU: see active */
	NETMON_GONE,	  /* the interface is gone */
	NETMON_ADDRESSES, /* were added or removed */
	NETMON_TIMER,	  /* the timer expired with a change, or netmon_wake() */
	NETMON_ANYTHING,  /* events were lost: re-read everything (ifindex 0) */
};

struct netmon_event {
	enum netmon_what what;
	unsigned ifindex;
	bool active; /* NETMON_LINK: up and running at that moment */
};

/** A listener, embedded in what listens. */
struct netmon_listener {
	struct list node;
	unsigned ifindex; /* events of this interface only, and those of all; 0: of any */
	/**
	 * Called on the thread, one call at a time, no lock held: events in order. Events of an
	 * interface that have come meanwhile and equal the one before them are left out.
	 */
	void (*notify)(void *user, const struct netmon_event *event);
	void *user;
};

/**
 * Begin to listen; the first listener starts the thread. The other members are set. @return 0, or
 * -errno: no socket or thread could be made, and the listener is not added.
 */
int netmon_add(struct netmon_listener *l);

/**
 * For a listener that could not read the state after an event: it is called again shortly, with
 * NETMON_ANYTHING.
 */
void netmon_repeat(void);

/**
 * End; once it returns, notify is not called any more. The last listener ends the thread.
 * Idempotent; also allowed for a listener whose netmon_add() failed, and for one from before
 * fork().
 */
void netmon_remove(struct netmon_listener *l);

/** A timer on the thread. The calls of one timer never overlap. */
struct netmon_timer {
	/** The thread begins. now: CLOCK_MONOTONIC. @return when the timer expires; UINT64_MAX:
	 * never. */
	uint64_t (*start)(uint64_t now);
	/**
	 * It has expired. *due: when it does next. @return true: the listeners get NETMON_TIMER.
	 */
	bool (*expire)(uint64_t now, uint64_t *due);
	/** The thread has ended, or this is a forked child without it. */
	void (*stop)(void);
};

/** Use this timer, which stays borrowed, from the thread's next start on. */
void netmon_set_timer(const struct netmon_timer *timer);

/**
 * Have the thread send NETMON_TIMER to all listeners, after calling first here. No effect without a
 * thread.
 */
void netmon_wake(void (*first)(void));

#endif
