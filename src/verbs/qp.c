/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation, attributes, end. Posting is in post.c and wr.c. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/util.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/newer.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "verbs/real.h"
#include "verbs/srq.h"
#include "verbs/trace-wr.h"
#include "verbs/wr.h"
#include "verbs/xrc.h"

/* Not in every version's verbs.h. */
enum {
#ifdef HAVE_WR_ATOMIC_WRITE
	OP_ATOMIC_WRITE = IBV_QP_EX_WITH_ATOMIC_WRITE,
#else
	OP_ATOMIC_WRITE = 0,
#endif
#ifdef HAVE_WR_FLUSH
	OP_FLUSH = IBV_QP_EX_WITH_FLUSH,
#else
	OP_FLUSH = 0,
#endif
};

enum {
	OPS_UD = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	OPS_UC = OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	OPS_RC = OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
		 OP_ATOMIC_WRITE | OP_FLUSH,
};

static const enum ibv_event_type qp_events[] = {
	IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
	IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED,
};

static uint64_t supported_ops(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return OPS_RC;
	case IBV_QPT_UC:
		return OPS_UC;
	case IBV_QPT_UD:
		return OPS_UD;
	default:
		return 0;
	}
}

/* ---- creation ---- */

static uint32_t create_flags(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;
}

static bool type_known(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/** All objects that its type needs are there and of this context. Others are not looked at. */
static bool objects_fit(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	if (a->qp_type == IBV_QPT_XRC_RECV)
		return (a->comp_mask & IBV_QP_INIT_ATTR_XRCD) && a->xrcd && a->xrcd->context == ctx;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || a->pd->context != ctx ||
	    !a->send_cq || a->send_cq->context != ctx)
		return false;
	if (a->qp_type == IBV_QPT_XRC_SEND)
		return true;
	return a->recv_cq && a->recv_cq->context == ctx &&
	       (!a->srq || (a->srq->context == ctx && !vb_srq_of(a->srq)->xrcd));
}

static int check_init_attr(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask &
	    ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_create_qp_ex: comp_mask is 0x%x: PD, XRCD, CREATE_FLAGS and "
			      "SEND_OPS_FLAGS are supported: remove the rest",
			      a->comp_mask);
	if (!type_known(a->qp_type))
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_create_qp: qp_type is %d: RC, UC, UD and XRC are supported: use "
			      "one of them",
			      (int)a->qp_type);
	if (create_flags(a) & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_create_qp_ex: create_flags is 0x%x: only BLOCK_SELF_MCAST_LB is "
			      "supported: remove the rest",
			      create_flags(a));
	if (create_flags(a) && a->qp_type != IBV_QPT_UD)
		return REFUSE(-EINVAL, 0,
			      "ibv_create_qp_ex: create_flags is BLOCK_SELF_MCAST_LB for qp_type "
			      "%d: only UD has multicast: remove it",
			      (int)a->qp_type);
	if ((a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    a->send_ops_flags & ~supported_ops(a->qp_type))
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_create_qp_ex: send_ops_flags is 0x%llx: qp_type %d supports "
			      "0x%llx: remove the rest",
			      (unsigned long long)a->send_ops_flags, (int)a->qp_type,
			      (unsigned long long)supported_ops(a->qp_type));
	if (objects_fit(ctx, a))
		return 0;
	return REFUSE(
		-EINVAL, 0,
		"ibv_create_qp: qp_type is %d: PD, send_cq and recv_cq (XRC: as its type requires) "
		"must be set and of this context, and an SRQ must not be of type XRC: set them",
		(int)a->qp_type);
}

