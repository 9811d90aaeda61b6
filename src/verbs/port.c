/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps a context's port and GID table current: changes of the interface and its addresses at run
 * time become entries of the table, asynchronous events and the lane's addresses.
 *
 * As with a hardware RNIC under Linux: a removed address leaves a hole, all others keep their
 * index. QPs and address handles of it stay, and time out (or continue if it returns soon). If the
 * interface is removed, so is the device: its QPs fail, so that no program waits for completions
 * that cannot come, and IBV_EVENT_DEVICE_FATAL reports the reason.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/evq.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/lane.h"
#include "engine/timed-faults.h"
#include "netdev/netdev.h"
#include "netdev/netmon.h"
#include "verbs/context.h"
#include "verbs/event.h"
#include "verbs/lanes.h"
#include "verbs/port.h"

static const enum ibv_event_type events[] = {
	[VB_PORT_GID_CHANGE] = IBV_EVENT_GID_CHANGE,
	[VB_PORT_ACTIVE] = IBV_EVENT_PORT_ACTIVE,
	[VB_PORT_ERR] = IBV_EVENT_PORT_ERR,
	[VB_PORT_FATAL] = IBV_EVENT_DEVICE_FATAL,
};

bool vb_port_get(struct vb_context *c, struct netdev *now)
{
	bool there;

	pthread_mutex_lock(&c->port.lock);
	*now = c->netdev;
	now->active &= !c->port.down;
	there = !c->port.gone;
	pthread_mutex_unlock(&c->port.lock);
	return there;
}

enum ibv_mtu vb_port_mtu(struct vb_context *c)
{
	unsigned mtu;

	pthread_mutex_lock(&c->port.lock);
	mtu = c->netdev.mtu;
	pthread_mutex_unlock(&c->port.lock);
	return netdev_active_mtu(mtu);
}

int vb_port_gid(struct vb_context *c, uint32_t index, struct rocemu_gid *gid)
{
	int ret = -EINVAL;

	pthread_mutex_lock(&c->port.lock);
	if (index < ARRAY_LEN(c->netdev.gids)) {
		*gid = c->netdev.gids[index].gid;
		ret = c->netdev.gids[index].here ? 0 : -ENODATA;
	}
	pthread_mutex_unlock(&c->port.lock);
	return ret;
}

int vb_port_find_gid(struct vb_context *c, const struct rocemu_gid *gid)
{
	int found;

	pthread_mutex_lock(&c->port.lock);
	found = netdev_find_gid(&c->netdev, gid);
	pthread_mutex_unlock(&c->port.lock);
	return found;
}

/* ---- changes ---- */

static void set_lane_gids(struct vb_context *c, const struct netdev *now,
			  const struct netdev_change *change, unsigned n)
{
	struct lane *l;

	for (unsigned i = 0; i < n; i++) {
		const unsigned at = change[i].index;
		const struct lane_gid g = {
			.index = at,
			.gid = now->gids[at].gid,
			.scope_id = now->gids[at].scope_id,
		};

		vb_each_lane(l, &c->lanes) lane_set_gid(l, at, change[i].added ? &g : NULL);
	}
}

static void post(struct vb_context *c, enum vb_port_event which)
{
	evq_post(&c->async, &c->port.events[which].src, false);
}

/*
 * Report changes since the last update to the program. The addresses first: a port that becomes
 * active has them already. For a device that is gone there are no other events.
 */
static void post_events(struct vb_context *c, const struct netdev *before, const struct netdev *now,
			bool gids, bool gone)
{
	if (gone) {
		post(c, VB_PORT_FATAL);
		return;
	}
	if (gids)
		post(c, VB_PORT_GID_CHANGE);
	if (before->active != now->active && !c->port.down)
		post(c, now->active ? VB_PORT_ACTIVE : VB_PORT_ERR);
}

/*
 * Addresses removed by fault injection, by one of their indices, whether the interface has them or
 * not.
 */
static void hide_gids(const struct netdev *before, uint64_t hidden, struct netdev *now)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < now->naddrs; i++) {
		bool hide = false;

		for (unsigned at = 0; at < ARRAY_LEN(before->gids); at++)
			hide |= (hidden >> at & 1) &&
				rocemu_gid_equal(&before->gids[at].gid, &now->addrs[i].gid);
		if (!hide)
			now->addrs[kept++] = now->addrs[i];
	}
	now->naddrs = kept;
}

/* As netdev_reread(), with the event's contents, if there is one, and with injected faults.
 */
