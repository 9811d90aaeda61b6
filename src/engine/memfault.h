/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults in accesses to registered memory that the program has unmapped meanwhile
 * (transport/guard.h): handlers of SIGSEGV and SIGBUS. Other faults are passed to the previous
 * handler, or end the process as usual.
 */
#ifndef ENGINE_MEMFAULT_H
#define ENGINE_MEMFAULT_H

/**
 * From now on such faults are caught, in any thread. Called for each region: a handler that the
 * program has installed since gets the signals that this one passes on.
 */
void memfault_catch(void);

/**
 * A fault while its signal is blocked kills the process. So a thread that drives a lane unblocks
 * them, once.
 */
void memfault_thread(void);

#endif
