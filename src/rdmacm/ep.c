/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints: creation of an ID with all its objects in one call, and the synchronous server's
 * rdma_get_request().
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/resolve.h"

enum { RESOLVE_MS = 2000 }; /* as rdma-core's */

/* A listener keeps PD and QP attributes for the connections of rdma_get_request(). */
static int prepare_passive(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			   const struct ibv_qp_init_attr *attr)
{
	int err = rcm_bind(id, res->ai_src_addr);

	if (err || !attr)
		return err;
	id->qp_init_attr = malloc(sizeof(*attr));
	if (!id->qp_init_attr)
		return -ENOMEM;
	*id->qp_init_attr = *attr;
	id->qp_init_attr->qp_type = id->base.qp_type;
	id->base.pd = pd;
	return 0;
}

/* Each call returns 0, or -1 with errno. */
static int prepare_active(struct rcm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	int ret = rdma_resolve_addr(&id->base, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS);

	if (!ret && res->ai_route_len)
		ret = rdma_set_option(&id->base, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
				      res->ai_route_len);
	else if (!ret)
		ret = rdma_resolve_route(&id->base, 0);
	if (!ret && attr) {
		attr->qp_type = id->base.qp_type;
		ret = rdma_create_qp(&id->base, pd, attr);
	}
	if (!ret && res->ai_connect_len) {
		id->connect = malloc(res->ai_connect_len);
		if (!id->connect) {
			errno = ENOMEM;
			return -1;
		}
		memcpy(id->connect, res->ai_connect, res->ai_connect_len);
		id->connect_len = res->ai_connect_len;
	}
	return ret;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *qp_init_attr)
{
	struct rdma_cm_id *base;
	struct rcm_id *id;
	int ret;

	if (!out || !res)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_create_ep: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	if ((res->ai_flags & RAI_PASSIVE) ? !res->ai_src_addr : !res->ai_dst_addr)
		return rcm_ret(
			REFUSE(-EINVAL, 0,
			       "rdma_create_ep: res has no address: RAI_PASSIVE needs ai_src_addr, "
			       "else ai_dst_addr: pass the result of rdma_getaddrinfo()"));
	ret = rdma_create_id(NULL, &base, NULL, (enum rdma_port_space)res->ai_port_space);
	if (ret)
		return ret;
	if (res->ai_qp_type)
		base->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	id = rcm_id_of(base);
	if (res->ai_flags & RAI_PASSIVE)
		ret = rcm_ret(prepare_passive(id, res, pd, qp_init_attr));
	else
		ret = prepare_active(id, res, pd, qp_init_attr);
	if (ret) {
		int err = errno;

		rdma_destroy_ep(base);
		errno = err;
		return -1;
	}
	*out = base;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct rdma_cm_event *ev;
	struct rcm_id *id;
	int err = 0;

	if (!listen || !out)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_get_request: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	id = rcm_id_of(listen);
	if (!id->sync || id->state != RCM_LISTEN)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_get_request: the ID does not listen, or has an event "
				      "channel: it must be a synchronous listener: call "
				      "rdma_listen() on an ID of rdma_create_ep()"));
	if (rcm_id_removed(id))
		return rcm_ret(-ENODEV);
	rcm_sync_ack(id);
	if (rdma_get_cm_event(listen->channel, &ev) < 0)
		return -1;
	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		err = -ENODEV;
	else if (ev->status)
		err = -abs(ev->status);
	else if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		err = REFUSE(-EINVAL, 0,
			     "rdma_get_request: the listener got event %d: expected "
			     "CONNECT_REQUEST: check that event",
			     (int)ev->event);
	else if (id->qp_init_attr) {
		struct ibv_qp_init_attr attr = *id->qp_init_attr;

		if (rdma_create_qp(ev->id, listen->pd, &attr) < 0)
			err = -errno;
	}
	if (err) {
		struct rdma_cm_id *refused =
			ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ? ev->id : NULL;

		rdma_ack_cm_event(ev);
		if (refused)
			rdma_destroy_id(refused);
		return rcm_ret(err);
	}
	ev->id->event = ev;
	*out = ev->id;
	return 0;
}
