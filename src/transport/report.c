/* SPDX-License-Identifier: BSD-2-Clause */
#include <rocemu/report.h>

#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

_Static_assert(sizeof(struct rocemu_wqe_report) == 24 &&
		       sizeof(struct rocemu_qp_report) ==
			       208 + ROCEMU_REPORT_WQES * 24 + sizeof(struct rocemu_qp_stats),
	       "padding");

static enum rocemu_wait wait_of_hold(enum req_hold hold)
{
	switch (hold) {
	case REQ_HOLD_RNR:
		return ROCEMU_WAIT_RNR;
	case REQ_HOLD_SILENT:
		return ROCEMU_WAIT_SILENT;
	case REQ_HOLD_READ:
		return ROCEMU_WAIT_READ;
	case REQ_HOLD_ROOM:
		return ROCEMU_WAIT_ROOM;
	case REQ_HOLD_WINDOW:
		return ROCEMU_WAIT_WINDOW;
	case REQ_HOLD_BUDGET:
		return ROCEMU_WAIT_BUDGET;
	case REQ_HOLD_CREDIT:
		return ROCEMU_WAIT_CREDIT;
	case REQ_HOLD_FAULT:
		return ROCEMU_WAIT_EARLIER;
	case REQ_GO:
	case REQ_FAULT:
	case REQ_HOLD_IDLE:
		break;
	}
	return ROCEMU_WAIT_NOTHING;
}

static enum rocemu_wait wait_of(const struct rocemu_qp *qp)
{
	const enum req_hold hold = req_hold(qp);

	if (qp->sq.tail == qp->sq.head)
		return ROCEMU_WAIT_NOTHING;
	if (qp->state != IBV_QPS_RTS && (qp->state != IBV_QPS_SQD || qp->sq.tail == qp->sq.next))
		return ROCEMU_WAIT_STATE;
	if (hold == REQ_HOLD_IDLE && qp_is_reliable(qp) && qp->req.acked_psn != qp->req.send_psn)
		return ROCEMU_WAIT_ANSWER;
	return wait_of_hold(hold);
}

static uint64_t until(rocemu_ns_t now, rocemu_ns_t then)
{
	if (then == ROCEMU_NEVER)
		return UINT64_MAX;
	return then > now ? then - now : 0;
}

static void report_timers(const struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_qp_report *out)
{
	const struct qp_req *req = &qp->req;

	out->timeout_ns = out->probe_ns = out->rnr_ns = UINT64_MAX;
	if (!timer_running(&qp->timer))
		return;
	out->flags |= ROCEMU_REPORT_TIMER;
	if (req->rnr_wait) {
		out->rnr_ns = until(now, qp->timer.deadline);
	} else {
		out->timeout_ns = until(now, req->deadline);
		out->probe_ns = until(now, req->probe_at);
	}
}

static void report_wqes(const struct rocemu_qp *qp, struct rocemu_qp_report *out)
{
	const struct sq *sq = &qp->sq;

	out->nwqes = MIN(out->sends, (uint32_t)ROCEMU_REPORT_WQES);
	for (uint32_t i = 0; i < out->nwqes; i++) {
		const struct swqe *w = sq_wqe(sq, sq->tail + i);

		out->wqe[i] = (struct rocemu_wqe_report){
			.wr_id = w->wr_id,
			.length = w->length,
			.opcode = (uint16_t)w->opcode,
			.begun = i < out->sends_begun,
		};
		if (out->wqe[i].begun) {
			out->wqe[i].first_psn = w->first_psn;
			out->wqe[i].npkts = w->npkts;
		}
	}
}

static void report_send(const struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_qp_report *out)
{
	const struct qp_req *req = &qp->req;
	const struct sq *sq = &qp->sq;

	out->wait = (uint8_t)wait_of(qp);
	out->retry_cnt = qp->attr.retry_cnt;
	out->retry_left = req->retry_left;
	out->rnr_retry = qp->attr.rnr_retry;
	out->rnr_left = req->rnr_left;
	out->sends = sq->head - sq->tail;
	out->sends_begun = sq->next - sq->tail;
	out->sends_max = sq->max_wr;
	out->reads = req->rd_atomic_out;
	out->reads_max = qp->attr.max_rd_atomic;
	out->acked_psn = req->acked_psn;
	out->send_psn = req->send_psn;
	out->next_psn = req->next_psn;
	out->unanswered = req->backoff;
	out->silent_ns = req->progress_at && now > req->progress_at ? now - req->progress_at : 0;
	out->inflight = req->inflight;
	out->srtt_ns = req->srtt;
	out->min_rtt_ns = req->min_rtt;
	if (req->peer) {
		out->window = req->peer->cc.cwnd;
		out->window_used = req->peer->inflight;
	}
	report_timers(qp, now, out);
	report_wqes(qp, out);
}

static void report_recv(const struct rocemu_qp *qp, struct rocemu_qp_report *out)
{
	const struct qp_resp *r = &qp->resp;
	/* XRC: that of the message under way, if there is one. */
	const struct rocemu_srq *srq = qp->srq ? qp->srq : r->srq;
	const struct rq *rq = srq ? &srq->rq : &qp->rq;

	out->flags |= srq ? ROCEMU_REPORT_SRQ : 0;
	out->flags |= r->message ? ROCEMU_REPORT_MESSAGE : 0;
	out->flags |= r->nak_sent ? ROCEMU_REPORT_GAP : 0;
	out->flags |= r->rnr_sent ? ROCEMU_REPORT_RNR : 0;
	out->recvs = rq_count(rq);
	out->recvs_max = rq->max_wr;
	out->rq_psn = r->epsn;
	out->early = r->early.count;
	out->responses = r->njobs;
}

static uint32_t cq_filled(const struct rocemu_cq *cq)
{
	return cq ? atomic_load(&cq->head) - atomic_load(&cq->tail) : UINT32_MAX;
}

void rocemu_qp_report(const struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_qp_report *out)
{
	memset(out, 0, sizeof(*out));
	out->qpn = qp->qpn;
	out->dest_qpn = qp->attr.dest_qp_num;
	out->type = (uint8_t)qp->type;
	out->state = (uint8_t)qp->state;
	out->mtu = qp->mtu;
	if (qp->type != IBV_QPT_UD && qp->path.sport) {
		out->flags |= ROCEMU_REPORT_PATH;
		memcpy(out->sgid, qp->path.sgid.raw, sizeof(out->sgid));
		memcpy(out->dgid, qp->path.dgid.raw, sizeof(out->dgid));
		out->sport = qp->path.sport;
	}
	report_send(qp, now, out);
	report_recv(qp, out);
	out->send_cqes = cq_filled(qp->send_cq);
	out->send_cqe_max = qp->send_cq ? qp->send_cq->depth : 0;
	out->recv_cqes = cq_filled(qp->recv_cq);
	out->recv_cqe_max = qp->recv_cq ? qp->recv_cq->depth : 0;
	out->stats = qp->stats;
}

unsigned rocemu_ep_report(const struct rocemu_ep *ep, rocemu_ns_t now, uint32_t *next,
			  struct rocemu_qp_report *out, unsigned n)
{
	uint32_t i = ep->qps ? *next : QPN_COUNT;
	unsigned made = 0;

	for (; i < QPN_COUNT && made < n; i++)
		if (ep->qps[i])
			rocemu_qp_report(ep->qps[i], now, &out[made++]);
	*next = i < QPN_COUNT ? i : UINT32_MAX;
	return made;
}

uint32_t rocemu_ep_object_count(const struct rocemu_ep *ep, enum rocemu_object kind)
{
	return ep->objects[kind];
}
