/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits the bytes of READ responses in flight to the endpoint: all peers' responses come into one
 * socket buffer, and only the requests limit them.
 */
#ifndef TRANSPORT_READ_BUDGET_H
#define TRANSPORT_READ_BUDGET_H

#include "transport/qp.h"

/** The budget, and what the paths hold besides. */
static inline uint64_t read_budget_size(const struct rocemu_ep *ep)
{
	return ep->cfg.read_budget + ep->read_path.bytes;
}

/** May the QP send a READ request? The last one may exceed the budget. */
static inline bool read_budget_open(const struct rocemu_qp *qp)
{
	struct list *first = list_first(&qp->ep->read_waiting);

	return qp->ep->read_out < read_budget_size(qp->ep) &&
	       (!first || first == &qp->req.peer_link);
}

/** Some wait although there is room: the first in line cannot send just now. */
static inline bool read_budget_left(const struct rocemu_ep *ep)
{
	return !list_empty(&ep->read_waiting) && ep->read_out < read_budget_size(ep);
}

/** The QP waits for it (REQ_HOLD_BUDGET); cost bytes of the window are kept for it meanwhile. */
void read_budget_wait(struct rocemu_qp *qp, uint64_t cost);
/** It no longer waits: release the kept bytes, and the next one may get its turn. */
void read_budget_leave(struct rocemu_qp *qp);
/** The QP requested responses of these bytes, counted as peer_cost() does. */
void read_budget_take(struct rocemu_qp *qp, uint32_t bytes);
/** They came, or were given up; at most the QP's remaining share. */
void read_budget_return(struct rocemu_qp *qp, uint32_t bytes);
/** Wake the one that waits longest, if there is room. */
void read_budget_wake(struct rocemu_ep *ep);

#endif
