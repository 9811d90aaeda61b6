/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs. */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include "base/list.h"
#include "base/util.h"
#include "verbs/call.h"
#include "verbs/event.h"

struct lane;
struct rocemu_qp;
struct vb_context;
struct vb_fault_qp;
struct vb_trace;
struct vb_wr;
struct vb_xrcd;

struct vb_qp {
	struct ibv_qp_ex base;	 /* begins with an ibv_qp */
	struct rocemu_qp *rqp;	 /* owned, XRC_RECV: by all its handles together */
	struct lane *lane;	 /* borrowed: where rqp is */
	bool counted;		 /* among the lane's QPs (vb_spread) */
	struct vb_context *home; /* whose lane that is; XRC_RECV: perhaps not the handle's */
	struct list sharing;	 /* ring of those handles; guarded by the lane's lock */
	struct list guest;	 /* in its context's xrc.guests: rqp is another context's */
	struct vb_xrcd *xrcd;	 /* ref, XRC_RECV */
	struct ibv_qp_cap cap;
	bool sig_all;
	struct vb_wr *wr;	   /* owned; the ibv_wr_* staging, NULL without send_ops_flags */
	struct vb_fault_qp *fault; /* owned; NULL without fault rules */
	struct vb_trace *trace;	   /* owned; NULL without a timeline */
	struct vb_async async[6];
};

static inline struct vb_qp *vb_qp_of(struct ibv_qp *o)
{
	return container_of(o, struct vb_qp, base.qp_base);
}

int vb_qp_check(struct ibv_qp *qp); /* as vb_pd_check() */
struct ibv_qp *vb_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
/** The public part of a QP (handle) whose rqp is known. */
void vb_qp_show(struct vb_qp *qp, struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a);
/** Its events, and a ring of one. */
void vb_qp_events_init(struct vb_qp *qp);

#endif
