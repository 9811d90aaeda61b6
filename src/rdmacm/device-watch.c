/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports DEVICE_REMOVAL and ADDR_CHANGE for IDs; and opens addresses that are added later, on
 * which wildcards listen as well, and closes those that have gone. Devices report through their
 * second contexts, which a thread of the core reads; interfaces, whose devices need not be open,
 * come from netmon.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "engine/timed-faults.h"
#include "netdev/netmon.h"
#include "rdmacm/addr.h"
#include "rdmacm/agent.h"
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"
#include "rdmacm/qp.h"

static struct rcm_device_watch *const watch = &rcm_globals.device_watch;

enum { LISTING_SHARE = 10 };

/* ---- added addresses ---- */

void rcm_device_watch_arrival(const struct rocemu_gid *gid, uint32_t scope_id)
{
	struct sockaddr_storage ss;
	struct rcm_local local;
	int err;

	rcm_addr_from_gid((struct sockaddr *)&ss, gid, 0, scope_id);
	err = rcm_device_find((struct sockaddr *)&ss, &local);
	if (err)
		log_info("a message for rdma_cm is dropped: its device cannot be opened: %s",
			 strerror(-err));
	rcm_lock_take();
	if (!err)
		rcm_agent_found(&local);
	rcm_lock_drop();
}

static void on_network(void *user, const struct netmon_event *event)
{
	(void)user;
	(void)event;
	atomic_store(&watch->network_changed, true);
	rcm_lock_take();
	rcm_core_wake();
	rcm_lock_drop();
}

void rcm_device_watch_network(void)
{
	static struct netmon_listener listener = {.notify = on_network};
	int err;

	rcm_lock_take();
	err = watch->network;
	watch->network = true;
	rcm_lock_drop();
	if (err)
		return;
	timed_faults_enable();
	err = netmon_add(&listener);
	if (!err)
		return;
	log_info("wildcard listeners will not get requests to new addresses: %s", strerror(-err));
	rcm_lock_take();
	watch->network = false;
	rcm_lock_drop();
}

/* Wildcards listen on all current addresses, and on no others. */
static void open_addresses(void) EXCLUDES(rcm_lock)
{
	struct rcm_local *locals = NULL;
	int n = rcm_device_addresses(&locals);

	rcm_lock_take();
	if (n >= 0 && rcm_globals.core.running) {
		rcm_agent_open(locals, n, LOG_LVL_INFO);
		rcm_agent_close_others(locals, n);
	}
	rcm_drive();
	rcm_lock_drop();
	free(locals);
}

/* ---- events of IDs ---- */

static bool has_gid(const struct rcm_local *table, int n, const struct rocemu_gid *gid)
{
	for (int i = 0; i < n; i++)
		if (rocemu_gid_equal(&table[i].gid, gid))
			return true;
	return false;
}

/*
 * Report ADDR_CHANGE for IDs whose address is no longer the device's. Not for synchronous IDs,
 * whose calls wait for results: the event is only a hint.
 */
static void report_addresses(struct rcm_device *d) EXCLUDES(rcm_lock)
{
	struct rcm_local *table;
	struct rcm_event *ev;
	int n = rcm_device_table(d, &table);

	if (n < 0)
		return;
	rcm_lock_take();
	list_for_each (it, &d->ids) {
		struct rcm_id *id = list_entry(it, struct rcm_id, on_device);
		bool lost = !has_gid(table, n, &id->local.gid);

		if (lost && !id->address_lost && !id->sync) {
			ev = rcm_event_new(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
			if (ev)
				rcm_event_post(ev);
		}
		id->address_lost = lost;
	}
	rcm_lock_drop();
	free(table);
}

/*
 * The device is gone: end all CM objects of its IDs. No message reaches the peers any more; their
 * own timeouts end the connections.
 *
 * DEVICE_REMOVAL is an ID's last event, as in the kernel. Unlike the kernel, rocemu first reports
 * the end of pending operations, because many programs ignore the removal and wait for that event.
 */
static void report_removal(struct rcm_device *d) EXCLUDES(rcm_lock)
{
	struct list *n;

	rcm_lock_take();
	while ((n = list_first(&d->ids)) != NULL) {
		struct rcm_id *id = list_entry(n, struct rcm_id, on_device);

		rcm_cm_abort(id, -ENODEV);
		id->removed = true;
		rcm_id_stop(id); /* takes it off the list */
		rcm_event_report(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, rcm_qp_error_on_take);
	}
	rcm_agent_close(d);
	rcm_lock_drop();
}

/* ---- on the thread that follows devices ---- */

/* Take all events of the device. @return the device is gone. */
static bool drain(struct rcm_device *d)
{
	struct ibv_async_event ev;
	bool fatal = false;

	while (d->events && ibv_get_async_event(d->events, &ev) == 0) {
		fatal |= ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
	return fatal;
}

static void look_at(struct rcm_device *d)
{
	const bool fatal = drain(d);

	atomic_store(&d->recheck, false);
	/* Before the table is read: see rcm_id_set_local(). */
	atomic_fetch_add(&d->changes, 1);
	if (fatal) {
		atomic_store(&d->gone, true);
		/* A forked child may have a copy, so close() alone does not end the watch. */
		epoll_ctl(rcm_device_events_fd(), EPOLL_CTL_DEL, d->events->async_fd, NULL);
		ibv_close_device(d->events);
		d->events = NULL;
	}
	if (atomic_load(&d->gone))
		report_removal(d);
	else if (rcm_device_is_there(d)) /* or its removal event is about to come */
		report_addresses(d);
}

/* After how many ms a new listing is due; 0: now, -1: none is. */
static int listing_due(bool changed)
{
	const rocemu_ns_t now = rcm_now();
	bool due;

	rcm_lock_take();
	watch->relist |= changed;
	due = watch->relist && watch->network;
	if (due && now >= watch->not_before)
		watch->relist = false;
	rcm_lock_drop();
	if (!due)
		return -1;
	return now >= watch->not_before ? 0 : (int)((watch->not_before - now) / NS_PER_MS + 1);
}

int rcm_device_watch_run(void)
{
	/* Devices report addresses when their tables have them, netmon reports interfaces. */
	bool changed = atomic_exchange(&watch->network_changed, false);
	struct rcm_device *d;
	rocemu_ns_t begin;
	int wait_ms;

	for (; (d = rcm_device_changed()) != NULL; changed = true)
		look_at(d);
	wait_ms = listing_due(changed);
	if (wait_ms)
		return wait_ms;
	begin = rcm_now();
	open_addresses();
	/* All devices are listed each time. While interfaces come one after another, that takes a
	 * tenth of the time and not all of it. */
	watch->not_before = rcm_now() + LISTING_SHARE * (rcm_now() - begin);
	return -1;
}
