/* SPDX-License-Identifier: BSD-2-Clause */
/* Reasons of requests that are refused, and of packets that are dropped. */
#include "base/util.h"
#include "transport/mw.h"
#include "transport/qp.h"
#include "transport/why.h"

/** Why the peer may not touch that memory: as mw_access() found. pd: the request's, NULL: none. */
static enum rocemu_why_code rkey_fault(const struct rocemu_qp *qp, const struct rocemu_pd *pd,
				       int access, struct rocemu_why *w)
{
	const struct rocemu_mr *e = pd ? mr_find(pd->ep->mrs, (uint32_t)w->key) : NULL;
	uint64_t off;

	if (!e)
		return ROCEMU_WHY_RKEY_UNKNOWN;
	if (e->window && (!e->window->mr || (e->window->qp && e->window->qp != qp)))
		return ROCEMU_WHY_RKEY_WINDOW;
	if (e->pd != pd)
		return ROCEMU_WHY_RKEY_PD;
	if ((e->access & access) != access)
		return ROCEMU_WHY_RKEY_RIGHT;
	w->lo = e->iova;
	w->hi = e->iova + e->length;
	off = w->addr - e->iova;
	if (w->addr < e->iova || off > e->length || w->len > e->length - off)
		return ROCEMU_WHY_RKEY_BOUNDS;
	return ROCEMU_WHY_RKEY_GONE;
}

/** The request's access to this side's memory. @return the right that it needs. */
static int wanted(const struct rocemu_qp *qp, const struct rocemu_packet *pkt, uint32_t ops,
		  struct rocemu_why *w)
{
	const struct qp_resp *r = &qp->resp;

	if (ops & ROCEMU_OP_ATOMIC) {
		w->addr = pkt->h.atomiceth.va;
		w->key = pkt->h.atomiceth.rkey;
		w->len = 8;
		return IBV_ACCESS_REMOTE_ATOMIC;
	}
	if ((ops & ROCEMU_OP_WRITE) && !(ops & ROCEMU_OP_FIRST)) {
		w->addr = r->write_va;
		w->key = r->write_rkey;
		w->len = r->write_length;
		return IBV_ACCESS_REMOTE_WRITE;
	}
	w->addr = pkt->h.reth.va;
	w->key = pkt->h.reth.rkey;
	w->len = pkt->h.reth.length;
	if (ops & ROCEMU_OP_READ_REQ)
		return IBV_ACCESS_REMOTE_READ;
	if (ops & ROCEMU_OP_FLUSH)
		return resp_flush_access(pkt->h.feth.raw);
	return ops & (ROCEMU_OP_WRITE | ROCEMU_OP_ATOMIC_WRITE) ? IBV_ACCESS_REMOTE_WRITE : 0;
}

static bool breaks_mtu(const struct rocemu_qp *qp, const struct rocemu_packet *pkt, uint32_t ops)
{
	if (!(ops & (ROCEMU_OP_SEND | ROCEMU_OP_WRITE)))
		return false;
	return pkt->payload_len > qp->mtu ||
	       (!(ops & ROCEMU_OP_LAST) && pkt->payload_len != qp->mtu);
}

static enum rocemu_why_code code_of(const struct rocemu_qp *qp, enum resp_verdict v,
				    const struct rocemu_packet *pkt, uint32_t ops,
				    struct rocemu_why *w)
{
	const int access = ops & ROCEMU_OP_SEND ? 0 : wanted(qp, pkt, ops, w);

	switch (v) {
	case RESP_LENGTH:
		w->n = pkt->payload_len;
		w->limit = qp->mtu;
		return breaks_mtu(qp, pkt, ops) ? ROCEMU_WHY_PATH_MTU : ROCEMU_WHY_LENGTH;
	case RESP_UNSUPPORTED:
		return ROCEMU_WHY_UNSUPPORTED;
	case RESP_TOO_MANY:
		w->limit = qp->resp.limit;
		return ROCEMU_WHY_TOO_MANY_READS;
	case RESP_MISALIGNED:
		return ROCEMU_WHY_ALIGNMENT;
	case RESP_NOT_ENABLED:
		return ROCEMU_WHY_QP_RIGHT;
	case RESP_XRCETH:
		w->n = pkt->h.xrceth.srqn;
		return ROCEMU_WHY_XRC_SRQ;
	case RESP_TOO_LONG:
		w->len = qp->resp.rwqe.length;
		w->id = qp->resp.rwqe.wr_id;
		return ROCEMU_WHY_RECEIVE_SHORT;
	case RESP_ACCESS:
		return rkey_fault(qp, resp_pd(qp, pkt->h.xrceth.srqn), access, w);
	case RESP_INVALIDATE:
		w->key = pkt->h.ieth;
		return ROCEMU_WHY_RKEY_INVALIDATE;
	default:
		return ROCEMU_WHY_PLACE;
	}
}

uint32_t why_refused(const struct rocemu_qp *qp, enum resp_verdict v,
		     const struct rocemu_packet *pkt, uint32_t ops)
{
	struct rocemu_why w = {.what = rocemu_opcode_name(pkt->h.opcode), .psn = pkt->h.psn};

	if (v == RESP_LOCAL_PROT)
		return why_receive(qp);
	w.code = code_of(qp, v, pkt, ops, &w);
	why_qp(qp, w);
	return w.code;
}

