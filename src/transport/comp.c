/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer. Responses come in any order, twice, or not at all; requests complete in the order of
 * posting all the same, because everything here happens at the oldest unacknowledged PSN (una_psn):
 * a response for a later one first acknowledges what lies before it. That stops at a READ, an
 * atomic, a FLUSH or an ATOMIC WRITE, whose own response is needed; to go beyond it shows that this
 * response was lost (the implied NAK of IBTA 9.7.5) and it is asked for again.
 */
#include "transport/comp.h"

#include <errno.h>

#include "base/util.h"
#include "transport/qp.h"
#include "transport/req-wqe.h"

void comp_reset(struct rocemu_qp *qp)
{
	qp->comp = (struct qp_comp){0};
}

void comp_start(struct rocemu_qp *qp)
{
	qp->comp.una_psn = qp->attr.sq_psn;
}

/* ---- completions ---- */

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode op)
{
	switch ((int)op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case ROCEMU_WR_FLUSH:
		return (enum ibv_wc_opcode)ROCEMU_WC_FLUSH;
	case ROCEMU_WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)ROCEMU_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

/** Push the completion of the entry at tail and take it off the queue. */
static void comp_push(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
		      uint32_t vendor_err)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);
	struct rocemu_cqe cqe = qp_cqe(qp, now, w->wr_id, status, wc_opcode(w->opcode));

	if (swqe_is_read(w))
		cqe.byte_len = w->length;
	cqe.vendor_err = vendor_err;
	cq_push(qp->send_cq, &cqe);
	qp->sq.tail++;
}

void comp_complete(struct rocemu_qp *qp, rocemu_ns_t now)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);

	if (qp->sq_sig_all || (w->flags & IBV_SEND_SIGNALED))
		comp_push(qp, now, IBV_WC_SUCCESS, 0);
	else
		qp->sq.tail++;
}

void comp_local(struct rocemu_qp *qp, rocemu_ns_t now)
{
	uint32_t end = swqe_skip_local(&qp->sq, qp->sq.tail);

	while (qp->sq.tail != end)
		comp_complete(qp, now);
}

void comp_fail(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
	       uint32_t vendor_err)
{
	if (qp->sq.tail != qp->sq.head)
		comp_push(qp, now, status, vendor_err);
	if (qp_is_reliable(qp))
		qp_fail(qp, now);
	else
		qp_fail_send(qp, now);
}

void comp_flush(struct rocemu_qp *qp, rocemu_ns_t now)
{
	/* UC, UD: those before cur have left and only wait for the next output call to complete. */
	while (!qp_is_reliable(qp) && (int32_t)(qp->req.cur - qp->sq.tail) > 0)
		comp_complete(qp, now);
	while (qp->sq.tail != qp->sq.head)
		comp_push(qp, now, IBV_WC_WR_FLUSH_ERR, 0);
	req_flushed(qp);
	qp->comp.una_psn = qp->req.next_psn;
}

/* ---- acknowledgement ---- */

/** Is a PSN sent and not acknowledged yet? */
static bool outstanding(const struct rocemu_qp *qp, uint32_t psn)
{
	return rocemu_psn_diff(psn, qp->comp.una_psn) >= 0 &&
	       rocemu_psn_diff(psn, qp->req.next_psn) < 0;
}

/** Everything before una is done: tell the requester, complete the entries that end before it. */
static void comp_moved(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t una, uint32_t tail)
{
	qp->comp.una_psn = una;
	req_acked(qp, now, (una - 1) & ROCEMU_PSN_MASK);
	while (qp->sq.tail != tail)
		comp_complete(qp, now);
	comp_local(qp, now);
	if (qp->req.cur != qp->sq.head)
		req_kick(qp, now);
}

/**
 * Everything before end is acknowledged, as far as no READ or atomic lies there.
 * @return true: all of it.
 */
static bool comp_advance(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t end)
{
	uint32_t una = qp->comp.una_psn;
	uint32_t i = qp->sq.tail;

	while (una != end) {
		const struct swqe *w = sq_wqe(&qp->sq, i);
		uint32_t left = w->npkts - swqe_pkt(w, una);

		if (swqe_is_fetch(w))
			break;
		if (((end - una) & ROCEMU_PSN_MASK) < left) {
			una = end;
			break;
		}
		una = (una + left) & ROCEMU_PSN_MASK;
		i++;
	}
	if (una != qp->comp.una_psn)
		comp_moved(qp, now, una, i);
	return una == end;
}

/** A response is missing: get it again. */
static enum rocemu_drop comp_lost(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (!req_go_back(qp, now))
		comp_fail(qp, now, IBV_WC_RETRY_EXC_ERR, 0);
	return ROCEMU_DROP_NONE;
}

static enum rocemu_drop comp_ack(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn)
{
	const struct swqe *w;

	if (comp_advance(qp, now, (psn + 1) & ROCEMU_PSN_MASK))
		return ROCEMU_DROP_NONE;
	/*
	 * A READ or atomic holds it. Only an ACK for a later request says that its response is
	 * lost: one within it may answer a duplicate, with the newest PSN, while the responses are
	 * still under way.
	 */
	w = sq_wqe(&qp->sq, qp->sq.tail);
	return swqe_pkt(w, psn) >= w->npkts ? comp_lost(qp, now) : ROCEMU_DROP_NONE;
}

