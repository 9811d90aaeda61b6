/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why does the thread that polls not poll now? It has gone to sleep, it computes, or it would go on
 * but does not get a processor, since there are more threads than processors. In the last case it
 * is back soon, and there is no use in watching the sockets for it.
 */
#ifndef ENGINE_POLLER_H
#define ENGINE_POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct poller {
	pid_t tid;	 /* who was looked at last; 0: nobody */
	uint64_t cpu_ns; /* processor time it had had then */
};

/** The calling thread's ID, without a system call. */
pid_t poller_self(void);

/**
 * To be called each span_ns or so, by one thread. tid: of the one that polls; 0: none. polled: it
 * has polled since the last call, so it does not starve, and /proc is not read. @return true: since
 * the last call it had hardly any processor time, and it is ready to run. False also where the
 * system does not say.
 */
bool poller_starves(struct poller *p, pid_t tid, uint64_t span_ns, bool polled);

#endif