/** Members that the type does not use are ignored. */
static struct ibv_qp_init_attr_ex normalize(const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp_init_attr_ex n = *a;

	if (n.qp_type != IBV_QPT_XRC_RECV)
		n.xrcd = NULL;
	else
		n.pd = NULL;
	if (n.qp_type == IBV_QPT_XRC_RECV)
		n.send_cq = NULL;
	if (n.qp_type == IBV_QPT_XRC_RECV || n.qp_type == IBV_QPT_XRC_SEND) {
		n.recv_cq = NULL;
		n.srq = NULL;
	}
	/* The eight bytes of an ATOMIC WRITE are in the request (ibv_wr_atomic_write()). */
	if ((n.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && n.send_ops_flags & OP_ATOMIC_WRITE)
		n.cap.max_inline_data = MAX(n.cap.max_inline_data, 8u);
	return n;
}

void vb_qp_show(struct vb_qp *qp, struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *b = &qp->base.qp_base;

	b->context = ctx;
	b->qp_context = a->qp_context;
	b->pd = a->pd;
	b->send_cq = a->send_cq;
	b->recv_cq = a->recv_cq;
	b->srq = a->srq;
	b->qp_num = rocemu_qp_num(qp->rqp);
	b->state = IBV_QPS_RESET;
	b->qp_type = a->qp_type;
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->cond, NULL);
	qp->sig_all = a->sq_sig_all != 0;
	if (a->pd)
		atomic_fetch_add(&vb_pd_of(a->pd)->refs, 1);
	if (a->xrcd) {
		qp->xrcd = vb_xrcd_of(a->xrcd);
		atomic_fetch_add(&qp->xrcd->refs, 1);
	}
}

void vb_qp_events_init(struct vb_qp *qp)
{
	_Static_assert(ARRAY_LEN(qp_events) == ARRAY_LEN(qp->async), "one source per event");
	for (unsigned i = 0; i < ARRAY_LEN(qp_events); i++) {
		vb_async_init(&qp->async[i], qp_events[i]);
		qp->async[i].event.element.qp = &qp->base.qp_base;
	}
	list_init(&qp->sharing);
	list_init(&qp->guest);
}

/** Its lane has one QP less: counted with the handle that it was made with. */
static void leave_lane(struct vb_qp *qp)
{
	if (qp->counted)
		vb_lanes_give_back(qp->home, qp->lane);
	qp->counted = false;
}

/** Limits of another device, of the queues that the QP has; rocemu's own are the endpoint's. */
static bool fits(const struct like_limits *m, const struct ibv_qp_init_attr_ex *a)
{
	const bool sends = a->qp_type != IBV_QPT_XRC_RECV;
	const bool recvs = sends && a->qp_type != IBV_QPT_XRC_SEND && !a->srq;

	if (sends && (a->cap.max_send_wr > m->max_qp_wr || a->cap.max_send_sge > m->max_sge ||
		      a->cap.max_inline_data > m->max_inline_data))
		return false;
	return !recvs || (a->cap.max_recv_wr <= m->max_qp_wr && a->cap.max_recv_sge <= m->max_sge);
}

static int create(struct vb_context *c, struct vb_qp *qp, struct ibv_qp_init_attr_ex *a)
{
	struct rocemu_qp_init init = {
		.pd = a->pd ? vb_pd_of(a->pd)->rpd : NULL,
		.send_cq = a->send_cq ? vb_cq_of(a->send_cq)->rcq : NULL,
		.recv_cq = a->recv_cq ? vb_cq_of(a->recv_cq)->rcq : NULL,
		.srq = a->srq ? vb_srq_of(a->srq)->rsrq : NULL,
		.xrcd = a->xrcd ? vb_xrcd_of(a->xrcd)->rx : NULL,
		.type = a->qp_type,
		.cap = a->cap,
		.sq_sig_all = a->sq_sig_all != 0,
		.block_own_mcast = create_flags(a) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		.user = qp,
	};
	const struct vb_lane_users users = {
		.send_cq = a->send_cq ? vb_cq_of(a->send_cq) : NULL,
		.recv_cq = a->recv_cq ? vb_cq_of(a->recv_cq) : NULL,
		.srq = a->srq ? vb_srq_of(a->srq) : NULL,
	};
	int ret;

	vb_qp_events_init(qp);
	qp->home = c;
	ret = vb_lanes_take(c, &users, &qp->lane);
	if (ret < 0)
		return ret;
	qp->counted = true;
	lane_lock(qp->lane);
	if (a->qp_type == IBV_QPT_UD)
		lane_want_hop_limits(qp->lane);
	ret = fits(&c->limits, a) ? rocemu_qp_create(lane_ep(qp->lane), &init, &qp->rqp) : -EINVAL;
	if (ret == 0)
		lane_show_qp(qp->lane, rocemu_qp_num(qp->rqp));
	lane_unlock(qp->lane);
	if (ret == -EINVAL)
		why_say(0,
			"ibv_create_qp: max_send_wr is %u, max_recv_wr %u, max_send_sge %u, "
			"max_recv_sge %u, max_inline_data %u: they must be at most %u, %u, %u, %u "
			"and %u: see ibv_query_device()",
			a->cap.max_send_wr, a->cap.max_recv_wr, a->cap.max_send_sge,
			a->cap.max_recv_sge, a->cap.max_inline_data, c->limits.max_qp_wr,
			c->limits.max_qp_wr, c->limits.max_sge, c->limits.max_sge,
			c->limits.max_inline_data);
	if (ret < 0)
		return ret;
	qp->cap = init.cap;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		ret = vb_wr_init(qp, a->send_ops_flags);
	if (ret < 0) {
		lane_lock(qp->lane);
		rocemu_qp_destroy(qp->rqp);
		lane_unlock(qp->lane);
		return ret;
	}
	vb_qp_show(qp, &c->vctx.context, a);
	a->cap = init.cap;
	return 0;
}

