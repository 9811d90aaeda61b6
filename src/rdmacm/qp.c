/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QPs of IDs: creation with default PD, CQs and SRQ where the program gives none, and state
 * transitions with the connection. Public verbs only, and never under the lock.
 */
#include <stddef.h>
#include <string.h>

#include "rdmacm/core.h"
#include "rdmacm/id.h"
#include "rdmacm/mcast.h"
#include "rdmacm/private.h"
#include "rdmacm/qp.h"

static void destroy_cqs(struct rdma_cm_id *id)
{
	/* Those of an XRC SRQ are its own. */
	if (id->qp_type == IBV_QPT_XRC_RECV && id->srq)
		return;
	if (id->recv_cq_channel) {
		if (id->recv_cq)
			ibv_destroy_cq(id->recv_cq);
		ibv_destroy_comp_channel(id->recv_cq_channel);
	}
	if (id->send_cq_channel) {
		if (id->send_cq)
			ibv_destroy_cq(id->send_cq);
		ibv_destroy_comp_channel(id->send_cq_channel);
	}
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

/* A CQ with a channel of its own, whose context is the ID: as rdma_get_send_comp() and its like
 * expect. */
static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		     struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	return *cq ? 0 : -errno;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send_size, uint32_t recv_size)
{
	int err = 0;

	if (recv_size)
		err = create_cq(id, recv_size, &id->recv_cq, &id->recv_cq_channel);
	if (!err && send_size)
		err = create_cq(id, send_size, &id->send_cq, &id->send_cq_channel);
	if (err)
		destroy_cqs(id);
	return err;
}

/* ---- attributes ---- */

static void init_attr(const struct rcm_id *id, struct ibv_qp_attr *a, int *mask)
{
	a->pkey_index = 0;
	a->port_num = id->local.port_num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (rcm_id_is_ud(id)) {
		a->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	a->qp_access_flags = 0;
	if (id->conn) {
		a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (id->responder_resources && id->base.qp_type != IBV_QPT_UC)
			a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	}
}

static bool is_uc(const struct rcm_id *id)
{
	return id->base.qp_type == IBV_QPT_UC;
}

/* The attributes of RTR and RTS that come from REQ and REP. -EINVAL: not both are known yet. */
static int rtr_attr(const struct rcm_id *id, struct ibv_qp_attr *a, int *mask) REQUIRES(rcm_lock)
{
	const struct rocemu_cm_req *req = cm_conn_req(id->conn);
	bool active = cm_conn_active(id->conn);

	if (active && !cm_conn_rep(id->conn)->local_comm_id)
		return REFUSE(-EINVAL, 0,
			      "rdma_init_qp_attr: the peer has not answered: RTR takes attributes "
			      "of its REP: wait for CONNECT_RESPONSE");
	rcm_local_ah(&id->local, &cm_conn_addr(id->conn)->dst, req->primary.tclass, &a->ah_attr);
	a->ah_attr.grh.flow_label = req->primary.flow_label;
	if (req->primary.hop_limit)
		a->ah_attr.grh.hop_limit = req->primary.hop_limit;
	a->path_mtu = (enum ibv_mtu)req->path_mtu;
	a->dest_qp_num = active ? cm_conn_rep(id->conn)->local_qpn : req->local_qpn;
	a->rq_psn = id->psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (is_uc(id))
		return 0;
	if (id->base.qp_type != IBV_QPT_XRC_SEND) {
		a->max_dest_rd_atomic = id->responder_resources;
		a->min_rnr_timer = 0;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return 0;
}

static int rts_attr(const struct rcm_id *id, struct ibv_qp_attr *a, int *mask) REQUIRES(rcm_lock)
{
	const struct rocemu_cm_req *req = cm_conn_req(id->conn);
	const struct rocemu_cm_rep *rep = cm_conn_rep(id->conn);
	bool active = cm_conn_active(id->conn);

	if (active && !rep->local_comm_id)
		return REFUSE(-EINVAL, 0,
			      "rdma_init_qp_attr: the peer has not answered: RTS takes attributes "
			      "of its REP: wait for CONNECT_RESPONSE");
	a->sq_psn = active ? rep->starting_psn : req->starting_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_uc(id))
		return 0;
	a->timeout = id->ack_timeout_set ? id->ack_timeout : req->primary.ack_timeout;
	*mask |= IBV_QP_TIMEOUT;
	if (id->base.qp_type == IBV_QPT_XRC_RECV)
		return 0;
	a->retry_cnt = req->retry_count;
	a->rnr_retry = active ? rep->rnr_retry_count : req->rnr_retry_count;
	a->max_rd_atomic = id->initiator_depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

static bool has_conn(const struct rcm_id *id) REQUIRES(rcm_lock)
{
	return rcm_core_has(id) && id->conn;
}

static int get_attr(struct rcm_id *id, struct ibv_qp_attr *a, int *mask) EXCLUDES(rcm_lock)
{
	enum ibv_qp_state state = a->qp_state;
	int err = 0;

	rcm_lock_take();
	if (!id->local.dev)
		err = REFUSE(-EINVAL, 0,
			     "rdma_init_qp_attr: the ID has no device: resolve or bind its address "
			     "first");
	else if (state == IBV_QPS_INIT)
		init_attr(id, a, mask);
	else if (rcm_id_is_ud(id) && (state == IBV_QPS_RTR || state == IBV_QPS_RTS)) {
		a->sq_psn = 0;
		*mask = IBV_QP_STATE | (state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0);
	} else if (state == IBV_QPS_RTR && has_conn(id))
		err = rtr_attr(id, a, mask);
	else if (state == IBV_QPS_RTS && has_conn(id))
		err = rts_attr(id, a, mask);
	else
		err = REFUSE(-EINVAL, 0,
			     "rdma_init_qp_attr: qp_state is %d: INIT needs a device, RTR and RTS "
			     "a connection: connect first",
			     (int)state);
	rcm_lock_drop();
	return err;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	if (!id || !qp_attr || !qp_attr_mask)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_init_qp_attr: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	return rcm_ret(get_attr(rcm_id_of(id), qp_attr, qp_attr_mask));
}

/* ---- moving QPs ---- */

static int modify(struct rcm_id *id, struct ibv_qp *qp, enum ibv_qp_state state) EXCLUDES(rcm_lock)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, err = get_attr(id, &attr, &mask);

	return err ? err : rcm_verbs_err(ibv_modify_qp(qp, &attr, mask));
}

int rcm_qp_connect(struct rcm_id *id)
{
	int err;

	if (!id->base.qp)
		return 0;
	/*
	 * The access flags depend on the negotiated values: INIT again. A QP in RTR is one whose
	 * last transition failed.
	 */
	err = id->base.qp->state == IBV_QPS_RTR ? 0 : modify(id, id->base.qp, IBV_QPS_INIT);
	if (!err && id->base.qp->state != IBV_QPS_RTR)
		err = modify(id, id->base.qp, IBV_QPS_RTR);
	if (!err)
		err = modify(id, id->base.qp, IBV_QPS_RTS);
	return err;
}

void rcm_qp_error(struct rcm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (id->base.qp)
		ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE);
}

