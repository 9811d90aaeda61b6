/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and asynchronous events: from the endpoint's event ring to file descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/evq.h"
#include "base/list.h"
#include "base/signals.h"
#include "base/util.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/orphan.h"
#include "verbs/qp.h"
#include "verbs/real.h"
#include "verbs/srq.h"

/* A thread that ran this long after arming a CQ without polling it is busy with something else.
 */
#define ARMER_CPU_NS 200000u

/* After this many short waits for an event in a row the next wait begins by polling. */
enum { SHORT_WAITS = 4 };

/* ---- delivery, with the lane's lock held ---- */

void vb_async_init(struct vb_async *a, enum ibv_event_type type)
{
	evq_source_init(&a->src);
	a->event.event_type = type;
}

static void vb_async_post(struct vb_context *c, struct vb_async *a)
{
	evq_post(&c->async, &a->src, true);
}

unsigned vb_async_drop(struct vb_context *c, struct vb_async *a, unsigned n)
{
	unsigned delivered = 0;

	for (unsigned i = 0; i < n; i++)
		delivered += evq_drop(&c->async, &a[i].src);
	return delivered;
}

void vb_async_end(struct vb_context *c, struct vb_async *a, unsigned n, pthread_mutex_t *mutex,
		  pthread_cond_t *cond, const uint32_t *completed)
{
	unsigned delivered = vb_async_drop(c, a, n);
	UNCANCELLED; /* the object is half gone */

	pthread_mutex_lock(mutex);
	while (*completed != delivered)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

static void post_one_of(struct vb_context *c, struct vb_async *a, unsigned n,
			enum ibv_event_type type)
{
	for (unsigned i = 0; i < n; i++)
		if (a[i].event.event_type == type)
			vb_async_post(c, &a[i]);
}

/** At each handle of a QP; one may be another context's. */
static void post_to_handles(struct vb_qp *qp, enum ibv_event_type type)
{
	struct vb_qp *at = qp;

	do {
		post_one_of(vb_context_of(at->base.qp_base.context), at->async,
			    ARRAY_LEN(at->async), type);
		at = list_entry(at->sharing.next, struct vb_qp, sharing);
	} while (at != qp);
}

/**
 * Would a thread of the process not run if it got a CPU: does it sleep, or has it ended? A
 * process's first thread that has ended stays as a zombie. A page fault (D) is no rest. Also true
 * when that is not known.
 */
static bool thread_rests(int tid)
{
	char path[64], stat[128];
	const char *state = NULL;
	UNCANCELLED;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	if (n > 0) {
		stat[n] = '\0';
		state = strrchr(stat, ')');
	}
	return !state || state[1] != ' ' || (state[2] != 'R' && state[2] != 'D');
}

/** CPU time that a thread of the process has used; 0: not known. */
static uint64_t thread_cpu_ns(int tid)
{
	/* As the kernel numbers clocks, and pthread_getcpuclockid() for threads that exist. */
	const clockid_t clock = (clockid_t)(~(unsigned)tid << 3 | 6u);
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/**
 * The program armed the CQ with completions in it, and has not polled them until now. Is that only
 * because its thread got no CPU time? Then it will poll them, and an event is one too many. It is
 * none if the thread waits for the event, or runs and does something else.
 */
static bool is_too_early(struct vb_cq *cq)
{
	const int tid = atomic_load_explicit(&cq->armer_tid, memory_order_relaxed);
	uint64_t cpu_ns;
	bool first;

	if (evq_is_looked_at(&vb_channel_of(cq->base.channel)->events) || thread_rests(tid))
		return false;
	cpu_ns = thread_cpu_ns(tid);
	first = !cq->armer_cpu_ns;
	if (first)
		cq->armer_cpu_ns = cpu_ns;
	return cpu_ns && (first || cpu_ns - cq->armer_cpu_ns < ARMER_CPU_NS);
}

static void post_completion_event(struct vb_cq *cq, const struct rocemu_event *ev)
{
	if (!cq->base.channel)
		return;
	if (unlikely(ev->late) && is_too_early(cq))
		rocemu_cq_arm(cq->rcq, lane_now(), ev->solicited_only);
	else
		evq_post_later(&vb_channel_of(cq->base.channel)->events, &cq->comp);
}

HOT void vb_deliver_events(void *user, struct rocemu_ep *ep)
{
	struct vb_context *c = user;
	struct rocemu_event ev;

	while (rocemu_ep_next_event(ep, &ev)) {
		struct vb_cq *cq;
		struct vb_srq *srq;

		switch (ev.type) {
		case ROCEMU_EVENT_CQ:
			post_completion_event(rocemu_cq_user(ev.u.cq), &ev);
			break;
		case ROCEMU_EVENT_CQ_ERR:
			cq = rocemu_cq_user(ev.u.cq);
			vb_fault_cq_overflowed(cq);
			post_one_of(c, &cq->async, 1, ev.async);
			break;
		case ROCEMU_EVENT_QP:
			post_to_handles(rocemu_qp_user(ev.u.qp), ev.async);
			break;
		case ROCEMU_EVENT_SRQ:
			srq = rocemu_srq_user(ev.u.srq);
			post_one_of(c, srq->async, ARRAY_LEN(srq->async), ev.async);
			break;
		}
	}
}

/* ---- completion channels ---- */

static int vb_fail(int err)
{
	errno = err;
	return -1;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct vb_channel *ch;
	int ret;

	if (!vb_context_of(context))
		return REAL_CALL(ibv_create_comp_channel, context);
	ret = vb_fault(vb_context_of(context), NULL, FAULT_VERB_CREATE_COMP_CHANNEL);
	if (ret == 0)
		ret = vb_orphan_check(vb_context_of(context));
	if (ret < 0)
		return vb_null(-ret);
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return vb_null(ENOMEM);
	ret = evq_init(&ch->events);
	if (ret < 0) {
		free(ch);
		return vb_null(-ret);
	}
	spin_init(&ch->spin, SHORT_WAITS);
	ch->base.context = context;
	ch->base.fd = ch->events.fd;
	return &ch->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct vb_context *c = vb_context_of(channel->context);
	struct vb_channel *ch = vb_channel_of(channel);
	bool busy;

	if (!c)
		return REAL_CALL(ibv_destroy_comp_channel, channel);
	if (c->orphan) {
		evq_fini_inherited(&ch->events);
		return vb_orphan_free(ch);
	}
	mutex_lock(&c->lock);
	busy = channel->refcnt > 0;
	mutex_unlock(&c->lock);
	if (busy)
		return vb_errno(-EBUSY);
	evq_fini(&ch->events);
	free(ch);
	return 0;
}

void vb_channel_add_lane(struct vb_channel *ch, struct lane *lane)
{
	struct lane *first = atomic_load(&ch->lane);

	if (!first)
		atomic_store(&ch->lane, lane);
	if (!first || first == lane || atomic_exchange(&ch->mixed, true))
		return;
	/* A CQ may have been armed for a thread that was about to poll, and now sleeps. */
	lane_lock(first);
	lane_wait_hint(first);
	lane_unlock(first);
}

/**
 * Poll for the channel's next event for a while, on this thread. NULL: none came, and the lane is
 * notified that the thread will sleep.
 */
static struct evq_source *look_for_event(struct lane *lane, struct vb_channel *ch,
					 rocemu_ns_t begin)
{
	struct evq_source *s;

	evq_look(&ch->events);
	while (!evq_has(&ch->events) && lane_now() - begin < SPIN_WAIT_NS)
		lane_poll(lane);
	s = evq_look_end(&ch->events);
	if (!s) {
		lane_lock(lane);
		lane_wait_hint(lane);
		lane_unlock(lane);
	}
	lane_look_end(lane);
	return s;
}

/**
 * As evq_get(), but looks first if another thread does not. Signals are held back meanwhile: their
 * handlers run where they would in read(), whose EINTR is this function's.
 */
static struct evq_source *look_and_wait(struct lane *lane, struct vb_channel *ch, rocemu_ns_t begin,
					bool *looks)
{
	const sigset_t before = signals_hold();
	struct evq_source *s = NULL;
	bool interrupted = false;

	*looks = lane_look(lane);
	if (*looks) {
		s = look_for_event(lane, ch, begin);
		interrupted = !s && signals_interrupt(&before);
	}
	signals_release(&before);
	if (interrupted)
		errno = EINTR;
	return s || interrupted ? s : evq_get(&ch->events);
}

/** The channel's next event, as evq_get(). */
static struct evq_source *next_event(struct vb_context *c, struct vb_channel *ch)
{
	struct evq_source *s;
	struct lane *lane = vb_channel_lane(
		ch); /* a thread that polled one lane would miss events of the others */
	rocemu_ns_t begin;
	bool looks = false;

	if (evq_has(&ch->events) || !atomic_load_explicit(&c->attached, memory_order_relaxed))
		return evq_get(&ch->events);
	pthread_testcancel();
	begin = lane_now();
	s = lane && spin_pays(&ch->spin) ? look_and_wait(lane, ch, begin, &looks)
					 : evq_get(&ch->events);
	spin_waited(&ch->spin, s ? lane_now() - begin : SPIN_NEVER, looks);
	return s;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct vb_context *c = vb_context_of(channel->context);
	struct evq_source *s;

	if (!c)
		return REAL_CALL(ibv_get_cq_event, channel, cq, cq_context);
	if (vb_orphan_check(c))
		return vb_fail(ENODEV);
	s = next_event(c, vb_channel_of(channel));
	if (!s)
		return -1;
	*cq = ibv_cq_ex_to_cq(&container_of(s, struct vb_cq, comp)->base);
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (!vb_context_of(cq->context)) {
		REAL_CALL_VOID(ibv_ack_cq_events, cq, nevents);
		return;
	}
	if (vb_context_of(cq->context)->orphan)
		return; /* no acknowledgement is waited for */
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- asynchronous events ---- */

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct vb_context *c = vb_context_of(context);
	struct evq_source *s;

	if (!c)
		return REAL_CALL(ibv_get_async_event, context, event);
	if (vb_orphan_check(c))
		return vb_fail(ENODEV);
	s = evq_get(&c->async);
	if (!s)
		return -1;
	*event = container_of(s, struct vb_async, src)->event;
	return 0;
}

/** Count an acknowledgement, for the destroy that waits for it. */
static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

/**
 * The source of an event; NULL for those of port and device, whose acknowledgement is not waited
 * for.
 */
static struct ibv_context *context_of_event(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	case IBV_EVENT_WQ_FATAL:
		return event->element.wq->context;
	default:
		return NULL;
	}
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *ctx = context_of_event(event);
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	if (!ctx)
		return;
	if (!vb_context_of(ctx)) {
		REAL_CALL_VOID(ibv_ack_async_event, event);
		return;
	}
	if (vb_context_of(ctx)->orphan)
		return;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default: /* WQs are not supported */
		ack(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	}
}
