/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/credit.h"

#include "base/util.h"
#include "transport/qp.h"

/** Two codes for each power of two, from 2 on: the power, and one and a half of it. */
static uint32_t credits_of(uint8_t field)
{
	if (field < 2)
		return field;
	return field % 2 ? 3u << (field - 3) / 2 : 1u << field / 2;
}

uint8_t credit_code(uint32_t receives)
{
	uint8_t code = ROCEMU_AETH_NO_CREDITS - 1;

	while (credits_of(code) > receives)
		code--;
	return code;
}

/** Does the request take a receive at the peer? */
static bool takes_receive(const struct swqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM ||
	       w->opcode == IBV_WR_SEND_WITH_INV || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool credit_holds(const struct rocemu_qp *qp, const struct swqe *w, bool fresh)
{
	const struct qp_req *req = &qp->req;
	int32_t beyond = (int32_t)(req->cur - req->credit.limit);

	/* Nor where what is under way requests no ACK: none would come to end the wait. */
	if (beyond < 0 || !takes_receive(w) || req->since_ackreq)
		return false;
	/* With nothing in flight no ACK would come: one may go. */
	if (fresh)
		return beyond > 0 && req->acked != req->cur;
	return rocemu_psn_diff(req->send_psn, w->first_psn) > 0 &&
	       rocemu_psn_diff(req->acked_psn, w->first_psn) <= 0;
}

bool credit_probes(const struct rocemu_qp *qp, const struct swqe *w)
{
	const struct qp_req *req = &qp->req;

	return req->send_psn == w->first_psn && (int32_t)(req->cur - req->credit.limit) >= 0 &&
	       takes_receive(w);
}

void credit_take(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t field)
{
	struct req_credit *c = &qp->req.credit;

	c->limited = field != ROCEMU_AETH_NO_CREDITS;
	c->limit = qp->req.acked + credits_of(field);
	if (qp->req.cur != qp->sq.head)
		req_kick(qp, now);
}
