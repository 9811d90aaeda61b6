/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include <pthread.h>

#include "base/util.h"

sigset_t signals_hold(void)
{
	static const int pass[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE,
				   SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
	sigset_t held, before;

	sigfillset(&held);
	for (unsigned i = 0; i < ARRAY_LEN(pass); i++)
		sigdelset(&held, pass[i]);
	pthread_sigmask(SIG_BLOCK, &held, &before);
	return before;
}

void signals_release(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/** Has the signal a handler, after which system calls are not restarted? */
static bool interrupts(int signal)
{
	struct sigaction a;

	return sigaction(signal, NULL, &a) == 0 && a.sa_handler != SIG_DFL &&
	       a.sa_handler != SIG_IGN && !(a.sa_flags & SA_RESTART);
}

bool signals_interrupt(const sigset_t *before)
{
	sigset_t pending;

	if (sigpending(&pending) || sigisemptyset(&pending))
		return false;
	for (int i = 1; i <= SIGRTMAX; i++)
		if (sigismember(&pending, i) == 1 && sigismember(before, i) == 0 && interrupts(i))
			return true;
	return false;
}
