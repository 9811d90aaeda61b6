/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections and service lookups: listen, connect, accept, reject, disconnect, establish, notify.
 */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/agent.h"
#include "rdmacm/core.h"
#include "rdmacm/device-watch.h"
#include "rdmacm/drain.h"
#include "rdmacm/id.h"
#include "rdmacm/private.h"
#include "rdmacm/qp.h"
#include "rdmacm/rej-retry.h"
#include "rdmacm/request.h"
#include "rdmacm/resolve.h"

enum { BACKLOG = 4096 }; /* requests of an address that wait at a listener, see listen_locked() */

/* Does the ID have a CM object that still exists? */
static bool is_live(const struct rcm_id *id) REQUIRES(rcm_lock)
{
	return rcm_core_has(id) && (id->conn || id->sidr);
}

/* ---- listen ---- */

/*
 * The program's backlog is a hint, and a larger one is kept. The kernel drops requests beyond it,
 * and a client succeeds with a repetition; a REJ here would end its attempt. Floods are refused.
 */
static int listen_locked(struct rcm_id *id) REQUIRES(rcm_lock)
{
	const struct sockaddr *sa = &id->base.route.addr.src_addr;
	struct cm_listen_param p = {
		.service_id = rcm_addr_service(id->base.ps, sa),
		.any_addr = !id->local.dev,
		.backlog = BACKLOG,
		.user = id,
	};
	int err;

	if (id->removed)
		return -ENODEV;
	if (!rcm_core_has(id) || id->state != RCM_BOUND)
		return REFUSE(-EINVAL, 0,
			      "rdma_listen: the ID is in state %d: it must be bound and otherwise "
			      "unused: call rdma_bind_addr() on a new ID",
			      (int)id->state);
	if (p.any_addr && sa->sa_family == AF_INET)
		p.ip_version = 4;
	else if (p.any_addr && id->afonly > 0)
		p.ip_version = 6;
	else if (!p.any_addr)
		p.addr = id->local.gid;
	err = cm_listen(rcm_core_cm(), &p, &id->cml);
	if (err)
		return err;
	err = rcm_agent_listen(id);
	if (!id->cml) /* taken away meanwhile: see rcm_id_stop() */
		return -ENODEV;
	if (err) {
		cm_unlisten(id->cml, rcm_now());
		id->cml = NULL;
		return err;
	}
	id->state = RCM_LISTEN;
	return 0;
}

int rdma_listen(struct rdma_cm_id *base, int backlog)
{
	static const struct sockaddr_in any = {.sin_family = AF_INET};
	struct rcm_local *locals = NULL;
	struct rcm_id *id = rcm_id_of(base);
	struct rcm_call call;
	int n = 0, err = rcm_begin(base, FAULT_VERB_RDMA_LISTEN);

	(void)backlog; /* see listen_locked() */
	if (!err && id->state == RCM_IDLE)
		err = rcm_bind(id, (const struct sockaddr *)&any);
	if (err)
		return rcm_ret(err);
	/* A wildcard listens on every address of every device. */
	if (!id->local.dev) {
		rcm_device_watch_network();
		n = rcm_device_addresses(&locals);
		if (n <= 0)
			return rcm_ret(n ? n : -ENODEV);
	}
	rcm_lock_take();
	rcm_call_begin(&call, id);
	err = rcm_core_orphaned(id) ? rcm_orphan_refuse(EINVAL) : 0;
	if (!err)
		err = rcm_agent_open(id->local.dev ? &id->local : locals, id->local.dev ? 1 : n,
				     LOG_LVL_ERROR);
	if (!err)
		err = listen_locked(id);
	rcm_call_end(&call);
	rcm_drive_out();
	free(locals);
	return rcm_ret(err);
}

/* ---- connect ---- */

/* Defaults for a program that gives none. */
static const struct rdma_conn_param default_param = {
	.responder_resources = RDMA_MAX_RESP_RES,
	.initiator_depth = RDMA_MAX_INIT_DEPTH,
	.retry_count = 7,
	.rnr_retry_count = 7,
};

