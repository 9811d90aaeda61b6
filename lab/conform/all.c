/* SPDX-License-Identifier: BSD-2-Clause */
/* The cases of a run, one after the other, until the end, a signal, or the death of the device. */
#include <signal.h>
#include <string.h>

#include "conform/text.h"

static volatile sig_atomic_t stop;

static void stop_now(int signal)
{
	(void)signal;
	stop = 1;
}

/** The first SIGINT or SIGTERM ends the run behind the case at hand, the second one at once. */
static void catch_signals(void)
{
	struct sigaction a = {.sa_handler = stop_now, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

/** A case that differs may have been too much for the device: does QP 1 still answer? */
static bool is_suspicious(enum conform_verdict v)
{
	return v != CONFORM_PASS && v != CONFORM_MEASURED && v != CONFORM_SKIP;
}

bool conform_all(struct conform_session *s, const struct conform_plan *plan,
		 struct conform_report *p, struct conform_text *t)
{
	struct conform_result r;

	catch_signals();
	for (unsigned i = 0; i < plan->n && !p->stopped; i++) {
		conform_text_case(t, p, plan->cases[i]);
		conform_repeat(s, plan->cases[i], plan->repeat, &r);
		conform_known_judge(plan->known, &r);
		if (!conform_report_add(p, &r)) {
			conform_result_free(&r);
			return false;
		}
		conform_text_result(t, p);
		if (stop)
			p->stopped = "interrupted";
		else if (is_suspicious(r.verdict) && !conform_alive(s))
			p->stopped = "QP 1 of the device does not answer any more";
	}
	p->dead = p->stopped && !stop;
	return true;
}
