/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolves addresses and routes. RoCE needs no separate route, so most results are available at
 * once and the call itself posts the events, except for neighbours that the kernel has yet to
 * resolve. AF_IB's GIDs are IP addresses here; results are returned in the family that the program
 * uses.
 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/agent.h"
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/id.h"
#include "rdmacm/neigh.h"
#include "rdmacm/private.h"
#include "rdmacm/resolve.h"

enum { PACKET_LIFE = 18 }; /* 4.096 us * 2^18: a second; the ACK timeout is one more */

/* Between two checks of a neighbour; doubled each time. */
#define PAUSE_FIRST_NS 200000u
#define PAUSE_MAX_NS   20000000u

static const struct rcm_core_ops core_ops = {.cm_event = rcm_cm_event,
					     .look = rcm_device_watch_run,
					     .arrival = rcm_device_watch_arrival};

/* The device of a source address. Loopback addresses are one host: any device with one. */
static int find_local(const struct sockaddr *src, struct rcm_local *local)
{
	int err = rcm_device_find(src, local);

	if ((err == -ENODEV || err == -EADDRNOTAVAIL) && rcm_addr_loopback(src) &&
	    rcm_device_find_loopback(src->sa_family, local) == 0)
		return 0;
	return err;
}

/* ---- bind ---- */

/*
 * The device of an IP address to be bound.
 * @return 0; 1: it is a wildcard, or a loopback address that no device has: as with the kernel's
 * rdma_cm that is one, too; or -errno.
 */
static int find_own(const struct sockaddr *ip, struct rcm_local *local)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)ip;
	int err;

	if (rcm_addr_any(ip))
		return 1;
	/* The kernel lets sockets be bound to these. */
	if (rcm_addr_multicast(ip) ||
	    (ip->sa_family == AF_INET && in->sin_addr.s_addr == INADDR_BROADCAST))
		return -EADDRNOTAVAIL;
	if (rcm_addr_scope(ip) && !if_indextoname(rcm_addr_scope(ip), (char[IF_NAMESIZE]){0}))
		return -ENODEV;
	err = rcm_device_find(ip, local);
	return (err == -ENODEV || err == -EADDRNOTAVAIL) && rcm_addr_loopback(ip) ? 1 : err;
}

/* local: NULL for a wildcard. shown: the program sees the device in the ID. */
static void set_bound(struct rcm_id *id, const struct sockaddr *sa, uint64_t service_id,
		      const struct rcm_local *local, bool shown) REQUIRES(rcm_lock)
{
	struct rdma_addr *a = &id->base.route.addr;
	struct ibv_pd *pd = id->base.pd;
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	rcm_addr_copy(&a->src_storage, sa);
	if (sa->sa_family == AF_IB)
		rcm_addr_make(&a->src_addr, AF_IB, &gid, service_id, local ? local->scope_id : 0);
	else
		rcm_addr_set_port(&a->src_addr, (uint16_t)service_id);
	/* The peer's will be of the same family. */
	memset(&a->dst_storage, 0, sizeof(a->dst_storage));
	a->dst_addr.sa_family = sa->sa_family;
	if (local)
		rcm_id_set_local(id, local);
	if (!shown) {
		id->base.verbs = NULL;
		id->base.port_num = 0;
		id->base.pd = pd;
	}
	id->state = RCM_BOUND;
}

int rcm_bind(struct rcm_id *id, const struct sockaddr *sa)
{
	struct sockaddr_storage ss;
	struct sockaddr *ip = (struct sockaddr *)&ss;
	struct rcm_local found, *local = &found;
	uint64_t service_id, guid;
	struct rcm_call call;
	int err, shown = true;

	if (!rcm_addr_len(sa) || id->state != RCM_IDLE)
		return REFUSE(
			-EINVAL, 0,
			"rdma_bind_addr: sa_family is %d, the ID in state %d: the family must be "
			"AF_INET, AF_INET6 or AF_IB, and an ID can be bound once: change the call",
			(int)sa->sa_family, (int)id->state);
	/* A GID belongs to one device; a link-local IPv6 address may exist on several. */
	if (sa->sa_family == AF_INET6 && rcm_addr_link_local(sa) && !rcm_addr_scope(sa))
		return REFUSE(-EINVAL, 0,
			      "rdma_bind_addr: a link-local IPv6 address without scope: it needs "
			      "an interface: set sin6_scope_id");
	err = rcm_addr_own_service(id->base.ps, sa, &service_id);
	if (err)
		return err;
	rcm_addr_ip(sa, &ss);
	err = find_own(ip, local);
	if (err < 0)
		return err;
	if (err > 0)
		local = NULL;
	/*
	 * The kernel gives an ID that is bound to a loopback address no device. Programs that look
	 * the device up among those that they list (libfabric does) must not find one beside them.
	 */
	if (local && rcm_addr_loopback(ip))
		shown = rcm_device_is_listed(local->dev);
	if (shown < 0)
		return shown;
	guid = rcm_device_guid();
	rcm_lock_take();
	rcm_call_begin(&call, id);
	err = rcm_core_start(id, guid, &core_ops);
	if (!err)
		err = rcm_agent_bind(id, ip, local, &service_id);
	if (!err)
		set_bound(id, sa, service_id, local, shown);
	rcm_call_end(&call);
	rcm_drive(); /* the agent may be lost */
	rcm_lock_drop();
	return err;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int err = rcm_begin(id ? addr : NULL, FAULT_VERB_RDMA_BIND_ADDR);

	return rcm_ret(err ? err : rcm_bind(rcm_id_of(id), addr));
}

