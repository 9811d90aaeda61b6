/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Determines why the polling thread does not poll now: it sleeps, it computes, or it is runnable
 * but gets no CPU, since there are more threads than CPUs. In the last case it continues soon, and
 * watching the sockets for it is useless.
 */
#ifndef ENGINE_POLLER_H
#define ENGINE_POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct poller {
	pid_t tid;	 /* the thread checked last; 0: none */
	uint64_t cpu_ns; /* its CPU time at that check */
};

/** The calling thread's ID, without a system call. */
pid_t poller_self(void);
/** In a forked child: the thread has another ID. */
void poller_forget(void);

/**
 * To be called each span_ns or so, by one thread. tid: of the one that polls; 0: none. polled: it
 * has polled since the last call, so it does not starve, and /proc is not read. @return true: since
 * the last call it got hardly any CPU time, and it is runnable. False also where the system does
 * not report it.
 */
bool poller_starves(struct poller *p, pid_t tid, uint64_t span_ns, bool polled);

#endif
