/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels, events from post to acknowledgement, synchronous IDs that wait for one. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include "base/evq.h"
#include "rdmacm/api.h"
#include "rdmacm/lock.h"

enum {
	RCM_PRIVATE_MAX = 224, /* longest private data of any message */
	/*
	 * Number of events for which each ID has memory of its own: address and route, connection
	 * setup, a late rejection, the end, time wait, removal.
	 */
	RCM_OWN_EVENTS = 7,
};

struct rcm_id;
struct rcm_group;

struct rcm_channel {
	struct rdma_event_channel base; /* first; fd is q's */
	struct evq q;
	struct list node; /* in the list of channel.c */
	bool used;	  /* there were events, or an ID that may have some */
	bool orphan; /* a forked child's copy of one that was used: its events are the parent's */
};

struct rcm_event {
	struct rdma_cm_event base; /* first */
	struct evq_source src;
	struct list node;     /* in owner->events, from post to ack */
	struct rcm_id *owner; /* the listener for CONNECT_REQUEST, else base.id */
	/*
	 * Called when the program takes the event, before the call returns, without the lock; or
	 * NULL. The owner exists meanwhile, since the event is not acknowledged.
	 */
	void (*on_take)(struct rcm_event *ev);
	struct rcm_group *group; /* of a multicast event */
	bool own;		 /* in its owner's memory, not the heap's */
	bool used;		 /* own: from creation to acknowledgement */
	uint8_t private_data[RCM_PRIVATE_MAX];
};

static inline struct rcm_channel *rcm_channel_of(struct rdma_event_channel *ch)
{
	return container_of(ch, struct rcm_channel, base);
}

/** NULL with errno. */
struct rcm_channel *rcm_channel_new(void);
/** The channel is about to have events of an ID of this process. */
void rcm_channel_use(struct rcm_channel *ch) REQUIRES(rcm_lock);
/** A call on an object from before fork(). The first prints a message. @return -err. */
int rcm_orphan_refuse(int err);

/** Make an event that the program can do without. NULL: out of memory. */
struct rcm_event *rcm_event_new(struct rcm_id *id, enum rdma_cm_event_type type, int status);
/**
 * Make one that the program waits for: in the ID's own memory, and in other only when more than
 * RCM_OWN_EVENTS are not acknowledged. NULL (logged): out of memory.
 */
struct rcm_event *rcm_event_own(struct rcm_id *id, enum rdma_cm_event_type type, int status)
	REQUIRES(rcm_lock);
/** Free one that is in no list. */
void rcm_event_free(struct rcm_event *ev);
/** Copy private data and point the event's to it; ud: into param.ud. */
void rcm_event_private(struct rcm_event *ev, bool ud, const void *data, size_t len);
/** Put it on its owner's channel. */
void rcm_event_post(struct rcm_event *ev) REQUIRES(rcm_lock);
/** rcm_event_own() and post, without further data. on_take: may be NULL. */
void rcm_event_report(struct rcm_id *id, enum rdma_cm_event_type type, int status,
		      void (*on_take)(struct rcm_event *ev)) REQUIRES(rcm_lock);

/** Move the ID's events that the program has not taken to a list. */
void rcm_events_withdraw(struct rcm_id *id, struct list *taken) REQUIRES(rcm_lock);
/** Wait until those that it has taken are acknowledged. */
void rcm_events_wait(struct rcm_id *id) REQUIRES(rcm_lock);
/**
 * Drop a multicast group's waiting events; wait until those that the program has are acknowledged.
 */
void rcm_events_drop_group(struct rcm_id *id, const struct rcm_group *group) REQUIRES(rcm_lock);
/**
 * Move waiting events to another channel; first wait until those that the program has are
 * acknowledged.
 */
void rcm_events_move(struct rcm_id *id, struct rcm_channel *to) REQUIRES(rcm_lock);

/** A synchronous ID waits for the outcome of a call: base.event. -1 with errno. */
int rcm_sync_wait(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Acknowledge base.event of a synchronous ID, if there is one. */
void rcm_sync_ack(struct rcm_id *id) EXCLUDES(rcm_lock);

#endif
