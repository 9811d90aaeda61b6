/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of an endpoint: an indexed binary heap. Setting, moving and stopping are O(log n) and
 * allocate nothing: room is reserved when a timer's owner is created.
 */
#ifndef TRANSPORT_TIMER_H
#define TRANSPORT_TIMER_H

#include <rocemu/endpoint.h>

/** Whose it is: what it is embedded in. */
enum timer_owner { TIMER_QP, TIMER_QP_NAK, TIMER_CQ, TIMER_CQ_LATE };

struct timer {
	rocemu_ns_t deadline;
	enum timer_owner owner;
	uint32_t pos; /* place in the heap + 1; 0: not running */
};

struct timer_heap {
	struct timer **heap; /* owned array, entries borrowed */
	uint32_t count;
	uint32_t room;	   /* entries allocated */
	uint32_t reserved; /* timers that exist */
};

void timer_heap_init(struct timer_heap *h);
void timer_heap_fini(struct timer_heap *h);
/** A timer more exists: make room. -ENOMEM. */
int timer_reserve(struct timer_heap *h);
/** A timer less exists (it must be stopped). */
void timer_release(struct timer_heap *h);

void timer_set(struct timer_heap *h, struct timer *t, rocemu_ns_t deadline);
void timer_stop(struct timer_heap *h, struct timer *t);
static inline bool timer_running(const struct timer *t)
{
	return t->pos != 0;
}
/** The earliest timer if it is due at now, taken out of the heap; else NULL. */
struct timer *timer_pop_due(struct timer_heap *h, rocemu_ns_t now);
/** Earliest deadline or ROCEMU_NEVER. */
rocemu_ns_t timer_next(const struct timer_heap *h);

#endif
