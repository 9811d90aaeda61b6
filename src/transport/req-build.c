/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds request packets. They are not kept: a retransmission is built again from entry and PSN.
 */
#include "transport/req-build.h"

#include <string.h>

#include "base/util.h"
#include "transport/read-budget.h"
#include "transport/req-wqe.h"

enum {
	/*
	 * An ACK is requested every so many packets, so that the window moves on: an ACK costs 4 %
	 * of the time of a message of 64 KiB. In a wide window half as many do.
	 */
	ACKREQ_EVERY = 16,
	ACKREQ_WIDE = 32,
	ACKREQ_QUEUED = 3,	    /* messages behind the one whose end need not request an ACK */
	QKEY_CONTROLLED = 1u << 31, /* IBTA 10.2.5: use the QP's Q_Key instead of the request's */
};

/** Where a packet stands in its message; index of the opcode table. */
enum place { FIRST, MIDDLE, LAST, ONLY };

/* clang-format off */
/** The RC opcodes of a work request's packets; those of other services differ in the service bits only. */
static const uint8_t opcodes[][4] = {
	[IBV_WR_SEND] = {
		[FIRST] = ROCEMU_RC_SEND_FIRST,      [MIDDLE] = ROCEMU_RC_SEND_MIDDLE,
		[LAST] = ROCEMU_RC_SEND_LAST,        [ONLY] = ROCEMU_RC_SEND_ONLY },
	[IBV_WR_SEND_WITH_IMM] = {
		[FIRST] = ROCEMU_RC_SEND_FIRST,      [MIDDLE] = ROCEMU_RC_SEND_MIDDLE,
		[LAST] = ROCEMU_RC_SEND_LAST_IMM,    [ONLY] = ROCEMU_RC_SEND_ONLY_IMM },
	[IBV_WR_SEND_WITH_INV] = {
		[FIRST] = ROCEMU_RC_SEND_FIRST,      [MIDDLE] = ROCEMU_RC_SEND_MIDDLE,
		[LAST] = ROCEMU_RC_SEND_LAST_INV,    [ONLY] = ROCEMU_RC_SEND_ONLY_INV },
	[IBV_WR_RDMA_WRITE] = {
		[FIRST] = ROCEMU_RC_WRITE_FIRST,     [MIDDLE] = ROCEMU_RC_WRITE_MIDDLE,
		[LAST] = ROCEMU_RC_WRITE_LAST,       [ONLY] = ROCEMU_RC_WRITE_ONLY },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		[FIRST] = ROCEMU_RC_WRITE_FIRST,     [MIDDLE] = ROCEMU_RC_WRITE_MIDDLE,
		[LAST] = ROCEMU_RC_WRITE_LAST_IMM,   [ONLY] = ROCEMU_RC_WRITE_ONLY_IMM },
};
/* clang-format on */

static enum place place_of(uint32_t pkt, uint32_t npkts)
{
	if (pkt + 1 == npkts)
		return pkt ? LAST : ONLY;
	return pkt ? MIDDLE : FIRST;
}

/** The headers that all packets of a message have in common. */
static struct rocemu_hdrs message_hdrs(const struct rocemu_qp *qp, const struct swqe *w)
{
	struct rocemu_hdrs h = {
		.migreq = true,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.dqpn = qp->attr.dest_qp_num,
		.imm = w->imm,
		.ieth = w->imm,
	};

	h.xrceth.srqn = w->srqn;
	h.reth.va = w->remote_addr;
	h.reth.rkey = w->rkey;
	h.reth.length = w->length;
	if (qp->type == IBV_QPT_UD) {
		h.dqpn = w->dqpn;
		qp->ep->stats->mcast_sent += w->dqpn == ROCEMU_MCAST_QPN;
		h.deth.sqpn = qp->qpn;
		h.deth.qkey = w->qkey & QKEY_CONTROLLED ? qp->attr.qkey : w->qkey;
	}
	return h;
}

/** Does the last packet carry the solicited event bit? (IBTA 9.2.3: where a receive completes.) */
static bool solicits(const struct swqe *w)
{
	return (w->flags & IBV_SEND_SOLICITED) && w->opcode != IBV_WR_RDMA_WRITE;
}

static void tx_fill(const struct rocemu_qp *qp, const struct swqe *w, struct rocemu_tx *tx,
		    const struct rocemu_hdrs *h, uint32_t len)
{
	tx->path = qp->type == IBV_QPT_UD ? &w->path : &qp->path;
	tx->lqpn = qp->qpn;
	tx->payload_len = len;
	tx->hdr_len = (uint8_t)rocemu_hdrs_encode(h, tx->hdr);
	tx->trailer_len = (uint8_t)(h->pad + ROCEMU_ICRC_LEN);
	tx->niov = 0;
	tx->own = w->flags & IBV_SEND_INLINE;
	tx->again = rocemu_psn_diff(h->psn, qp->req.next_psn) < 0;
	memset(tx->trailer, 0, sizeof(tx->trailer));
}

