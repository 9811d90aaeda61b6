/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults in accesses to registered memory that the program has unmapped meanwhile
 * (transport/guard.h): handlers of SIGSEGV and SIGBUS. What is none of ours goes on to the handler
 * that was there before, or ends the process as it would have.
 */
#ifndef ENGINE_MEMFAULT_H
#define ENGINE_MEMFAULT_H

/**
 * From now on such faults are caught, in whatever thread. Called for each region: a program that
 * has put a handler of its own there since gets what ours passes on.
 */
void memfault_catch(void);

/** A fault while its signal is blocked is the process's end. So a thread that drives a lane
 * unblocks them, once. */
void memfault_thread(void);

#endif
