/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library in a program's process. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/**
 * A new thread that runs run(arg). Signals are blocked in it: they are for the program's threads.
 * The size of its stack does not depend on the user's limit (ulimit -s), which may be more than
 * there is memory for. name: at most 15 characters, for debuggers and ps(1). 0 or -errno.
 */
int thread_start(pthread_t *id, const char *name, void *(*run)(void *), void *arg);

#endif