static int look(const struct netdev *before, const struct netmon_event *event,
		const struct timed_faults *faults, struct netdev *now)
{
	int ret;

	if (faults->fatal || (event && event->what == NETMON_GONE)) {
		*now = *before;
		now->naddrs = 0;
		now->active = false;
		return -ENODEV;
	}
	ret = netdev_reread(before, now);
	if (!ret && event && event->what == NETMON_LINK)
		now->active = event->active;
	if (!ret && faults->gids)
		hide_gids(before, faults->gids, now);
	return ret;
}

/*
 * Update the table and the lane, and notify the program. event: NULL at the start, when the only
 * possible change is a device that is gone already. @return 0, or -errno: the interface cannot be
 * queried now.
 */
static int update(struct vb_context *c, const struct netmon_event *event,
		  const struct timed_faults *faults)
{
	struct netdev *before = &c->port.before, *now = &c->port.now;
	struct netdev_change *change = c->port.change;
	struct lane *l;
	unsigned n;
	bool gone;
	int ret;

	mutex_lock(&c->port.update);
	*before = c->netdev; /* no other thread writes it */
	ret = look(before, event, faults, now);
	gone = ret == -ENODEV;
	if (ret < 0 && !gone) {
		log_info("%s: %s", before->name, strerror(-ret));
		mutex_unlock(&c->port.update);
		return ret;
	}
	pthread_mutex_lock(&c->port.lock);
	n = netdev_merge(&c->netdev, now, change);
	*now = c->netdev;
	gone &= !c->port.gone;
	c->port.gone |= gone;
	pthread_mutex_unlock(&c->port.lock);
	set_lane_gids(c, now, change, n);
	if (now->mtu != before->mtu)
		vb_each_lane(l, &c->lanes) lane_set_mtu(l, netdev_active_mtu(now->mtu));
	if (gone)
		vb_each_lane(l, &c->lanes) lane_fail(l);
	if (event || gone)
		post_events(c, before, now, n > 0, gone);
	mutex_unlock(&c->port.update);
	return 0;
}

/* The port's state under fault injection. */
static void update_link(struct vb_context *c, bool down, bool silent)
{
	struct lane *l;
	bool tell;

	mutex_lock(&c->port.update);
	pthread_mutex_lock(&c->port.lock);
	tell = down != c->port.down && c->netdev.active && !c->port.gone && !silent;
	c->port.down = down;
	pthread_mutex_unlock(&c->port.lock);
	vb_each_lane(l, &c->lanes) lane_set_link(l, !down);
	if (tell)
		post(c, down ? VB_PORT_ERR : VB_PORT_ACTIVE);
	mutex_unlock(&c->port.update);
}

static void on_netmon(void *user, const struct netmon_event *event)
{
	const struct timed_faults faults = timed_faults_now();
	struct vb_context *c = user;

	if (event->what == NETMON_TIMER)
		update_link(c, faults.down, false);
	if (update(c, event, &faults) < 0)
		netmon_repeat();
}

void vb_port_fail(struct vb_context *c)
{
	const struct timed_faults faults = {.fatal = true};

	(void)update(c, NULL, &faults);
	/* The other contexts of the process. */
	timed_faults_fail_devices();
}

bool vb_port_is_gone(struct vb_context *c)
{
	bool gone;

	pthread_mutex_lock(&c->port.lock);
	gone = c->port.gone;
	pthread_mutex_unlock(&c->port.lock);
	return gone;
}

int vb_port_start(struct vb_context *c)
{
	struct timed_faults faults;
	char text[128 + LIMIT_TEXT_LEN], policy[LIMIT_TEXT_LEN];
	int ret;

	_Static_assert(ARRAY_LEN(events) == ARRAY_LEN(c->port.events), "one source per event");
	for (unsigned i = 0; i < ARRAY_LEN(events); i++) {
		vb_async_init(&c->port.events[i], events[i]);
		c->port.events[i].event.element.port_num = 1;
	}
	c->port.listener = (struct netmon_listener){
		.ifindex = c->netdev.ifindex, .notify = on_netmon, .user = c};
	timed_faults_enable();
	ret = netmon_add(&c->port.listener);
	/* What has changed since the device was listed. */
	faults = timed_faults_now();
	if (ret == 0)
		ret = update(c, NULL, &faults);
	if (ret < 0) {
		netmon_remove(&c->port.listener);
		snprintf(text, sizeof(text), "%s: cannot watch the network interfaces: %s%s",
			 c->netdev.name, strerror(-ret), refusal_text(ret, policy));
		log_failure(ret, text);
		return ret;
	}
	update_link(c, faults.down, true);
	return 0;
}

void vb_port_stop(struct vb_context *c)
{
	netmon_remove(&c->port.listener);
}