/* ---- resolve_addr ---- */

/* Addresses and groups of a link, and groups of an interface. */
static bool needs_scope(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_MC_LINKLOCAL(a) ||
	       IN6_IS_ADDR_MC_NODELOCAL(a);
}

/*
 * The interface of a link-local destination without a scope: that of the ID's device, or the first
 * with such an address.
 */
static void complete_scope(const struct rcm_id *id, struct sockaddr_storage *to)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
	struct rcm_local *locals;
	int n;

	if (to->ss_family != AF_INET6 || !needs_scope(&in6->sin6_addr) || in6->sin6_scope_id)
		return;
	in6->sin6_scope_id = id->local.dev ? id->local.dev->ifindex : 0;
	if (in6->sin6_scope_id)
		return;
	n = rcm_device_addresses(&locals);
	for (int i = 0; i < n && !in6->sin6_scope_id; i++)
		in6->sin6_scope_id = locals[i].scope_id;
	if (n >= 0)
		free(locals);
}

/*
 * The IP address of a destination. A wildcard is this host: the address that the ID has, or the
 * loopback address.
 */
static void find_destination(const struct rcm_id *id, const struct sockaddr *dst,
			     struct sockaddr_storage *to)
{
	static const struct rocemu_gid lo4 = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
				       lo6 = {.raw = {[15] = 1}};
	struct sockaddr *ip = (struct sockaddr *)to;
	uint16_t port = rcm_addr_port(dst);
	struct rcm_local local;

	rcm_addr_ip(dst, to);
	if (!rcm_addr_any(ip))
		complete_scope(id, to);
	else if (id->local.dev)
		rcm_addr_from_gid(ip, &id->local.gid, port, id->local.scope_id);
	else if (dst->sa_family == AF_INET ||
		 (dst->sa_family == AF_IB && rcm_device_find_loopback(AF_INET6, &local)))
		rcm_addr_from_gid(ip, &lo4, port, 0);
	else
		rcm_addr_from_gid(ip, &lo6, port, 0);
}

/* Is there a route from a device's address? -errno. */
static int check_route(const struct rcm_local *from, const struct sockaddr *to)
{
	struct sockaddr_storage own, src;

	rcm_addr_from_gid((struct sockaddr *)&own, &from->gid, 0, from->scope_id);
	/* As for IPv4. Packets from ::1 would leave, and be dropped by their receiver. */
	if (rcm_addr_loopback((struct sockaddr *)&own) && !rcm_addr_loopback(to) &&
	    !rcm_addr_multicast(to) && !rcm_device_is_ours(to))
		return REFUSE(-EINVAL, 0,
			      "the source is a loopback address, which reaches this host only: "
			      "bind the ID to an address of the network");
	return rcm_addr_route(to, (struct sockaddr *)&own, &src);
}

/*
 * Find out where packets to an IP address would leave.
 * @return 0 with *local, or -errno; -ENODEV and -EADDRNOTAVAIL: from an address that no device has.
 */
static int choose_source(const struct rcm_id *id, const struct sockaddr *to,
			 struct rcm_local *local)
{
	const struct sockaddr *own = &id->base.route.addr.src_addr;
	struct sockaddr_storage from, src;
	int err;

	if (id->local.dev) {
		*local = id->local;
		return check_route(local, to);
	}
	if (rcm_addr_len(own) && !rcm_addr_any(own)) {
		rcm_addr_ip(own, &from);
		err = rcm_addr_route(to, (struct sockaddr *)&from, &src);
	} else {
		err = rcm_addr_route(to, NULL, &src);
	}
	/* Of the device that is found, which need not be the one that routing named. */
	return err ? err : find_local((struct sockaddr *)&src, local);
}

