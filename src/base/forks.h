/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(): one list of what there is to do about it, in the order of locks.
 *
 * A child must find each lock of the process free, and what it guards whole; so whoever has one
 * takes it in prepare(). With a pthread_atfork() of each, the order would be that in which they
 * happened to be first used. Here prepare() is called from the first level to the last, which is
 * the order in which these locks nest, parent() and child() from the last to the first.
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

/** None is NULL. child() has only async-signal-safe calls: the parent may have had threads. */
struct fork_handlers {
	void (*prepare)(void), (*parent)(void), (*child)(void);
};

/** Borrowed for ever. One for each level; from a constructor, before there are threads. */
void forks_add(enum fork_level level, const struct fork_handlers *handlers);

#endif
