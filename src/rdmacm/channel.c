/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: events from post to acknowledgement, waiting threads, and synchronous IDs, which
 * wait for the event that a call causes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "base/log.h"
#include "base/mutex.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/private.h"
#include "rdmacm/why.h"

/* All channels of the process but orphans. A leaf. */
static pthread_mutex_t channels_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list channels = {&channels, &channels};
static atomic_bool refused;

/* ---- fork ---- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&channels_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&channels_lock);
}

/* A channel that was made beforehand for the child to use is the child's own. */
static void fork_child(void)
{
	refused = false;
	list_for_each_safe (n, tmp, &channels) {
		struct rcm_channel *ch = list_entry(n, struct rcm_channel, node);

		ch->orphan = ch->used || !evq_renew(&ch->q);
		if (ch->orphan)
			list_remove(n);
	}
	pthread_mutex_unlock(&channels_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_parent, fork_child};

	forks_add(FORK_CHANNELS, &handlers);
}

static void enlist(struct rcm_channel *ch)
{
	pthread_mutex_lock(&channels_lock);
	list_append(&channels, &ch->node);
	pthread_mutex_unlock(&channels_lock);
}

void rcm_channel_use(struct rcm_channel *ch)
{
	ch->used = true;
	if (ch->orphan && evq_renew(&ch->q)) {
		ch->orphan = false;
		enlist(ch);
	}
}

int rcm_orphan_refuse(int err)
{
	if (!atomic_exchange(&refused, true))
		log_error("process %d (%s) uses an rdma_cm ID or channel from before fork() or "
			  "daemon(): these calls fail; bind, listen and connect after it",
			  (int)getpid(), program_invocation_short_name);
	return -err;
}

/* ---- life ---- */

struct rcm_channel *rcm_channel_new(void)
{
	struct rcm_channel *ch = calloc(1, sizeof(*ch));
	int err = ch ? evq_init(&ch->q) : -ENOMEM;

	if (err) {
		free(ch);
		errno = -err;
		return NULL;
	}
	ch->base.fd = ch->q.fd;
	list_init(&ch->node);
	enlist(ch);
	return ch;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	const int ret = rcm_ret(rcm_fault(FAULT_VERB_RDMA_CREATE_CHANNEL));
	struct rcm_channel *ch = ret ? NULL : rcm_channel_new();

	return ch ? &ch->base : NULL;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channels_lock);
	list_remove(&rcm_channel_of(channel)->node);
	pthread_mutex_unlock(&channels_lock);
	evq_fini(&rcm_channel_of(channel)->q);
	free(rcm_channel_of(channel));
}

static void event_init(struct rcm_event *ev, struct rcm_id *id, enum rdma_cm_event_type type,
		       int status, bool own)
{
	*ev = (struct rcm_event){
		.base = {.id = &id->base, .event = type, .status = status},
		.owner = id,
		.own = own,
		.used = true,
	};
	evq_source_init(&ev->src);
	list_init(&ev->node);
}

struct rcm_event *rcm_event_new(struct rcm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rcm_event *ev = calloc(1, sizeof(*ev));

	if (ev)
		event_init(ev, id, type, status, false);
	return ev;
}

struct rcm_event *rcm_event_own(struct rcm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rcm_event *ev;

	/*
	 * As with the kernel: the context is still the listener's, which programs would take for a
	 * connection's. Accepting fails.
	 */
	if (id->unaccepted)
		return NULL;
	for (unsigned i = 0; i < RCM_OWN_EVENTS; i++) {
		if (id->own_events[i].used)
			continue;
		event_init(&id->own_events[i], id, type, status, true);
		return &id->own_events[i];
	}
	ev = rcm_event_new(id, type, status);
	if (!ev)
		log_error("out of memory: event %s of a connection is lost", rdma_event_str(type));
	return ev;
}

void rcm_event_free(struct rcm_event *ev)
{
	if (ev->own)
		ev->used = false;
	else
		free(ev);
}

void rcm_event_private(struct rcm_event *ev, bool ud, const void *data, size_t len)
{
	memcpy(ev->private_data, data, MIN(len, sizeof(ev->private_data)));
	if (ud) {
		ev->base.param.ud.private_data = ev->private_data;
		ev->base.param.ud.private_data_len = (uint8_t)len;
	} else {
		ev->base.param.conn.private_data = ev->private_data;
		ev->base.param.conn.private_data_len = (uint8_t)len;
	}
}

static struct evq *queue_of(const struct rcm_id *id)
{
	return &rcm_channel_of(id->base.channel)->q;
}

void rcm_event_post(struct rcm_event *ev)
{
	struct rcm_channel *ch = rcm_channel_of(ev->owner->base.channel);

	if (ch->orphan) {
		rcm_event_free(ev);
		return;
	}
	ch->used = true;
	if (ev->owner->before_event)
		ev->owner->before_event(ev->owner);
	list_append(&ev->owner->events, &ev->node);
	evq_post(&ch->q, &ev->src, false);
}

void rcm_event_report(struct rcm_id *id, enum rdma_cm_event_type type, int status,
		      void (*on_take)(struct rcm_event *ev))
{
	struct rcm_event *ev = rcm_event_own(id, type, status);

	rcm_why_event(id, type, status);
	if (!ev)
		return;
	ev->on_take = on_take;
	rcm_event_post(ev);
}

