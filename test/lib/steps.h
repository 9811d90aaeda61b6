/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work of a child process, one instruction at a time: shows each access to shared memory that an
 * instruction makes, where two threads would have to meet by chance.
 */
#ifndef TEST_LIB_STEPS_H
#define TEST_LIB_STEPS_H

#include <stddef.h>

/** Zeroed memory that the child shares with this process. Ends with the process. */
void *steps_memory(size_t len);

/**
 * Run work(arg) in a child process; after each of its instructions, seen(arg) is called here, while
 * the child stands. Fails the test if the child does not end by itself; skips it where this process
 * may not trace a child.
 */
void steps_run(void (*work)(void *arg), void (*seen)(void *arg), void *arg);

#endif
