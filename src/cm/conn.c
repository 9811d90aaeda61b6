/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection object: lookup, state changes, memory. It outlives the consumer's
 * cm_conn_destroy() as long as something has to be sent or answered for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm-internal.h"

static void settle(struct xchg *x)
{
	conn_settle(container_of(x, struct cm_conn, x));
}

static void end(struct xchg *x)
{
	conn_set_state(container_of(x, struct cm_conn, x), CM_IDLE);
}

static const struct xchg_ops conn_ops = {.kind = XCHG_CONN, .settle = settle, .end = end};

struct cm_conn *conn_new(struct cm *cm, const struct cm_addr *addr, bool active)
{
	struct cm_conn *c = calloc(1, sizeof(*c));

	if (!c || timer_reserve(&cm->timers)) {
		free(c);
		return NULL;
	}
	xchg_init(&c->x, cm, &conn_ops, addr);
	list_init(&c->peer_link);
	list_init(&c->listener_link);
	list_init(&c->exit_link);
	c->active = active;
	c->local_id = cm_id_next(cm);
	c->own_tid = cm_tid_next(cm);
	hash_add(&cm->by_id, &c->id_link, cm_key(cm, c->local_id));
	cm->stats.conns++;
	return c;
}

void conn_free(struct cm_conn *c)
{
	struct cm *cm = c->x.cm;

	conn_decided(c);
	hash_remove(&cm->by_id, &c->id_link);
	conn_forget_remote(c);
	hash_remove(&cm->by_qpn, &c->qpn_link);
	list_remove(&c->peer_link);
	list_remove(&c->listener_link);
	list_remove(&c->exit_link);
	xchg_fini(&c->x);
	timer_release(&cm->timers);
	cm->stats.conns--;
	free(c);
}

struct cm_conn *conn_find(const struct cm *cm, uint32_t local_id)
{
	hash_for_each (c, struct cm_conn, id_link, &cm->by_id, cm_key(cm, local_id))
		if (c->local_id == local_id)
			return c;
	return NULL;
}

struct cm_conn *conn_find_remote(const struct cm *cm, uint32_t remote_id, uint64_t guid,
				 const struct rocemu_gid *peer)
{
	hash_for_each (c, struct cm_conn, remote_link, &cm->by_remote,
		       cm_key_peer(cm, remote_id, guid, peer)) {
		if (c->remote_id == remote_id && c->remote_guid == guid &&
		    rocemu_gid_equal(&c->x.addr.dst, peer))
			return c;
	}
	return NULL;
}

/** QPs 0 and 1 connect nothing: a REQ without a QP of its own has 0. */
static bool is_qp(uint32_t qpn)
{
	return qpn > 1;
}

/**
 * A connection in time wait is not found: both sides have released their QPs, and the peer may use
 * its own for the next connection.
 */
struct cm_conn *conn_find_qpn(const struct cm *cm, uint32_t qpn, uint64_t guid,
			      const struct rocemu_gid *peer)
{
	if (!is_qp(qpn))
		return NULL;
	hash_for_each (c, struct cm_conn, qpn_link, &cm->by_qpn, cm_key_peer(cm, qpn, guid, peer)) {
		if (c->remote_qpn == qpn && c->remote_guid == guid &&
		    rocemu_gid_equal(&c->x.addr.dst, peer))
			return c;
	}
	return NULL;
}

void conn_set_remote(struct cm_conn *c, uint32_t remote_id, uint64_t guid, uint32_t qpn)
{
	struct cm *cm = c->x.cm;

	c->remote_id = remote_id;
	c->remote_guid = guid;
	c->remote_qpn = qpn;
	hash_add(&cm->by_remote, &c->remote_link, cm_key_peer(cm, remote_id, guid, &c->x.addr.dst));
	if (is_qp(qpn)) /* others would be one long chain */
		hash_add(&cm->by_qpn, &c->qpn_link, cm_key_peer(cm, qpn, guid, &c->x.addr.dst));
}