/* *param: the program's, or NULL; on return the one to use. */
static int check_param(const struct rcm_id *id, const struct rdma_conn_param **param)
{
	const struct rdma_conn_param *p = *param ? *param : &default_param;

	if (!id->local.dev || (p->private_data_len && !p->private_data))
		return REFUSE(-EINVAL, 0,
			      "rdma_connect, rdma_accept: private_data_len is %u: the ID must have "
			      "a device, and private_data must be set: resolve the address, set "
			      "private_data",
			      p->private_data_len);
	if (!id->base.qp && !*param && !rcm_id_is_ud(id))
		return REFUSE(
			-EINVAL, 0,
			"rdma_connect, rdma_accept: conn_param is NULL: an ID without a QP needs "
			"qp_num: create the QP by rdma_create_qp(), or pass conn_param"); /* whose
											     QP? */
	*param = p;
	if (rcm_id_is_ud(id))
		return 0;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > id->local.dev->max_responder_resources)
		return REFUSE(-EINVAL, 0,
			      "rdma_connect, rdma_accept: responder_resources is %u: the device "
			      "has %u: lower it",
			      p->responder_resources, id->local.dev->max_responder_resources);
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    p->initiator_depth > id->local.dev->max_initiator_depth)
		return REFUSE(-EINVAL, 0,
			      "rdma_connect, rdma_accept: initiator_depth is %u: the device has "
			      "%u: lower it",
			      p->initiator_depth, id->local.dev->max_initiator_depth);
	return 0;
}

int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	const struct rdma_conn_param *p = param;
	struct rcm_id *id = rcm_id_of(base);
	struct rcm_call call;
	int err = rcm_begin(base, FAULT_VERB_RDMA_CONNECT);

	if (!err)
		err = id->state == RCM_ROUTE_RESOLVED
			      ? check_param(id, &p)
			      : REFUSE(-EINVAL, 0,
				       "rdma_connect: the ID is in state %d: the route must be "
				       "resolved, and the ID not connected before: wait for "
				       "ROUTE_RESOLVED after rdma_resolve_route()",
				       (int)id->state);
	if (err)
		return rcm_ret(err);
	rcm_lock_take();
	rcm_call_begin(&call, id);
	err = rcm_core_has(id) ? 0
			       : REFUSE(-EINVAL, 0,
					"rdma_connect: the ID has no connection manager: it was "
					"made before fork(): make it in the child");
	if (!err && !id->removed)
		err = rcm_agent_open(&id->local, 1, LOG_LVL_ERROR);
	if (id->removed)
		err = -ENODEV;
	if (!err)
		err = rcm_request_send(id, p);
	if (!err) {
		id->state = RCM_CONNECT;
		id->connect_len = 0;
	}
	rcm_call_end(&call);
	rcm_drive_out();
	return err ? rcm_ret(err) : rcm_sync_wait(id);
}

/* ---- the passive side's answers ---- */

/* -EMSGSIZE of the CM is EINVAL here. */
static int too_long(int err)
{
	return err == -EMSGSIZE
		       ? REFUSE(-EINVAL, 0,
				"rdma_accept, rdma_reject: the private data is longer than the "
				"message has room for: a REP has 196 bytes, a REJ 148: shorten it")
		       : err;
}

static int accept_ud(struct rcm_id *id, const struct rdma_conn_param *p)
{
	uint32_t qpn = id->base.qp ? id->base.qp->qp_num : p->qp_num;
	int err;

	if (!qpn)
		return REFUSE(-EINVAL, 0,
			      "rdma_accept: the UD ID has no QP: its number is sent to the peer: "
			      "create the QP, or set conn_param.qp_num");
	rcm_lock_take();
	if (!is_live(id) || !id->sidr) {
		err = REFUSE(-EINVAL, 0,
			     "rdma_accept: there is no request to accept: the ID must be that of "
			     "an unanswered CONNECT_REQUEST: pass event->id");
	} else {
		err = cm_sidr_reply(id->sidr, rcm_now(), ROCEMU_CM_SIDR_VALID, qpn, RDMA_UDP_QKEY,
				    NULL, 0, p->private_data, p->private_data_len);
		if (!err)
			id->unaccepted = false;
	}
	rcm_drive_out();
	if (!err)
		rcm_sync_ack(id);
	return too_long(err);
}

