/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports DEVICE_REMOVAL and ADDR_CHANGE for IDs; and opens addresses that are added later, on
 * which wildcards listen as well. Devices report through their second contexts, which a thread of
 * the core reads; new interfaces, which no device can report, come from netmon.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "engine/timed-faults.h"
#include "netdev/netmon.h"
#include "rdmacm/agent.h"
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/globals.h"
#include "rdmacm/id.h"
#include "rdmacm/qp.h"

static struct rcm_device_watch *const watch = &rcm_globals.device_watch;

/* ---- added addresses ---- */

static void on_network(void *user, const struct netmon_event *event)
{
	(void)user;
	if (event->what == NETMON_GONE)
		return;
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

/* Wildcards listen on all current addresses. */
static void open_addresses(void) EXCLUDES(rcm_lock)
{
	struct rcm_local *locals = NULL;
	int n = rcm_device_addresses(&locals);

	rcm_lock_take();
	if (n > 0 && rcm_globals.core.running)
		rcm_agent_open(locals, n, LOG_LVL_INFO);
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

/* Take all events of the device. @return whether there were any; *fatal: the device is gone. */
static bool drain(struct rcm_device *d, bool *fatal)
{
	struct ibv_async_event ev;
	bool any = false;

	*fatal = false;
	while (d->events && ibv_get_async_event(d->events, &ev) == 0) {
		any = true;
		*fatal |= ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
	return any;
}

/* @return something has changed. */
static bool look_at(struct rcm_device *d)
{
	bool fatal, any = drain(d, &fatal);

	if (atomic_exchange(&d->recheck, false))
		any = true;
	if (!any)
		return false;
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
	return true;
}

void rcm_device_watch_run(void)
{
	/* Devices report addresses when their tables have them, netmon reports interfaces. */
	bool changed = atomic_exchange(&watch->network_changed, false), follow;

	for (struct rcm_device *d = rcm_device_next(NULL); d; d = rcm_device_next(d))
		changed |= look_at(d);
	rcm_lock_take();
	follow = watch->network;
	rcm_lock_drop();
	if (changed && follow)
		open_addresses();
}