void why_read_lost(const struct rocemu_qp *qp, const struct resp_job *job)
{
	struct rocemu_why w = {.what = "READ",
			       .psn = job->psn,
			       .addr = job->va,
			       .len = job->left,
			       .key = job->rkey};

	w.code = rkey_fault(qp, resp_pd(qp, job->srqn), IBV_ACCESS_REMOTE_READ, &w);
	why_qp(qp, w);
}

void why_rnr_sent(const struct rocemu_qp *qp, uint8_t opcode)
{
	why_qp(qp,
	       (struct rocemu_why){
		       .code = qp->resp.rnr_on_purpose ? ROCEMU_WHY_RNR_SENT_ON_PURPOSE
						       : ROCEMU_WHY_RNR_SENT,
		       .what = rocemu_opcode_name(opcode),
		       .psn = qp->resp.epsn,
		       .limit = qp_rnr_wait_ns(qp, qp->attr.min_rnr_timer & ROCEMU_AETH_VALUE_MASK),
	       });
}

void why_gap_sent(const struct rocemu_qp *qp)
{
	why_qp(qp, (struct rocemu_why){.code = ROCEMU_WHY_SEQUENCE_SENT, .psn = qp->resp.epsn});
}

/* ---- dropped packets ---- */

/** Refused requests of RC have another reason. */
static enum rocemu_why_code drop_code(const struct rocemu_packet *pkt, enum rocemu_drop drop)
{
	const enum rocemu_service svc = rocemu_opcode_service(pkt->h.opcode);
	const bool answered = svc != ROCEMU_SVC_UC && svc != ROCEMU_SVC_UD;

	switch ((int)drop) {
	case ROCEMU_DROP_QPN:
		return ROCEMU_WHY_DROP_QPN;
	case ROCEMU_DROP_SERVICE:
		return ROCEMU_WHY_DROP_SERVICE;
	case ROCEMU_DROP_STATE:
		return ROCEMU_WHY_DROP_STATE;
	case ROCEMU_DROP_PKEY:
		return ROCEMU_WHY_DROP_PKEY;
	case ROCEMU_DROP_SOURCE:
		return ROCEMU_WHY_DROP_SOURCE;
	case ROCEMU_DROP_ICRC:
		return ROCEMU_WHY_DROP_ICRC;
	case ROCEMU_DROP_QKEY:
		return ROCEMU_WHY_DROP_QKEY;
	case ROCEMU_DROP_PORT:
		return ROCEMU_WHY_DROP_PORT;
	case ROCEMU_DROP_SWEEP:
		return ROCEMU_WHY_DROP_SWEEP;
	case ROCEMU_DROP_NO_RECV:
		return answered ? ROCEMU_WHY_NONE : ROCEMU_WHY_DROP_NO_RECEIVE;
	case ROCEMU_DROP_TOO_LONG:
		return answered ? ROCEMU_WHY_NONE : ROCEMU_WHY_DROP_TOO_LONG;
	case ROCEMU_DROP_ACCESS:
		/* Else a receive's memory, which why_receive() was about. */
		return svc == ROCEMU_SVC_UC && (rocemu_opcode_ops(pkt->h.opcode) & ROCEMU_OP_WRITE)
			       ? ROCEMU_WHY_DROP_ACCESS
			       : ROCEMU_WHY_NONE;
	case ROCEMU_DROP_LENGTH:
		return answered ? ROCEMU_WHY_NONE : ROCEMU_WHY_DROP_LENGTH;
	default:
		return ROCEMU_WHY_NONE; /* usual with lossy networks and retransmissions */
	}
}

void why_drop(struct rocemu_ep *ep, const struct rocemu_dgram *d, const struct rocemu_packet *pkt,
	      enum rocemu_drop drop)
{
	const struct rocemu_qp *qp = qp_find(ep, pkt->h.dqpn);
	const uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);
	const bool ud = rocemu_opcode_service(pkt->h.opcode) == ROCEMU_SVC_UD;
	struct rocemu_why w = {
		.code = drop_code(pkt, drop),
		.qpn = pkt->h.dqpn,
		.peer = d->src,
		.peer_qpn = ud ? pkt->h.deth.sqpn : 0,
		.psn = pkt->h.psn,
		.what = rocemu_opcode_name(pkt->h.opcode),
		.n = pkt->payload_len,
		.key = drop == ROCEMU_DROP_PKEY ? pkt->h.pkey
		       : ud			? pkt->h.deth.qkey
						: 0,
	};

	/* Answers come late, and what comes to a QP in ERR is the consequence of another error. */
	if (!w.code || (drop == ROCEMU_DROP_QPN && !(ops & ROCEMU_OP_REQUEST)) ||
	    (drop == ROCEMU_DROP_STATE &&
	     (!qp || qp->state == IBV_QPS_ERR || !(ops & ROCEMU_OP_REQUEST))))
		return;
	if (qp) {
		w.lo = qp->state;
		w.limit = qp->mtu;
		w.hi = qp->attr.qkey;
	}
	why_give(ep, &w);
}
