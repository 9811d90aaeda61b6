/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queue: a ring with one producer (the endpoint, under its lock) and one consumer at a
 * time, which needs no endpoint lock.
 */
#ifndef TRANSPORT_CQ_H
#define TRANSPORT_CQ_H

#include <stdatomic.h>

#include "transport/ep.h"

enum cq_armed { CQ_DISARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

/*
 * An armed CQ raises its event late if the program is probably about to poll: it armed the CQ while
 * completions were in it, or it is polling. What is polled before then raises no event.
 */
#define CQ_LATE_NS 200000u
/* The same, if all completions had an event already: few programs wait for one more. */
#define CQ_LATE_AGAIN_NS 1000000u

struct rocemu_cq {
	struct rocemu_ep *ep;	 /* borrowed */
	struct list link;	 /* in ep->cqs */
	struct rocemu_cqe *ring; /* owned, mask + 1 entries */
	uint32_t mask;
	uint32_t depth; /* completions it may hold */
	_Atomic(enum cq_armed)
		armed; /* rocemu_cq_is_armed() alone reads it without the endpoint's lock */
	uint32_t refs; /* QPs and XRC SRQs; a QP with one CQ for both counts twice */
	uint32_t held; /* completions since it was armed that moderation keeps from its event */
	uint32_t mod_count; /* see rocemu_cq_moderate(); 0, 1: none */
	rocemu_ns_t mod_period;
	struct timer timer;	/* ends mod_period */
	struct timer late;	/* runs out at late_due or before; armed or not */
	rocemu_ns_t late_due;	/* of a late event */
	uint32_t late_tail;	/* tail when it was armed last */
	enum cq_armed was_late; /* how it was armed when the event was raised late; CQ_DISARMED: it
				   was not late */
	uint32_t notified;	/* head when the last event was taken */
	uint32_t solicited;	/* head after the last solicited or failed completion */
	atomic_uint polling;	/* polls that drive the endpoint; see rocemu_cq_polling() */
	struct event_src ev;
	void *user;
	uint64_t full_in; /* by fault injection: full after this many completions from now on; 0:
			     never. See */
	uint64_t full_every, full_left;	    /* rocemu_cq_overrun_at() */
	_Alignas(64) _Atomic uint32_t head; /* producer's, free running */
	atomic_bool overrun;
	_Alignas(64) _Atomic uint32_t tail; /* consumer's, free running */
};

/**
 * Add a completion, raise the event if the CQ is armed. Overrun: it is lost, IBV_EVENT_CQ_ERR is
 * raised once.
 */
void cq_push(struct rocemu_cq *cq, const struct rocemu_cqe *cqe);
/** The CQ was armed and its event is due now: raise it, disarm. */
void cq_notify(struct rocemu_cq *cq);
/** The timer `late` ran out. */
void cq_late_expire(struct rocemu_cq *cq, rocemu_ns_t now);
/** Remove all completions of a QP. Needs the consumer's lock too. */
void cq_purge(struct rocemu_cq *cq, uint32_t qpn);

#endif
