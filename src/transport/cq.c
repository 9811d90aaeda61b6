/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "transport/show.h"
#include "transport/why.h"

/** Smallest power of two that is at least n. */
static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/** Room for its timers. */
static int cq_timers_reserve(struct timer_heap *h)
{
	if (timer_reserve(h))
		return -ENOMEM;
	if (!timer_reserve(h))
		return 0;
	timer_release(h);
	return -ENOMEM;
}

int rocemu_cq_create(struct rocemu_ep *ep, unsigned depth, void *user, struct rocemu_cq **out)
{
	struct rocemu_cq *cq;

	if (!depth || depth > ROCEMU_MAX_CQE)
		return -EINVAL;
	cq = aligned_alloc(64, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	*cq = (struct rocemu_cq){.ep = ep, .user = user};
	cq->depth = pow2_at_least(depth);
	cq->mask = cq->depth - 1;
	cq->ring = calloc(cq->depth, sizeof(*cq->ring));
	if (!cq->ring || cq_timers_reserve(&ep->timers)) {
		free(cq->ring);
		free(cq);
		return -ENOMEM;
	}
	cq->timer.owner = TIMER_CQ;
	cq->late.owner = TIMER_CQ_LATE;
	event_src_init(&cq->ev, ROCEMU_EVENT_CQ);
	list_append(&ep->cqs, &cq->link);
	show_object(ep, ROCEMU_OBJECT_CQ, 1);
	*out = cq;
	return 0;
}

int rocemu_cq_destroy(struct rocemu_cq *cq)
{
	if (cq->refs)
		return -EBUSY;
	event_src_fini(&cq->ev);
	timer_stop(&cq->ep->timers, &cq->timer);
	timer_stop(&cq->ep->timers, &cq->late);
	timer_release(&cq->ep->timers);
	timer_release(&cq->ep->timers);
	show_object(cq->ep, ROCEMU_OBJECT_CQ, -1);
	list_remove(&cq->link);
	free(cq->ring);
	free(cq);
	return 0;
}

int rocemu_cq_move(struct rocemu_cq *cq, struct rocemu_ep *ep)
{
	if (cq->refs || timer_running(&cq->timer) || timer_running(&cq->late))
		return -EBUSY;
	if (cq_timers_reserve(&ep->timers))
		return -ENOMEM;
	timer_release(&cq->ep->timers);
	timer_release(&cq->ep->timers);
	list_remove(&cq->link);
	show_object(cq->ep, ROCEMU_OBJECT_CQ, -1);
	cq->ep = ep;
	list_append(&ep->cqs, &cq->link);
	show_object(ep, ROCEMU_OBJECT_CQ, 1);
	event_src_move(ep, &cq->ev);
	return 0;
}

int rocemu_cq_resize(struct rocemu_cq *cq, unsigned depth)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct rocemu_cqe *ring;
	uint32_t size;

	if (!depth || depth > ROCEMU_MAX_CQE || depth < head - tail)
		return -EINVAL;
	size = pow2_at_least(depth);
	ring = calloc(size, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	for (uint32_t i = tail; i != head; i++)
		ring[i & (size - 1)] = cq->ring[i & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = size - 1;
	cq->depth = size;
	return 0;
}

unsigned rocemu_cq_depth(const struct rocemu_cq *cq)
{
	return cq->depth;
}

void *rocemu_cq_user(const struct rocemu_cq *cq)
{
	return cq->user;
}

static enum cq_armed cq_armed(const struct rocemu_cq *cq)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed);
}

static void cq_set_armed(struct rocemu_cq *cq, enum cq_armed armed)
{
	atomic_store_explicit(&cq->armed, armed, memory_order_relaxed);
}

void cq_notify(struct rocemu_cq *cq)
{
	cq_set_armed(cq, CQ_DISARMED);
	cq->was_late = CQ_DISARMED;
	cq->held = 0;
	timer_stop(&cq->ep->timers, &cq->timer);
	event_raise(cq->ep, &cq->ev, CQ_PEND_COMP);
}

