/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: basic and XRC. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/util.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/real.h"
#include "verbs/srq.h"
#include "verbs/trace-wr.h"
#include "verbs/xrc.h"

/** xrcd and cq: of an XRC SRQ, or both NULL. -errno. */
static int create(struct vb_srq *srq, struct vb_pd *pd, struct vb_xrcd *xrcd, struct vb_cq *cq,
		  struct ibv_srq_attr *attr)
{
	struct lane *lane = vb_context_of(pd->base.context)->lanes.lane[0];
	int ret;

	if (xrcd) {
		ret = vb_lanes_take_first(vb_context_of(pd->base.context), cq);
		if (ret < 0)
			return ret;
	}
	lane_lock(lane);
	if (xrcd)
		ret = rocemu_xrc_srq_create(pd->rpd, xrcd->rx, cq->rcq, attr, srq, &srq->rsrq);
	else
		ret = rocemu_srq_create(pd->rpd, attr, srq, &srq->rsrq);
	lane_unlock(lane);
	if (ret < 0)
		return ret;
	atomic_fetch_add(&pd->refs, 1);
	if (xrcd)
		atomic_fetch_add(&xrcd->refs, 1);
	srq->xrcd = xrcd;
	atomic_init(&srq->place.lane, lane);
	srq->place.given = xrcd != NULL;
	return 0;
}

static struct ibv_srq *srq_new(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
			       struct ibv_srq_attr *attr, void *srq_context)
{
	struct vb_context *c = vb_context_of(pd->context);
	struct vb_srq *srq;
	int ret;

	ret = vb_fault(c, NULL, FAULT_VERB_CREATE_SRQ);
	if (ret == 0)
		ret = vb_pd_check(pd);
	if (ret == 0 && cq)
		ret = vb_cq_check(cq);
	if (ret < 0)
		return vb_null(-ret);
	if (!vb_take(c, VB_SRQS))
		return vb_null(ENOMEM);
	srq = calloc(1, sizeof(*srq));
	ret = srq ? vb_handle_new(c, srq, &srq->base.handle) : -ENOMEM;
	if (ret == 0) {
		ret = create(srq, vb_pd_of(pd), xrcd ? vb_xrcd_of(xrcd) : NULL, vb_cq_of(cq), attr);
		if (ret < 0)
			vb_handle_free(c, srq->base.handle, srq);
		if (ret == -EINVAL)
			why_say(0,
				"ibv_create_srq: max_wr is %u, max_sge %u: they must be 1 to %d "
				"and 0 to %d: see ibv_query_device()",
				attr->max_wr, attr->max_sge, ROCEMU_MAX_WR, ROCEMU_MAX_SGE);
	}
	if (ret < 0) {
		vb_give_back(c, VB_SRQS);
		free(srq);
		return vb_null(-ret);
	}
	srq->base.context = pd->context;
	srq->base.srq_context = srq_context;
	srq->base.pd = pd;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	vb_async_init(&srq->async[0], IBV_EVENT_SRQ_LIMIT_REACHED);
	vb_async_init(&srq->async[1], IBV_EVENT_SRQ_ERR);
	for (unsigned i = 0; i < ARRAY_LEN(srq->async); i++)
		srq->async[i].event.element.srq = &srq->base;
	return &srq->base;
}

int vb_srq_check(struct ibv_srq *srq)
{
	return vb_handle_check(vb_context_of(srq->context), srq->handle, vb_srq_of(srq));
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	if (!vb_context_of(pd->context))
		return REAL_CALL(ibv_create_srq, pd, attr);
	return srq_new(pd, NULL, NULL, &attr->attr, attr->srq_context);
}

struct ibv_srq *vb_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	enum { XRC = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ };
	enum { KNOWN = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | XRC };
	bool xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC;

	if (attr->comp_mask & ~(uint32_t)KNOWN)
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_create_srq_ex: comp_mask is 0x%x: TYPE, PD, XRCD and CQ "
				      "are supported: remove the rest",
				      attr->comp_mask));
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && !xrc && attr->srq_type != IBV_SRQT_BASIC)
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_create_srq_ex: srq_type is %d: BASIC and XRC are "
				      "supported, not tag matching: use one of them",
				      (int)attr->srq_type));
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx)
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_srq_ex: comp_mask is 0x%x: a PD of this context "
				      "is needed: set IBV_SRQ_INIT_ATTR_PD and pd",
				      attr->comp_mask));
	if (!xrc)
		return srq_new(attr->pd, NULL, NULL, &attr->attr, attr->srq_context);
	if ((attr->comp_mask & XRC) != XRC || !attr->xrcd || attr->xrcd->context != ctx ||
	    !attr->cq || attr->cq->context != ctx)
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_srq_ex: comp_mask is 0x%x: an XRC SRQ needs an "
				      "XRC domain and a CQ of this context: set them",
				      attr->comp_mask));
	return srq_new(attr->pd, attr->xrcd, attr->cq, &attr->attr, attr->srq_context);
}

