/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation, attributes, end. Posting is in post.c and wr.c. */
#include <stdlib.h>

#include "verbs/real.h"

enum {
	OPS_UD = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	OPS_UC = OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
	OPS_RC = OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV,
};

static const enum ibv_event_type qp_events[] = {
	IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
	IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED,
};

static uint64_t supported_ops(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? OPS_RC : type == IBV_QPT_UC ? OPS_UC : OPS_UD;
}

/* ---- creation ---- */

static uint32_t create_flags(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;
}

static int check_init_attr(struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
				       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return -EOPNOTSUPP;
	if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if (create_flags(a) & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return -EOPNOTSUPP;
	if (create_flags(a) && a->qp_type != IBV_QPT_UD)
		return -EINVAL;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    a->send_ops_flags & ~supported_ops(a->qp_type))
		return -EOPNOTSUPP;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq)
		return -EINVAL;
	if (a->pd->context != ctx || a->send_cq->context != ctx || a->recv_cq->context != ctx ||
	    (a->srq && a->srq->context != ctx))
		return -EINVAL;
	return 0;
}

/** What programs see, and the events it can have. */
static void show(struct vb_qp *qp, struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *b = &qp->base.qp_base;

	b->context = ctx;
	b->qp_context = a->qp_context;
	b->pd = a->pd;
	b->send_cq = a->send_cq;
	b->recv_cq = a->recv_cq;
	b->srq = a->srq;
	b->qp_num = rocemu_qp_num(qp->rqp);
	b->handle = b->qp_num;
	b->state = IBV_QPS_RESET;
	b->qp_type = a->qp_type;
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->cond, NULL);
	qp->sig_all = a->sq_sig_all != 0;
}

static int create(struct vb_context *c, struct vb_qp *qp, struct ibv_qp_init_attr_ex *a)
{
	struct rocemu_qp_init init = {
		.pd = vb_pd_of(a->pd)->rpd,
		.send_cq = vb_cq_of(a->send_cq)->rcq,
		.recv_cq = vb_cq_of(a->recv_cq)->rcq,
		.srq = a->srq ? vb_srq_of(a->srq)->rsrq : NULL,
		.type = a->qp_type,
		.cap = a->cap,
		.sq_sig_all = a->sq_sig_all != 0,
		.block_own_mcast = create_flags(a) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		.user = qp,
	};
	int ret;

	_Static_assert(ARRAY_LEN(qp_events) == ARRAY_LEN(qp->async), "one source per event");
	for (unsigned i = 0; i < ARRAY_LEN(qp_events); i++) {
		vb_async_init(&qp->async[i], qp_events[i]);
		qp->async[i].event.element.qp = &qp->base.qp_base;
	}
	lane_lock(c->lane);
	ret = rocemu_qp_create(lane_ep(c->lane), &init, &qp->rqp);
	lane_unlock(c->lane);
	if (ret < 0)
		return ret;
	qp->cap = init.cap;
	show(qp, &c->vctx.context, a);
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		ret = vb_wr_init(qp, a->send_ops_flags);
	if (ret < 0) {
		lane_lock(c->lane);
		rocemu_qp_destroy(qp->rqp);
		lane_unlock(c->lane);
		return ret;
	}
	a->cap = init.cap;
	atomic_fetch_add(&vb_pd_of(a->pd)->refs, 1);
	return 0;
}

struct ibv_qp *vb_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct vb_context *c = vb_context_of(ctx);
	struct vb_qp *qp;
	int ret = check_init_attr(ctx, attr);

	if (ret == 0)
		ret = vb_context_attach(c);
	if (ret < 0)
		return vb_null(-ret);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return vb_null(ENOMEM);
	ret = create(c, qp, attr);
	if (ret < 0) {
		free(qp);
		return vb_null(-ret);
	}
	return &qp->base.qp_base;
}

static struct ibv_qp *create_real(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (vb_mixed(attr->send_cq ? attr->send_cq->context : NULL) ||
	    vb_mixed(attr->recv_cq ? attr->recv_cq->context : NULL) ||
	    vb_mixed(attr->srq ? attr->srq->context : NULL))
		return vb_null(EINVAL);
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

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_cq *scq = vb_cq_of(ibqp->send_cq), *rcq = vb_cq_of(ibqp->recv_cq);
	const struct rocemu_path *path;
	int ret;

	if (!c)
		return REAL_CALL(ibv_modify_qp, ibqp, attr, mask);
	vb_cq_lock_pair(scq, rcq);
	lane_lock(c->lane);
	if ((mask & IBV_QP_STATE) &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		lane_flush(c->lane);
	ret = rocemu_qp_modify(qp->rqp, lane_now(), attr, mask);
	if (ret == 0) {
		path = rocemu_qp_path(qp->rqp);
		if ((mask & IBV_QP_AV) && path)
			lane_prepare_path(c->lane, path); /* if it fails, sending tells */
		ibqp->state = rocemu_qp_state(qp->rqp);
		lane_kick(c->lane);
		vb_deliver_events(c, lane_ep(c->lane));
	}
	lane_unlock(c->lane);
	vb_cq_unlock_pair(scq, rcq);
	return vb_errno(ret);
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);

	if (!c)
		return REAL_CALL(ibv_query_qp, ibqp, attr, mask, init);
	/* All of it, whatever was asked. */
	memset(attr, 0, sizeof(*attr));
	lane_lock(c->lane);
	rocemu_qp_query(qp->rqp, attr);
	lane_unlock(c->lane);
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
	return 0; /* no promise: packets that come again are placed again */
}

/* ---- end ---- */

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct vb_context *c = vb_context_of(ibqp->context);
	struct vb_qp *qp = vb_qp_of(ibqp);
	struct vb_cq *scq, *rcq;
	unsigned delivered;
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_qp, ibqp);
	scq = vb_cq_of(ibqp->send_cq);
	rcq = vb_cq_of(ibqp->recv_cq);
	vb_cq_lock_pair(scq, rcq);
	lane_lock(c->lane);
	lane_flush(c->lane);
	vb_deliver_events(c, lane_ep(c->lane));
	ret = rocemu_qp_destroy(qp->rqp);
	lane_unlock(c->lane);
	vb_cq_unlock_pair(scq, rcq);
	if (ret < 0)
		return vb_errno(ret);
	delivered = vb_async_drop(c, qp->async, ARRAY_LEN(qp->async));
	pthread_mutex_lock(&ibqp->mutex);
	while (ibqp->events_completed != delivered)
		pthread_cond_wait(&ibqp->cond, &ibqp->mutex);
	pthread_mutex_unlock(&ibqp->mutex);
	atomic_fetch_sub(&vb_pd_of(ibqp->pd)->refs, 1);
	vb_wr_fini(qp);
	free(qp);
	return 0;
}
