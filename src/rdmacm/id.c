/* SPDX-License-Identifier: BSD-2-Clause */
/* IDs: creation, migration between channels, destruction, and their public addresses. */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/agent.h"
#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "rdmacm/mcast.h"
#include "rdmacm/private.h"

struct rcm_id *rcm_id_new(enum rdma_port_space ps, enum ibv_qp_type type, void *context)
{
	struct rcm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->base.ps = ps;
	id->base.qp_type = type;
	id->base.context = context;
	id->afonly = -1;
	list_init(&id->events);
	list_init(&id->groups);
	rcm_timer_init(&id->retry);
	rcm_timer_init(&id->drain.timer);
	rcm_timer_init(&id->resolving.timer);
	list_init(&id->on_device);
	return id;
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		     enum rdma_port_space ps, enum ibv_qp_type type)
{
	struct rcm_id *id = rcm_id_new(ps, type, context);
	struct rcm_channel *own = id && !channel ? rcm_channel_new() : NULL;

	if (!id)
		return -ENOMEM;
	if (!channel && !own) {
		free(id);
		return -errno;
	}
	id->sync = !channel;
	id->base.channel = channel ? channel : &own->base;
	*out = &id->base;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	enum ibv_qp_type type = IBV_QPT_RC;
	int err;

	if (!id)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_id: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	switch (ps) {
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		type = IBV_QPT_UD;
		break;
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		break;
	default:
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_id: ps is 0x%x: valid are RDMA_PS_TCP, _UDP, "
				      "_IB and _IPOIB: pass one",
				      (unsigned)ps));
	}
	err = rcm_fault(FAULT_VERB_RDMA_CREATE_ID);
	return rcm_ret(err ? err : create_id(channel, id, context, ps, type));
}

bool rcm_id_removed(struct rcm_id *id)
{
	bool removed;

	rcm_lock_take();
	removed = id->removed;
	rcm_lock_drop();
	return removed;
}

void rcm_id_stop(struct rcm_id *id)
{
	rcm_timer_stop(&id->retry);
	rcm_timer_stop(&id->resolving.timer);
	rcm_timer_stop(&id->drain.timer);
	id->before_event = NULL;
	list_remove(&id->on_device);
	if (rcm_core_has(id)) {
		if (id->cml)
			cm_unlisten(id->cml, rcm_now());
		if (id->conn)
			cm_conn_destroy(id->conn, rcm_now());
		if (id->sidr)
			cm_sidr_destroy(id->sidr, rcm_now());
		rcm_drive();
	}
	id->cml = NULL;
	id->conn = NULL;
	id->sidr = NULL;
}

void rcm_id_free(struct rcm_id *id)
{
	if (id->sync)
		rdma_destroy_event_channel(id->base.channel);
	rdma_freeaddrinfo(id->info);
	free(id->qp_init_attr);
	free(id->connect);
	free(id);
}

/* Drop waiting events. Those that the program has are waited for. */
static void drop_events(struct rcm_id *id) REQUIRES(rcm_lock)
{
	struct list taken = {&taken, &taken};

	rcm_events_withdraw(id, &taken);
	list_for_each_safe (n, tmp, &taken) {
		struct rcm_event *ev = list_entry(n, struct rcm_event, node);
		struct rcm_id *child = rcm_id_of(ev->base.id);

		list_remove(n);
		rcm_event_free(ev);
		if (child == id)
			continue;
		/* A request that the program has never seen. */
		rcm_id_stop(child);
		drop_events(child);
		rcm_events_wait(child);
		rcm_id_free(child);
	}
}

static bool is_orphan(const struct rcm_id *id)
{
	bool orphan;

	rcm_lock_take();
	orphan = rcm_core_orphaned(id);
	rcm_lock_drop();
	return orphan;
}

int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct rcm_id *id = rcm_id_of(base);

	if (!base)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_destroy_id: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if (is_orphan(id)) {
		/* Its lists and events are the parent's. */
		rcm_id_free(id);
		return 0;
	}
	rcm_sync_ack(id);
	rcm_groups_leave(id);
	rcm_lock_take();
	rcm_calls_wait(id);
	rcm_id_stop(id);
	drop_events(id);
	/* Waits for the agent, so that the port is free when the call returns. */
	rcm_agent_unbind(id);
	rcm_events_wait(id);
	rcm_drive_out();
	rcm_id_free(id);
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *channel)
{
	struct rcm_channel *to, *old = NULL;
	struct rcm_id *id = rcm_id_of(base);

	if (!base)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_migrate_id: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if (id->sync && !channel)
		return rcm_ret(REFUSE(
			-EINVAL, 0,
			"rdma_migrate_id: an ID cannot be moved to no channel: pass a channel"));
	if (is_orphan(id))
		return rcm_ret(rcm_orphan_refuse(EINVAL));
	to = channel ? rcm_channel_of(channel) : rcm_channel_new();
	if (!to)
		return -1;
	rcm_sync_ack(id);
	rcm_lock_take();
	if (id->sync)
		old = rcm_channel_of(id->base.channel);
	rcm_events_move(id, to);
	id->sync = !channel;
	rcm_lock_drop();
	if (old)
		rdma_destroy_event_channel(&old->base);
	return 0;
}

void rcm_id_set_local(struct rcm_id *id, const struct rcm_local *local)
{
	struct rdma_ib_addr *ib = &id->base.route.addr.addr.ibaddr;

	id->local = *local;
	id->base.verbs = local->dev->verbs;
	id->base.port_num = local->port_num;
	if (!id->base.pd)
		id->base.pd = local->dev->pd;
	memcpy(ib->sgid.raw, local->gid.raw, 16);
	ib->pkey = htons(ROCEMU_PKEY_DEFAULT);
	list_remove(&id->on_device);
	list_append(&id->local.dev->ids, &id->on_device);
	/* Changes since the device's table was read were reported without this ID: check again.
	 */
	if (local->changes != atomic_load(&local->dev->changes)) {
		atomic_store(&local->dev->recheck, true);
		rcm_device_recheck();
		rcm_core_wake();
	}
}

static __be16 port_of(const struct sockaddr *sa)
{
	return htons(rcm_addr_len(sa) ? rcm_addr_port(sa) : 0);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(&id->route.addr.dst_addr);
}
