/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts events of the connection manager to those of rdma_cm: under the lock, except take_*().
 */
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "rdmacm/addr.h"
#include "rdmacm/agent.h"
#include "rdmacm/cm-events.h"
#include "rdmacm/core.h"
#include "rdmacm/drain.h"
#include "rdmacm/id.h"
#include "rdmacm/qp.h"
#include "rdmacm/rej-retry.h"
#include "rdmacm/why.h"

enum { MRA_TIMEOUT = 24 }; /* 4.096 us * 2^24: 69 s */

static struct ibv_ece ece(const struct rocemu_cm_ece *e)
{
	return (struct ibv_ece){.vendor_id = e->vendor_id, .options = e->options};
}

/* ---- requests: a new ID each ---- */

/*
 * The addresses of both ends, as the private data's header has them. With RoCE they are those of
 * the packet. Requests with other addresses are spoofed and rejected, since programs may authorize
 * by address.
 */
static bool read_addresses(struct rcm_id *id, const struct rcm_id *listener,
			   const struct cm_addr *mad, const uint8_t *data, size_t len)
{
	const struct sockaddr *own = &listener->base.route.addr.src_addr;
	uint64_t service_id = rcm_addr_service(listener->base.ps, own);
	struct rdma_addr *a = &id->base.route.addr;
	struct rocemu_cma cma;

	if (rocemu_cma_decode(&cma, data, len) != ROCEMU_MAD_OK ||
	    !rocemu_gid_equal(&cma.src, &mad->src) || !rocemu_gid_equal(&cma.dst, &mad->dst))
		return false;
	rcm_addr_make(&a->src_addr, own->sa_family, &cma.dst, service_id, id->local.scope_id);
	rcm_addr_make(&a->dst_addr, own->sa_family, &cma.src,
		      (service_id & RDMA_IB_IP_PS_MASK) | cma.sport, id->local.scope_id);
	memcpy(a->addr.ibaddr.dgid.raw, mad->src.raw, 16);
	return true;
}

/*
 * The ID of a request, on its listener's channel (a synchronous listener's gets one of its own when
 * the program takes it).
 * @return 0, -ENOMEM, or -EACCES: the request's addresses are not local ones.
 */
static int new_child(struct rcm_id *listener, const struct cm_addr *mad, const uint8_t *data,
		     size_t len, struct rcm_id **out) REQUIRES(rcm_lock)
{
	const struct rcm_local *local = rcm_agent_local(&mad->dst, mad->scope_id);
	struct rcm_id *id;

	if (!local)
		return -EACCES;
	if (!local->dev) /* it could not be opened */
		return -ENOMEM;
	id = rcm_id_new(listener->base.ps, listener->base.qp_type, listener->base.context);
	if (!id)
		return -ENOMEM;
	rcm_core_join(id);
	rcm_id_set_local(id, local);
	id->tos = listener->tos;
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	id->state = RCM_CONNECT;
	id->unaccepted = true;
	/* Now, because programs with their own QPs request attributes before they accept. */
	id->psn = rcm_random() & ROCEMU_PSN_MASK;
	id->base.channel = listener->base.channel;
	if (!read_addresses(id, listener, mad, data, len)) {
		rcm_id_stop(id);
		rcm_id_free(id);
		return -EACCES;
	}
	*out = id;
	return 0;
}

/*
 * The program is about to see a request: it is out of the backlog. With a synchronous listener the
 * new ID is synchronous; if that fails the event has an error status.
 */
static void take_request(struct rcm_event *ev)
{
	const struct rcm_id *listener = ev->owner;
	struct rcm_id *child = rcm_id_of(ev->base.id);
	struct rcm_channel *ch = listener->sync ? rcm_channel_new() : NULL;

	rcm_lock_take();
	if (child->conn)
		cm_conn_seen(child->conn);
	if (child->sidr)
		cm_sidr_seen(child->sidr);
	if (ch) {
		rcm_events_move(child, ch);
		child->sync = true;
	}
	rcm_lock_drop();
	ev->base.status = listener->sync && !ch ? -ENOMEM : 0;
}

/* Does the request's service match the listener's QPs? */
static bool same_transport(const struct rcm_id *listener, const struct rocemu_cm_req *req)
{
	switch (listener->base.qp_type) {
	case IBV_QPT_RC:
		return req->transport == ROCEMU_CM_RC;
	case IBV_QPT_UC:
		return req->transport == ROCEMU_CM_UC;
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_XRC_SEND:
		return req->transport == ROCEMU_CM_EXTENDED &&
		       req->extended_transport == ROCEMU_CM_EXTENDED_XRC;
	default:
		return false;
	}
}

