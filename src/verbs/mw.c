/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows. Binding and invalidating are work requests; ibv_bind_mw() of type 1 windows is
 * one as well, which chooses the new key.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/lanes.h"
#include "verbs/mw.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "verbs/trace-wr.h"

struct ibv_mw *vb_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mw *mw;
	int ret = vb_fault(c, NULL, FAULT_VERB_ALLOC_MW);

	if (ret == 0)
		ret = vb_pd_check(ibpd);
	if (ret < 0)
		return vb_null(-ret);
	mw = calloc(1, sizeof(*mw));
	if (!mw || vb_handle_new(c, mw, &mw->base.handle)) {
		free(mw);
		return vb_null(ENOMEM);
	}
	vb_lanes_unite(c);
	lanes_lock(&c->lanes);
	ret = rocemu_mw_new(pd->rpd, type, &mw->rmw);
	lanes_unlock(&c->lanes);
	if (ret == -EINVAL)
		why_say(0,
			"ibv_alloc_mw: type is %d: it must be IBV_MW_TYPE_1 or IBV_MW_TYPE_2: pass "
			"one",
			(int)type);
	if (ret < 0) {
		vb_handle_free(c, mw->base.handle, mw);
		free(mw);
		return vb_null(-ret);
	}
	atomic_fetch_add(&pd->refs, 1);
	mw->base.context = ibpd->context;
	mw->base.pd = ibpd;
	mw->base.rkey = rocemu_mw_rkey(mw->rmw);
	mw->base.type = type;
	return &mw->base;
}

int vb_dealloc_mw(struct ibv_mw *ibmw)
{
	struct vb_context *c = vb_context_of(ibmw->context);
	struct vb_mw *mw = vb_mw_of(ibmw);
	int ret;

	if (c->orphan)
		return vb_orphan_free(mw);
	ret = vb_handle_check(c, ibmw->handle, mw);
	if (ret < 0)
		return vb_errno(ret);
	lanes_lock(&c->lanes);
	rocemu_mw_free(mw->rmw);
	lanes_unlock(&c->lanes);
	vb_handle_free(c, ibmw->handle, mw);
	atomic_fetch_sub(&vb_pd_of(ibmw->pd)->refs, 1);
	free(mw);
	return 0;
}

bool vb_bind_allowed(const struct ibv_qp *qp, const struct ibv_mw *mw, enum ibv_mw_type type,
		     const struct ibv_mw_bind_info *info)
{
	return mw && mw->context == qp->context && mw->type == type &&
	       (!info->mr || info->mr->context == qp->context);
}

int vb_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *ibmw, struct ibv_mw_bind *b)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct lane *lane = vb_qp_of(ibqp)->lane;
	struct ibv_send_wr wr = {
		.wr_id = b->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = b->send_flags,
		.bind_mw = {.mw = ibmw,
			    .rkey = ibv_inc_rkey(ibmw->rkey),
			    .bind_info = b->bind_info},
	};
	int ret;

	if (!c || !vb_bind_allowed(ibqp, ibmw, IBV_MW_TYPE_1, &b->bind_info))
		return vb_errno(REFUSE(-EINVAL, ibqp->qp_num,
				       "ibv_bind_mw QP 0x%x: QP, window and region must be of the "
				       "same emulated context, the window of type 1 and of the "
				       "QP's PD: bind type 2 by IBV_WR_BIND_MW",
				       ibqp->qp_num));
	ret = vb_fault(c, vb_qp_of(ibqp), FAULT_VERB_BIND_MW);
	if (ret < 0)
		return vb_errno(ret);
	lane_lock(lane);
	ret = rocemu_qp_post_send(vb_qp_of(ibqp)->rqp, lane_now(), &wr, NULL);
	if (trace_on() && ret == 0)
		vb_trace_sent(vb_qp_of(ibqp), trace_now(), &wr);
	if (ret == 0)
		vb_fault_posted(vb_qp_of(ibqp));
	lane_kick(lane);
	lane_unlock(lane);
	return vb_errno(ret);
}