/** Check the handles of all objects it is made of. */
static int check_handles(const struct ibv_qp_init_attr_ex *a)
{
	int ret = a->pd ? vb_pd_check(a->pd) : 0;

	if (ret == 0 && a->send_cq)
		ret = vb_cq_check(a->send_cq);
	if (ret == 0 && a->recv_cq)
		ret = vb_cq_check(a->recv_cq);
	if (ret == 0 && a->srq)
		ret = vb_srq_check(a->srq);
	return ret;
}

int vb_qp_check(struct ibv_qp *qp)
{
	return vb_handle_check(vb_context_of(qp->context), qp->handle, vb_qp_of(qp));
}

struct ibv_qp *vb_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct vb_context *c = vb_context_of(ctx);
	struct ibv_qp_init_attr_ex a;
	struct vb_qp *qp;
	int ret = check_init_attr(ctx, attr);

	if (ret == 0)
		ret = vb_fault(c, NULL, FAULT_VERB_CREATE_QP);
	if (ret == 0)
		ret = vb_context_attach(c);
	if (ret == 0) {
		a = normalize(attr);
		ret = check_handles(&a);
	}
	if (ret < 0)
		return vb_null(-ret);
	qp = calloc(1, sizeof(*qp));
	if (!qp || vb_handle_new(c, qp, &qp->base.qp_base.handle)) {
		free(qp);
		return vb_null(ENOMEM);
	}
	ret = create(c, qp, &a);
	if (ret < 0) {
		leave_lane(qp);
		vb_handle_free(c, qp->base.qp_base.handle, qp);
		free(qp);
		return vb_null(-ret);
	}
	vb_fault_qp_init(qp);
	vb_trace_qp_init(qp);
	attr->cap = a.cap;
	return &qp->base.qp_base;
}