/** The status of a request that was refused for good. */
static enum ibv_wc_status nak_status(uint8_t syndrome)
{
	switch (syndrome) {
	case ROCEMU_NAK_INV_REQ:
		return IBV_WC_REM_INV_REQ_ERR;
	case ROCEMU_NAK_REM_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case ROCEMU_NAK_REM_OP:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

static enum rocemu_drop comp_nak(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t syndrome,
				 uint32_t psn)
{
	struct rocemu_ep_stats *stats = &qp->ep->stats;
	bool rnr = (syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR;

	if (rnr)
		stats->rnr_naks_rcvd++;
	else if (syndrome == ROCEMU_NAK_PSN_SEQ)
		stats->naks_rcvd++;
	else
		stats->err_naks_rcvd++;
	/* Each NAK acknowledges what lies before its PSN (IBTA 9.7.5.2). */
	if (!comp_advance(qp, now, psn) || syndrome == ROCEMU_NAK_PSN_SEQ)
		return comp_lost(qp, now);
	if (!rnr)
		comp_fail(qp, now, nak_status(syndrome), syndrome);
	else if (!req_rnr(qp, now, syndrome & ROCEMU_AETH_VALUE_MASK))
		comp_fail(qp, now, IBV_WC_RNR_RETRY_EXC_ERR, syndrome);
	return ROCEMU_DROP_NONE;
}

/* ---- responses with data ---- */

/** Put response bytes where the entry at tail wants them. */
static enum ibv_wc_status comp_place(struct rocemu_qp *qp, uint32_t off, const void *src,
				     uint32_t len)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);
	int r = sge_scatter(&qp->ep->mrs, qp->pd, sq_sges(&qp->sq, qp->sq.tail), w->nsge, off, src,
			    len);

	if (!r)
		return IBV_WC_SUCCESS;
	return r == -EMSGSIZE ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR;
}

/**
 * Packet pkt of the READ at tail. FIRST and ONLY may stand within a request's range too, and MIDDLE
 * and LAST at the start of what was asked for again: responders differ in how they answer a
 * repeated READ. What ends a request's responses and how long each one is, is fixed.
 */
static enum ibv_wc_status comp_take_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
					 uint32_t at)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);
	uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);
	bool last = swqe_read_end(&qp->req, w->npkts, at) == at + 1;

	if (!(ops & ROCEMU_OP_READ_RESP) || w->opcode != IBV_WR_RDMA_READ ||
	    !(ops & ROCEMU_OP_LAST) == last)
		return IBV_WC_BAD_RESP_ERR;
	if (pkt->payload_len != swqe_bytes(&qp->req, w, w->npkts, at, at + 1))
		return IBV_WC_LOC_LEN_ERR;
	return comp_place(qp, at << qp->req.mtu_shift, pkt->payload, pkt->payload_len);
}

static enum ibv_wc_status comp_take_atomic(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	const struct swqe *w = sq_wqe(&qp->sq, qp->sq.tail);

	if (!(rocemu_opcode_ops(pkt->h.opcode) & ROCEMU_OP_ATOMIC_ACK) || !swqe_is_atomic(w))
		return IBV_WC_BAD_RESP_ERR;
	/* The value is a number: in memory it has this host's byte order. */
	return comp_place(qp, 0, &pkt->h.atomicack, sizeof(pkt->h.atomicack));
}

/** FLUSH and ATOMIC WRITE are answered by a READ response of nothing (annex A19). */
static enum ibv_wc_status comp_take_empty(struct rocemu_qp *qp, const struct rocemu_packet *pkt)
{
	enum { ONLY = ROCEMU_OP_READ_RESP | ROCEMU_OP_FIRST | ROCEMU_OP_LAST };
	uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);

	if (!swqe_is_fetch(sq_wqe(&qp->sq, qp->sq.tail)) || (ops & ONLY) != ONLY)
		return IBV_WC_BAD_RESP_ERR;
	return pkt->payload_len ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static enum rocemu_drop comp_response(struct rocemu_qp *qp, rocemu_ns_t now,
				      const struct rocemu_packet *pkt)
{
	enum ibv_wc_status status;
	const struct swqe *w;
	uint32_t at;

	if (!comp_advance(qp, now, pkt->h.psn))
		return comp_lost(qp, now);
	w = sq_wqe(&qp->sq, qp->sq.tail);
	at = swqe_pkt(w, pkt->h.psn);
	if (w->opcode == IBV_WR_RDMA_READ)
		status = comp_take_read(qp, pkt, at);
	else
		status = swqe_is_atomic(w) ? comp_take_atomic(qp, pkt) : comp_take_empty(qp, pkt);
	if (status) {
		comp_fail(qp, now, status, 0);
		return ROCEMU_DROP_NONE;
	}
	comp_moved(qp, now, (pkt->h.psn + 1) & ROCEMU_PSN_MASK, qp->sq.tail + (at + 1 == w->npkts));
	return ROCEMU_DROP_NONE;
}

enum rocemu_drop comp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt)
{
	uint32_t ops = rocemu_opcode_ops(pkt->h.opcode);
	bool has_aeth = rocemu_opcode_hdrs(pkt->h.opcode) & ROCEMU_HDR_AETH;
	uint8_t class = has_aeth ? pkt->h.aeth.syndrome & ROCEMU_AETH_CLASS_MASK : ROCEMU_AETH_ACK;
	enum rocemu_drop why;

	/* Ghosts and duplicates are dropped silently (IBTA 9.7.5). */
	if (!outstanding(qp, pkt->h.psn))
		return ROCEMU_DROP_GHOST;
	if (class != ROCEMU_AETH_ACK && class != ROCEMU_AETH_RNR && class != ROCEMU_AETH_NAK)
		return ROCEMU_DROP_SEQUENCE; /* a reserved kind of AETH */
	if (class != ROCEMU_AETH_ACK)
		why = comp_nak(qp, now, pkt->h.aeth.syndrome, pkt->h.psn);
	else if (ops & ROCEMU_OP_ACK)
		why = comp_ack(qp, now, pkt->h.psn);
	else
		why = comp_response(qp, now, pkt);
	qp_check_drained(qp);
	return why;
}