int vb_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	struct vb_srq *srq = vb_srq_of(ibsrq);

	if (!srq->xrcd)
		return vb_errno(
			REFUSE(-EOPNOTSUPP, 0,
			       "ibv_get_srq_num: a basic SRQ has no number: create an XRC SRQ"));
	*srq_num = rocemu_srq_num(srq->rsrq);
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_modify_srq, ibsrq, attr, mask);
	ret = vb_fault(c, NULL, FAULT_VERB_MODIFY_SRQ);
	if (ret == 0)
		ret = vb_srq_check(ibsrq);
	if (ret < 0)
		return vb_errno(ret);
	lane = vb_lane_lock(&vb_srq_of(ibsrq)->place);
	vb_lane_assume(lane);
	ret = rocemu_srq_modify(vb_srq_of(ibsrq)->rsrq, attr, mask);
	lane_deliver(lane);
	lane_unlock(lane);
	if (ret == -EINVAL)
		why_say(0,
			"ibv_modify_srq: mask is 0x%x, max_wr %u, srq_limit %u: max_wr must be 1 "
			"to %d and not less than the posted receives, srq_limit at most max_wr: "
			"change them",
			(unsigned)mask, attr->max_wr, attr->srq_limit, ROCEMU_MAX_WR);
	return vb_errno(ret);
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_query_srq, ibsrq, attr);
	ret = vb_srq_check(ibsrq);
	if (ret < 0)
		return vb_errno(ret);
	lane = vb_lane_lock(&vb_srq_of(ibsrq)->place);
	vb_lane_assume(lane);
	rocemu_srq_query(vb_srq_of(ibsrq)->rsrq, attr);
	lane_unlock(lane);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	struct vb_srq *srq = vb_srq_of(ibsrq);
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_srq, ibsrq);
	if (c->orphan)
		return vb_orphan_free(srq);
	ret = vb_srq_check(ibsrq);
	if (ret < 0)
		return vb_errno(ret);
	lane = vb_lane_lock(&vb_srq_of(ibsrq)->place);
	vb_lane_assume(lane);
	ret = rocemu_srq_destroy(srq->rsrq);
	lane_unlock(lane);
	if (ret < 0)
		return vb_errno(ret);
	vb_handle_free(c, ibsrq->handle, srq);
	vb_async_end(c, srq->async, ARRAY_LEN(srq->async), &ibsrq->mutex, &ibsrq->cond,
		     &ibsrq->events_completed);
	atomic_fetch_sub(&vb_pd_of(ibsrq->pd)->refs, 1);
	if (srq->xrcd)
		atomic_fetch_sub(&srq->xrcd->refs, 1);
	vb_give_back(c, VB_SRQS);
	vb_trace_srq_fini(srq);
	free(srq);
	return 0;
}

int vb_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	const struct ibv_recv_wr *cbad = NULL;
	struct lane *lane;
	int ret = vb_fault(c, NULL, FAULT_VERB_POST_SRQ_RECV);

	if (unlikely(ret < 0)) {
		*bad = wr;
		return vb_errno(ret);
	}
	lane = vb_lane_lock(&vb_srq_of(ibsrq)->place);
	vb_lane_assume(lane);
	ret = rocemu_srq_post(vb_srq_of(ibsrq)->rsrq, wr, &cbad);
	if (trace_on())
		vb_trace_srq_recvs(vb_srq_of(ibsrq), wr, cbad);
	if (unlikely(ret < 0))
		lane_deliver(lane);
	lane_unlock(lane);
	if (ret < 0)
		*bad = (struct ibv_recv_wr *)(uintptr_t)cbad;
	return vb_errno(ret);
}
