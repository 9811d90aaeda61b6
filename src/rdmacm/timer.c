/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/timer.h"

#include "rdmacm/globals.h"

static struct rcm_timers *const timers = &rcm_globals.timers;

void rcm_timer_set(struct rcm_timer *t, rocemu_ns_t due, void (*expire)(struct rcm_timer *t))
{
	struct list *before = &timers->pending;

	list_remove(&t->node);
	while (before->prev != &timers->pending &&
	       list_entry(before->prev, struct rcm_timer, node)->due > due)
		before = before->prev;
	t->due = due;
	t->expire = expire;
	list_append(before, &t->node);
}

void rcm_timer_stop(struct rcm_timer *t)
{
	list_remove(&t->node);
	if (timers->expiring == t)
		timers->expiring = NULL;
}

bool rcm_timer_expiring(const struct rcm_timer *t)
{
	return timers->expiring == t;
}

rocemu_ns_t rcm_timers_deadline(void)
{
	struct list *n = list_first(&timers->pending);

	return n ? list_entry(n, struct rcm_timer, node)->due : ROCEMU_NEVER;
}

void rcm_timers_expire(rocemu_ns_t now)
{
	while (rcm_timers_deadline() <= now) {
		struct rcm_timer *t = list_entry(timers->pending.next, struct rcm_timer, node);

		list_remove(&t->node);
		timers->expiring = t;
		t->expire(t);
	}
	timers->expiring = NULL;
}
