/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/timer.h"

static struct list pending = {&pending, &pending};
static struct rcm_timer *expiring; /* NULL when it was stopped meanwhile */

void rcm_timer_set(struct rcm_timer *t, rocemu_ns_t due, void (*expire)(struct rcm_timer *t))
{
	struct list *before = &pending;

	list_remove(&t->node);
	while (before->prev != &pending &&
	       list_entry(before->prev, struct rcm_timer, node)->due > due)
		before = before->prev;
	t->due = due;
	t->expire = expire;
	list_append(before, &t->node);
}

void rcm_timer_stop(struct rcm_timer *t)
{
	list_remove(&t->node);
	if (expiring == t)
		expiring = NULL;
}

bool rcm_timer_expiring(const struct rcm_timer *t)
{
	return expiring == t;
}

rocemu_ns_t rcm_timers_deadline(void)
{
	struct list *n = list_first(&pending);

	return n ? list_entry(n, struct rcm_timer, node)->due : ROCEMU_NEVER;
}

void rcm_timers_expire(rocemu_ns_t now)
{
	while (rcm_timers_deadline() <= now) {
		struct rcm_timer *t = list_entry(pending.next, struct rcm_timer, node);

		list_remove(&t->node);
		expiring = t;
		t->expire(t);
	}
	expiring = NULL;
}

void rcm_timers_forget(void)
{
	struct list *n;

	while ((n = list_first(&pending)) != NULL)
		list_remove(n);
	expiring = NULL;
}
