/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals for a thread of the program that works a while instead of sleeping in a system call.
 * Their handlers must not run in between: one that only sets a flag would not end the sleep that
 * follows, and one that leaves by siglongjmp() would leave the locks of that work taken.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/**
 * Hold signals back, except those that an instruction raises, and SIGPROF, which profilers send
 * all the time. @return for signals_release(): the signals that the thread blocks otherwise.
 */
sigset_t signals_hold(void);
/** The handlers of signals that came meanwhile run now. */
void signals_release(const sigset_t *before);
/** Would a signal that is held back end a system call with EINTR? */
bool signals_interrupt(const sigset_t *before);

#endif
