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
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/mw.h"
#include "verbs/orphan.h"
#include "verbs/post.h"
#include "verbs/qp.h"

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
		return -EINVAL;
	if (qp->qp_type != IBV_QPT_UD)
		return 0;
	/* Of another opcode, wr.ud may be something else: no pointer of it is followed. */
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		return 0;
	if (!wr->wr.ud.ah || wr->wr.ud.ah->context != qp->context)
		return -EINVAL;
	*path = &vb_ah_of(wr->wr.ud.ah)->path;
	return 0;
}

/** Bytes that leave with a request; SIZE_MAX where an answer with data is waited for. */
static size_t leaving(const struct ibv_send_wr *wr)
{
	size_t bytes = 0;

	if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return SIZE_MAX;
	for (int i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	return bytes;
}

/** What is posted now completes after the CQs were armed: vb_cq_is_quiet(). */
static void cqs_posted(const struct ibv_qp *ibqp)
{
	struct ibv_cq *const cqs[] = {ibqp->send_cq, ibqp->recv_cq};

	for (unsigned i = 0; i < ARRAY_LEN(cqs); i++)
		if (cqs[i] && unlikely(atomic_load_explicit(&vb_cq_of(cqs[i])->fresh, memory_order_relaxed)))
			atomic_store_explicit(&vb_cq_of(cqs[i])->fresh, false, memory_order_relaxed);
}

int vb_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	rocemu_ns_t now = lane_now();
	int ret = vb_fault(c, qp, FAULT_VERB_POST_SEND);
	size_t bytes = 0;

	if (unlikely(ret < 0)) {
		*bad = wr;
		return vb_errno(ret);
	}
	cqs_posted(ibqp);
	lane_lock(c->lane);
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
		bytes = MAX(bytes, leaving(wr));
	}
	lane_posted(c->lane, now, bytes);
	lane_unlock(c->lane);
	return vb_errno(ret);
}

int vb_post_send_all(struct vb_qp *qp, struct ibv_send_wr *wrs, unsigned n)
{
	struct ibv_qp *ibqp = &qp->base.qp_base;
	struct vb_context *c = vb_context_of(ibqp->context);
	const struct rocemu_path *path;
	rocemu_ns_t now = lane_now();
	int ret = vb_fault(c, qp, FAULT_VERB_POST_SEND);
	size_t bytes = 0;

	if (unlikely(c->orphan))
		ret = vb_orphan_refuse();
	if (unlikely(ret < 0))
		return vb_errno(ret);
	cqs_posted(ibqp);
	lane_lock(c->lane);
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
			bytes = MAX(bytes, leaving(&wrs[i]));
		}
		lane_posted(c->lane, now, bytes);
	}
	lane_unlock(c->lane);
	return vb_errno(ret);
}

int vb_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	const struct ibv_recv_wr *cbad = NULL;
	int ret = vb_fault(c, vb_qp_of(ibqp), FAULT_VERB_POST_RECV);

	if (unlikely(ret < 0)) {
		*bad = wr;
		return vb_errno(ret);
	}
	lane_lock(c->lane);
	ret = rocemu_qp_post_recv(vb_qp_of(ibqp)->rqp, lane_now(), wr, &cbad);
	/*
	 * Nothing is sent for it, but in the error state it is flushed at once, which may be an
	 * event.
	 */
	vb_deliver_events(c, lane_ep(c->lane));
	lane_unlock(c->lane);
	if (ret < 0)
		*bad = (struct ibv_recv_wr *)(uintptr_t)cbad;
	return vb_errno(ret);
}
