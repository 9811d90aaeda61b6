/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles responses with data. Each is placed when it comes, for any request in the send queue, and
 * recorded; requests complete in order (comp.c). An error in a response fails its request only once
 * all earlier responses have come.
 */
#include <errno.h>

#include "base/util.h"
#include "transport/qp.h"
#include "transport/read-budget.h"
#include "transport/req-wqe.h"
#include "transport/why.h"

/** Place response bytes in the memory of entry i. */
static enum ibv_wc_status comp_place(struct rocemu_qp *qp, uint32_t i, uint32_t off,
				     const void *src, uint32_t len)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);
	int r = sge_scatter(qp->ep->mrs, qp->pd, sq_sges(&qp->sq, i), w->nsge, off, src, len);

	if (!r)
		return IBV_WC_SUCCESS;
	return r == -EMSGSIZE ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR;
}

/**
 * Packet at of the READ i. FIRST and ONLY may stand within a request's range too, and MIDDLE and
 * LAST at the start of a repeated range, but for the READ's first packet: responders differ in how
 * they answer a repeated READ. A repeated range may also end before the request does. The length of
 * each response is fixed.
 */
static enum ibv_wc_status comp_take_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					 uint32_t ops, uint32_t i, uint32_t at)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);
	bool last = swqe_read_end(&qp->req, w->npkts, at) == at + 1;
	bool again = rocemu_psn_diff(pkt->h.psn, qp->req.again.split_to) < 0;

	if (!(ops & ROCEMU_OP_READ_RESP) || w->opcode != IBV_WR_RDMA_READ)
		return IBV_WC_BAD_RESP_ERR;
	if (unlikely(!at && !(ops & ROCEMU_OP_FIRST)))
		return IBV_WC_BAD_RESP_ERR;
	if (!(ops & ROCEMU_OP_LAST) == last && (last || !again))
		return IBV_WC_BAD_RESP_ERR;
	if (pkt->payload_len != swqe_bytes(&qp->req, w, w->npkts, at, at + 1))
		return IBV_WC_LOC_LEN_ERR;
	return comp_place(qp, i, at << qp->req.mtu_shift, pkt->payload, pkt->payload_len);
}

static enum ibv_wc_status comp_take_atomic(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					   uint32_t ops, uint32_t i)
{
	if (!(ops & ROCEMU_OP_ATOMIC_ACK) || !swqe_is_atomic(sq_wqe(&qp->sq, i)))
		return IBV_WC_BAD_RESP_ERR;
	/* The value is a number: in memory it has this host's byte order. */
	return comp_place(qp, i, 0, &pkt->h.atomicack, sizeof(pkt->h.atomicack));
}

/** FLUSH and ATOMIC WRITE are answered by a READ response of nothing (annex A19). */
static enum ibv_wc_status comp_take_empty(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					  uint32_t ops, uint32_t i)
{
	enum { ONLY = ROCEMU_OP_READ_RESP | ROCEMU_OP_FIRST | ROCEMU_OP_LAST };

	if (!swqe_expects_response(sq_wqe(&qp->sq, i)) || (ops & ONLY) != ONLY)
		return IBV_WC_BAD_RESP_ERR;
	return pkt->payload_len ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/** The budget has room for bytes more. */
static void came(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t bytes)
{
	read_path_came(&qp->ep->read_path, now, bytes, qp->req.peer->cc.min_rtt);
	read_budget_return(qp, bytes);
}

/** Place a response for entry i. */
static enum ibv_wc_status comp_take(struct rocemu_qp *qp, rocemu_ns_t now,
				    const struct rocemu_packet *pkt, uint32_t ops, uint32_t i)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);
	uint32_t at = swqe_pkt(w, pkt->h.psn);
	enum ibv_wc_status status;

	if (w->opcode == IBV_WR_RDMA_READ)
		status = comp_take_read(qp, pkt, ops, i, at);
	else
		status = swqe_is_atomic(w) ? comp_take_atomic(qp, pkt, ops, i)
					   : comp_take_empty(qp, pkt, ops, i);
	if (status)
		return status;
	/* Given up by going back, which also released its share of the budget. */
	if (w->opcode == IBV_WR_RDMA_READ && rocemu_psn_diff(pkt->h.psn, qp->req.send_psn) < 0)
		came(qp, now, (uint32_t)swqe_cost(&qp->req, w, w->npkts, at, at + 1));
	return IBV_WC_SUCCESS;
}

/** A response while one before it is missing. */
APART static enum rocemu_drop comp_early(struct rocemu_qp *qp, rocemu_ns_t now,
					 const struct rocemu_packet *pkt, uint32_t ops)
{
	uint32_t psn = pkt->h.psn;
	uint32_t ahead = (psn - qp->comp.una_psn) & ROCEMU_PSN_MASK;
	uint32_t i = comp_entry(qp, psn);

	/* Not requested again since going back; or it came before. */
	if (rocemu_psn_diff(psn, qp->req.send_psn) >= 0)
		return ROCEMU_DROP_NONE;
	if (ahead < GOT_PSNS && !qp->ep->cfg.traits.goes_back) {
		enum ibv_wc_status status;

		if (got_test(&qp->req.again, psn))
			return ROCEMU_DROP_GHOST;
		/*
		 * Wrong responses are ignored: this one fails the request when it is requested
		 * again. If this side's memory is at fault the response is right, and shows the
		 * gap.
		 */
		status = comp_take(qp, now, pkt, ops, i);
		if (status && status != IBV_WC_LOC_PROT_ERR)
			return ROCEMU_DROP_SEQUENCE;
		if (!status)
			got_set(&qp->req.again, psn);
	}
	qp->ep->stats->response_gaps++;
	if (!recover_gap(qp, now, psn))
		return comp_refused(qp, now, IBV_WC_RETRY_EXC_ERR, ROCEMU_WHY_LOSSES);
	return ROCEMU_DROP_NONE;
}

APART enum rocemu_drop comp_response(struct rocemu_qp *qp, rocemu_ns_t now,
				     const struct rocemu_packet *pkt, uint32_t ops)
{
	enum ibv_wc_status status;

	if (unlikely(qp->comp.una_psn != pkt->h.psn)) {
		comp_advance(qp, now, pkt->h.psn);
		if (qp->comp.una_psn != pkt->h.psn)
			return comp_early(qp, now, pkt, ops);
	}
	status = comp_take(qp, now, pkt, ops, qp->sq.tail);
	if (status)
		return comp_refused(qp, now, status, why_response(pkt, status));
	comp_next(qp, now);
	recover_acked(qp, now, false);
	return ROCEMU_DROP_NONE;
}