/* Make CONNECT_REQUEST, which counts as the listener's, and its ID. @return as new_child(). */
static int new_request(struct rcm_id *listener, const struct cm_addr *mad, const uint8_t *data,
		       size_t len, struct rcm_event **out) REQUIRES(rcm_lock)
{
	struct rcm_event *ev = rcm_event_new(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rcm_id *id;
	int err = ev ? new_child(listener, mad, data, len, &id) : -ENOMEM;

	if (err) {
		free(ev);
		return err;
	}
	ev->base.id = &id->base;
	ev->base.listen_id = &listener->base;
	ev->on_take = take_request;
	*out = ev;
	return 0;
}

/* Of REQ and REP: the sender's QP. */
/* clang-format off */
#define CONN_PARAM(m)                                                                              \
	{                                                                                          \
		.responder_resources = (m)->initiator_depth,                                       \
		.initiator_depth = (m)->responder_resources,                                       \
		.flow_control = (m)->flow_control,                                                 \
		.rnr_retry_count = (m)->rnr_retry_count,                                           \
		.srq = (m)->srq,                                                                   \
		.qp_num = (m)->local_qpn,                                                          \
	}
/* clang-format on */

static void on_req(struct cm_event *e) REQUIRES(rcm_lock)
{
	const struct rocemu_cm_req *req = &e->msg.req;
	struct rcm_id *listener = e->user, *id;
	struct rcm_event *ev;
	int err = -EACCES;

	if (!same_transport(listener, req)) {
		why_say((uintptr_t)listener,
			"rdma_listen: REJ sent, reason %u (%s): a request's transport, %u, must "
			"match the listener's QPs: create both IDs with the same qp_type",
			ROCEMU_CM_REJ_TRANSPORT, rocemu_cm_rej_text(ROCEMU_CM_REJ_TRANSPORT),
			req->transport);
		cm_reject(e->conn, rcm_now(), ROCEMU_CM_REJ_TRANSPORT, NULL, 0, NULL, 0);
	} else
		err = new_request(listener, &e->addr, req->private_data, sizeof(req->private_data),
				  &ev);
	/* As the kernel does, and TCP: the peer's next try may find memory. */
	if (err == -ENOMEM)
		cm_conn_forget(e->conn);
	else if (err)
		cm_conn_destroy(e->conn, rcm_now());
	if (err)
		return;
	id = rcm_id_of(ev->base.id);
	id->conn = e->conn;
	cm_conn_set_user(e->conn, id);
	/* The program may take long: a repeated request is answered with an MRA. */
	cm_mra(e->conn, rcm_now(), MRA_TIMEOUT | CM_MRA_LATER, NULL, 0);
	/* The peer's initiator depth sets the responder resources here, and the reverse. */
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->remote_ece = ece(&req->ece);
	ev->base.param.conn = (struct rdma_conn_param)CONN_PARAM(req);
	ev->base.param.conn.retry_count = req->retry_count;
	rcm_event_private(ev, false, req->private_data + ROCEMU_CMA_LEN,
			  sizeof(req->private_data) - ROCEMU_CMA_LEN);
	rcm_event_post(ev);
}

static void on_sidr_req(struct cm_event *e) REQUIRES(rcm_lock)
{
	const struct rocemu_cm_sidr_req *req = &e->msg.sidr_req;
	struct rcm_id *listener = e->user, *id;
	struct rcm_event *ev;

	if (!rcm_id_is_ud(listener) ||
	    new_request(listener, &e->addr, req->private_data, sizeof(req->private_data), &ev)) {
		cm_sidr_destroy(e->sidr, rcm_now());
		return;
	}
	id = rcm_id_of(ev->base.id);
	id->sidr = e->sidr;
	cm_sidr_set_user(e->sidr, id);
	rcm_event_private(ev, true, req->private_data + ROCEMU_CMA_LEN,
			  sizeof(req->private_data) - ROCEMU_CMA_LEN);
	rcm_event_post(ev);
}

/* ---- answers ---- */

/* Move the QP and confirm: the event becomes CONNECT_ERROR if that fails. */
static void take_rep(struct rcm_event *ev)
{
	struct rcm_id *id = ev->owner;
	int err = rcm_qp_connect(id);

	rcm_lock_take();
	if (!id->conn)
		err = err ? err : -ENOTCONN;
	else if (!err)
		err = cm_rtu(id->conn, rcm_now(), NULL, 0);
	else
		cm_reject(id->conn, rcm_now(), ROCEMU_CM_REJ_CONSUMER, NULL, 0, NULL, 0);
	if (!err)
		rcm_rej_retry_served(id);
	rcm_drive_out();
	ev->base.event = err ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	ev->base.status = err;
	if (err) {
		rcm_why_event(id, RDMA_CM_EVENT_CONNECT_ERROR, err);
		rcm_qp_error(id);
	}
}

static void on_rep(struct rcm_id *id, const struct rocemu_cm_rep *rep) REQUIRES(rcm_lock)
{
	struct rcm_event *ev = rcm_event_own(
		id, id->base.qp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	if (!ev)
		return;
	if (id->base.qp)
		ev->on_take = take_rep;
	cm_mra(id->conn, rcm_now(), MRA_TIMEOUT | CM_MRA_LATER, NULL, 0);
	/* Never more than was offered. */
	id->initiator_depth = MIN(id->initiator_depth, rep->responder_resources);
	id->responder_resources = MIN(id->responder_resources, rep->initiator_depth);
	id->remote_ece = ece(&rep->ece);
	ev->base.param.conn = (struct rdma_conn_param)CONN_PARAM(rep);
	rcm_event_private(ev, false, rep->private_data, sizeof(rep->private_data));
	rcm_event_post(ev);
}

static void on_rej(struct rcm_id *id, const struct rocemu_cm_rej *rej) REQUIRES(rcm_lock)
{
	struct rcm_event *ev;

	if (rej->reason == ROCEMU_CM_REJ_SERVICE_ID && cm_conn_active(id->conn) &&
	    rcm_rej_retry(id))
		return;
	rcm_why_rejected(id, rej->reason);
	ev = rcm_event_own(id, RDMA_CM_EVENT_REJECTED, rej->reason);
	if (!ev)
		return;
	ev->on_take = rcm_qp_error_on_take;
	rcm_event_private(ev, false, rej->private_data, sizeof(rej->private_data));
	rcm_event_post(ev);
}

static void on_sidr_rep(struct rcm_id *id, const struct rocemu_cm_sidr_rep *rep) REQUIRES(rcm_lock)
{
	const struct cm_addr *a = cm_sidr_addr(id->sidr);
	struct rcm_event *ev;

	if (rep->status == ROCEMU_CM_SIDR_SERVICE_ID && rcm_rej_retry(id))
		return;
	if (rep->status != ROCEMU_CM_SIDR_VALID) {
		rcm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, rep->status, NULL);
		return;
	}
	ev = rcm_event_own(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (!ev)
		return;
	rcm_rej_retry_served(id);
	rcm_local_ah(&id->local, &a->dst, id->tos, &ev->base.param.ud.ah_attr);
	ev->base.param.ud.qp_num = rep->qpn;
	ev->base.param.ud.qkey = rep->qkey;
	rcm_event_private(ev, true, rep->private_data, sizeof(rep->private_data));
	rcm_event_post(ev);
}

static void disconnected(struct rcm_id *id, int status, bool by_peer) REQUIRES(rcm_lock)
{
	if (id->disconnect_reported)
		return;
	id->disconnect_reported = true;
	id->state = RCM_DISCONNECTED;
	if (!by_peer || id->leaving || !rcm_drain_begin(id))
		rcm_event_report(id, RDMA_CM_EVENT_DISCONNECTED, status, NULL);
}

static void on_timeout(struct rcm_id *id, uint16_t of, int error) REQUIRES(rcm_lock)
{
	if (of == ROCEMU_CM_DREQ)
		disconnected(id, -ETIMEDOUT, false);
	else if (of == ROCEMU_CM_REQ || of == ROCEMU_CM_REP || of == ROCEMU_CM_SIDR_REQ)
		rcm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, error ? -error : -ETIMEDOUT, NULL);
}

/* A connection being set up fails; an established one ends. */
static void conn_cut(struct rcm_id *id, int status) REQUIRES(rcm_lock)
{
	switch (cm_conn_state(id->conn)) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		rcm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, status, NULL);
		break;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
	case CM_DREQ_RCVD:
		disconnected(id, status, false);
		break;
	default: /* the end was reported to the program, or the program has not decided yet */
		break;
	}
}

