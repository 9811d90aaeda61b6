/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records requests and states in the timeline (base/trace.h): each request from its post to its
 * completion, each state that the program sets. While there is no timeline they are not called, or
 * do nothing.
 */
#ifndef VERBS_TRACE_WR_H
#define VERBS_TRACE_WR_H

#include "base/trace.h"
#include "verbs/call.h"

struct rocemu_cqe;
struct rocemu_why;
struct vb_qp;
struct vb_srq;

/** Sets qp->trace; NULL without a timeline, or without memory for it. */
void vb_trace_qp_init(struct vb_qp *qp);
void vb_trace_qp_fini(struct vb_qp *qp);
void vb_trace_srq_fini(struct vb_srq *srq);
/** After ibv_modify_qp(). */
void vb_trace_modified(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
/** A send request was posted; when_ns: the call began. */
void vb_trace_sent(const struct vb_qp *qp, uint64_t when_ns, const struct ibv_send_wr *wr);
/** Receives of a list were posted, those before end. */
void vb_trace_recvs(const struct vb_qp *qp, const struct ibv_recv_wr *wr,
		    const struct ibv_recv_wr *end);
void vb_trace_srq_recvs(struct vb_srq *srq, const struct ibv_recv_wr *wr,
			const struct ibv_recv_wr *end);
/** The reason of an error. */
void vb_trace_why(const struct rocemu_why *w);
/** The program took a completion. */
void vb_trace_taken(const struct ibv_context *ctx, const struct rocemu_cqe *cqe);

#endif