void rcm_qp_error_on_take(struct rcm_event *ev)
{
	rcm_qp_error(ev->owner);
}

static int ready_qp(struct rcm_id *id, struct ibv_qp *qp)
{
	int err = modify(id, qp, IBV_QPS_INIT);

	if (err || !rcm_id_is_ud(id))
		return err;
	err = modify(id, qp, IBV_QPS_RTR);
	return err ? err : modify(id, qp, IBV_QPS_RTS);
}

/* ---- the calls ---- */

static int create_qp(struct rcm_id *rid, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *id = &rid->base;
	struct ibv_cq *const send_cq = attr->send_cq, *const recv_cq = attr->recv_cq;
	struct ibv_qp *qp;
	int err;

	if (id->qp || !id->verbs)
		return REFUSE(-EINVAL, 0,
			      "rdma_create_qp: the ID has a QP, or no device: an ID can have one "
			      "QP, after its address is resolved or bound: call it once, later");
	err = rcm_fault(FAULT_VERB_RDMA_CREATE_QP);
	if (err)
		return err;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
	}
	if (attr->pd->context != id->verbs ||
	    (id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq) ||
	    (id->send_cq && attr->send_cq && id->send_cq != attr->send_cq))
		return REFUSE(-EINVAL, 0,
			      "rdma_create_qp: PD or CQs are not those of the ID: they must be of "
			      "its device, id->verbs: pass NULL, or objects of it");
	if (id->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->xrcd = rcm_device_xrcd(rid->local.dev);
		if (!attr->xrcd)
			return -errno;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	err = create_cqs(id, attr->send_cq || id->send_cq ? 0 : attr->cap.max_send_wr,
			 attr->recv_cq || id->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (err)
		return err;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	qp = ibv_create_qp_ex(id->verbs, attr);
	err = qp ? ready_qp(rid, qp) : -errno;
	if (err) {
		if (qp)
			ibv_destroy_qp(qp);
		destroy_cqs(id);
		/* The program may try again with the same attributes. */
		attr->send_cq = send_cq;
		attr->recv_cq = recv_cq;
		return err;
	}
	id->pd = attr->pd;
	id->qp = qp;
	/* The program's was for a QP of its own. */
	rcm_lock_take();
	rid->local_ece = (struct ibv_ece){0};
	rcm_lock_drop();
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!id || !attr)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_qp_ex: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	return rcm_ret(create_qp(rcm_id_of(id), attr));
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {0};
	int err;

	if (!id || !attr)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_qp: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	/* Its first members are those of the other one. */
	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	err = create_qp(rcm_id_of(id), &ex);
	memcpy(attr, &ex, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	return rcm_ret(err);
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!id || !id->qp)
		return;
	rcm_groups_detach(rcm_id_of(id));
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

static int create_srq(struct rcm_id *rid, struct ibv_srq_init_attr_ex *attr)
{
	struct rdma_cm_id *id = &rid->base;
	int err;

	if (id->srq || !id->verbs || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return REFUSE(-EINVAL, 0,
			      "rdma_create_srq: the ID has an SRQ, or no device, or the type is "
			      "not given: an ID can have one SRQ, after its address is resolved or "
			      "bound: call it once, later");
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC) {
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
			attr->xrcd = rcm_device_xrcd(rid->local.dev);
		if (!attr->xrcd)
			return -errno;
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
			err = create_cqs(id, 0, attr->attr.max_wr);
			if (err)
				return err;
			attr->cq = id->recv_cq;
		}
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	}
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq) {
		err = -errno;
		if (attr->srq_type == IBV_SRQT_XRC && id->recv_cq && attr->cq == id->recv_cq)
			attr->comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ; /* it ends here */
		destroy_cqs(id);
		return err;
	}
	if (!id->pd)
		id->pd = attr->pd;
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!id || !attr)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_srq_ex: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	return rcm_ret(create_srq(rcm_id_of(id), attr));
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex;
	int err;

	if (!id || !attr)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_srq: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	ex = (struct ibv_srq_init_attr_ex){
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	err = create_srq(rcm_id_of(id), &ex);
	attr->attr = ex.attr;
	return rcm_ret(err);
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}