/** IBTA 11.4.2.2: an error also meets a request for solicited completions. */
static bool cqe_is_solicited(const struct rocemu_cqe *cqe)
{
	return cqe->solicited || cqe->status != IBV_WC_SUCCESS;
}

/** Is the completion what the CQ was armed for? */
static bool cq_is_awaited(const struct rocemu_cq *cq, const struct rocemu_cqe *cqe)
{
	const enum cq_armed armed = cq_armed(cq);

	return armed == CQ_ARMED_ANY || (armed == CQ_ARMED_SOLICITED && cqe_is_solicited(cqe));
}

/** Does the CQ hold completions that it was armed for? */
static bool cq_has_awaited(const struct rocemu_cq *cq)
{
	const uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	const uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_acquire);

	switch (cq_armed(cq)) {
	case CQ_ARMED_ANY:
		return head != tail;
	case CQ_ARMED_SOLICITED:
		return cq->solicited - tail - 1 < head - tail;
	case CQ_DISARMED:
	default:
		return false;
	}
}

/* The timer is moved lazily: it may run out before due. */
static void cq_notify_at(struct rocemu_cq *cq, rocemu_ns_t due)
{
	cq->late_due = due;
	if (!timer_running(&cq->late) || due < cq->late.deadline)
		timer_set(&cq->ep->timers, &cq->late, due);
}

void cq_late_expire(struct rocemu_cq *cq, rocemu_ns_t now)
{
	const enum cq_armed armed = cq_armed(cq);

	if (!cq_has_awaited(cq))
		return;
	if (now < cq->late_due) {
		timer_set(&cq->ep->timers, &cq->late, cq->late_due);
	} else {
		cq_notify(cq);
		cq->was_late = armed;
	}
}

/** A completion that the CQ was armed for came at now: raise the event at once or late. awaited:
 * others were there. */
static void cq_came(struct rocemu_cq *cq, rocemu_ns_t now, bool awaited)
{
	const bool late = awaited && timer_running(&cq->late);

	if (late)
		cq_notify_at(cq, MIN(cq->late_due, now + CQ_LATE_NS));
	else if (atomic_load_explicit(&cq->polling, memory_order_relaxed))
		cq_notify_at(cq, now + CQ_LATE_NS);
	else
		cq_notify(cq);
}

/** May the event wait for more completions? */
static bool cq_holds(struct rocemu_cq *cq, const struct rocemu_cqe *cqe)
{
	if (cqe->status != IBV_WC_SUCCESS || cq_armed(cq) == CQ_ARMED_SOLICITED ||
	    ++cq->held >= cq->mod_count)
		return false;
	if (cq->mod_period && !timer_running(&cq->timer))
		timer_set(&cq->ep->timers, &cq->timer, cqe->timestamp + cq->mod_period);
	return true;
}

void rocemu_cq_overrun_at(struct rocemu_cq *cq, uint64_t nth, uint64_t every, uint64_t times)
{
	cq->full_in = times ? nth : 0;
	cq->full_every = every;
	cq->full_left = times;
}

/** One more completion: does fault injection make the CQ full? */
static bool cq_is_full_on_purpose(struct rocemu_cq *cq)
{
	if (likely(!cq->full_in) || --cq->full_in)
		return false;
	cq->full_in = --cq->full_left ? cq->full_every : 0;
	return true;
}

HOT void cq_push(struct rocemu_cq *cq, const struct rocemu_cqe *cqe)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	const bool armed = cq_armed(cq) != CQ_DISARMED;
	bool awaited;

	if (cq_is_full_on_purpose(cq) ||
	    head - atomic_load_explicit(&cq->tail, memory_order_acquire) == cq->depth) {
		if (!atomic_exchange_explicit(&cq->overrun, true, memory_order_relaxed)) {
			why_give(cq->ep, &(struct rocemu_why){.code = ROCEMU_WHY_CQ_OVERRUN,
							      .limit = cq->depth});
			event_raise(cq->ep, &cq->ev, CQ_PEND_ERR);
		}
		return;
	}
	cq->ring[head & cq->mask] = *cqe;
	awaited = unlikely(armed) && cq_has_awaited(cq);
	if (unlikely(cqe_is_solicited(cqe)))
		cq->solicited = head + 1;
	atomic_store_explicit(&cq->head, head + 1, memory_order_release);

	if (unlikely(armed) && cq_is_awaited(cq, cqe) && !cq_holds(cq, cqe))
		cq_came(cq, cqe->timestamp, awaited);
}

