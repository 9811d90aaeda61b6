/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions before DISCONNECTED. What the peer acknowledged before its DREQ is complete, but the acknowledgement may
 * still be in a socket, and the completion unpolled: many programs destroy the QP when they get DISCONNECTED, and its
 * completions go with it (libfabric then reports an acknowledged send as cancelled). With an adapter the completion is
 * in the CQ long before the DREQ has passed through the kernel.
 *
 * So the thread first has the device receive what has come. If the QP has successful completions that were not polled,
 * DISCONNECTED waits for the program to poll them, for 63 ms at most.
 */
#include "rdmacm/objects.h"
#include "rdmacm/private.h"

enum {
	PAUSE_NS = 1000000, /* before the second look; then twice as long each time */
	LOOKS_MAX = 7,
};

static struct list waiting = {&waiting, &waiting}; /* rcm_id.drain.node, by due time; guarded by the lock */
/* Whose QP the thread is looking at without the lock; NULL when that ID's wait has ended meanwhile. */
static struct rcm_id *looking_at;
static private_unpolled_fn *has_unpolled; /* NULL: under another libibverbs, events do not wait */

static void find(void)
{
	has_unpolled = (private_unpolled_fn *)rcm_private_function(PRIVATE_UNPOLLED);
}

static void wait_until(struct rcm_id *id, rocemu_ns_t due) REQUIRES(rcm_lock)
{
	struct list *next = waiting.next;

	while (next != &waiting && list_entry(next, struct rcm_id, drain.node)->drain.due <= due)
		next = next->next;
	id->drain.due = due;
	list_append(next, &id->drain.node);
}

bool rcm_drain_begin(struct rcm_id *id)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	if (!has_unpolled || !id->base.verbs || !id->local_qpn)
		return false;
	id->drain.looks = 0;
	wait_until(id, rcm_now());
	return true;
}

void rcm_drain_stop(struct rcm_id *id)
{
	list_remove(&id->drain.node);
	if (looking_at == id)
		looking_at = NULL;
}

void rcm_drain_end(struct rcm_id *id)
{
	if (!list_linked(&id->drain.node))
		return;
	rcm_drain_stop(id);
	rcm_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

rocemu_ns_t rcm_drain_deadline(void)
{
	struct list *n = list_first(&waiting);

	return n ? list_entry(n, struct rcm_id, drain.node)->drain.due : ROCEMU_NEVER;
}

/** Look at the ID that is due. The lock is dropped meanwhile: the ID may be gone after that, or its wait over. */
static void look(struct rcm_id *id) REQUIRES(rcm_lock)
{
	struct ibv_context *verbs = id->base.verbs; /* lives as long as the process */
	const uint32_t qpn = id->local_qpn;
	bool unpolled;

	looking_at = id;
	rcm_lock_drop();
	unpolled = has_unpolled(verbs, qpn);
	rcm_lock_take();
	if (!looking_at)
		return;
	looking_at = NULL;
	if (!unpolled || ++id->drain.looks == LOOKS_MAX) {
		rcm_drain_end(id);
		return;
	}
	list_remove(&id->drain.node);
	wait_until(id, rcm_now() + ((rocemu_ns_t)PAUSE_NS << (id->drain.looks - 1)));
}

void rcm_drain_look(rocemu_ns_t now)
{
	while (rcm_drain_deadline() <= now)
		look(list_entry(waiting.next, struct rcm_id, drain.node));
}

void rcm_drain_forget(void)
{
	list_init(&waiting);
	looking_at = NULL;
}
