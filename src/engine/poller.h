/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that poll, and the processors that they need.
 *
 * Turns: where there are more pollers than processors, a poller that finds nothing holds the
 * processor of one that has something to do. So each poll in vain leaves its thread's ID in a table
 * by processor, which all processes of a user share. A thread that finds another one's ID there has
 * taken the processor from it: after POLLER_TURN_NS of vain polls it lets the others run. A poller
 * that has its processor alone finds its own ID, and never does. Where the table cannot be shared,
 * the threads of a process share one.
 *
 * Waits: why a thread that polled does not poll now.
 */
#ifndef ENGINE_POLLER_H
#define ENGINE_POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define POLLER_TURN_NS 5000u

/** The calling thread's ID, without a system call. */
pid_t poller_self(void);
/** In a forked child: the thread has another ID. */
void poller_forget(void);

/** Map the user's table, once. dir: a directory that only the user can write. */
void poller_share(int dir);

/** A thread and the processor that it polls on. */
struct poller_place {
	pid_t tid; /* 0: none */
	unsigned cpu;
};

/** The calling thread's. */
struct poller_place poller_here(void);
/** The calling thread polled in vain; me: poller_here(). It may let others run, so it should hold
 * no lock. */
void poller_vain(struct poller_place me, uint64_t now_ns);
/** Do other pollers use the calling thread's processor? */
bool poller_takes_turns(void);
/** Has another poller had the processor since the thread polled in vain? */
bool poller_is_displaced(struct poller_place p);

/** A thread's CPU time at a moment. */
struct poller {
	pid_t tid; /* 0: none */
	uint64_t at_ns, cpu_ns;
};

/** The calling thread polls now. A system call. */
void poller_note(struct poller *p, uint64_t now_ns);
/**
 * Is the thread runnable, but had no processor for three quarters of the time since it was noted,
 * or since the last call? Reads /proc. False also where the system does not report it.
 */
bool poller_waits(struct poller *p, uint64_t now_ns);

#endif
