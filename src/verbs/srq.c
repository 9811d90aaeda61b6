/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues (the basic kind). */
#include <stdlib.h>

#include "verbs/real.h"

struct ibv_srq *ibv_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_srq *srq;
	int ret;

	if (!c)
		return REAL_CALL(ibv_create_srq, ibpd, attr);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return vb_null(ENOMEM);
	lane_lock(c->lane);
	ret = rocemu_srq_create(pd->rpd, &attr->attr, srq, &srq->rsrq);
	lane_unlock(c->lane);
	if (ret < 0) {
		free(srq);
		return vb_null(-ret);
	}
	srq->base.context = ibpd->context;
	srq->base.srq_context = attr->srq_context;
	srq->base.pd = ibpd;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	vb_async_init(&srq->async[0], IBV_EVENT_SRQ_LIMIT_REACHED);
	vb_async_init(&srq->async[1], IBV_EVENT_SRQ_ERR);
	for (unsigned i = 0; i < ARRAY_LEN(srq->async); i++)
		srq->async[i].event.element.srq = &srq->base;
	atomic_fetch_add(&pd->refs, 1);
	return &srq->base;
}

struct ibv_srq *vb_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr plain = {.srq_context = attr->srq_context, .attr = attr->attr};
	struct ibv_srq *srq;

	if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD))
		return vb_null(EOPNOTSUPP);
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)
		return vb_null(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd || attr->pd->context != ctx)
		return vb_null(EINVAL);
	srq = ibv_create_srq(attr->pd, &plain);
	if (srq)
		attr->attr = plain.attr;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	int ret;

	if (!c)
		return REAL_CALL(ibv_modify_srq, ibsrq, attr, mask);
	lane_lock(c->lane);
	ret = rocemu_srq_modify(vb_srq_of(ibsrq)->rsrq, attr, mask);
	vb_deliver_events(c, lane_ep(c->lane));
	lane_unlock(c->lane);
	return vb_errno(ret);
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct vb_context *c = vb_context_of(ibsrq->context);

	if (!c)
		return REAL_CALL(ibv_query_srq, ibsrq, attr);
	lane_lock(c->lane);
	rocemu_srq_query(vb_srq_of(ibsrq)->rsrq, attr);
	lane_unlock(c->lane);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	struct vb_srq *srq = vb_srq_of(ibsrq);
	unsigned delivered;
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_srq, ibsrq);
	lane_lock(c->lane);
	ret = rocemu_srq_destroy(srq->rsrq);
	lane_unlock(c->lane);
	if (ret < 0)
		return vb_errno(ret);
	delivered = vb_async_drop(c, srq->async, ARRAY_LEN(srq->async));
	pthread_mutex_lock(&ibsrq->mutex);
	while (ibsrq->events_completed != delivered)
		pthread_cond_wait(&ibsrq->cond, &ibsrq->mutex);
	pthread_mutex_unlock(&ibsrq->mutex);
	atomic_fetch_sub(&vb_pd_of(ibsrq->pd)->refs, 1);
	free(srq);
	return 0;
}

int vb_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct vb_context *c = vb_context_of(ibsrq->context);
	const struct ibv_recv_wr *cbad = NULL;
	int ret;

	lane_lock(c->lane);
	ret = rocemu_srq_post(vb_srq_of(ibsrq)->rsrq, wr, &cbad);
	lane_unlock(c->lane);
	if (ret < 0)
		*bad = (struct ibv_recv_wr *)(uintptr_t)cbad;
	return vb_errno(ret);
}
