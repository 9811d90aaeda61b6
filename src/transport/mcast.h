/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of an endpoint, and the UD QPs attached to each (IBTA 10.5). A group exists as
 * long as a QP is attached to it. The driver receives the packets and joins the groups on the
 * network.
 */
#ifndef TRANSPORT_MCAST_H
#define TRANSPORT_MCAST_H

#include <rocemu/endpoint.h>

#include "base/hash.h"
#include "base/list.h"

struct mcast_group {
	struct hash_node node; /* in ep->mcast_groups */
	struct rocemu_gid gid;
	struct rocemu_gid on_wire; /* the destination of its packets */
	struct list members;	   /* of mcast_member.in_group, in the order of attaching */
	unsigned count;
};

/** A QP in a group. Owned by the QP: freed when the QP is detached. */
struct mcast_member {
	struct list in_group, in_qp;
	struct hash_node node;	   /* in ep->mcast_members */
	struct mcast_group *group; /* owned by the endpoint */
	struct rocemu_qp *qp;	   /* borrowed */
};

/** A packet to QPN ROCEMU_MCAST_QPN, of right form and ICRC: to each QP attached to its group. */
enum rocemu_drop mcast_input(struct rocemu_ep *ep, rocemu_ns_t now, const struct rocemu_packet *pkt,
			     const struct rocemu_dgram *d);

/** Detach a QP from all its groups; the endpoint is being freed. */
void mcast_members_free(struct rocemu_qp *qp);

#endif