void rocemu_cq_moderate(struct rocemu_cq *cq, unsigned count, rocemu_ns_t period)
{
	const bool waits = cq->held > 0;

	cq->mod_count = count;
	cq->mod_period = period;
	/* An event that waits by the old rule could wait forever by the new one. */
	if (waits)
		cq_notify(cq);
}

unsigned rocemu_cq_poll(struct rocemu_cq *cq, struct rocemu_cqe *out, unsigned n)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	uint32_t have = atomic_load_explicit(&cq->head, memory_order_acquire) - tail;

	if (n > have)
		n = have;
	for (unsigned i = 0; i < n; i++)
		out[i] = cq->ring[(tail + i) & cq->mask];
	if (n)
		atomic_store_explicit(&cq->tail, tail + n, memory_order_release);
	return n;
}

unsigned rocemu_cq_count(const struct rocemu_cq *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	return atomic_load_explicit(&cq->head, memory_order_acquire) - tail;
}

bool rocemu_cq_holds_success(const struct rocemu_cq *cq, uint32_t qpn)
{
	const uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	for (uint32_t i = atomic_load_explicit(&cq->tail, memory_order_acquire); i != head; i++) {
		const struct rocemu_cqe *cqe = &cq->ring[i & cq->mask];

		if (cqe->qpn == qpn && cqe->status == IBV_WC_SUCCESS)
			return true;
	}
	return false;
}

bool rocemu_cq_overrun(const struct rocemu_cq *cq)
{
	return atomic_load_explicit(&cq->overrun, memory_order_relaxed);
}

/** Is a late event to come, and was nothing polled since its time was set? */
static bool cq_waits_for_late(const struct rocemu_cq *cq)
{
	return timer_running(&cq->late) && cq_has_awaited(cq) &&
	       atomic_load_explicit(&cq->tail, memory_order_relaxed) == cq->late_tail;
}

bool rocemu_cq_arm(struct rocemu_cq *cq, rocemu_ns_t now, bool solicited_only)
{
	const bool again = cq_waits_for_late(cq);
	rocemu_ns_t due;
	uint32_t last;

	cq->late_tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	/* A weaker request than the present one changes nothing (IBTA 11.4.2.2). */
	if (!solicited_only)
		cq_set_armed(cq, CQ_ARMED_ANY);
	else if (cq_armed(cq) == CQ_DISARMED)
		cq_set_armed(cq, CQ_ARMED_SOLICITED);
	if (!cq_has_awaited(cq))
		return false;
	last = cq_armed(cq) == CQ_ARMED_ANY ? atomic_load_explicit(&cq->head, memory_order_relaxed)
					    : cq->solicited;
	due = now + ((int32_t)(last - cq->notified) > 0 ? CQ_LATE_NS : CQ_LATE_AGAIN_NS);
	/* A program may arm it in each turn of a loop, and poll only after the event. */
	cq_notify_at(cq, again ? MIN(due, cq->late_due) : due);
	return again;
}

bool rocemu_cq_is_armed(const struct rocemu_cq *cq)
{
	return cq_armed(cq) != CQ_DISARMED;
}

void rocemu_cq_polling(struct rocemu_cq *cq, bool polling)
{
	if (polling)
		atomic_fetch_add_explicit(&cq->polling, 1, memory_order_relaxed);
	else
		atomic_fetch_sub_explicit(&cq->polling, 1, memory_order_relaxed);
}

void cq_purge(struct rocemu_cq *cq, uint32_t qpn)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	uint32_t to = tail;

	for (uint32_t i = tail; i != head; i++)
		if (cq->ring[i & cq->mask].qpn != qpn) {
			cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
			if (cqe_is_solicited(&cq->ring[i & cq->mask]))
				cq->solicited = to;
		}
	atomic_store_explicit(&cq->head, to, memory_order_release);
}
