/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets up connections: REQ, REP, RTU, and MRA when a side needs time. Both sides' calls, and all
 * received messages except the REQ (request.c).
 */
#include <errno.h>

#include "cm/cm-internal.h"

void cm_req_init(struct rocemu_cm_req *req)
{
	*req = (struct rocemu_cm_req){
		.transport = ROCEMU_CM_RC,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.path_mtu = 3,
		.remote_cm_timeout = CM_DEFAULT_TIMEOUT,
		.local_cm_timeout = CM_DEFAULT_TIMEOUT,
		.max_cm_retries = CM_DEFAULT_RETRIES,
		.primary =
			{
				.local_lid = 0xffff,
				.remote_lid = 0xffff,
				.hop_limit = 64,
				.ack_timeout = CM_DEFAULT_ACK_TIMEOUT,
			},
	};
}

/** Annex A14: an XRC target has no QP to send with, and gives its number where an EE context's
 * would be. */
static uint32_t rep_qpn(const struct cm_conn *c, const struct rocemu_cm_rep *rep)
{
	return c->req.transport == ROCEMU_CM_EXTENDED ? rep->local_eecn : rep->local_qpn;
}

int cm_connect(struct cm *cm, rocemu_ns_t now, const struct cm_connect_param *param,
	       struct cm_conn **conn)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REQ, .req = param->req};
	struct cm_conn *c;
	int r;

	r = cm_fill(m.req.private_data, sizeof(m.req.private_data), param->private_data,
		    param->private_data_len);
	if (r)
		return r;
	c = conn_new(cm, &param->addr, true);
	if (!c)
		return -ENOMEM;
	c->x.user = param->user;
	c->peer_to_peer = param->peer_to_peer;
	if (c->peer_to_peer)
		list_append(&cm->peers, &c->peer_link);
	m.req.local_comm_id = c->local_id;
	m.req.local_ca_guid = cm->cfg.ca_guid;
	m.tid = c->own_tid;
	c->req = m.req;
	c->req_tid = m.tid;
	c->local_qpn = m.req.local_qpn;
	conn_set_times(c);
	conn_set_state(c, CM_REQ_SENT);
	xchg_request(&c->x, now, &m, c->timeout_ns, c->max_retries);
	*conn = c;
	return 0;
}

int cm_accept(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_rep *rep,
	      const void *private_data, size_t len)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REP, .tid = c->req_tid, .rep = *rep};
	int r;

	if (c->state != CM_REQ_RCVD && c->state != CM_MRA_REQ_SENT)
		return -EINVAL;
	r = cm_fill(m.rep.private_data, sizeof(m.rep.private_data), private_data, len);
	if (r)
		return r;
	m.rep.local_comm_id = c->local_id;
	m.rep.remote_comm_id = c->remote_id;
	m.rep.local_ca_guid = c->x.cm->cfg.ca_guid;
	c->rep = m.rep;
	c->local_qpn = rep_qpn(c, &m.rep);
	conn_set_state(c, CM_REP_SENT);
	xchg_request(&c->x, now, &m, c->timeout_ns, c->max_retries);
	return 0;
}

int cm_rtu(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_RTU, .tid = c->req_tid};
	int r;

	(void)now;
	if (c->state != CM_REP_RCVD && c->state != CM_MRA_REP_SENT)
		return -EINVAL;
	r = cm_fill(m.rtu.private_data, sizeof(m.rtu.private_data), private_data, len);
	if (r)
		return r;
	m.rtu.local_comm_id = c->local_id;
	m.rtu.remote_comm_id = c->remote_id;
	xchg_answer(&c->x, &m);
	conn_set_state(c, CM_ESTABLISHED);
	return 0;
}

int cm_establish(struct cm_conn *c, rocemu_ns_t now)
{
	(void)now;
	if (c->state == CM_ESTABLISHED)
		return 1;
	if (c->state != CM_REP_SENT && c->state != CM_MRA_REP_RCVD)
		return -EINVAL;
	xchg_stop(&c->x);
	conn_set_state(c, CM_ESTABLISHED);
	return 0;
}

