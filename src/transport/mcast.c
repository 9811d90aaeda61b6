/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/qp.h"
#include "wire/ip.h"

/** Of a group, by its address on the wire, which several may have; of a member, with its QPN. */
static uint64_t key_of(const struct rocemu_gid *gid, uint32_t qpn)
{
	uint64_t word[2];

	memcpy(word, gid->raw, sizeof(word));
	return word[0] ^ word[1] ^ qpn;
}

static struct mcast_group *group_find(const struct rocemu_ep *ep, const struct rocemu_gid *gid)
{
	const struct rocemu_gid on_wire = rocemu_gid_on_wire(gid);

	hash_for_each (g, struct mcast_group, node, &ep->mcast_groups, key_of(&on_wire, 0))
		if (rocemu_gid_equal(&g->gid, gid))
			return g;
	return NULL;
}

static struct mcast_member *member_find(const struct rocemu_qp *qp, const struct rocemu_gid *gid)
{
	hash_for_each (m, struct mcast_member, node, &qp->ep->mcast_members, key_of(gid, qp->qpn))
		if (m->qp == qp && rocemu_gid_equal(&m->group->gid, gid))
			return m;
	return NULL;
}

/* -ENOSPC: the limit of groups is reached; -ENOMEM. */
static int mcast_group_new(struct rocemu_ep *ep, const struct rocemu_gid *gid,
			   struct mcast_group **out)
{
	struct mcast_group *g;

	if (ep->mcast_groups.n == ROCEMU_MAX_MCAST_GROUPS)
		return -ENOSPC;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->gid = *gid;
	g->on_wire = rocemu_gid_on_wire(gid);
	list_init(&g->members);
	hash_add(&ep->mcast_groups, &g->node, key_of(&g->on_wire, 0));
	*out = g;
	return 0;
}

/* Free a group without members. */
static void mcast_group_free(struct rocemu_ep *ep, struct mcast_group *g)
{
	hash_remove(&ep->mcast_groups, &g->node);
	free(g);
}

static void mcast_member_free(struct mcast_member *m)
{
	struct mcast_group *g = m->group;
	struct rocemu_ep *ep = m->qp->ep;

	hash_remove(&ep->mcast_members, &m->node);
	list_remove(&m->in_group);
	list_remove(&m->in_qp);
	free(m);
	if (--g->count == 0)
		mcast_group_free(ep, g);
}

void mcast_members_free(struct rocemu_qp *qp)
{
	list_for_each_safe (it, tmp, &qp->groups)
		mcast_member_free(list_entry(it, struct mcast_member, in_qp));
}

int rocemu_qp_attach_mcast(struct rocemu_qp *qp, const struct rocemu_gid *group)
{
	struct mcast_group *g = group_find(qp->ep, group);
	struct mcast_member *m;
	int r = 0;

	if (qp->type != IBV_QPT_UD || !rocemu_gid_is_multicast(group) ||
	    gid_is_scopeless_group(group))
		return -EINVAL;
	if (member_find(qp, group))
		return 0;
	if (g && g->count == ROCEMU_MAX_MCAST_QPS)
		return -ENOSPC;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	if (!g)
		r = mcast_group_new(qp->ep, group, &g);
	if (r) {
		free(m);
		return r;
	}
	m->group = g;
	m->qp = qp;
	list_append(&g->members, &m->in_group);
	list_append(&qp->groups, &m->in_qp);
	hash_add(&qp->ep->mcast_members, &m->node, key_of(group, qp->qpn));
	g->count++;
	return 0;
}

int rocemu_qp_detach_mcast(struct rocemu_qp *qp, const struct rocemu_gid *group)
{
	struct mcast_member *m = member_find(qp, group);

	if (!m)
		return -EINVAL;
	mcast_member_free(m);
	return 0;
}

bool rocemu_ep_has_mcast(const struct rocemu_ep *ep, const struct rocemu_gid *dst)
{
	hash_for_each (g, struct mcast_group, node, &ep->mcast_groups, key_of(dst, 0))
		if (rocemu_gid_equal(&g->on_wire, dst))
			return true;
	return false;
}

/* The QP blocks loopback of its own messages, and this is one. */
static bool own_message(const struct rocemu_qp *qp, const struct rocemu_packet *pkt,
			const struct rocemu_dgram *d)
{
	return qp->block_own_mcast && pkt->h.deth.sqpn == qp->qpn &&
	       ep_find_gid(qp->ep, &d->src) >= 0;
}

static enum rocemu_drop mcast_deliver(struct rocemu_qp *qp, rocemu_ns_t now,
				      const struct rocemu_packet *pkt, const struct rocemu_dgram *d)
{
	qp->stats.rx_packets++;
	qp->stats.rx_bytes += pkt->payload_len;
	return resp_input(qp, now, pkt, d);
}

/* The outcome of a packet: one QP took it, or why the last one did not. */
struct outcome {
	bool found, taken;
	enum rocemu_drop why;
};

static void group_input(struct rocemu_ep *ep, struct mcast_group *g, rocemu_ns_t now,
			const struct rocemu_packet *pkt, const struct rocemu_dgram *d,
			struct outcome *o)
{
	struct rocemu_dgram to = *d;

	to.dst = g->gid; /* in the GRH that the program gets */
	o->found = true;
	list_for_each (it, &g->members) {
		struct rocemu_qp *qp = list_entry(it, struct mcast_member, in_group)->qp;
		enum rocemu_drop one = ROCEMU_DROP_STATE;

		if (own_message(qp, pkt, d))
			continue;
		if (qp_can_receive(qp))
			one = mcast_deliver(qp, now, pkt, &to);
		if (one && o->why)
			ep->stats->drops[o->why]++; /* the caller counts the last one */
		if (one)
			o->why = one;
		o->taken |= !one;
	}
}

enum rocemu_drop mcast_input(struct rocemu_ep *ep, rocemu_ns_t now, const struct rocemu_packet *pkt,
			     const struct rocemu_dgram *d)
{
	struct outcome o = {.why = ROCEMU_DROP_NONE};

	hash_for_each (g, struct mcast_group, node, &ep->mcast_groups, key_of(&d->dst, 0))
		if (rocemu_gid_equal(&g->on_wire, &d->dst))
			group_input(ep, g, now, pkt, d, &o);
	if (!o.found)
		return ROCEMU_DROP_QPN;
	ep->stats->mcast_rcvd++;
	/* Drops of single QPs are counted, but the packet itself counts as received. */
	if (o.taken && o.why)
		ep->stats->drops[o.why]++;
	return o.taken ? ROCEMU_DROP_NONE : o.why;
}
