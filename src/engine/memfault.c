/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/memfault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

#include <rocemu/endpoint.h>

#include "base/util.h"

enum {
	NSIGNALS = 2,
	ACTIONS_MAX = 8,
	/*
	 * Stored in si_errno, which is 0 with these signals: the signal was passed on, to the
	 * action with that index. A variable would stay set when the called handler leaves by
	 * siglongjmp().
	 */
	PASSED_ON = 0x726f6300,
};
static const int signals[NSIGNALS] = {SIGSEGV, SIGBUS};

/* The replaced actions. An entry is never changed, so the handler needs no lock. */
static struct {
	struct sigaction action[ACTIONS_MAX];
	unsigned older[ACTIONS_MAX]; /* the newest one when it was installed: of a lower index */
	unsigned n;
	atomic_uint newest;
} before[NSIGNALS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned index_of(int sig)
{
	return sig == signals[0] ? 0 : 1;
}

/** Let the process end as without this handler: by the same access, or by the same signal. */
static void act_default(int sig, const siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(sig, &action, NULL);
	if (info->si_code <= 0) /* of kill() and its like, not of an access */
		raise(sig);
}

/*
 * Pass the signal to the newest handler. A handler installed later may call its predecessor, which
 * is this one: such a call goes to the one before, otherwise the two would call each other
 * endlessly.
 */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	const unsigned s = index_of(sig);
	const bool again = (info->si_errno & ~(ACTIONS_MAX - 1)) == PASSED_ON;
	const unsigned caller = (unsigned)info->si_errno % ACTIONS_MAX;
	const unsigned i = again ? before[s].older[caller] : atomic_load(&before[s].newest);
	const struct sigaction *a = &before[s].action[i];
	sigset_t mask = a->sa_mask;

	if (again && !caller) {
		act_default(sig, info);
		return;
	}
	if (!(a->sa_flags & SA_SIGINFO) && a->sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!(a->sa_flags & SA_SIGINFO) && (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN)) {
		act_default(sig, info);
		return;
	}
	/* Call it as the kernel would; the previous mask is restored when this handler returns. */
	if (!(a->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	info->si_errno = PASSED_ON | (int)i;
	if (a->sa_flags & SA_SIGINFO)
		a->sa_sigaction(sig, info, context);
	else
		a->sa_handler(sig);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;
	sigset_t now;

	if (info->si_code > 0) {
		/* A jump leaves the mask as it is; under ThreadSanitizer all is blocked here. */
		pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, &now);
		rocemu_memory_fault(info->si_addr); /* does not return if the fault was there */
		pthread_sigmask(SIG_SETMASK, &now, NULL);
	}
	pass_on(sig, info, context);
}

/** But for the mask. */
static bool same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_flags == b->sa_flags && a->sa_handler == b->sa_handler;
}

static void catch_signal(unsigned s)
{
	/*
	 * SA_ONSTACK: programs that look at their stack's end, and Go, demand it. SA_NODEFER: this
	 * handler is left by a jump.
	 */
	struct sigaction old, ours = {
				      .sa_sigaction = on_fault,
				      .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART,
			      };
	unsigned i = 0;

	if (sigaction(signals[s], NULL, &old) < 0 ||
	    ((old.sa_flags & SA_SIGINFO) && old.sa_sigaction == on_fault))
		return;
	while (i < before[s].n && !same(&before[s].action[i], &old))
		i++;
	if (i == ACTIONS_MAX)
		return;
	if (i == before[s].n) {
		before[s].action[i] = old;
		before[s].older[i] = atomic_load(&before[s].newest);
		before[s].n++;
	}
	atomic_store(&before[s].newest, i);
	sigemptyset(&ours.sa_mask);
	sigaction(signals[s], &ours, NULL);
}

void memfault_catch(void)
{
	/* Not waited for: after a fork its holder may be in the other process only. */
	if (pthread_mutex_trylock(&lock))
		return;
	for (unsigned s = 0; s < NSIGNALS; s++)
		catch_signal(s);
	pthread_mutex_unlock(&lock);
}

void memfault_thread(void)
{
	static _Thread_local bool done __attribute__((tls_model("initial-exec")));
	sigset_t set;

	if (likely(done))
		return;
	done = true;
	sigemptyset(&set);
	for (unsigned s = 0; s < NSIGNALS; s++)
		sigaddset(&set, signals[s]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
