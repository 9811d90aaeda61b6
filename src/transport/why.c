/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Determines the reasons of failed local requests, and reports all reasons. Those of received
 * packets: why-resp.c.
 */
#include "transport/why.h"

#include "base/util.h"
#include "transport/mw.h"
#include "transport/qp.h"
#include "transport/req-wqe.h"

void why_give(struct rocemu_ep *ep, const struct rocemu_why *w)
{
	if (ep->cfg.why)
		ep->cfg.why(ep->cfg.why_user, w);
}

void why_qp(const struct rocemu_qp *qp, struct rocemu_why w)
{
	w.qpn = qp->qpn;
	if (qp->type != IBV_QPT_UD && !w.peer_qpn) {
		w.peer = qp->path.dgid;
		w.peer_qpn = qp->attr.dest_qp_num;
	}
	why_give(qp->ep, &w);
}

const char *why_wr_name(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE with immediate",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND with immediate",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CmpSwap",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FetchAdd",
		[IBV_WR_LOCAL_INV] = "local invalidate",
		[IBV_WR_BIND_MW] = "bind",
		[IBV_WR_SEND_WITH_INV] = "SEND with invalidate",
		[ROCEMU_WR_FLUSH] = "FLUSH",
		[ROCEMU_WR_ATOMIC_WRITE] = "ATOMIC WRITE",
	};

	return (unsigned)op < ARRAY_LEN(names) && names[op] ? names[op] : "unknown operation";
}

/* ---- memory of this side ---- */

/** What is wrong with one SGE, or 0. */
static enum rocemu_why_code sge_fault(const struct rocemu_pd *pd, const struct ibv_sge *sge,
				      int access, struct rocemu_why *w)
{
	const struct rocemu_mr *mr = mr_find(pd->ep->mrs, sge->lkey);

	w->key = sge->lkey;
	w->addr = sge->addr;
	w->n = sge->length;
	if (!mr || mr->window)
		return ROCEMU_WHY_KEY_UNKNOWN;
	w->lo = mr->iova;
	w->hi = mr->iova + mr->length;
	if (mr->pd != pd)
		return ROCEMU_WHY_KEY_PD;
	if ((mr->access & access) != access)
		return ROCEMU_WHY_KEY_RIGHT;
	if (sge->addr < mr->iova || sge->addr - mr->iova > mr->length ||
	    sge->length > mr->length - (sge->addr - mr->iova))
		return ROCEMU_WHY_KEY_BOUNDS;
	return mr->access & IBV_ACCESS_ON_DEMAND ? ROCEMU_WHY_KEY_GONE : ROCEMU_WHY_NONE;
}

/** The first SGE that is wrong; of those where nothing else is, memory is missing. */
static enum rocemu_why_code sges_fault(const struct rocemu_pd *pd, const struct ibv_sge *sge,
				       unsigned n, int access, struct rocemu_why *w)
{
	enum rocemu_why_code one, code = ROCEMU_WHY_KEY_GONE;

	for (unsigned i = 0; i < n; i++) {
		if (!sge[i].length)
			continue;
		one = sge_fault(pd, &sge[i], access, w);
		if (one && one != ROCEMU_WHY_KEY_GONE)
			return one;
		code = one ? one : code;
	}
	return code;
}

uint32_t why_receive(const struct rocemu_qp *qp)
{
	const struct rwqe *r = &qp->resp.rwqe;
	struct rocemu_why w = {.what = "receive", .id = r->wr_id, .len = r->length};

	w.code = sges_fault(resp_recv_pd(qp), r->sge, r->nsge, IBV_ACCESS_LOCAL_WRITE, &w);
	why_qp(qp, w);
	return w.code;
}

/* ---- requests ---- */

/** What all reasons of the request at tail have. */
static struct rocemu_why of_tail(const struct rocemu_qp *qp)
{
	const struct swqe *s = sq_wqe(&qp->sq, qp->sq.tail);
	struct rocemu_why w = {
		.what = why_wr_name(s->opcode),
		.id = s->wr_id,
		.len = (int)s->opcode == ROCEMU_WR_FLUSH ? s->flush_len : s->length,
		.addr = s->remote_addr,
		.key = s->rkey,
		.psn = qp->comp.una_psn,
	};

	if (qp->type == IBV_QPT_UD && s->fault == IBV_WC_SUCCESS) {
		w.peer = s->path.dgid;
		w.peer_qpn = s->dqpn;
	}
	return w;
}

static enum rocemu_why_code nak_code(uint32_t syndrome)
{
	if ((syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR)
		return ROCEMU_WHY_NO_RECEIVE;
	switch (syndrome) {
	case ROCEMU_NAK_INV_REQ:
		return ROCEMU_WHY_NAK_INVALID;
	case ROCEMU_NAK_REM_ACCESS:
		return ROCEMU_WHY_NAK_ACCESS;
	case ROCEMU_NAK_REM_OP:
		return ROCEMU_WHY_NAK_OPERATION;
	default:
		return ROCEMU_WHY_NAK_OTHER;
	}
}

/** A request that failed before it was sent, or whose response has no place. */
static enum rocemu_why_code local_code(const struct rocemu_qp *qp, const struct swqe *s,
				       enum ibv_wc_status status, struct rocemu_why *w)
{
	const int access = swqe_is_read(s) || swqe_is_atomic(s) ? IBV_ACCESS_LOCAL_WRITE : 0;