/** The message that an MRA in this state answers, and the next state. */
static bool mra_allowed(const struct cm_conn *c, uint8_t *answered, enum cm_state *next)
{
	switch (c->state) {
	case CM_REQ_RCVD:
		*answered = ROCEMU_CM_TO_REQ;
		*next = CM_MRA_REQ_SENT;
		return true;
	case CM_REP_RCVD:
		*answered = ROCEMU_CM_TO_REP;
		*next = CM_MRA_REP_SENT;
		return true;
	default:
		*answered = ROCEMU_CM_TO_OTHER;
		*next = c->state;
		return c->lap == LAP_RCVD;
	}
}

int cm_mra(struct cm_conn *c, rocemu_ns_t now, uint8_t service_timeout, const void *private_data,
	   size_t len)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_MRA};
	enum cm_state next;
	int r;

	(void)now;
	if ((service_timeout & ~CM_MRA_LATER) > 31 || !mra_allowed(c, &m.mra.answered, &next))
		return -EINVAL;
	r = cm_fill(m.mra.private_data, sizeof(m.mra.private_data), private_data, len);
	if (r)
		return r;
	m.tid = m.mra.answered == ROCEMU_CM_TO_OTHER ? c->tid : c->req_tid;
	m.mra.local_comm_id = c->local_id;
	m.mra.remote_comm_id = c->remote_id;
	m.mra.service_timeout = service_timeout & 31;
	if (service_timeout & CM_MRA_LATER)
		xchg_answer_later(&c->x, &m);
	else
		xchg_answer(&c->x, &m);
	if (next != c->state)
		conn_set_state(c, next);
	return 0;
}

/** A REP that no connection waits for: a repeated one, or for a connection that is gone. */
static enum cm_drop rep_unexpected(struct cm_conn *c, const struct rocemu_cm_msg *m,
				   const struct cm_addr *from)
{
	switch (c->state) {
	case CM_ESTABLISHED:
		xchg_answer_again(&c->x, ROCEMU_CM_RTU);
		return CM_DROP_DUPLICATE;
	case CM_MRA_REP_SENT:
		xchg_answer_again(&c->x, ROCEMU_CM_MRA);
		return CM_DROP_DUPLICATE;
	case CM_TIMEWAIT:
		if (!xchg_answer_again(&c->x, ROCEMU_CM_REJ) && !c->agreed)
			cm_rej_stray(c->x.cm, from, m, ROCEMU_CM_REJ_STALE);
		return CM_DROP_STALE;
	case CM_IDLE:
		cm_rej_stray(c->x.cm, from, m, ROCEMU_CM_REJ_COMM_ID);
		return CM_DROP_STATE;
	case CM_REP_RCVD:
	case CM_DREQ_SENT:
	case CM_DREQ_RCVD:
		return CM_DROP_DUPLICATE;
	default:
		return CM_DROP_STATE;
	}
}

enum cm_drop conn_input_rep(struct cm *cm, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	const struct rocemu_cm_rep *rep = &m->rep;
	struct cm_conn *c = conn_find(cm, rep->remote_comm_id);
	struct cm_conn *old;
	struct event *e;

	if (rep->local_comm_id == 0)
		return CM_DROP_MALFORMED;
	/*
	 * REPs from other addresses get the same answer, so that it does not reveal which IDs
	 * exist.
	 */
	if (!c || (c->remote_id != 0 && c->remote_id != rep->local_comm_id) ||
	    !cm_from_peer(&c->x, from)) {
		cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_COMM_ID);
		return c && !cm_from_peer(&c->x, from) ? CM_DROP_ADDRESS : CM_DROP_UNKNOWN_ID;
	}
	if (m->tid != c->req_tid)
		return CM_DROP_TID;
	if (c->state != CM_REQ_SENT && c->state != CM_MRA_REQ_RCVD)
		return rep_unexpected(c, m, from);
	old = conn_find_qpn(cm, rep_qpn(c, rep), rep->local_ca_guid, &from->src);
	if (old) {
		cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_STALE);
		return CM_DROP_STALE;
	}
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	xchg_stop(&c->x);
	c->rep = *rep;
	c->peer_sport = from->sport;
	conn_set_remote(c, rep->local_comm_id, rep->local_ca_guid, rep_qpn(c, rep));
	conn_set_state(c, CM_REP_RCVD);
	event_post(e, CM_EV_REP, &c->x, m, from);
	return CM_DROP_NONE;
}

