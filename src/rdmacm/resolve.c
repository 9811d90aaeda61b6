/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From IP addresses to devices: bind, resolve_addr, resolve_route. RoCE needs no route of its own
 * and the kernel looks after neighbours, so all is known at once; the events that programs wait for
 * are posted by the call itself.
 */
#include <string.h>

#include "rdmacm/objects.h"

/* The device of a source address. Loopback addresses are one host: any device with one of them will
 * do. */
static int find_local(const struct sockaddr *src, struct rcm_local *local)
{
	int err = rcm_device_find(src, local);

	if ((err == -ENODEV || err == -EADDRNOTAVAIL) && rcm_addr_loopback(src) &&
	    rcm_device_find_loopback(src->sa_family, local) == 0)
		return 0;
	return err;
}

int rcm_bind(struct rcm_id *id, const struct sockaddr *sa)
{
	struct rcm_local local;
	uint64_t guid;
	uint16_t port;
	bool any;
	int err;

	if (!rcm_addr_len(sa))
		return -EAFNOSUPPORT;
	any = rcm_addr_any(sa);
	if (!any) {
		err = rcm_device_find(sa, &local);
		if (err)
			return err;
	}
	guid = rcm_device_guid();
	rcm_lock_take();
	err = id->state == RCM_IDLE ? rcm_core_start(id, guid) : -EINVAL;
	if (!err)
		err = rcm_core_bind(id, sa, &port);
	if (!err) {
		rcm_addr_copy(&id->base.route.addr.src_storage, sa);
		rcm_addr_set_port(&id->base.route.addr.src_addr, port);
		if (!any)
			rcm_id_set_local(id, &local);
		id->state = RCM_BOUND;
	}
	rcm_drive(); /* the agent's descriptor may be another one now */
	rcm_lock_drop();
	return err;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (!id || !addr)
		return rcm_ret(-EINVAL);
	return rcm_ret(rcm_bind(rcm_id_of(id), addr));
}

/*
 * Find out where packets to dst would leave. Ports of IDs that only connect are not taken from the
 * agent: they stand in messages for people to read, nobody sends to them.
 * @return 0 with *src and *local, or -errno.
 */
static int choose_source(const struct rcm_id *id, const struct sockaddr *dst,
			 struct sockaddr_storage *src, struct rcm_local *local)
{
	const struct sockaddr *own = &id->base.route.addr.src_addr;
	uint16_t port = rcm_addr_len(own) ? rcm_addr_port(own) : 0;
	int err;

	if (id->local.dev) {
		*src = id->base.route.addr.src_storage;
		*local = id->local;
		return 0;
	}
	err = rcm_addr_route(dst, src);
	if (err)
		return err;
	err = find_local((struct sockaddr *)src, local);
	if (err)
		return err;
	/* Of the device that was found, which need not be the one that routing named. */
	rcm_addr_from_gid((struct sockaddr *)src, &local->gid, port, local->scope_id);
	return 0;
}

/* A wildcard as destination is this host: the address that the ID has, or the loopback address. */
static void set_destination(struct rcm_id *id, const struct sockaddr *dst)
{
	struct sockaddr *to = &id->base.route.addr.dst_addr;
	uint16_t port = rcm_addr_port(dst);

	rcm_addr_copy(&id->base.route.addr.dst_storage, dst);
	if (!rcm_addr_any(dst))
		return;
	if (id->local.dev)
		rcm_addr_copy(&id->base.route.addr.dst_storage, &id->base.route.addr.src_addr);
	else if (dst->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)to)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)(void *)to)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	rcm_addr_set_port(to, port);
}

static uint16_t any_port(void) REQUIRES(rcm_lock)
{
	enum { FIRST = 32768, LAST = 60999 }; /* as net.ipv4.ip_local_port_range has it */

	return (uint16_t)(FIRST + rcm_random() % (LAST - FIRST + 1));
}

static int resolve_addr(struct rcm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct sockaddr_storage from;
	struct rocemu_gid dgid;
	struct rcm_local local;
	int err;

	if (!rcm_addr_len(dst))
		return -EAFNOSUPPORT;
	if (id->state == RCM_IDLE && src && rcm_addr_len(src) &&
	    (!rcm_addr_any(src) || rcm_addr_port(src))) {
		if (src->sa_family != dst->sa_family)
			return -EINVAL;
		err = rcm_bind(id, src);
		if (err)
			return err;
	}
	if (id->state != RCM_IDLE && id->state != RCM_BOUND)
		return -EINVAL;
	if (id->local.dev && id->base.route.addr.src_addr.sa_family != dst->sa_family)
		return -EINVAL;
	set_destination(id, dst);
	err = choose_source(id, &id->base.route.addr.dst_addr, &from, &local);
	if (err && err != -ENODEV && err != -EADDRNOTAVAIL)
		return err;
	rcm_lock_take();
	if (err) {
		rcm_post(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	} else {
		if (!rcm_addr_port((struct sockaddr *)&from))
			rcm_addr_set_port((struct sockaddr *)&from, any_port());
		id->base.route.addr.src_storage = from;
		rcm_id_set_local(id, &local);
		rcm_addr_to_gid(&id->base.route.addr.dst_addr, &dgid);
		memcpy(id->base.route.addr.addr.ibaddr.dgid.raw, dgid.raw, 16);
		id->state = RCM_ADDR_RESOLVED;
		rcm_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	}
	rcm_lock_drop();
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	int err;

	(void)timeout_ms; /* nothing here takes time */
	if (!base || !dst_addr)
		return rcm_ret(-EINVAL);
	err = resolve_addr(rcm_id_of(base), src_addr, dst_addr);
	return err ? rcm_ret(err) : rcm_complete(rcm_id_of(base));
}

/* What programs see of the path. */
static int fill_path(struct rcm_id *id)
{
	struct ibv_sa_path_rec *p = &id->path_rec;
	const struct rdma_ib_addr *ib = &id->base.route.addr.addr.ibaddr;
	struct ibv_port_attr attr;
	int err = rcm_verbs_err(ibv_query_port(id->base.verbs, id->base.port_num, &attr));

	if (err)
		return err;
	*p = (struct ibv_sa_path_rec){
		.dgid = ib->dgid,
		.sgid = ib->sgid,
		.hop_limit = RCM_HOP_LIMIT,
		.traffic_class = id->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = ib->pkey,
		.mtu_selector = 2, /* exactly */
		.mtu = (uint8_t)attr.active_mtu,
		.rate_selector = 2,
		.rate = IBV_RATE_MAX,
		.packet_life_time_selector = 2,
		.packet_life_time = RCM_DEFAULT_PACKET_LIFE,
	};
	id->base.route.path_rec = p;
	id->base.route.num_paths = 1;
	return 0;
}

int rcm_resolve_route(struct rcm_id *id)
{
	int err;

	if (id->state != RCM_ADDR_RESOLVED)
		return -EINVAL;
	err = fill_path(id);
	if (err)
		return err;
	rcm_lock_take();
	id->state = RCM_ROUTE_RESOLVED;
	rcm_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	rcm_lock_drop();
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
	int err;

	(void)timeout_ms;
	if (!base)
		return rcm_ret(-EINVAL);
	err = rcm_resolve_route(rcm_id_of(base));
	return err ? rcm_ret(err) : rcm_complete(rcm_id_of(base));
}
