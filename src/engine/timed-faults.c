/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/timed-faults.h"

#include <stdatomic.h>

#include "base/log.h"
#include "fault/impair.h"
#include "fault/report.h"
#include "fault/setting.h"
#include "netdev/netmon.h"

/* Of netmon's thread, or of its start and stop. */
static struct impair impair;
static struct impair_link state;
/*
 * The state for readers. Each change is followed by NETMON_TIMER, so a reader between two of these
 * reads again.
 */
static atomic_bool down, fatal;
static _Atomic uint64_t gids;

/* Failed devices stay failed, whatever the rules by time are. */
static void publish(void)
{
	atomic_store(&down, state.down);
	atomic_store(&gids, state.gids);
	if (state.fatal)
		atomic_store(&fatal, true);
}

/* Report rules by time that have begun in log and summary, and those that have ended in the log.
 */
static void report(uint64_t before)
{
	const uint64_t begun = state.rules & ~before, ended = before & ~state.rules;

	for (unsigned i = 0; i < impair.verbs.n; i++) {
		const struct fault_verb_rule *rule = &impair.verbs.rule[i];

		if (ended & UINT64_C(1) << i)
			fault_log_line("time \"%s\" ends", rule->text);
		if (!(begun & UINT64_C(1) << i))
			continue;
		fault_log_line("time \"%s\" begins", rule->text);
		fault_total_add(fault_total_get(rule->text, "times"), true);
	}
}

/* The first lane has refused an invalid text. */
static uint64_t start(uint64_t now)
{
	char text[256];

	if (setting_get(&impair, NULL, text, sizeof(text)) < 0)
		log_debug("%s", text);
	impair_link_start(&state, &impair, now);
	report(0);
	publish();
	return state.next_ns;
}

static bool expire(uint64_t now, uint64_t *due)
{
	const uint64_t before = state.rules;
	const bool changed = impair_link_step(&state, &impair, now);

	*due = state.next_ns;
	if (!changed)
		return false;
	report(before);
	log_info("impairment: ports %s%s%s", state.down ? "down" : "up",
		 state.gids ? ", addresses removed" : "", state.fatal ? ", devices failed" : "");
	publish();
	return true;
}

static void stop(void)
{
	atomic_store(&down, false);
	atomic_store(&fatal, false);
	atomic_store(&gids, 0);
}

void timed_faults_enable(void)
{
	static const struct netmon_timer timer = {.start = start, .expire = expire, .stop = stop};

	netmon_set_timer(&timer);
}

struct timed_faults timed_faults_now(void)
{
	return (struct timed_faults){
		.down = atomic_load(&down),
		.fatal = atomic_load(&fatal),
		.gids = atomic_load(&gids),
	};
}

static void set_fatal(void)
{
	atomic_store(&fatal, true);
}

void timed_faults_fail_devices(void)
{
	netmon_wake(set_fatal);
}