void conn_forget_remote(struct cm_conn *c)
{
	hash_remove(&c->x.cm->by_remote, &c->remote_link);
}

static enum exit_kind exit_kind_of(enum cm_state state)
{
	switch (state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		return EXIT_REJ_TIMEOUT;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		return EXIT_REJ;
	case CM_ESTABLISHED:
	case CM_DREQ_SENT:
		return EXIT_DREQ;
	case CM_DREQ_RCVD:
		return EXIT_DREP;
	default:
		return EXIT_NONE;
	}
}

/** Update the exit MAD after a change of state. */
static void update_exit_mad(struct cm_conn *c)
{
	c->exit = exit_kind_of(c->state);
	if (!c->x.cm->cfg.exit_mads)
		return;
	if (c->exit == EXIT_NONE && !c->exit_reported)
		list_remove(&c->exit_link);
	else if (!list_linked(&c->exit_link))
		list_append(&c->x.cm->exit_mads, &c->exit_link);
}

void conn_set_state(struct cm_conn *c, enum cm_state state)
{
	c->state = state;
	if (state == CM_ESTABLISHED)
		c->x.cm->stats.established++;
	else
		c->lap = LAP_NONE;
	if (state != CM_REQ_SENT && state != CM_MRA_REQ_RCVD)
		list_remove(&c->peer_link);
	if (state != CM_REQ_RCVD && state != CM_MRA_REQ_SENT)
		conn_decided(c);
	if (state == CM_IDLE || state == CM_TIMEWAIT)
		hash_remove(&c->x.cm->by_qpn, &c->qpn_link);
	update_exit_mad(c);
}

/**
 * A message may take the packet lifetime each way, and the peer its CM response timeout. The ACK
 * timeout of the path covers twice the life time (and the CA's delay, a little more).
 */
void conn_set_times(struct cm_conn *c)
{
	c->life_ns = rocemu_ack_timeout_ns(c->req.primary.ack_timeout);
	c->timeout_ns =
		cm_timeout_ns(c->active ? c->req.remote_cm_timeout : c->req.local_cm_timeout) +
		c->life_ns;
	c->max_retries = c->req.max_cm_retries;
}

void conn_undecided(struct cm_conn *c)
{
	c->half_open = true;
	listener_count(c->x.cm, c->listener, c->x.cell, true);
}

void conn_decided(struct cm_conn *c)
{
	if (c->half_open)
		listener_count(c->x.cm, c->listener, c->x.cell, false);
	c->half_open = false;
}

void cm_conn_seen(struct cm_conn *c)
{
	conn_decided(c);
}

void conn_settle(struct cm_conn *c)
{
	if (c->x.detached && c->state == CM_IDLE && !timer_running(&c->x.timer) &&
	    !xchg_pending(&c->x) && !list_linked(&c->exit_link))
		conn_free(c);
}

enum cm_state cm_conn_state(const struct cm_conn *c)
{
	return c->state;
}

uint32_t cm_conn_local_id(const struct cm_conn *c)
{
	return c->local_id;
}

uint32_t cm_conn_remote_id(const struct cm_conn *c)
{
	return c->remote_id;
}

void cm_conn_set_user(struct cm_conn *c, void *user)
{
	c->x.user = user;
}

void *cm_conn_user(const struct cm_conn *c)
{
	return c->x.user;
}

bool cm_conn_active(const struct cm_conn *c)
{
	return c->active;
}

const struct rocemu_cm_req *cm_conn_req(const struct cm_conn *c)
{
	return &c->req;
}

const struct rocemu_cm_rep *cm_conn_rep(const struct cm_conn *c)
{
	return &c->rep;
}

const struct cm_addr *cm_conn_addr(const struct cm_conn *c)
{
	return &c->x.addr;
}

struct cm_listener *cm_conn_listener(const struct cm_conn *c)
{
	return c->listener;
}
