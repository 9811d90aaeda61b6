/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting QPs form a line. Only the first may send, and it stays the first until it has requested
 * READ_TURN bytes, or half of the budget: otherwise a QP that others' completions wake earlier
 * would take the room, and the same few would always win. One request per turn would be as fair,
 * but the responses to short READs leave in bursts only if neighbours are of one QP. All in the
 * line could send if there were budget, so none blocks the rest.
 */
#include "transport/read-budget.h"

#include "base/util.h"
#include "transport/peer.h"

enum { READ_TURN = 64 * 1024 };

void read_budget_wait(struct rocemu_qp *qp, uint64_t cost)
{
	struct qp_req *req = &qp->req;

	if (req->kept)
		return;
	list_remove(&req->peer_link);
	if (req->read_turn) {
		list_append(qp->ep->read_waiting.next, &req->peer_link); /* still the first */
	} else {
		req->read_turn = (uint32_t)MIN(read_budget_size(qp->ep) / 2, (uint64_t)READ_TURN);
		list_append(&qp->ep->read_waiting, &req->peer_link);
	}
	req->kept = cost;
	peer_on_send(req->peer, cost);
	peer_wake(req->peer);
}

void read_budget_leave(struct rocemu_qp *qp)
{
	struct qp_req *req = &qp->req;
	uint64_t cost = req->kept;

	if (!cost)
		return;
	req->kept = 0;
	list_remove(&req->peer_link);
	peer_on_forget(req->peer, cost);
	read_budget_wake(qp->ep);
}

void read_budget_take(struct rocemu_qp *qp, uint32_t bytes)
{
	if (!qp->ep->read_out)
		read_path_idle(&qp->ep->read_path, qp->ep->now);
	qp->req.read_out += bytes;
	qp->ep->read_out += bytes;
	qp->req.read_turn -= MIN(qp->req.read_turn, bytes);
	if (unlikely(qp->req.kept))
		read_budget_leave(qp);
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
	if (read_budget_left(ep))
		qp_wake(list_entry(list_first(&ep->read_waiting), struct rocemu_qp, req.peer_link));
}

void rocemu_ep_set_read_budget(struct rocemu_ep *ep, uint32_t bytes)
{
	ep->cfg.read_budget = bytes ? bytes : EP_DEFAULT_READ_BUDGET;
	read_budget_wake(ep);
}