void rcm_cm_abort(struct rcm_id *id, int status)
{
	if (rcm_timer_pending(&id->retry) || (id->sidr && cm_sidr_waits(id->sidr)))
		rcm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, status, NULL);
	else if (id->conn)
		conn_cut(id, status);
}

void rcm_cm_event(struct cm_event *e)
{
	struct rcm_id *id = e->user;

	if (!id)
		return;
	switch (e->type) {
	case CM_EV_REQ:
		on_req(e);
		break;
	case CM_EV_SIDR_REQ:
		on_sidr_req(e);
		break;
	case CM_EV_REP:
		on_rep(id, &e->msg.rep);
		break;
	case CM_EV_RTU:
		rcm_event_report(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		break;
	case CM_EV_REJ:
		on_rej(id, &e->msg.rej);
		break;
	case CM_EV_DREQ:
	case CM_EV_DREP:
		disconnected(id, 0, e->type == CM_EV_DREQ);
		break;
	case CM_EV_TIMEOUT:
		on_timeout(id, e->msg.attr_id, e->error);
		break;
	case CM_EV_TIMEWAIT_EXIT:
		rcm_event_report(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
		break;
	case CM_EV_SIDR_REP:
		on_sidr_rep(id, &e->msg.sidr_rep);
		break;
	default: /* the CM waits longer, or has answered */
		break;
	}
}