static uint16_t any_port(void) REQUIRES(rcm_lock)
{
	enum { FIRST = 32768, LAST = 60999 }; /* as net.ipv4.ip_local_port_range has it */

	return (uint16_t)(FIRST + rcm_random() % (LAST - FIRST + 1));
}

/*
 * Ports of IDs that only connect are not registered with the agent: they appear in messages only.
 */
static void set_resolved(struct rcm_id *id, const struct sockaddr *to,
			 const struct rcm_local *local) REQUIRES(rcm_lock)
{
	struct rdma_addr *a = &id->base.route.addr;
	sa_family_t family = a->dst_addr.sa_family;
	struct rocemu_gid dgid;
	uint64_t service_id;

	if (id->bound)
		service_id = rcm_addr_service(id->base.ps, &a->src_addr);
	else
		service_id = rocemu_cm_service_id((enum rocemu_port_space)id->base.ps, any_port());
	memset(&a->src_storage, 0, sizeof(a->src_storage));
	rcm_addr_make(&a->src_addr, family, &local->gid, service_id, local->scope_id);
	rcm_id_set_local(id, local);
	rcm_addr_to_gid(to, &dgid);
	if (rcm_addr_any(&a->dst_addr))
		rcm_addr_make(&a->dst_addr, family, &dgid,
			      rcm_addr_service(id->base.ps, &a->dst_addr), local->scope_id);
	memcpy(a->addr.ibaddr.dgid.raw, dgid.raw, 16);
	id->state = RCM_ADDR_RESOLVED;
}

/* The ID's own address: the given one, if it has none yet. */
static int bind_source(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	const struct sockaddr *own = &id->base.route.addr.src_addr;

	if (!rcm_addr_len(dst) || (id->state != RCM_IDLE && id->state != RCM_BOUND))
		return REFUSE(
			-EINVAL, 0,
			"rdma_resolve_addr: sa_family is %d, the ID in state %d: the family must "
			"be AF_INET, AF_INET6 or AF_IB, and the ID new or bound: change the call",
			(int)dst->sa_family, (int)id->state);
	if (id->state == RCM_BOUND)
		return own->sa_family == dst->sa_family
			       ? 0
			       : REFUSE(-EINVAL, 0,
					"rdma_resolve_addr: the destination is of another address "
					"family than the ID's address: they must be equal: change "
					"one");
	if (dst->sa_family == AF_IB && id->base.ps == RDMA_PS_IPOIB)
		return -EPROTONOSUPPORT;
	if (!src || !src->sa_family)
		return 0;
	if (src->sa_family != dst->sa_family)
		return REFUSE(-EINVAL, 0,
			      "rdma_resolve_addr: source and destination are of different address "
			      "families: they must be equal: change one");
	return rcm_addr_any(src) && !rcm_addr_port(src) ? 0 : rcm_bind(id, src);
}

/*
 * The program may read the public part of the ID until it takes the event: do not change it before.
 */
static void take_address(struct rcm_event *ev)
{
	struct rcm_id *id = ev->owner;

	rcm_lock_take();
	if (ev->base.status)
		id->state = id->bound ? RCM_BOUND : RCM_IDLE;
	else if (!id->removed)
		set_resolved(id, (struct sockaddr *)&id->resolving.to, &id->resolving.from);
	rcm_lock_drop();
}

static void check_again(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	struct rcm_id *id = container_of(t, struct rcm_id, resolving.timer);
	const struct sockaddr_storage to = id->resolving.to;
	const struct rcm_local from = id->resolving.from;
	rocemu_ns_t now;
	bool known;

	rcm_lock_drop();
	known = rcm_neigh_known((const struct sockaddr *)&to, &from);
	rcm_lock_take();
	if (!rcm_timer_expiring(t))
		return; /* the ID may be gone */
	now = rcm_now();
	if (known) {
		rcm_event_report(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, take_address);
	} else if (now >= id->resolving.until) {
		rcm_event_report(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, take_address);
	} else {
		id->resolving.pause = MIN(2 * id->resolving.pause, PAUSE_MAX_NS);
		rcm_timer_set(t, MIN(now + id->resolving.pause, id->resolving.until), check_again);
	}
}

/* Check again, until the neighbour is resolved or the time is over. */
static void wait_for_neighbour(struct rcm_id *id, const struct sockaddr *to,
			       const struct rcm_local *from, int timeout_ms) REQUIRES(rcm_lock)
{
	rocemu_ns_t now = rcm_now();

	id->state = RCM_ADDR_QUERY;
	rcm_addr_copy(&id->resolving.to, to);
	id->resolving.from = *from;
	id->resolving.pause = PAUSE_FIRST_NS;
	id->resolving.until = now + (rocemu_ns_t)MAX(timeout_ms, 0) * 1000000u;
	rcm_timer_set(&id->resolving.timer, now + PAUSE_FIRST_NS, check_again);
}

