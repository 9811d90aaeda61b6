/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delays DISCONNECTED until completions are polled. Requests that the peer acknowledged before its
 * DREQ are complete, but the acknowledgement may still be in a socket, and the completion unpolled.
 * Many programs destroy the QP when they get DISCONNECTED, which drops its completions (libfabric
 * then reports an acknowledged send as cancelled). With an adapter the completion is in the CQ long
 * before the DREQ has passed through the kernel.
 *
 * So the thread first makes the device receive pending packets. If the QP has successful
 * completions that were not polled, DISCONNECTED waits for the program to poll them, for 63 ms at
 * most.
 */
#include "rdmacm/drain.h"
#include "rdmacm/id.h"
#include "rdmacm/private.h"

enum {
	PAUSE_NS = 1000000, /* before the second look; then twice as long each time */
	LOOKS_MAX = 7,
};

/* Look at the ID's QP without the lock: the ID may be gone after that, or its wait over. */
static void look(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	struct rcm_id *id = container_of(t, struct rcm_id, drain.timer);
	struct ibv_context *verbs = id->base.verbs; /* exists until the process ends */
	const uint32_t qpn = id->local_qpn;
	bool unpolled;

	rcm_lock_drop();
	unpolled = rcm_private()->unpolled(verbs, qpn);
	rcm_lock_take();
	if (!rcm_timer_expiring(t))
		return;
	if (!unpolled || ++id->drain.looks == LOOKS_MAX)
		rcm_drain_end(id);
	else
		rcm_timer_set(t, rcm_now() + ((rocemu_ns_t)PAUSE_NS << (id->drain.looks - 1)),
			      look);
}

bool rcm_drain_begin(struct rcm_id *id)
{
	if (!rcm_private()->unpolled || !id->base.verbs || !id->local_qpn)
		return false;
	id->drain.looks = 0;
	/* Later events do not suppress DISCONNECTED. */
	id->before_event = rcm_drain_end;
	rcm_timer_set(&id->drain.timer, rcm_now(), look);
	return true;
}

void rcm_drain_end(struct rcm_id *id)
{
	if (!id->before_event)
		return;
	id->before_event = NULL;
	rcm_timer_stop(&id->drain.timer);
	rcm_event_report(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}
