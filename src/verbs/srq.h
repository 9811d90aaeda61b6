/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#ifndef VERBS_SRQ_H
#define VERBS_SRQ_H

#include "base/util.h"
#include "verbs/call.h"
#include "verbs/event.h"
#include "verbs/lanes.h"

struct rocemu_srq;
struct vb_trace;
struct vb_xrcd;

struct vb_srq {
	struct ibv_srq base;
	struct rocemu_srq *rsrq; /* owned */
	struct vb_place place;
	struct vb_xrcd *xrcd;	/* ref; NULL: a basic SRQ */
	struct vb_trace *trace; /* owned; NULL without a timeline, or before it is used */
	struct vb_async async[2];
};

static inline struct vb_srq *vb_srq_of(struct ibv_srq *o)
{
	return container_of(o, struct vb_srq, base);
}

int vb_srq_check(struct ibv_srq *srq); /* as vb_pd_check() */
struct ibv_srq *vb_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int vb_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int vb_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);

#endif
