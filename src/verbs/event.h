/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels and asynchronous events. */
#ifndef VERBS_EVENT_H
#define VERBS_EVENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/evq.h"
#include "engine/spin.h"
#include "verbs/call.h"

struct lane;
struct rocemu_ep;
struct vb_context;

/** One kind of async event of one object. */
struct vb_async {
	struct evq_source src;
	struct ibv_async_event event;
};

struct vb_channel {
	struct ibv_comp_channel base; /* refcnt is guarded by vb_context.lock */
	struct evq events;
	struct spin spin; /* of waits for events */
	_Atomic(struct lane *)
		lane;	   /* that its CQs are on; NULL: none has a QP. Set once, as mixed is */
	atomic_bool mixed; /* CQs are on other lanes, too */
};

static inline struct vb_channel *vb_channel_of(struct ibv_comp_channel *o)
{
	return container_of(o, struct vb_channel, base);
}

/** The only lane that the channel's CQs are on, or NULL. */
static inline struct lane *vb_channel_lane(const struct vb_channel *ch)
{
	return atomic_load(&ch->mixed) ? NULL : atomic_load(&ch->lane);
}

/** A CQ of the channel is on that lane from now on. No lane's lock held; one caller at a time. */
void vb_channel_add_lane(struct vb_channel *ch, struct lane *lane);

/** The lane's on_events: pass the endpoint's events to channels and async fd. Lane's lock held. */
void vb_deliver_events(void *user, struct rocemu_ep *ep);
void vb_async_init(struct vb_async *a, enum ibv_event_type type);
/** Drop the waiting events of n async sources. @return how many of their events were delivered. */
unsigned vb_async_drop(struct vb_context *c, struct vb_async *a, unsigned n);
/**
 * For the destruction of a QP or SRQ: drop its waiting events, and sleep until the program has
 * acknowledged those it got, which *completed counts under the object's mutex.
 */
void vb_async_end(struct vb_context *c, struct vb_async *a, unsigned n, pthread_mutex_t *mutex,
		  pthread_cond_t *cond, const uint32_t *completed);

#endif
