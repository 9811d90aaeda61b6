/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/util.h"

/* The threads need less than 64 KiB, and the program's thread-local data, which is in the stack. */
enum { STACK = 512 * 1024, STACK_MAX = 1 << 30 };

int thread_start(pthread_t *id, const char *name, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int err = EINVAL;

	pthread_attr_init(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t size = STACK; size <= STACK_MAX && err == EINVAL; size *= 2) {
		pthread_attr_setstacksize(&attr, size);
		err = pthread_create(id, &attr, run, arg);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		pthread_setname_np(*id, name);
	return -err;
}
