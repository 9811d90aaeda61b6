/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing without signals. The kernel sends SIGXFSZ to a thread that makes a file larger than its
 * limit (RLIMIT_FSIZE, ulimit -f), and SIGPIPE to one that writes to a pipe without a reader. Both
 * end the process by default. Captures, logs and counters are the library's own output: that they
 * cannot be written must not end the program. Here such a write is an error only (EFBIG, EPIPE);
 * the program's actions and its pending signals stay as they are.
 *
 * All functions are safe in signal handlers, allocate nothing, and are no cancellation points.
 */
#ifndef BASE_SIGWRITE_H
#define BASE_SIGWRITE_H

#include <signal.h>
#include <sys/types.h>

struct sigwrite {
	sigset_t mask;	  /* of the thread, before */
	sigset_t pending; /* before: not ours */
};

/** This thread does not get the two signals before sigwrite_end(). */
void sigwrite_begin(struct sigwrite *s);
/** Those that came meanwhile are dropped. Keeps errno. */
void sigwrite_end(const struct sigwrite *s);

/** As write(2). */
ssize_t sigwrite(int fd, const void *data, size_t len);
/** As ftruncate(2), for sizes of all systems' off_t. */
int sigwrite_resize(int fd, size_t size);

#endif