enum cm_drop conn_input_rtu(struct cm_conn *c, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	struct event *e;

	if (m->tid != c->req_tid)
		return CM_DROP_TID;
	if (c->state == CM_ESTABLISHED)
		return CM_DROP_DUPLICATE;
	if (c->state != CM_REP_SENT && c->state != CM_MRA_REP_RCVD)
		return CM_DROP_STATE;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	xchg_answered(&c->x);
	xchg_stop(&c->x);
	conn_set_state(c, CM_ESTABLISHED);
	event_post(e, CM_EV_RTU, &c->x, m, from);
	return CM_DROP_NONE;
}

/** The request that an MRA is about, and the state that it leads to; false: that request does not
 * wait. */
static bool mra_expected(const struct cm_conn *c, uint8_t answered, enum cm_state *next)
{
	bool req = c->state == CM_REQ_SENT || c->state == CM_MRA_REQ_RCVD;
	bool rep = c->state == CM_REP_SENT || c->state == CM_MRA_REP_RCVD;

	*next = req ? CM_MRA_REQ_RCVD : rep ? CM_MRA_REP_RCVD : c->state;
	if (answered == ROCEMU_CM_TO_REQ)
		return req;
	if (answered == ROCEMU_CM_TO_REP)
		return rep;
	return answered == ROCEMU_CM_TO_OTHER && c->lap == LAP_SENT;
}

/**
 * The connection that an MRA is for. An MRA that answers a REQ is the first message with the peer's
 * ID. It repeats the transaction ID of the message it answers.
 */
static enum cm_drop find_mra(const struct cm *cm, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from, struct cm_conn **found,
			     enum cm_state *next)
{
	struct cm_conn *c = conn_find(cm, m->mra.remote_comm_id);

	if (!c || m->mra.local_comm_id == 0 ||
	    (c->remote_id != 0 && c->remote_id != m->mra.local_comm_id))
		return CM_DROP_UNKNOWN_ID;
	if (!cm_from_peer(&c->x, from))
		return CM_DROP_ADDRESS;
	if (!mra_expected(c, m->mra.answered, next))
		return CM_DROP_STATE;
	*found = c;
	return m->tid == (m->mra.answered == ROCEMU_CM_TO_OTHER ? c->lap_tid : c->req_tid)
		       ? CM_DROP_NONE
		       : CM_DROP_TID;
}

/**
 * The peer needs time: wait this long before the next try (IBTA 12.6.6). A repeated MRA has no
 * effect.
 */
enum cm_drop conn_input_mra(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	enum cm_state next;
	struct cm_conn *c;
	struct event *e;
	enum cm_drop drop = find_mra(cm, m, from, &c, &next);

	if (drop)
		return drop;
	xchg_timer_extend(&c->x, now, cm_timeout_ns(m->mra.service_timeout) + c->life_ns);
	if (next == c->state && (next != CM_ESTABLISHED || c->lap_delayed))
		return CM_DROP_DUPLICATE;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	if (next == c->state)
		c->lap_delayed = true;
	else
		conn_set_state(c, next);
	event_post(e, CM_EV_MRA, &c->x, m, from);
	return CM_DROP_NONE;
}
