/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/read-budget.h"

#include "base/util.h"

bool read_budget_open(const struct rocemu_qp *qp)
{
	const struct rocemu_ep *ep = qp->ep;

	if (qp->req.read_yield && !list_empty(&ep->read_waiting))
		return false;
	return ep->read_out < ep->cfg.read_budget;
}

bool read_budget_left(const struct rocemu_ep *ep)
{
	return !list_empty(&ep->read_waiting) && ep->read_out < ep->cfg.read_budget;
}

void read_budget_wait(struct rocemu_qp *qp)
{
	if (!list_linked(&qp->req.peer_link))
		list_append(&qp->ep->read_waiting, &qp->req.peer_link);
}

void read_budget_take(struct rocemu_qp *qp, uint32_t bytes)
{
	qp->req.read_out += bytes;
	qp->ep->read_out += bytes;
	qp->req.read_yield = !list_empty(&qp->ep->read_waiting);
}

void read_budget_return(struct rocemu_qp *qp, uint32_t bytes)
{
	bytes = MIN(bytes, qp->req.read_out);
	qp->req.read_out -= bytes;
	qp->ep->read_out -= bytes;
	read_budget_wake(qp->ep);
}

/*
 * Those that wait longest are woken until what they will ask for fills the budget. One that waits
 * for something else by now must not take the turn: nothing would wake the next.
 */
void read_budget_wake(struct rocemu_ep *ep)
{
	uint64_t used = ep->read_out;
	struct list *n;

	while (used < ep->cfg.read_budget && (n = list_first(&ep->read_waiting))) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, req.peer_link);

		list_remove(n);
		qp->req.read_yield = false;
		qp_wake(qp);
		if (req_hold(qp) == REQ_GO)
			used += (uint64_t)qp->req.read_pkts * qp->req.full_cost;
	}
}

void rocemu_ep_set_read_budget(struct rocemu_ep *ep, uint32_t bytes)
{
	ep->cfg.read_budget = bytes ? bytes : EP_DEFAULT_READ_BUDGET;
	read_budget_wake(ep);
}
