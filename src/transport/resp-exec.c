/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execution of SEND and WRITE packets, the same for RC and UC: message state, placing of payload,
 * completion of receives. It returns a verdict on a packet, on which the caller acts.
 */
#include "base/util.h"
#include "transport/guard.h"
#include "transport/resp-int.h"

bool resp_take(struct rocemu_qp *qp)
{
	struct qp_resp *r = &qp->resp;

	if (!r->have_rwqe)
		r->have_rwqe = qp_take_recv(qp, &r->rwqe);
	return r->have_rwqe;
}

/** XRC: a receive completes in the CQ of its SRQ (A14.2). */
static void push_recv(struct rocemu_qp *qp, const struct rocemu_cqe *cqe)
{
	struct qp_resp *r = &qp->resp;

	r->have_rwqe = false;
	cq_push(qp->type == IBV_QPT_XRC_RECV ? r->srq->cq : qp->recv_cq, cqe);
}

void resp_fail_recv(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
		    uint32_t vendor_err)
{
	struct rocemu_cqe cqe = qp_cqe(qp, now, qp->resp.rwqe.wr_id, status, IBV_WC_RECV);
	struct rocemu_ep_stats *stats = qp->ep->stats;

	stats->resp_errors++;
	stats->resp_flushed += status == IBV_WC_WR_FLUSH_ERR;
	stats->resp_too_long += status == IBV_WC_LOC_LEN_ERR;
	cqe.vendor_err = vendor_err;
	push_recv(qp, &cqe);
}

static void complete_recv(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt,
			  uint32_t ops)
{
	enum ibv_wc_opcode opcode = ops & ROCEMU_OP_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	struct rocemu_cqe cqe = qp_cqe(qp, now, qp->resp.rwqe.wr_id, IBV_WC_SUCCESS, opcode);

	cqe.byte_len = (uint32_t)qp->resp.offset;
	cqe.solicited = pkt->h.se;
	if (ops & ROCEMU_OP_IMM) {
		cqe.imm = pkt->h.imm;
		cqe.wc_flags = IBV_WC_WITH_IMM;
	} else if (ops & ROCEMU_OP_INV) {
		cqe.imm = pkt->h.ieth;
		cqe.wc_flags = IBV_WC_WITH_INV;
	}
	if (qp->type == IBV_QPT_XRC_RECV)
		cqe.src_qp = qp->attr.dest_qp_num;
	push_recv(qp, &cqe);
}

/** resp_take(), or none where fault injection is on and hides it. UC has no RNR NAK. */
static bool take(struct rocemu_qp *qp)
{
	struct rocemu_ep *ep = qp->ep;

	if (unlikely(ep->cfg.rnr_chance > 0) && qp->type != IBV_QPT_UC &&
	    rng_chance(&ep->rnr_dice, ep->cfg.rnr_chance)) {
		ep->stats->rnr_on_purpose++;
		qp->resp.rnr_on_purpose = true;
		return false;
	}
	return resp_take(qp);
}

static enum resp_verdict exec_send(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				   uint32_t ops)
{
	struct qp_resp *r = &qp->resp;
	const struct rocemu_pd *pd;
	struct rocemu_mw *mw = NULL;

	if (ops & ROCEMU_OP_FIRST) {
		if (!take(qp))
			return RESP_NO_RECV;
		r->offset = 0;
	}
	if (r->offset + pkt->payload_len > r->rwqe.length)
		return RESP_TOO_LONG;
	if (ops & ROCEMU_OP_INV) {
		mw = mw_invalidable(qp, pkt->h.ieth);
		if (!mw)
			return RESP_INVALIDATE;
	}
	pd = resp_recv_pd(qp);
	if (pkt->payload_len && sge_scatter(pd->ep->mrs, pd, r->rwqe.sge, r->rwqe.nsge, r->offset,
					    pkt->payload, pkt->payload_len))
		return RESP_LOCAL_PROT;
	if (mw)
		mw_unbind(mw); /* before the receive completes, whose completion reports it */
	r->offset += pkt->payload_len;
	return RESP_PASS;
}

static bool place(const struct rocemu_qp *qp, uint8_t *host, const struct rocemu_packet *pkt)
{
	if (likely(guard_store(host, pkt->payload, pkt->payload_len)))
		return true;
	resp_missing(qp, pkt->h.xrceth.srqn, host, pkt->payload_len);
	return false;
}

static enum resp_verdict exec_write(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				    uint32_t ops)
{
	struct qp_resp *r = &qp->resp;
	uint32_t len = pkt->payload_len;
	uint64_t check;
	uint8_t *host;

	if (ops & ROCEMU_OP_FIRST) {
		if (!resp_allows(qp, IBV_ACCESS_REMOTE_WRITE))
			return RESP_NOT_ENABLED;
		if (pkt->h.reth.length > ROCEMU_MAX_MSG)
			return RESP_LENGTH;
		qp->ep->stats->writes_rcvd++;
		r->write_va = pkt->h.reth.va;
		r->write_rkey = pkt->h.reth.rkey;
		r->write_length = pkt->h.reth.length;
		r->offset = 0;
	}
	if (r->offset + len > r->write_length ||
	    ((ops & ROCEMU_OP_LAST) && r->offset + len != r->write_length))
		return RESP_LENGTH;

	/* The whole range at the first packet, so that nothing is written of what does not fit;
	 * then what each packet touches, because the region may have gone. Length 0 needs no valid
	 * key (C9-88). */
	check = ops & ROCEMU_OP_FIRST ? r->write_length : len;
	host = mw_access(qp, resp_pd(qp, pkt->h.xrceth.srqn), r->write_rkey,
			 r->write_va + r->offset, check, IBV_ACCESS_REMOTE_WRITE);
	if (!host)
		return RESP_ACCESS;
	if ((ops & ROCEMU_OP_IMM) && !take(qp))
		return RESP_NO_RECV;

	if (len && unlikely(!place(qp, host, pkt)))
		return RESP_ACCESS;
	r->offset += len;
	return RESP_PASS;
}

HOT enum resp_verdict resp_exec(struct rocemu_qp *qp, rocemu_ns_t now,
				const struct rocemu_packet *pkt, uint32_t ops)
{
	struct qp_resp *r = &qp->resp;
	enum resp_verdict v =
		ops & ROCEMU_OP_SEND ? exec_send(qp, pkt, ops) : exec_write(qp, pkt, ops);

	if (unlikely(v != RESP_PASS))
		return v;
	if (!(ops & ROCEMU_OP_LAST)) {
		r->message = ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE);
		return RESP_PASS;
	}
	r->message = 0;
	if (ops & (ROCEMU_OP_SEND | ROCEMU_OP_IMM))
		complete_recv(qp, now, pkt, ops);
	return RESP_PASS;
}
