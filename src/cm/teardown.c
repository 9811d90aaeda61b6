/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends connections: reject, disconnect, timeout, destruction. Then comes TIMEWAIT if a packet of
 * the connection may still be in flight, then IDLE.
 */
#include <errno.h>

#include "base/bytes.h"
#include "cm/cm-internal.h"

void conn_close(struct cm_conn *c)
{
	xchg_stop(&c->x);
	conn_set_state(c, CM_IDLE);
}

static void conn_timewait(struct cm_conn *c, rocemu_ns_t now)
{
	xchg_stop(&c->x);
	conn_set_state(c, CM_TIMEWAIT);
	xchg_timer_set(&c->x, now, c->life_ns);
}

/* ---- REJ ---- */

void conn_rej_default(const struct cm_conn *c, uint16_t reason, struct rocemu_cm_rej *rej)
{
	*rej = (struct rocemu_cm_rej){
		.local_comm_id = c->local_id,
		.remote_comm_id = c->remote_id,
		.answered = ROCEMU_CM_TO_OTHER,
		.reason = reason,
	};
	if (c->state == CM_REQ_RCVD || c->state == CM_MRA_REQ_SENT)
		rej->answered = ROCEMU_CM_TO_REQ;
	else if (c->state == CM_REP_RCVD || c->state == CM_MRA_REP_SENT)
		rej->answered = ROCEMU_CM_TO_REP;
	/* The peer's communication ID may not be known yet: the peer finds this side's by the GUID
	 * (12.6.7.2, code 4). */
	if (reason == ROCEMU_CM_REJ_TIMEOUT || c->remote_id == 0) {
		put_be64(rej->ari, c->x.cm->cfg.ca_guid);
		rej->ari_len = 8;
	}
}

/** A refused REQ comes again if the REJ is lost: keep it for all of its sender's tries. */
static rocemu_ns_t linger_ns(const struct cm_conn *c)
{
	return (c->req.max_cm_retries + 1u) *
	       (cm_timeout_ns(c->req.remote_cm_timeout) + c->life_ns);
}

/** Send the REJ for the state; then the connection is over or in time wait. */
static void conn_reject(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_rej *rej)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REJ, .tid = c->req_tid, .rej = *rej};

	xchg_answer(&c->x, &m);
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		conn_close(c);
		break;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
		conn_close(c);
		xchg_timer_set(&c->x, now, linger_ns(c));
		break;
	default:
		conn_timewait(c, now);
		break;
	}
}

static bool rejectable(enum cm_state state)
{
	return state >= CM_REQ_SENT && state <= CM_MRA_REP_SENT;
}

int cm_reject(struct cm_conn *c, rocemu_ns_t now, uint16_t reason, const void *ari, size_t ari_len,
	      const void *private_data, size_t len)
{
	struct rocemu_cm_rej rej;

	if (!rejectable(c->state))
		return -EINVAL;
	if (ari_len > sizeof(rej.ari) || len > sizeof(rej.private_data))
		return -EMSGSIZE;
	conn_rej_default(c, reason, &rej);
	if (ari_len > 0) {
		cm_fill(rej.ari, sizeof(rej.ari), ari, ari_len);
		rej.ari_len = (uint8_t)ari_len;
	}
	cm_fill(rej.private_data, sizeof(rej.private_data), private_data, len);
	conn_reject(c, now, &rej);
	return 0;
}

static void reject_by_itself(struct cm_conn *c, rocemu_ns_t now, uint16_t reason)
{
	struct rocemu_cm_rej rej;

	c->x.cm->stats.rejects++;
	conn_rej_default(c, reason, &rej);
	conn_reject(c, now, &rej);
}

/**
 * The peer may not have the local ID: it has sent a REQ, and may not have received an answer yet.
 */
static bool may_lack_our_id(const struct cm_conn *c)
{
	return c->state == CM_REQ_RCVD || c->state == CM_MRA_REQ_SENT || c->state == CM_REP_SENT;
}

/**
 * By both IDs. A peer whose ID is not known here may leave it out; a peer without the local ID is
 * identified by its own ID and its GUID.
 */
static enum cm_drop find_rejected(const struct cm *cm, const struct rocemu_cm_msg *m,
				  const struct cm_addr *from, struct cm_conn **found)
{
	const struct rocemu_cm_rej *rej = &m->rej;
	struct cm_conn *c;

	if (rej->remote_comm_id != 0) {
		c = conn_find(cm, rej->remote_comm_id);
		if (c && c->remote_id != 0 && c->remote_id != rej->local_comm_id)
			c = NULL;
	} else if (rej->local_comm_id != 0 && rej->ari_len >= 8) {
		c = conn_find_remote(cm, rej->local_comm_id, get_be64(rej->ari), &from->src);
	} else {
		return CM_DROP_UNKNOWN_ID;
	}
	*found = c;
	if (!c)
		return CM_DROP_UNKNOWN_ID;
	if (!cm_from_peer(&c->x, from))
		return CM_DROP_ADDRESS;
	if (m->tid != c->req_tid)
		return CM_DROP_TID;
	return rej->remote_comm_id != 0 || may_lack_our_id(c) ? CM_DROP_NONE : CM_DROP_STATE;
}