void rcm_events_withdraw(struct rcm_id *id, struct list *taken)
{
	list_for_each_safe (n, tmp, &id->events) {
		struct rcm_event *ev = list_entry(n, struct rcm_event, node);

		if (evq_drop(queue_of(id), &ev->src) > 0)
			continue;
		list_remove(n);
		list_append(taken, n);
	}
}

void rcm_events_wait(struct rcm_id *id)
{
	while (!list_empty(&id->events))
		rcm_lock_wait();
}

static struct rcm_event *find_of_group(struct rcm_id *id, const struct rcm_group *group)
	REQUIRES(rcm_lock)
{
	list_for_each (n, &id->events) {
		struct rcm_event *ev = list_entry(n, struct rcm_event, node);

		if (ev->group == group)
			return ev;
	}
	return NULL;
}

void rcm_events_drop_group(struct rcm_id *id, const struct rcm_group *group)
{
	struct rcm_event *ev;

	while ((ev = find_of_group(id, group)) != NULL) {
		if (!rcm_channel_of(id->base.channel)->orphan &&
		    evq_drop(queue_of(id), &ev->src) > 0) {
			rcm_lock_wait();
			continue;
		}
		list_remove(&ev->node);
		rcm_event_free(ev);
	}
}

void rcm_events_move(struct rcm_id *id, struct rcm_channel *to)
{
	struct list taken = {&taken, &taken};

	rcm_events_withdraw(id, &taken);
	while (!list_empty(&id->events)) {
		rcm_lock_wait();
		rcm_events_withdraw(id, &taken);
	}
	id->base.channel = &to->base;
	list_for_each_safe (n, tmp, &taken) {
		struct rcm_event *ev = list_entry(n, struct rcm_event, node);

		list_remove(n);
		evq_source_init(&ev->src);
		/* A request that the program has not seen moves with all its events. */
		if (ev->base.id != &id->base)
			rcm_events_move(rcm_id_of(ev->base.id), to);
		rcm_event_post(ev);
	}
}

/* A thread that is cancelled here would take the event with it. */
static void take(struct rcm_event *ev)
{
	UNCANCELLED;

	if (ev->on_take)
		ev->on_take(ev);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct evq_source *src;
	struct rcm_event *ev;

	if (!channel || !event)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_get_cm_event: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if (rcm_channel_of(channel)->orphan)
		return rcm_ret(rcm_orphan_refuse(ENODEV));
	src = evq_get(&rcm_channel_of(channel)->q);
	if (!src)
		return -1;
	ev = container_of(src, struct rcm_event, src);
	take(ev);
	*event = &ev->base;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rcm_event *ev = (struct rcm_event *)(void *)event; /* base is first */

	if (!event)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_ack_cm_event: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	rcm_lock_take();
	list_remove(&ev->node);
	rcm_event_free(ev);
	rcm_lock_wake_all();
	rcm_lock_drop();
	return 0;
}

int rdma_write_cm_event(struct rdma_cm_id *base, enum rdma_cm_event_type event, int status,
			uint64_t arg)
{
	struct rcm_event *ev;

	if (!base || (int)event != RCM_EVENT_USER)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_write_cm_event: event is %d: it must be "
				      "RDMA_CM_EVENT_USER: pass that",
				      (int)event));
	ev = rcm_event_new(rcm_id_of(base), event, status);
	if (!ev)
		return rcm_ret(-ENOMEM);
	memcpy(&ev->base.param, &arg,
	       sizeof(arg)); /* param.arg, which older versions do not have */
	rcm_lock_take();
	rcm_event_post(ev);
	rcm_lock_drop();
	return 0;
}

void rcm_sync_ack(struct rcm_id *id)
{
	struct rdma_cm_event *ev = id->base.event;

	id->base.event = NULL;
	if (ev)
		rdma_ack_cm_event(ev);
}

int rcm_sync_wait(struct rcm_id *id)
{
	const struct rdma_cm_event *ev;

	if (!id->sync)
		return 0;
	rcm_sync_ack(id);
	if (rdma_get_cm_event(id->base.channel, &id->base.event) < 0)
		return -1;
	ev = id->base.event;
	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return rcm_ret(-ENODEV);
	if (!ev->status)
		return 0;
	return rcm_ret(ev->event == RDMA_CM_EVENT_REJECTED ? -ECONNREFUSED : -abs(ev->status));
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const texts[] = {
	/* clang-format off */
#define TEXT(type) [RDMA_CM_EVENT_##type] = "RDMA_CM_EVENT_" #type
		TEXT(ADDR_RESOLVED), TEXT(ADDR_ERROR), TEXT(ROUTE_RESOLVED), TEXT(ROUTE_ERROR),
		TEXT(CONNECT_REQUEST), TEXT(CONNECT_RESPONSE), TEXT(CONNECT_ERROR),
		TEXT(UNREACHABLE), TEXT(REJECTED), TEXT(ESTABLISHED), TEXT(DISCONNECTED),
		TEXT(DEVICE_REMOVAL), TEXT(MULTICAST_JOIN), TEXT(MULTICAST_ERROR),
		TEXT(ADDR_CHANGE), TEXT(TIMEWAIT_EXIT),
	/* clang-format on */
#undef TEXT
		[RCM_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[RCM_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
	};

	return (size_t)event < ARRAY_LEN(texts) ? texts[event] : "UNKNOWN EVENT";
}
