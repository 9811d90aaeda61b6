/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues and shared receive queues. */
#include "transport/rq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/mr.h"
#include "transport/qp.h"
#include "transport/show.h"
#include "transport/why.h"

int rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t size = 1;

	*rq = (struct rq){.max_wr = max_wr, .max_sge = max_sge};
	while (size < max_wr)
		size *= 2;
	rq->mask = size - 1;
	rq->wr_ids = calloc(size, sizeof(*rq->wr_ids));
	rq->nsges = calloc(size, sizeof(*rq->nsges));
	rq->sges = calloc((size_t)size * (max_sge ? max_sge : 1), sizeof(*rq->sges));
	if (!rq->wr_ids || !rq->nsges || !rq->sges) {
		rq_fini(rq);
		return -ENOMEM;
	}
	return 0;
}

void rq_fini(struct rq *rq)
{
	free(rq->wr_ids);
	free(rq->nsges);
	free(rq->sges);
	*rq = (struct rq){0};
}

int rq_post(struct rq *rq, const struct ibv_recv_wr *wr)
{
	uint32_t i = rq->head & rq->mask;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return -EINVAL;
	if (rq_count(rq) >= rq->max_wr)
		return -ENOMEM;
	rq->wr_ids[i] = wr->wr_id;
	rq->nsges[i] = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(&rq->sges[(size_t)i * rq->max_sge], wr->sg_list,
		       (size_t)wr->num_sge * sizeof(struct ibv_sge));
	rq->head++;
	return 0;
}

bool rq_take(struct rq *rq, struct rwqe *out)
{
	uint32_t i = rq->tail & rq->mask;

	if (!rq_count(rq))
		return false;
	out->wr_id = rq->wr_ids[i];
	out->nsge = rq->nsges[i];
	memcpy(out->sge, &rq->sges[(size_t)i * rq->max_sge], out->nsge * sizeof(struct ibv_sge));
	out->length = sge_total(out->sge, out->nsge);
	rq->tail++;
	return true;
}

bool qp_take_recv(struct rocemu_qp *qp, struct rwqe *out)
{
	struct rocemu_srq *srq = qp->resp.srq;

	if (!srq)
		return rq_take(&qp->rq, out);
	if (!rq_take(&srq->rq, out))
		return false;
	if (srq->limit && rq_count(&srq->rq) < srq->limit) {
		srq->limit = 0; /* once, until it is armed again (IBTA 10.2.9.4) */
		event_raise(srq->ep, &srq->ev, 1u << IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	return true;
}

static int srq_create(struct rocemu_ep *ep, struct rocemu_pd *pd, struct rocemu_xrcd *xrcd,
		      struct rocemu_cq *cq, struct ibv_srq_attr *attr, void *user,
		      struct rocemu_srq **out)
{
	struct rocemu_srq *srq;

	if (!attr->max_wr || attr->max_wr > ROCEMU_MAX_WR || attr->max_sge > ROCEMU_MAX_SGE)
		return -EINVAL;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	if (!attr->max_sge)
		attr->max_sge = 1;
	if (rq_init(&srq->rq, attr->max_wr, attr->max_sge)) {
		free(srq);
		return -ENOMEM;
	}
	if (xrcd && xrc_srq_init(srq, xrcd, cq)) {
		rq_fini(&srq->rq);
		free(srq);
		return -ENOMEM;
	}
	srq->ep = ep;
	srq->pd = pd;
	srq->user = user;
	list_init(&srq->users);
	event_src_init(&srq->ev, ROCEMU_EVENT_SRQ);
	list_append(&ep->srqs, &srq->link);
	show_object(ep, ROCEMU_OBJECT_SRQ, 1);
	pd_refer(pd, 1);
	*out = srq;
	return 0;
}

int rocemu_srq_create(struct rocemu_pd *pd, struct ibv_srq_attr *attr, void *user,
		      struct rocemu_srq **out)
{
	return srq_create(pd->ep, pd, NULL, NULL, attr, user, out);
}

int rocemu_xrc_srq_create(struct rocemu_pd *pd, struct rocemu_xrcd *xrcd, struct rocemu_cq *cq,
			  struct ibv_srq_attr *attr, void *user, struct rocemu_srq **out)
{
	if (!xrcd || !cq)
		return -EINVAL;
	return srq_create(xrcd->ep, pd, xrcd, cq, attr, user, out);
}

uint32_t rocemu_srq_num(const struct rocemu_srq *srq)
{
	return srq->num;
}

int rocemu_srq_destroy(struct rocemu_srq *srq)
{
	if (srq->refs)
		return -EBUSY;
	if (srq->xrcd)
		xrc_srq_fini(srq);
	event_src_fini(&srq->ev);
	list_remove(&srq->link);
	pd_refer(srq->pd, -1);
	show_object(srq->ep, ROCEMU_OBJECT_SRQ, -1);
	rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int rocemu_srq_move(struct rocemu_srq *srq, struct rocemu_ep *ep)
{
	if (srq->refs || srq->xrcd)
		return -EBUSY;
	list_remove(&srq->link);
	show_object(srq->ep, ROCEMU_OBJECT_SRQ, -1);
	srq->ep = ep;
	list_append(&ep->srqs, &srq->link);
	show_object(ep, ROCEMU_OBJECT_SRQ, 1);
	event_src_move(ep, &srq->ev);
	return 0;
}

/** Move the posted requests into a ring of another size. Not inlined: it allocates, its caller by
 * its name may not. */
__attribute__((noinline)) static int srq_resize(struct rocemu_srq *srq, uint32_t max_wr)
{
	struct rq bigger;
	struct rwqe w;

	if (!max_wr || max_wr > ROCEMU_MAX_WR || max_wr < rq_count(&srq->rq))
		return -EINVAL;
	if (rq_init(&bigger, max_wr, srq->rq.max_sge))
		return -ENOMEM;
	while (rq_take(&srq->rq, &w)) {
		struct ibv_recv_wr wr = {
			.wr_id = w.wr_id, .sg_list = w.sge, .num_sge = (int)w.nsge};

		rq_post(&bigger, &wr);
	}
	rq_fini(&srq->rq);
	srq->rq = bigger;
	return 0;
}

int rocemu_srq_modify(struct rocemu_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.max_wr;
	int r;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return -EINVAL;
	if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr)
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		r = srq_resize(srq, max_wr);
		if (r)
			return r;
	}
	if (mask & IBV_SRQ_LIMIT) {
		srq->limit = attr->srq_limit;
		if (srq->limit && rq_count(&srq->rq) < srq->limit) {
			srq->limit = 0;
			event_raise(srq->ep, &srq->ev, 1u << IBV_EVENT_SRQ_LIMIT_REACHED);
		}
	}
	return 0;
}

void rocemu_srq_query(const struct rocemu_srq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
}

int rocemu_srq_post(struct rocemu_srq *srq, const struct ibv_recv_wr *wr,
		    const struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		int r = rq_post(&srq->rq, wr);

		if (r) {
			const bool full = r == -ENOMEM;

			why_give(srq->ep,
				 &(struct rocemu_why){
					 .code = full ? ROCEMU_WHY_RECV_FULL : ROCEMU_WHY_RECV_SGES,
					 .id = wr->wr_id,
					 .n = (uint32_t)wr->num_sge,
					 .limit = full ? srq->rq.max_wr : srq->rq.max_sge,
				 });
			*bad = wr;
			return r;
		}
	}
	return 0;
}

void *rocemu_srq_user(const struct rocemu_srq *srq)
{
	return srq->user;
}