/** Is the message that it claims to answer one that was sent here? */
static bool answers_ours(const struct cm_conn *c, uint8_t answered)
{
	if (answered == ROCEMU_CM_TO_REQ)
		return c->active && (c->state == CM_REQ_SENT || c->state == CM_MRA_REQ_RCVD);
	return answered != ROCEMU_CM_TO_REP || !c->active;
}

/** The next state after a REJ; CM_REQ_SENT: none, the REJ is not allowed in this state. */
static enum cm_state after_rej(const struct cm_conn *c, const struct rocemu_cm_rej *rej)
{
	/* Peer to peer: "no such service" means "not yet", or the REJ is late. */
	if (!answers_ours(c, rej->answered) ||
	    (c->peer_to_peer && rej->reason == ROCEMU_CM_REJ_SERVICE_ID))
		return CM_REQ_SENT;
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
		return rej->reason == ROCEMU_CM_REJ_STALE ? CM_TIMEWAIT : CM_IDLE;
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		return CM_TIMEWAIT;
	default:
		return CM_REQ_SENT;
	}
}

enum cm_drop conn_input_rej(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	struct cm_conn *c;
	enum cm_drop drop = find_rejected(cm, m, from, &c);
	enum cm_state next;
	struct event *e;

	if (drop)
		return drop;
	next = after_rej(c, &m->rej);
	if (next == CM_REQ_SENT)
		return CM_DROP_STATE;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	if (next == CM_TIMEWAIT)
		conn_timewait(c, now);
	else
		conn_close(c);
	event_post(e, CM_EV_REJ, &c->x, m, from);
	conn_settle(c);
	return CM_DROP_NONE;
}

/* ---- DREQ and DREP ---- */

void conn_send_dreq(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_dreq *dreq)
{
	struct rocemu_cm_msg m = {
		.attr_id = ROCEMU_CM_DREQ, .tid = conn_dreq_tid(c), .dreq = *dreq};

	m.dreq.local_comm_id = c->local_id;
	m.dreq.remote_comm_id = c->remote_id;
	m.dreq.remote_qpn = c->remote_qpn;
	xchg_stop(&c->x);
	conn_set_state(c, CM_DREQ_SENT);
	xchg_request(&c->x, now, &m, c->timeout_ns, c->max_retries);
}

/** A DREP to the DREQ whose transaction ID is c->tid. */
static void send_drep(struct cm_conn *c, const struct rocemu_cm_drep *drep)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_DREP, .tid = c->tid, .drep = *drep};

	m.drep.local_comm_id = c->local_id;
	m.drep.remote_comm_id = c->remote_id;
	xchg_answer(&c->x, &m);
}

int cm_disconnect(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len)
{
	struct rocemu_cm_dreq dreq = {0};
	int r;

	if (c->state != CM_ESTABLISHED)
		return -EINVAL;
	r = cm_fill(dreq.private_data, sizeof(dreq.private_data), private_data, len);
	if (r)
		return r;
	conn_send_dreq(c, now, &dreq);
	return 0;
}

int cm_drep(struct cm_conn *c, rocemu_ns_t now, const void *private_data, size_t len)
{
	struct rocemu_cm_drep drep = {0};
	int r;

	if (c->state != CM_DREQ_RCVD)
		return -EINVAL;
	r = cm_fill(drep.private_data, sizeof(drep.private_data), private_data, len);
	if (r)
		return r;
	conn_timewait(c, now);
	send_drep(c, &drep);
	return 0;
}

/** The peer has a connection that does not exist here (any more): the peer may close it. */
static enum cm_drop drep_stray(struct cm *cm, const struct rocemu_cm_msg *m,
			       const struct cm_addr *from)
{
	struct rocemu_cm_msg drep = {
		.attr_id = ROCEMU_CM_DREP,
		.tid = m->tid,
		.drep =
			{
				.local_comm_id = m->dreq.remote_comm_id,
				.remote_comm_id = m->dreq.local_comm_id,
			},
	};

	cm_answer_stray(cm, from, &drep);
	return CM_DROP_UNKNOWN_ID;
}

/** A DREQ in ESTABLISHED; or in REP_SENT, when the RTU was lost; or in DREQ_SENT, when both
 * disconnect. */
static enum cm_drop take_dreq(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			      const struct cm_addr *from)
{
	const struct rocemu_cm_drep none = {0};
	struct event *e = event_new();

	if (!e)
		return CM_DROP_NO_MEMORY;
	c->tid = m->tid;
	c->agreed = true;
	if (c->state == CM_DREQ_SENT) {
		conn_timewait(c, now);
		send_drep(c, &none);
		event_post(e, CM_EV_DREP, &c->x, m, from);
	} else {
		xchg_stop(&c->x);
		conn_set_state(c, CM_DREQ_RCVD);
		event_post(e, CM_EV_DREQ, &c->x, m, from);
	}
	return CM_DROP_NONE;
}

