/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs that wait get turns in order. A turn is one request, and holds room for it until the QP has
 * sent: a QP that others' completions wake earlier would take it, and the same few would always
 * win.
 */
#include "transport/read-budget.h"

#include "base/util.h"

bool read_budget_open(const struct rocemu_qp *qp)
{
	const struct rocemu_ep *ep = qp->ep;

	if (qp->req.read_turn)
		return true;
	return list_empty(&ep->read_waiting) && ep->read_out + ep->read_turns < ep->cfg.read_budget;
}

static void turn_end(struct rocemu_qp *qp)
{
	qp->ep->read_turns -= qp->req.read_turn;
	qp->req.read_turn = 0;
}

void read_budget_wait(struct rocemu_qp *qp)
{
	if (!list_linked(&qp->req.peer_link))
		list_append(&qp->ep->read_waiting, &qp->req.peer_link);
}

void read_budget_pass(struct rocemu_qp *qp)
{
	turn_end(qp);
	read_budget_wake(qp->ep);
}

void read_budget_take(struct rocemu_qp *qp, uint32_t bytes)
{
	turn_end(qp);
	qp->req.read_out += bytes;
	qp->ep->read_out += bytes;
}

void read_budget_return(struct rocemu_qp *qp, uint32_t bytes)
{
	bytes = MIN(bytes, qp->req.read_out);
	qp->req.read_out -= bytes;
	qp->ep->read_out -= bytes;
	if (unlikely(read_budget_left(qp->ep)))
		read_budget_wake(qp->ep);
}

void read_budget_wake(struct rocemu_ep *ep)
{
	struct list *n;

	while (ep->read_out + ep->read_turns < ep->cfg.read_budget &&
	       (n = list_first(&ep->read_waiting))) {
		struct rocemu_qp *qp = list_entry(n, struct rocemu_qp, req.peer_link);

		list_remove(n);
		qp->req.read_turn = qp->req.read_pkts * qp->req.full_cost;
		ep->read_turns += qp->req.read_turn;
		/* One that waits for something else by now must not keep the turn. */
		if (req_hold(qp) != REQ_GO)
			turn_end(qp);
		qp_wake(qp);
	}
}

void rocemu_ep_set_read_budget(struct rocemu_ep *ep, uint32_t bytes)
{
	ep->cfg.read_budget = bytes ? bytes : EP_DEFAULT_READ_BUDGET;
	read_budget_wake(ep);
}
