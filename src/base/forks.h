/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One list of fork() handlers, in lock order.
 *
 * A child must find each lock of the process free, and what it guards whole; so the owner of a lock
 * takes it in prepare(). If each owner called pthread_atfork(), the order would be that of first
 * use. Here prepare() is called from the first level to the last, which is the order in which these
 * locks nest, parent() and child() from the last to the first.
 *
 * The two libraries have a list each. librdmacm's is registered after libibverbs', on which it
 * depends, so that its prepare() functions come first: it calls libibverbs with locks of its own
 * held, never the other way round.
 *
 * Locks of objects (lanes, contexts, CQs, sockets) are not taken: they may be held for long, and
 * the child does not use its parent's objects.
 */
#ifndef BASE_FORKS_H
#define BASE_FORKS_H

enum fork_level {
	FORK_KEEPALIVE,
	FORK_SOCKETS,
	FORK_RDMACM,
	FORK_CHANNELS,
	FORK_NETMON,
	FORK_DOMAINS,
	FORK_DEVICES,
	FORK_REAL,
	FORK_WRAPPED,
	FORK_CAPTURE,
	FORK_LANES,
	FORK_FAULTS,
	FORK_SETTING,
	FORK_TAP,
	FORK_REPORT,
	FORK_REQUESTS,
	FORK_TRACE,
	FORK_LEVELS
};

/**
 * None is NULL. child() makes only async-signal-safe calls, because the parent may have had
 * threads.
 */
struct fork_handlers {
	void (*prepare)(void), (*parent)(void), (*child)(void);
};

/**
 * Borrowed until the process ends. One for each level; from a constructor, before there are
 * threads.
 */
void forks_add(enum fork_level level, const struct fork_handlers *handlers);

#endif
