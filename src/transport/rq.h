/* SPDX-License-Identifier: BSD-2-Clause */
/* Ring of receive work requests: a QP's own receive queue, or the queue of an SRQ. */
#ifndef TRANSPORT_RQ_H
#define TRANSPORT_RQ_H

#include "transport/ep.h"

/** A receive work request. A taken one is a copy: its ring entry is free at once. */
struct rwqe {
	uint64_t wr_id;
	uint64_t length; /* bytes of all SGEs */
	uint32_t nsge;
	struct ibv_sge sge[ROCEMU_MAX_SGE];
};

struct rq {
	uint64_t *wr_ids; /* owned arrays, mask + 1 entries */
	uint32_t *nsges;
	struct ibv_sge *sges; /* (mask + 1) * max_sge */
	uint32_t mask;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t head, tail; /* free running; head - tail posted */
};

/** max_wr may be 0 (a ring that is always empty and full). -ENOMEM. */
int rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge);
void rq_fini(struct rq *rq);
/** -ENOMEM full, -EINVAL too many SGEs. */
int rq_post(struct rq *rq, const struct ibv_recv_wr *wr);
/** Take the oldest. @return false: empty. */
bool rq_take(struct rq *rq, struct rwqe *out);
static inline uint32_t rq_count(const struct rq *rq)
{
	return rq->head - rq->tail;
}

struct rocemu_srq {
	struct rocemu_ep *ep; /* borrowed */
	struct rocemu_pd *pd; /* ref; perhaps another endpoint's */
	struct list link;     /* in ep->srqs */
	struct rq rq;
	uint32_t limit;		  /* raise SRQ_LIMIT_REACHED when fewer are left; 0: off */
	uint32_t refs;		  /* QPs; none for an XRC SRQ, which packets name */
	struct rocemu_xrcd *xrcd; /* XRC: ref, as is the CQ; NULL: a basic SRQ */
	struct rocemu_cq *cq;	  /* XRC: where its receives complete */
	uint32_t num;		  /* XRC: see xrc.h */
	struct list users;	  /* XRC: of qp_resp.srq_link */
	struct event_src ev;
	void *user;
};

/** Take one for a QP: from the SRQ that its responder uses (with the limit event) or from its own
 * queue. @return false: none. */
bool qp_take_recv(struct rocemu_qp *qp, struct rwqe *out);

#endif