static struct ibv_qp *create_real(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (vb_mixed(attr->send_cq ? attr->send_cq->context : NULL) ||
	    vb_mixed(attr->recv_cq ? attr->recv_cq->context : NULL) ||
	    vb_mixed(attr->srq ? attr->srq->context : NULL))
		return vb_null(
			REFUSE(EINVAL, 0,
			       "ibv_create_qp: a CQ or SRQ is of an emulated device, the PD of a "
			       "real one: all must be of the same context: create them on it"));
	return REAL_CALL(ibv_create_qp, pd, attr);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp;

	if (!vb_context_of(pd->context))
		return create_real(pd, attr);
	qp = vb_create_qp_ex(pd->context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	if (!vb_context_of(qp->context))
		return REAL_CALL(ibv_qp_to_qp_ex, qp);
	return vb_qp_of(qp)->wr ? &vb_qp_of(qp)->base : NULL;
}

/* ---- attributes ---- */

/**
 * Programs set up XRC QPs as they do RC QPs. As with the kernel's drivers, attributes of the half
 * that a QP does not have are passed over.
 */
static int mask_for(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

/* Open the socket to send from. An error because the path's address is gone shows when sending. */
static int prepare_path(struct lane *lane, struct rocemu_path *path, uint32_t dqpn) REQUIRES(lane);
static int prepare_path(struct lane *lane, struct rocemu_path *path, uint32_t dqpn)
{
	const int err = lane_prepare_path(lane, path, dqpn);

	return err == -ENODEV || err == -EADDRNOTAVAIL ? 0 : err;
}

static int modify(struct lane *lane, struct rocemu_qp *qp, const struct ibv_qp_attr *attr, int mask)
	REQUIRES(lane);
static int modify(struct lane *lane, struct rocemu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const uint32_t dqpn = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : 0;
	struct rocemu_path path;
	const bool has_path = !rocemu_qp_path_after(qp, attr, mask, &path);
	int ret = has_path ? prepare_path(lane, &path, dqpn) : 0;

	if (ret == 0)
		ret = rocemu_qp_modify(qp, lane_now(), attr, mask);
	if (ret == 0 && has_path)
		rocemu_qp_set_own_interface(qp, path.own_interface);
	return ret;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_cq *scq = NULL, *rcq = NULL;
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_modify_qp, ibqp, attr, mask);
	ret = vb_fault(c, qp, FAULT_VERB_MODIFY_QP);
	if (ret == 0)
		ret = vb_qp_check(ibqp);
	if (ret < 0)
		return vb_errno(ret);
	mask = mask_for(ibqp->qp_type, mask);
	lane = qp->lane;
	/*
	 * Only RESET takes completions out of the CQs. For anything else, a thread may be between
	 * ibv_start_poll() and ibv_end_poll(), also this one.
	 */
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		scq = vb_cq_of(ibqp->send_cq);
		rcq = vb_cq_of(ibqp->recv_cq);
	}
	vb_cq_lock_pair(scq, rcq);
	lane_lock(lane);
	if ((mask & IBV_QP_STATE) &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		lane_flush(lane);
	ret = modify(lane, qp->rqp, attr, mask);
	if (ret == 0) {
		if (mask & IBV_QP_STATE)
			ibqp->state = attr->qp_state;
		vb_trace_modified(qp, attr, mask);
		lane_kick(lane);
	}
	lane_deliver(lane);
	lane_unlock(lane);
	vb_cq_unlock_pair(scq, rcq);
	return vb_errno(ret);
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	int ret;

	if (!c)
		return REAL_CALL(ibv_query_qp, ibqp, attr, mask, init);
	ret = vb_fault(c, qp, FAULT_VERB_QUERY_QP);
	if (ret == 0)
		ret = vb_qp_check(ibqp);
	if (ret < 0)
		return vb_errno(ret);
	/* All attributes, whatever was requested. */
	memset(attr, 0, sizeof(*attr));
	lane_lock(qp->lane);
	rocemu_qp_query(qp->rqp, attr);
	lane_unlock(qp->lane);
	if (mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = qp->cap,
		.qp_type = ibqp->qp_type,
		.sq_sig_all = qp->sig_all,
	};
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (!vb_context_of(qp->context))
		return REAL_CALL(ibv_query_qp_data_in_order, qp, op, flags);
	return 0; /* not guaranteed: duplicate packets are placed again */
}

/* ---- end ---- */

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_cq *scq, *rcq;
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_qp, ibqp);
	if (c->orphan) {
		vb_wr_fini(qp);
		vb_fault_qp_fini(qp);
		vb_trace_qp_fini(qp);
		return vb_orphan_free(qp);
	}
	ret = vb_qp_check(ibqp);
	if (ret < 0)
		return vb_errno(ret);
	lane = qp->lane;
	scq = vb_cq_of(ibqp->send_cq);
	rcq = vb_cq_of(ibqp->recv_cq);
	vb_cq_lock_pair(scq, rcq);
	lane_lock(lane);
	lane_flush(lane);
	lane_deliver(lane);
	ret = vb_qp_unshare(qp);
	lane_unlock(lane);
	vb_cq_unlock_pair(scq, rcq);
	if (ret < 0)
		return vb_errno(ret);
	leave_lane(qp);
	vb_qp_leave_home(qp);
	vb_handle_free(c, ibqp->handle, qp);
	vb_async_end(c, qp->async, ARRAY_LEN(qp->async), &ibqp->mutex, &ibqp->cond,
		     &ibqp->events_completed);
	if (ibqp->pd)
		atomic_fetch_sub(&vb_pd_of(ibqp->pd)->refs, 1);
	if (qp->xrcd)
		atomic_fetch_sub(&qp->xrcd->refs, 1);
	vb_wr_fini(qp);
	vb_fault_qp_fini(qp);
	vb_trace_qp_fini(qp);
	free(qp);
	return 0;
}
