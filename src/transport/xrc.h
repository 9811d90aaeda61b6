/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connected service (IBTA annex A14): domains, and the SRQ numbers in request
 * packets. The two kinds of QP share the RC requester (XRC_SEND) and the RC responder (XRC_RECV);
 * only this file and the responder's look-up of a request's SRQ differ.
 *
 * A number is index | tag << 16 (see slot-table.h).
 */
#ifndef TRANSPORT_XRC_H
#define TRANSPORT_XRC_H

#include <rocemu/endpoint.h>

#include "base/list.h"
#include "transport/slot-table.h"

/** A domain, or the part of it that is in one endpoint. */
struct rocemu_xrcd {
	struct rocemu_ep *ep; /* borrowed */
	struct list link;     /* in ep->xrcds */
	struct list parts;    /* ring of the domain's parts; linked to itself: it has no others */
	uint32_t refs;	      /* SRQs and XRC_RECV QPs of this part */
};

void xrc_table_init(struct slot_table *t);

/** Give an SRQ its number, unique in its endpoint and its domain, and references to domain and CQ.
 * -ENOMEM: nothing has changed. */
int xrc_srq_init(struct rocemu_srq *srq, struct rocemu_xrcd *xrcd, struct rocemu_cq *cq);
/** Release both, and receives of the queue that QPs have in use. */
void xrc_srq_fini(struct rocemu_srq *srq);

/** The SRQ that a request packet for this QP names: of its domain, in whichever endpoint. NULL:
 * there is none. */
struct rocemu_srq *xrc_srq_find(const struct rocemu_qp *qp, uint32_t srqn);

#endif