/* May the ID be accepted now? If so, the negotiated values are set. */
static int prepare_accept(struct rcm_id *id, const struct rdma_conn_param *p) REQUIRES(rcm_lock)
{
	const struct rcm_device *dev = id->local.dev;
	enum cm_state state;

	if (!is_live(id) || !id->conn)
		return REFUSE(-EINVAL, 0,
			      "rdma_accept: there is no request to accept: the ID must be that of "
			      "an unanswered CONNECT_REQUEST: pass event->id");
	state = cm_conn_state(id->conn);
	if (state != CM_REQ_RCVD && state != CM_MRA_REQ_SENT)
		return REFUSE(-EINVAL, 0,
			      "rdma_accept: the request was answered, or the peer gave up: it can "
			      "be accepted once, in time: check the ID's events");
	if (p->private_data_len > ROCEMU_CM_REP_PRIVATE_LEN)
		return REFUSE(-EINVAL, 0,
			      "rdma_accept: private_data_len is %u: a REP has room for 196 bytes: "
			      "shorten it",
			      p->private_data_len);
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = p->initiator_depth;
	if (p->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = p->responder_resources;
	id->initiator_depth = MIN(id->initiator_depth, dev->max_initiator_depth);
	id->responder_resources = MIN(id->responder_resources, dev->max_responder_resources);
	id->rnr_retry_count = MIN(p->rnr_retry_count, 7);
	return 0;
}

static int send_rep(struct rcm_id *id, const struct rdma_conn_param *p) REQUIRES(rcm_lock)
{
	const struct ibv_qp *qp = id->base.qp;
	struct rocemu_cm_rep rep = {
		/* The accepted part of the peer's offer: options in its vendor's format.
		 */
		.ece = {.vendor_id = id->remote_ece.vendor_id, .options = id->local_ece.options},
		.local_qpn = qp ? qp->qp_num : p->qp_num,
		.starting_psn = id->psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.target_ack_delay = 15,
		.flow_control = p->flow_control != 0,
		.rnr_retry_count = id->rnr_retry_count,
		.srq = qp ? qp->srq != NULL : p->srq,
	};
	int err;

	if (!is_live(id) || !id->conn)
		return -ENOTCONN;
	id->local_qpn = rep.local_qpn;
	err = cm_accept(id->conn, rcm_now(), &rep, p->private_data, p->private_data_len);
	if (!err)
		id->unaccepted = false;
	return err;
}

static int accept_qp(struct rcm_id *id, const struct rdma_conn_param *p)
{
	int err;

	rcm_lock_take();
	err = prepare_accept(id, p);
	rcm_lock_drop();
	if (err)
		return err;
	err = rcm_qp_connect(id);
	if (err)
		return err;
	rcm_lock_take();
	err = send_rep(id, p);
	rcm_drive_out();
	if (err)
		rcm_qp_error(id);
	return too_long(err);
}

int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
	const struct rdma_conn_param *p = param;
	struct rcm_id *id = rcm_id_of(base);
	int err = rcm_begin(base, FAULT_VERB_RDMA_ACCEPT);

	if (!err)
		err = id->state == RCM_CONNECT
			      ? check_param(id, &p)
			      : REFUSE(-EINVAL, 0,
				       "rdma_accept: the ID is in state %d: it must be the ID of a "
				       "CONNECT_REQUEST: pass event->id, not the listener",
				       (int)id->state);
	if (err)
		return rcm_ret(err);
	if (rcm_id_is_ud(id))
		return rcm_ret(accept_ud(id, p));
	err = accept_qp(id, p);
	return err ? rcm_ret(err) : rcm_sync_wait(id);
}