/** Walks over the iovecs of several packets' payload. */
struct cursor {
	const struct iovec *v;
	size_t used; /* bytes of *v */
};

/** The next len bytes as iovecs. @return how many. */
static uint8_t cursor_take(struct cursor *c, size_t len, struct iovec *out)
{
	uint8_t n = 0;

	while (len) {
		size_t piece = MIN(len, c->v->iov_len - c->used);

		out[n++] = (struct iovec){.iov_base = (uint8_t *)c->v->iov_base + c->used,
					  .iov_len = piece};
		len -= piece;
		c->used += piece;
		if (c->used == c->v->iov_len) {
			c->v++;
			c->used = 0;
		}
	}
	return n;
}

/** npkts PSNs go out at send_psn: one packet, which for a READ stands for so many responses. */
static inline void req_advance(struct rocemu_qp *qp, uint32_t npkts)
{
	struct qp_req *req = &qp->req;

	if (unlikely(req->send_psn != req->next_psn))
		QP_COUNT(qp, retransmits);
	req->send_psn = (req->send_psn + npkts) & ROCEMU_PSN_MASK;
	if (rocemu_psn_diff(req->send_psn, req->next_psn) > 0)
		req->next_psn = req->send_psn;
}

static void req_charge(struct rocemu_qp *qp, uint64_t cost)
{
	qp->req.inflight += cost;
	peer_on_send(qp->req.peer, cost);
}

/**
 * Is a message like w next, which leaves right behind it, so that one acknowledgement is enough?
 * w has several packets.
 */
static bool is_followed(const struct rocemu_qp *qp, const struct swqe *w)
{
	const struct swqe *next;

	if (qp->sq.head - qp->req.cur <= ACKREQ_QUEUED || qp->state != IBV_QPS_RTS ||
	    unlikely(qp->req.credit.limited))
		return false;
	next = sq_wqe(&qp->sq, qp->req.cur + 1);
	return next->opcode == w->opcode && next->length == w->length &&
	       next->fault == IBV_WC_SUCCESS && !(next->flags & IBV_SEND_FENCE) &&
	       peer_may_send(qp->req.peer, swqe_whole_cost(&qp->req, next));
}

/**
 * Charge packet pkt to the window and decide whether it requests an acknowledgement: at the end of
 * the message, from time to time before, and when the window has no room for the next one, which
 * would otherwise wait for the timer.
 */
static bool req_charge_packet(struct rocemu_qp *qp, const struct swqe *w, uint32_t pkt)
{
	struct qp_req *req = &qp->req;
	bool wide;

	req_charge(qp, swqe_cost(req, w, w->npkts, pkt, pkt + 1));
	req->since_ackreq++;
	wide = peer_is_wide(req->peer);
	if (w->npkts > 1 && req->since_ackreq < (wide ? ACKREQ_WIDE : ACKREQ_EVERY) &&
	    (pkt + 1 < w->npkts || (wide && is_followed(qp, w))) && !req_is_silent(req) &&
	    peer_may_send(req->peer, req->full_cost) &&
	    !(unlikely(req->credit.limited) && credit_probes(qp, w)))
		return false;
	req->since_ackreq = 0;
	return true;
}

/** One packet of a message. */
static inline void message_packet(const struct rocemu_qp *qp, const struct swqe *w, uint32_t pkt,
				  struct rocemu_hdrs *h, struct cursor *c, struct rocemu_tx *tx)
{
	uint32_t len = swqe_bytes(&qp->req, w, w->npkts, pkt, pkt + 1);

	h->opcode = opcodes[w->opcode][place_of(pkt, w->npkts)] | qp_service_bits(qp);
	h->pad = (uint8_t)(-len & 3);
	h->se = pkt + 1 == w->npkts && solicits(w);
	tx_fill(qp, w, tx, h, len);
	tx->niov = cursor_take(c, len, tx->iov);
}

HOT unsigned req_build_message(struct rocemu_qp *qp, struct rocemu_tx *tx, unsigned n)
{
	struct qp_req *req = &qp->req;
	const struct swqe *w = sq_wqe(&qp->sq, req->cur);
	uint32_t pkt = swqe_pkt(w, req->send_psn);
	bool probes = unlikely(req->credit.limited) && credit_probes(qp, w);
	uint32_t end = probes ? pkt + 1 : (uint32_t)MIN((uint64_t)pkt + n, w->npkts);
	uint32_t bytes = swqe_bytes(req, w, w->npkts, pkt, end);
	struct rocemu_hdrs h = message_hdrs(qp, w);
	struct iovec iov[ROCEMU_MAX_SGE];
	struct cursor c = {.v = iov};
	unsigned made = 0;

	if (sq_payload(qp, req->cur, pkt << req->mtu_shift, bytes, iov) < 0) {
		req->fault = IBV_WC_LOC_PROT_ERR;
		return 0;
	}
	for (; pkt < end; pkt++) {
		h.psn = req->send_psn;
		h.ackreq = qp_is_reliable(qp) && req_charge_packet(qp, w, pkt);
		message_packet(qp, w, pkt, &h, &c, &tx[made++]);
		req_advance(qp, 1);
		if (h.ackreq && pkt + 1 < end && !peer_may_send(req->peer, req->full_cost))
			break;
	}
	return made;
}

