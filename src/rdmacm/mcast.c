/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. RoCEv2 needs no subnet administrator: a group's GID is its IP address, and the
 * membership is the kernel's (IGMP, MLD), which ibv_attach_mcast() requests. So joining is done at
 * once; the QP is attached when the program takes the event.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "rdmacm/mcast.h"

enum { MULTICAST_QPN = 0xffffff };

union group_gid {
	struct rocemu_gid our;
	union ibv_gid verbs;
};

/* A group joined by an ID. */
struct rcm_group {
	struct list node; /* in rcm_id.groups */
	union group_gid gid;
	void *context;
	bool send_only;
	bool attached;
};

/* A group's GID: its IP address, or (AF_IB) the GID itself. @return false: no address of a group.
 */
static bool group_gid(const struct sockaddr *addr, union group_gid *gid)
{
	rcm_addr_to_gid(addr, &gid->our);
	return rcm_addr_len(addr) && rcm_addr_multicast(addr);
}

static struct rcm_group *find_group(struct rcm_id *id, const union group_gid *gid)
	REQUIRES(rcm_lock)
{
	list_for_each (n, &id->groups) {
		struct rcm_group *g = list_entry(n, struct rcm_group, node);

		if (memcmp(&g->gid, gid, sizeof(*gid)) == 0)
			return g;
	}
	return NULL;
}

/* Attach the QP. When that fails, the event becomes MULTICAST_ERROR. */
static void take_join(struct rcm_event *ev)
{
	struct ibv_qp *qp = ev->owner->base.qp;
	struct rcm_group *g = ev->group;
	int err = 0;

	/* The program that leaves a group takes its events back first; so the group is there. */
	if (!qp || g->send_only)
		return;
	err = rcm_verbs_err(ibv_attach_mcast(qp, &g->gid.verbs, 0));
	g->attached = !err;
	if (err) {
		ev->base.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		ev->base.status = err;
	}
}

static void post_join(struct rcm_id *id, struct rcm_group *g, struct rcm_event *ev)
	REQUIRES(rcm_lock)
{
	struct rdma_ud_param *ud = &ev->base.param.ud;

	ud->private_data = g->context;
	rcm_local_ah(&id->local, &g->gid.our, id->tos, &ud->ah_attr);
	ud->qp_num = MULTICAST_QPN;
	ud->qkey = RDMA_UDP_QKEY;
	ev->group = g;
	ev->on_take = take_join;
	rcm_event_post(ev);
}

static int join(struct rcm_id *id, const struct sockaddr *addr, bool send_only, void *context)
{
	struct rcm_event *ev;
	struct rcm_group *g;
	union group_gid gid;
	int err = 0;

	if (!group_gid(addr, &gid) || !rcm_id_is_ud(id) || !id->local.dev ||
	    id->state == RCM_LISTEN)
		return REFUSE(
			-EINVAL, 0,
			"rdma_join_multicast: the address is no group, or the ID is not a bound UD "
			"ID: bind an ID of RDMA_PS_UDP first, and pass a multicast address");
	g = calloc(1, sizeof(*g));
	ev = rcm_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (!g || !ev) {
		free(g);
		free(ev);
		return -ENOMEM;
	}
	g->gid = gid;
	g->send_only = send_only;
	g->context = context;
	rcm_lock_take();
	if (id->removed || find_group(id, &gid)) {
		err = id->removed ? -ENODEV : -EADDRINUSE;
		free(g);
		rcm_event_free(ev);
	} else {
		list_append(&id->groups, &g->node);
		post_join(id, g, ev);
	}
	rcm_lock_drop();
	return err;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	int err;

	if (!id || !addr)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_join_multicast: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	err = join(rcm_id_of(id), addr, false, context);
	return err ? rcm_ret(err) : rcm_sync_wait(rcm_id_of(id));
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	int err;

	if (!id || !attr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) || !attr->addr ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_join_multicast_ex: comp_mask is 0x%x: ADDRESS and "
				      "JOIN_FLAGS are required, with known flags: set them",
				      attr ? attr->comp_mask : 0));
	err = join(rcm_id_of(id), attr->addr,
		   attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return err ? rcm_ret(err) : rcm_sync_wait(rcm_id_of(id));
}

static void detach(struct rcm_id *id, struct rcm_group *g)
{
	if (g->attached && id->base.qp)
		ibv_detach_mcast(id->base.qp, &g->gid.verbs, 0);
	g->attached = false;
}

int rdma_leave_multicast(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct rcm_group *g = NULL;
	union group_gid gid;
	struct rcm_id *id = rcm_id_of(base);

	if (!base || !addr || !group_gid(addr, &gid))
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_leave_multicast: the ID or address is NULL, or the "
				      "address is no group: pass those of rdma_join_multicast()"));
	rcm_lock_take();
	g = find_group(id, &gid);
	if (g) {
		list_remove(&g->node);
		rcm_events_drop_group(id, g);
	}
	rcm_lock_drop();
	if (!g)
		return rcm_ret(-EADDRNOTAVAIL);
	detach(id, g);
	free(g);
	return 0;
}

void rcm_groups_detach(struct rcm_id *id)
{
	/* Only the program's own calls change the list, and it makes none on an ID whose QP it
	 * destroys. */
	list_for_each (n, &id->groups)
		detach(id, list_entry(n, struct rcm_group, node));
}

void rcm_groups_leave(struct rcm_id *id)
{
	rcm_groups_detach(id);
	rcm_lock_take();
	list_for_each_safe (n, tmp, &id->groups) {
		struct rcm_group *g = list_entry(n, struct rcm_group, node);

		list_remove(n);
		rcm_events_drop_group(id, g);
		free(g);
	}
	rcm_lock_drop();
}
