/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work requests, on the caller's thread: the first packets leave before the call returns.
 */
#include <stdatomic.h>

#include "base/util.h"
#include "engine/lane.h"
#include "verbs/ah.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/fault.h"
#include "verbs/mw.h"
#include "verbs/orphan.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/trace-wr.h"

/**
 * The objects that a request names must be this context's. path: where a UD send goes; other QPs
 * need none. -EINVAL. Type 1 windows are bound by ibv_bind_mw() only.
 */
static int resolve(const struct ibv_qp *qp, const struct ibv_send_wr *wr,
		   const struct rocemu_path **path)
{
	*path = NULL;
	if (unlikely(wr->opcode == IBV_WR_BIND_MW) &&
	    !vb_bind_allowed(qp, wr->bind_mw.mw, IBV_MW_TYPE_2, &wr->bind_mw.bind_info))
		return REFUSE(-EINVAL, qp->qp_num,
			      "ibv_post_send QP 0x%x: bind: window and region must be of this "
			      "context, the window of type 2 and of the QP's PD: "
			      "bind type 1 by ibv_bind_mw()",
			      qp->qp_num);
	if (qp->qp_type != IBV_QPT_UD)
		return 0;
	/* Of another opcode, wr.ud may be something else: no pointer of it is followed. */
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		return 0;
	if (!wr->wr.ud.ah || wr->wr.ud.ah->context != qp->context)
		return REFUSE(-EINVAL, qp->qp_num,
			      "ibv_post_send QP 0x%x: wr.ud.ah: a UD request needs an address "
			      "handle of this context: make it by "
			      "ibv_create_ah()",
			      qp->qp_num);
	*path = &vb_ah_of(wr->wr.ud.ah)->path;
	return 0;
}

/** Is it a request of the QP's service that sends data, so that its list was read? */
static bool sends(enum ibv_qp_type type, enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return type != IBV_QPT_UD;
	case IBV_WR_SEND_WITH_INV:
		return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	default:
		return false;
	}
}

/**
 * Bytes sent for a posted request; SIZE_MAX: it is not held back for others. SGE lists that do not
 * matter are not read.
 */
static size_t leaving(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	size_t bytes = 0;

	if (!sends(qp->qp_type, wr->opcode))
		return SIZE_MAX;
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

static void note_posted(struct lane_post *post, const struct ibv_qp *qp,
			const struct ibv_send_wr *wr)
{
	post->bytes = MAX(post->bytes, leaving(qp, wr));
	post->signaled |= (wr->send_flags & IBV_SEND_SIGNALED) != 0;
}

/** What is posted now completes after the CQs were armed: vb_cq_is_quiet(). */
static void cqs_posted(const struct ibv_qp *ibqp)
{
	struct ibv_cq *const cqs[] = {ibqp->send_cq, ibqp->recv_cq};

	for (unsigned i = 0; i < ARRAY_LEN(cqs); i++)
		if (cqs[i] &&
		    unlikely(atomic_load_explicit(&vb_cq_of(cqs[i])->fresh, memory_order_relaxed)))
			atomic_store_explicit(&vb_cq_of(cqs[i])->fresh, false,
					      memory_order_relaxed);
}

HOT int vb_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct lane *lane = qp->lane;
	rocemu_ns_t now;
	int ret = vb_fault(c, qp, FAULT_VERB_POST_SEND);
	struct lane_post post = {0};

	if (unlikely(ret < 0)) {
		*bad = wr;
		return vb_errno(ret);
	}
	cqs_posted(ibqp);
	lane_lock(lane);
	now = lane_post_time(lane);
	post.in_flight = rocemu_qp_in_flight(qp->rqp);
	for (; wr; wr = wr->next) {
		const struct rocemu_path *path;

		ret = resolve(ibqp, wr, &path);
		if (ret == 0)
			ret = rocemu_qp_post_send(qp->rqp, now, wr, path);
		if (ret < 0) {
			*bad = wr;
			break;
		}
		vb_fault_posted(qp);
		if (trace_on())
			vb_trace_sent(qp, now, wr);
		note_posted(&post, ibqp, wr);
	}
	lane_posted(lane, now, post);
	if (unlikely(ret < 0))
		lane_deliver(lane);
	lane_unlock(lane);
	return vb_errno(ret);
}

int vb_post_send_all(struct vb_qp *qp, struct ibv_send_wr *wrs, unsigned n)
{
	struct ibv_qp *ibqp = &qp->base.qp_base;
	struct vb_context *c = vb_context_of(ibqp->context);
	struct lane *lane = qp->lane;
	const struct rocemu_path *path;
	rocemu_ns_t now;
	int ret = vb_fault(c, qp, FAULT_VERB_POST_SEND);
	struct lane_post post = {0};

	if (unlikely(c->orphan))
		ret = vb_orphan_refuse();
	if (unlikely(ret < 0))
		return vb_errno(ret);
	cqs_posted(ibqp);
	lane_lock(lane);
	now = lane_post_time(lane);
	post.in_flight = rocemu_qp_in_flight(qp->rqp);
	for (unsigned i = 0; i < n && ret == 0; i++) {
		ret = resolve(ibqp, &wrs[i], &path);
		if (ret == 0)
			ret = rocemu_qp_check_send(qp->rqp, i, &wrs[i], path);
	}
	if (ret == 0) {
		for (unsigned i = 0; i < n; i++) {
			resolve(ibqp, &wrs[i], &path);
			rocemu_qp_post_send(qp->rqp, now, &wrs[i], path);
			vb_fault_posted(qp);
			if (trace_on())
				vb_trace_sent(qp, now, &wrs[i]);
			note_posted(&post, ibqp, &wrs[i]);
		}
		lane_posted(lane, now, post);
	} else {
		lane_deliver(lane);
	}
	lane_unlock(lane);
	return vb_errno(ret);
}

HOT int vb_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct lane *lane = vb_qp_of(ibqp)->lane;
	struct rocemu_qp *rqp = vb_qp_of(ibqp)->rqp;
	const struct ibv_recv_wr *cbad = NULL;
	rocemu_ns_t now = 0;
	int ret = vb_fault(c, vb_qp_of(ibqp), FAULT_VERB_POST_RECV);

	if (unlikely(ret < 0)) {
		*bad = wr;
		return vb_errno(ret);
	}
	lane_lock(lane);
	/* The time is that of receives which are flushed at once. */
	if (unlikely(rocemu_qp_state(rqp) == IBV_QPS_ERR))
		now = lane_now();
	ret = rocemu_qp_post_recv(rqp, now, wr, &cbad);
	if (trace_on())
		vb_trace_recvs(vb_qp_of(ibqp), wr, cbad);
	/*
	 * Nothing is sent for it, but in the error state it is flushed at once, which may be an
	 * event.
	 */
	lane_deliver(lane);
	lane_unlock(lane);
	if (ret < 0)
		*bad = (struct ibv_recv_wr *)(uintptr_t)cbad;
	return vb_errno(ret);
}