static void atomic_hdrs(struct rocemu_hdrs *h, const struct swqe *w)
{
	bool swap = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	h->opcode = swap ? ROCEMU_RC_CMP_SWAP : ROCEMU_RC_FETCH_ADD;
	h->atomiceth.va = w->remote_addr;
	h->atomiceth.rkey = w->rkey;
	h->atomiceth.swap_add = swap ? w->swap : w->compare_add;
	h->atomiceth.compare = swap ? w->compare_add : 0;
}

/** Packets [pkt, end) of a READ, or the one packet of another fetch. */
static void fetch_hdrs(const struct rocemu_qp *qp, const struct swqe *w, uint32_t pkt, uint32_t end,
		       struct rocemu_hdrs *h)
{
	if (swqe_is_atomic(w)) {
		atomic_hdrs(h, w);
	} else if ((int)w->opcode == ROCEMU_WR_ATOMIC_WRITE) {
		h->opcode = ROCEMU_RC_ATOMIC_WRITE;
	} else if ((int)w->opcode == ROCEMU_WR_FLUSH) {
		h->opcode = ROCEMU_RC_FLUSH;
		h->feth.raw = w->imm;
		h->reth.length = w->flush_len;
	} else {
		h->opcode = ROCEMU_RC_READ_REQUEST;
		h->reth.va = w->remote_addr + (pkt << qp->req.mtu_shift);
		h->reth.length = swqe_bytes(&qp->req, w, w->npkts, pkt, end);
	}
	h->opcode |= qp_service_bits(qp);
}

/** The request for packets [pkt, end) of entry i. False: its memory is gone. */
static inline bool fetch_packet(const struct rocemu_qp *qp, uint32_t i, uint32_t pkt, uint32_t end,
				struct rocemu_tx *tx)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);
	struct rocemu_hdrs h = message_hdrs(qp, w);
	uint32_t payload = swqe_is_read(w) ? 0 : w->length;
	int niov = sq_payload(qp, i, 0, payload, tx->iov);

	if (niov < 0)
		return false;
	h.psn = (w->first_psn + pkt) & ROCEMU_PSN_MASK;
	h.ackreq = true;
	fetch_hdrs(qp, w, pkt, end, &h);
	tx_fill(qp, w, tx, &h, payload);
	tx->niov = (uint8_t)niov;
	return true;
}

APART unsigned req_build_fetch(struct rocemu_qp *qp, struct rocemu_tx *tx)
{
	struct qp_req *req = &qp->req;
	const struct swqe *w = sq_wqe(&qp->sq, req->cur);
	uint32_t pkt = swqe_pkt(w, req->send_psn);
	uint32_t end = swqe_read_end(req, w->npkts, pkt);
	uint64_t cost;

	if (!fetch_packet(qp, req->cur, pkt, end, tx)) {
		req->fault = IBV_WC_LOC_PROT_ERR;
		return 0;
	}
	cost = swqe_cost(req, w, w->npkts, pkt, end);
	req_charge(qp, cost);
	if (w->opcode == IBV_WR_RDMA_READ)
		read_budget_take(qp, (uint32_t)cost);
	req->rd_atomic_out++;
	req->since_ackreq = 0;
	req_advance(qp, end - pkt);
	return 1;
}

bool req_build_again(struct rocemu_qp *qp, struct rocemu_tx *tx, uint32_t i, uint32_t pkt,
		     uint32_t end, bool ackreq)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);
	struct rocemu_hdrs h = message_hdrs(qp, w);
	struct iovec iov[ROCEMU_MAX_SGE];
	struct cursor c = {.v = iov};
	uint32_t len = swqe_bytes(&qp->req, w, w->npkts, pkt, pkt + 1);

	if (swqe_expects_response(w)) {
		if (!fetch_packet(qp, i, pkt, end, tx))
			return false;
	} else {
		if (sq_payload(qp, i, pkt << qp->req.mtu_shift, len, iov) < 0)
			return false;
		h.psn = (w->first_psn + pkt) & ROCEMU_PSN_MASK;
		h.ackreq = ackreq;
		message_packet(qp, w, pkt, &h, &c, tx);
	}
	QP_COUNT(qp, retransmits);
	return true;
}