static int resolve_addr(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			int timeout_ms)
{
	bool known;
	struct sockaddr_storage to;
	struct rcm_local local;
	struct rcm_call call;
	uint64_t guid;
	int err;

	err = bind_source(id, src, dst);
	if (err)
		return err;
	find_destination(id, dst, &to);
	err = choose_source(id, (struct sockaddr *)&to, &local);
	if (err && err != -ENODEV && err != -EADDRNOTAVAIL)
		return err;
	if (err) {
		rcm_lock_take();
		rcm_addr_copy(&id->base.route.addr.dst_storage, dst);
		rcm_event_report(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, NULL);
		rcm_lock_drop();
		return 0;
	}
	known = rcm_neigh_known((struct sockaddr *)&to, &local);
	guid = rcm_device_guid();
	rcm_lock_take();
	rcm_call_begin(&call, id);
	/* From here on the device is watched. */
	err = id->removed ? -ENODEV : rcm_core_start(id, guid, &core_ops);
	if (!err)
		rcm_addr_copy(&id->base.route.addr.dst_storage, dst);
	if (!err && known) {
		set_resolved(id, (struct sockaddr *)&to, &local);
		rcm_event_report(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	} else if (!err) {
		wait_for_neighbour(id, (struct sockaddr *)&to, &local, timeout_ms);
	}
	rcm_call_end(&call);
	rcm_drive();
	rcm_lock_drop();
	return err;
}

int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	int err = rcm_begin(base ? dst_addr : NULL, FAULT_VERB_RDMA_RESOLVE_ADDR);

	if (!err)
		err = resolve_addr(rcm_id_of(base), src_addr, dst_addr, timeout_ms);
	return err ? rcm_ret(err) : rcm_sync_wait(rcm_id_of(base));
}

/* ---- resolve_route ---- */

/* Fill in the public path. */
static void fill_path(struct rcm_id *id, const struct ibv_port_attr *port)
{
	struct ibv_sa_path_rec *p = &id->path_rec;
	const struct rdma_ib_addr *ib = &id->base.route.addr.addr.ibaddr;

	*p = (struct ibv_sa_path_rec){
		.dgid = ib->dgid,
		.sgid = ib->sgid,
		.hop_limit = RCM_HOP_LIMIT,
		.traffic_class = id->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = ib->pkey,
		.mtu_selector = 2, /* exactly */
		.mtu = (uint8_t)port->active_mtu,
		.rate_selector = 2,
		.rate = IBV_RATE_MAX,
		.packet_life_time_selector = 2,
		.packet_life_time = PACKET_LIFE,
	};
	id->base.route.path_rec = p;
	id->base.route.num_paths = 1;
}

/* Is there still a route from the ID's address to its destination? -errno: there is not. */
static int check_way(const struct rcm_id *id, const struct ibv_port_attr *port)
{
	struct sockaddr_storage to;
	int err;

	find_destination(id, &id->base.route.addr.dst_addr, &to);
	err = check_route(&id->local, (struct sockaddr *)&to);
	if (err)
		return err;
	/* To this host itself it needs no carrier. */
	return port->state == IBV_PORT_ACTIVE || rcm_device_is_ours((struct sockaddr *)&to)
		       ? 0
		       : -ENETDOWN;
}

/*
 * As in the kernel, the call fails if the device is gone, and a lost route is reported by an event
 * (which the kernel does for InfiniBand only: it does not check RoCE's).
 */
int rcm_resolve_route(struct rcm_id *id)
{
	struct ibv_port_attr port;
	int err, way;

	if (id->state != RCM_ADDR_RESOLVED)
		return REFUSE(-EINVAL, 0,
			      "rdma_resolve_route: the ID is in state %d: the address must be "
			      "resolved first: wait for ADDR_RESOLVED after rdma_resolve_addr()",
			      (int)id->state);
	if (rcm_id_removed(id))
		return -ENODEV;
	err = rcm_verbs_err(ibv_query_port(id->base.verbs, id->base.port_num, &port));
	if (err)
		return err;
	fill_path(id, &port);
	way = check_way(id, &port);
	rcm_lock_take();
	if (way) {
		rcm_event_report(id, RDMA_CM_EVENT_ROUTE_ERROR, way, NULL);
	} else {
		id->state = RCM_ROUTE_RESOLVED;
		rcm_event_report(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	}
	rcm_lock_drop();
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	int err = rcm_begin(base, FAULT_VERB_RDMA_RESOLVE_ROUTE);

	(void)timeout_ms;
	if (!err)
		err = rcm_resolve_route(rcm_id_of(base));
	return err ? rcm_ret(err) : rcm_sync_wait(rcm_id_of(base));
}
