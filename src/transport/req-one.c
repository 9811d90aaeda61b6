/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds the packet of one small message in one pass, when nothing else is to be sent and nothing
 * was lost: most messages of programs that wait for each answer. The packet and the state are those
 * that req.c and req-build.c would make, which decide everything again for each packet. Every doubt
 * is left to them.
 */
#include <string.h>

#include "transport/peer.h"
#include "transport/req-build.h"
#include "transport/req-wqe.h"
#include "wire/bth.h"
#include "wire/opcode.h"

/* Of requests up to IBV_WR_SEND_WITH_IMM. */
static const uint8_t opcodes[] = {
	[IBV_WR_RDMA_WRITE] = ROCEMU_RC_WRITE_ONLY,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = ROCEMU_RC_WRITE_ONLY_IMM,
	[IBV_WR_SEND] = ROCEMU_RC_SEND_ONLY,
	[IBV_WR_SEND_WITH_IMM] = ROCEMU_RC_SEND_ONLY_IMM,
};

/** The requester is as it was after its last message, and has one more in the queue. */
static inline bool has_one(const struct rocemu_qp *qp)
{
	const struct qp_req *req = &qp->req;

	return qp->state == IBV_QPS_RTS && req->peer && req->cur == qp->sq.next &&
	       req->cur + 1 == qp->sq.head && !req->fault && !recover_due(&req->again) &&
	       !req->rd_atomic_out && !req->rnr_wait && !req_is_silent(req) &&
	       !req->credit.limited && !req->since_ackreq && !req->kept;
}

/** A message of one packet. */
static inline bool is_small(const struct rocemu_qp *qp, const struct swqe *w)
{
	return (unsigned)w->opcode < ARRAY_LEN(opcodes) && w->length <= qp->mtu &&
	       w->fault == IBV_WC_SUCCESS;
}

/** The window has room, and no QP waits for it. */
static inline bool has_room(const struct qp_req *req, const struct swqe *w)
{
	const struct peer *p = req->peer;

	return list_empty(&p->blocked) &&
	       (!p->inflight || (peer_may_send(p, req->full_cost) &&
				 !peer_wants_longer(p, req->full_cost, w->length)));
}

/** @return bytes of headers. */
static inline uint8_t put_headers(const struct rocemu_qp *qp, const struct swqe *w, uint8_t *to)
{
	const bool write = w->opcode <= IBV_WR_RDMA_WRITE_WITH_IMM;
	const bool solicits = (w->flags & IBV_SEND_SOLICITED) && w->opcode != IBV_WR_RDMA_WRITE;
	const uint32_t pad = -w->length & 3;
	uint8_t *at = to + ROCEMU_BTH_LEN;

	bth_put(to, opcodes[w->opcode] | qp_service_bits(qp),
		BTH_MIGREQ | pad << BTH_PAD_SHIFT | (solicits ? BTH_SE : 0), qp->attr.dest_qp_num,
		true, qp->req.next_psn);
	if (unlikely(qp->type == IBV_QPT_XRC_SEND)) {
		put_be32(at, w->srqn);
		at += XRCETH_LEN;
	}
	if (write) {
		put_be64(at, w->remote_addr);
		put_be32(at + 8, w->rkey);
		put_be32(at + 12, w->length);
		at += RETH_LEN;
	}
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || w->opcode == IBV_WR_SEND_WITH_IMM) {
		put_be32(at, w->imm);
		at += IMMDT_LEN;
	}
	return (uint8_t)(at - to);
}

unsigned req_output_one(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx)
{
	struct qp_req *req = &qp->req;
	struct swqe *w = sq_wqe(&qp->sq, req->cur);
	uint64_t cost;
	int niov;

	if (!has_one(qp) || !is_small(qp, w) || !has_room(req, w))
		return 0;
	niov = sq_payload(qp, req->cur, 0, w->length, tx->iov);
	if (unlikely(niov < 0))
		return 0;

	tx->path = &qp->path;
	tx->lqpn = qp->qpn;
	tx->payload_len = w->length;
	tx->hdr_len = put_headers(qp, w, tx->hdr);
	tx->trailer_len = (uint8_t)((-w->length & 3) + ROCEMU_ICRC_LEN);
	tx->niov = (uint8_t)niov;
	tx->again = false;
	tx->own = w->flags & IBV_SEND_INLINE;
	memset(tx->trailer, 0, sizeof(tx->trailer));

	w->first_psn = req->next_psn;
	w->npkts = 1;
	qp->sq.next++;
	req->cur++;
	req_measure(req, now, w->first_psn);
	req->send_psn = req->next_psn = (w->first_psn + 1) & ROCEMU_PSN_MASK;
	cost = peer_cost(w->length);
	req->inflight += cost;
	peer_on_send(req->peer, cost);
	req_sent(qp, now);
	return 1;
}