static int reject(struct rdma_cm_id *base, uint16_t reason, const void *data, size_t len)
{
	struct rcm_id *id = rcm_id_of(base);
	int err;

	if (!base || (len && !data))
		return REFUSE(-EINVAL, 0,
			      "rdma_reject: the ID or the private data is NULL: pass event->id and "
			      "private_data");
	rcm_lock_take();
	if (!is_live(id))
		err = REFUSE(-EINVAL, 0,
			     "rdma_reject: there is no request to reject: the ID must be that of a "
			     "CONNECT_REQUEST: pass event->id");
	else if (id->sidr)
		err = cm_sidr_reply(id->sidr, rcm_now(), ROCEMU_CM_SIDR_REJECTED, 0, 0, NULL, 0,
				    data, len);
	else
		err = cm_reject(id->conn, rcm_now(), reason, NULL, 0, data, len);
	rcm_drive_out();
	if (!err)
		rcm_sync_ack(id);
	return too_long(err);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return rcm_ret(reject(id, ROCEMU_CM_REJ_CONSUMER, private_data, private_data_len));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return rcm_ret(reject(id, ROCEMU_CM_REJ_VENDOR_OPTION, private_data, private_data_len));
}

/* ---- other calls ---- */

int rdma_disconnect(struct rdma_cm_id *base)
{
	bool outcome = false, removed;
	struct rcm_id *id = rcm_id_of(base);
	int err = 0;

	if (!base)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_disconnect: a required pointer is NULL: pass the "
				      "arguments of rdma_cma.h"));
	rcm_lock_take();
	removed = id->removed;
	if (!removed && (!is_live(id) || !id->conn))
		err = REFUSE(-EINVAL, 0,
			     "rdma_disconnect: the ID has no connection: it must be connected or "
			     "accepted before: disconnect after ESTABLISHED");
	rcm_lock_drop();
	if (err)
		return rcm_ret(err);
	rcm_qp_error(id);
	/* Without its device it is disconnected, and no further event comes. */
	if (removed)
		return 0;
	rcm_sync_ack(id);
	rcm_lock_take();
	id->leaving = true;
	rcm_drain_end(id);
	switch (id->conn ? cm_conn_state(id->conn) : CM_IDLE) {
	case CM_ESTABLISHED:
		err = cm_disconnect(id->conn, rcm_now(), NULL, 0);
		break;
	case CM_DREQ_RCVD:
		err = cm_drep(id->conn, rcm_now(), NULL, 0);
		break;
	default: /* nothing to end, or ended already: no error, as in the kernel */
		break;
	}
	rcm_drive();
	/* A synchronous ID waits only for an event that will come or has come. */
	outcome = (id->conn && cm_conn_state(id->conn) == CM_DREQ_SENT) || !list_empty(&id->events);
	rcm_drive_out();
	if (err)
		return rcm_ret(err);
	return outcome ? rcm_sync_wait(id) : 0;
}

int rdma_establish(struct rdma_cm_id *base)
{
	struct rcm_id *id = rcm_id_of(base);
	int err;

	if (!base || base->qp)
		return rcm_ret(
			REFUSE(-EINVAL, 0,
			       "rdma_establish: the ID is NULL or has a QP of rdma_create_qp(): "
			       "these are established automatically: remove the call"));
	rcm_lock_take();
	if (is_live(id) && id->conn) {
		err = cm_rtu(id->conn, rcm_now(), NULL, 0);
		if (!err)
			rcm_rej_retry_served(id);
	} else {
		err = REFUSE(
			-EINVAL, 0,
			"rdma_establish: the ID was not connected, or the peer has not "
			"answered: the call must follow CONNECT_RESPONSE: wait for that event");
	}
	rcm_drive_out();
	return rcm_ret(err);
}

int rdma_notify(struct rdma_cm_id *base, enum ibv_event_type event)
{
	struct rcm_id *id = rcm_id_of(base);
	int err;

	if (!base)
		return rcm_ret(REFUSE(-EINVAL, 0,
				      "rdma_notify: a required pointer is NULL: pass the arguments "
				      "of rdma_cma.h"));
	rcm_lock_take();
	if (is_live(id) && id->conn && event == IBV_EVENT_COMM_EST) {
		err = cm_establish(id->conn, rcm_now());
		if (err == 0)
			rcm_event_report(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		else if (err > 0)
			err = -EISCONN;
	} else {
		err = REFUSE(-EINVAL, 0,
			     "rdma_notify: event is %d: it must be IBV_EVENT_COMM_EST, for an ID "
			     "that is being connected: pass that",
			     (int)event);
	}
	rcm_drive_out();
	return rcm_ret(err);
}