enum cm_drop conn_input_dreq(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	const struct rocemu_cm_drep none = {0};
	struct cm_conn *c = conn_find(cm, m->dreq.remote_comm_id);

	if (!c || c->remote_id != m->dreq.local_comm_id || c->state == CM_IDLE)
		return drep_stray(cm, m, from);
	if (!cm_from_peer(&c->x, from))
		return CM_DROP_ADDRESS;
	switch (c->state) {
	case CM_ESTABLISHED:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_DREQ_SENT:
		if (m->dreq.remote_qpn != c->local_qpn)
			return CM_DROP_STATE;
		return take_dreq(c, now, m, from);
	case CM_TIMEWAIT:
		c->tid = m->tid;
		send_drep(c, &none);
		c->x.cm->stats.answers++;
		return CM_DROP_DUPLICATE;
	case CM_DREQ_RCVD:
		return CM_DROP_DUPLICATE;
	default:
		return CM_DROP_STATE;
	}
}

enum cm_drop conn_input_drep(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	struct event *e;

	if (c->state != CM_DREQ_SENT)
		return c->state == CM_TIMEWAIT ? CM_DROP_DUPLICATE : CM_DROP_STATE;
	if (m->tid != conn_dreq_tid(c))
		return CM_DROP_TID;
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	c->agreed = true;
	conn_timewait(c, now);
	event_post(e, CM_EV_DREP, &c->x, m, from);
	return CM_DROP_NONE;
}

/* ---- time ---- */

/** May a REP be repeated, or given up by a REJ? Its peer may never have sent the REQ. */
static bool may_repeat(struct cm_conn *c, rocemu_ns_t now)
{
	return c->state != CM_REP_SENT || xchg_may_repeat(&c->x, now);
}

/** The retries of what was sent are spent. */
static void give_up(struct cm_conn *c, rocemu_ns_t now)
{
	if (!may_repeat(c, now)) {
		conn_timewait(c, now);
	} else if (rejectable(c->state)) {
		reject_by_itself(c, now, ROCEMU_CM_REJ_TIMEOUT);
	} else if (c->state == CM_DREQ_SENT) {
		conn_timewait(c, now);
	} else {
		c->lap = LAP_NONE;
		xchg_stop(&c->x);
	}
}

void conn_expire(struct cm_conn *c, rocemu_ns_t now)
{
	struct rocemu_cm_msg m = {.attr_id = c->x.request.attr_id};
	bool repeats = c->state != CM_TIMEWAIT && c->state != CM_IDLE;
	struct event *e;

	if (repeats && c->x.retries > 0) {
		if (may_repeat(c, now))
			xchg_retry(&c->x, now);
		else
			xchg_skip(&c->x, now);
		return;
	}
	if (c->state == CM_IDLE) {
		conn_forget_remote(c);
		conn_settle(c);
		return;
	}
	e = event_new();
	if (!e) {
		xchg_timer_set(&c->x, now, CM_EVENT_RETRY_NS);
		return;
	}
	if (repeats) {
		xchg_retry(&c->x, now);
		give_up(c, now);
		event_post(e, CM_EV_TIMEOUT, &c->x, &m, NULL);
	} else {
		conn_close(c);
		event_post(e, CM_EV_TIMEWAIT_EXIT, &c->x, NULL, NULL);
	}
	conn_settle(c);
}

bool conn_unreachable(struct cm *cm, uint32_t local_id, int error)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REQ};
	struct cm_conn *c = conn_find(cm, local_id);
	struct event *e;

	/* A peer that sent an MRA exists, or did. */
	if (!c || c->state != CM_REQ_SENT || c->peer_to_peer)
		return false;
	e = event_new();
	if (!e)
		return false; /* its own timeout ends it */
	cm->stats.timeouts++;
	conn_close(c);
	event_set_error(e, error);
	event_post(e, CM_EV_TIMEOUT, &c->x, &m, NULL);
	conn_settle(c);
	return true;
}

/* ---- destruction ---- */

static void release_conn(struct cm_conn *c)
{
	list_remove(&c->listener_link);
	c->listener = NULL;
	c->x.user = NULL;
	xchg_linger(&c->x);
}

void cm_conn_destroy(struct cm_conn *c, rocemu_ns_t now)
{
	const struct rocemu_cm_dreq no_dreq = {0};
	const struct rocemu_cm_drep no_drep = {0};

	event_forget(c->x.cm, &c->x);
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		reject_by_itself(c, now, ROCEMU_CM_REJ_TIMEOUT);
		break;
	case CM_ESTABLISHED:
		conn_send_dreq(c, now, &no_dreq);
		break;
	case CM_DREQ_RCVD:
		conn_timewait(c, now);
		send_drep(c, &no_drep);
		break;
	case CM_IDLE:
	case CM_TIMEWAIT:
	case CM_DREQ_SENT:
		break;
	default:
		reject_by_itself(c, now, ROCEMU_CM_REJ_CONSUMER);
		break;
	}
	release_conn(c);
}

void cm_conn_forget(struct cm_conn *c)
{
	event_forget(c->x.cm, &c->x);
	conn_close(c);
	conn_forget_remote(c);
	release_conn(c);
}