	/* Errors of posting are one of these two. */
	if (s->fault && s->fault != IBV_WC_LOC_QP_OP_ERR && s->fault != IBV_WC_LOC_LEN_ERR)
		return ROCEMU_WHY_ON_PURPOSE;
	switch (status) {
	case IBV_WC_LOC_PROT_ERR:
		return sges_fault(qp->pd, sq_sges(&qp->sq, qp->sq.tail), s->nsge, access, w);
	case IBV_WC_LOC_QP_OP_ERR:
		return s->fault ? ROCEMU_WHY_SERVICE : ROCEMU_WHY_NO_RD_ATOMIC;
	case IBV_WC_LOC_LEN_ERR:
		return s->fault ? ROCEMU_WHY_MESSAGE_LENGTH : ROCEMU_WHY_RECEIVE_LENGTH;
	case IBV_WC_MW_BIND_ERR:
		w->key = s->opcode == IBV_WR_BIND_MW ? s->bind.rkey : s->imm;
		w->addr = s->opcode == IBV_WR_BIND_MW ? s->bind.addr : 0;
		w->len = s->opcode == IBV_WR_BIND_MW ? s->bind.length : 0;
		return s->opcode == IBV_WR_BIND_MW ? ROCEMU_WHY_BIND : ROCEMU_WHY_INVALIDATE;
	default:
		return ROCEMU_WHY_ON_PURPOSE;
	}
}

/** The values that only some codes have. */
static void add_limits(const struct rocemu_qp *qp, struct rocemu_why *w, uint32_t cause)
{
	switch (w->code) {
	case ROCEMU_WHY_NO_ANSWER:
	case ROCEMU_WHY_SILENT:
		w->n = qp->attr.retry_cnt + 1u;
		w->limit = qp_ack_timeout_ns(qp);
		w->lo = qp->mtu;
		w->hi = qp->path.hop_limit;
		break;
	case ROCEMU_WHY_LOSSES:
		w->n = qp->attr.retry_cnt + 1u;
		w->limit = qp->attr.retry_cnt;
		break;
	case ROCEMU_WHY_NO_RECEIVE:
		w->n = qp->attr.rnr_retry + 1u;
		w->limit = qp->attr.rnr_retry;
		break;
	case ROCEMU_WHY_MESSAGE_LENGTH:
		w->limit = qp->type == IBV_QPT_UD ? qp->mtu : ROCEMU_MAX_MSG;
		break;
	case ROCEMU_WHY_NAK_INVALID:
	case ROCEMU_WHY_RESPONSE_LENGTH:
		w->n = cause >> 16;
		w->limit = qp->mtu;
		break;
	case ROCEMU_WHY_NAK_OTHER:
		w->n = cause;
		break;
	default:
		break;
	}
}

uint32_t why_failed(const struct rocemu_qp *qp, enum ibv_wc_status status, uint32_t cause)
{
	const struct swqe *s = sq_wqe(&qp->sq, qp->sq.tail);
	struct rocemu_why w = of_tail(qp);

	if (!cause)
		w.code = local_code(qp, s, status, &w);
	else
		w.code = cause < 0x100 ? nak_code(cause) : (enum rocemu_why_code)(cause & 0xffff);
	if (w.code == ROCEMU_WHY_SILENT && qp->comp.una_psn == qp->attr.sq_psn)
		w.code = ROCEMU_WHY_NO_ANSWER;
	add_limits(qp, &w, cause);
	why_qp(qp, w);
	return cause && cause < 0x100 ? cause : w.code;
}

uint32_t why_response(const struct rocemu_packet *pkt, enum ibv_wc_status status)
{
	if (status == IBV_WC_BAD_RESP_ERR)
		return ROCEMU_WHY_RESPONSE_KIND;
	if (status == IBV_WC_LOC_LEN_ERR &&
	    (rocemu_opcode_ops(pkt->h.opcode) & ROCEMU_OP_READ_RESP))
		return ROCEMU_WHY_RESPONSE_LENGTH | pkt->payload_len << 16;
	return 0;
}

void why_nak_received(const struct rocemu_qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct rocemu_why w = of_tail(qp);

	w.psn = psn;
	w.code = ROCEMU_WHY_SEQUENCE_RECEIVED;
	if (syndrome != ROCEMU_NAK_PSN_SEQ) {
		w.code = ROCEMU_WHY_RNR_RECEIVED;
		w.n = qp->req.rnr_left; /* stays 7, if that is rnr_retry */
		w.limit = qp_rnr_wait_ns(qp, syndrome & ROCEMU_AETH_VALUE_MASK);
	}
	why_qp(qp, w);
}
