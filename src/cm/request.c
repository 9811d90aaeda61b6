/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles a received REQ. Checks in this order: a REQ seen before; a crossing REQ of a peer to
 * which a REQ was sent; a REQ from a QP that is connected here; a listener.
 */
#include "cm/cm-internal.h"

void cm_rej_stray(struct cm *cm, const struct cm_addr *from, const struct rocemu_cm_msg *m,
		  uint16_t reason)
{
	bool rep = m->attr_id == ROCEMU_CM_REP;
	struct rocemu_cm_msg rej = {
		.attr_id = ROCEMU_CM_REJ,
		.tid = m->tid,
		.rej =
			{
				.local_comm_id = rep ? m->rep.remote_comm_id : 0,
				.remote_comm_id = rep ? m->rep.local_comm_id : m->req.local_comm_id,
				.answered = rep ? ROCEMU_CM_TO_REP : ROCEMU_CM_TO_REQ,
				.reason = reason,
			},
	};

	cm->stats.rejects++;
	cm_answer_stray(cm, from, &rej);
}

static bool transport_known(const struct rocemu_cm_req *req)
{
	return req->transport == ROCEMU_CM_RC || req->transport == ROCEMU_CM_UC ||
	       (req->transport == ROCEMU_CM_EXTENDED &&
		req->extended_transport == ROCEMU_CM_EXTENDED_XRC);
}

/** Is it the same REQ again, and not a new one of a peer that was restarted? */
static bool same(const struct cm_conn *c, const struct rocemu_cm_msg *m)
{
	return !c->active && c->req_tid == m->tid && c->req.local_qpn == m->req.local_qpn &&
	       c->req.service_id == m->req.service_id && c->req.starting_psn == m->req.starting_psn;
}

/** A request that was answered is answered again; one that waits for the consumer keeps waiting. */
static enum cm_drop repeated(struct cm_conn *c, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	switch (c->state) {
	case CM_MRA_REQ_SENT:
		xchg_answer_again(&c->x, ROCEMU_CM_MRA);
		break;
	case CM_REP_SENT:
		xchg_request_again(&c->x);
		break;
	case CM_IDLE:
		xchg_answer_again(&c->x, ROCEMU_CM_REJ);
		break;
	case CM_TIMEWAIT:
		if (!xchg_answer_again(&c->x, ROCEMU_CM_REJ) && !c->agreed)
			cm_rej_stray(c->x.cm, from, m, ROCEMU_CM_REJ_STALE);
		break;
	default:
		break;
	}
	return CM_DROP_DUPLICATE;
}

/**
 * Such a REQ contains no secret: only the peer's GUID and QPN, or its ID. Any user of the peer's
 * host can send it, but not from the port that the peer's QP 1 sends from, which is in use.
 */
static bool from_peers_port(const struct cm_conn *c, const struct cm_addr *from)
{
	return c->peer_sport == 0 || from->sport == 0 || c->peer_sport == from->sport;
}

/** The peer's message shows that its end of c is gone: so this end must close (IBTA 12.9.8.3.1). */
static enum cm_drop stale(struct cm_conn *c, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			  const struct cm_addr *from, uint16_t reason)
{
	struct rocemu_cm_dreq none = {0};

	cm_rej_stray(c->x.cm, from, m, reason);
	if (c->state != CM_ESTABLISHED)
		return CM_DROP_STALE;
	if (from_peers_port(c, from))
		conn_send_dreq(c, now, &none);
	else
		c->x.cm->stats.spared++;
	return CM_DROP_STALE;
}

/**
 * A local connection that waits for this peer: same service, same addresses, but not its own REQ
 * reflected.
 */
static struct cm_conn *find_peer(const struct cm *cm, const struct rocemu_cm_req *req,
				 const struct cm_addr *from)
{
	list_for_each (it, &cm->peers) {
		struct cm_conn *c = list_entry(it, struct cm_conn, peer_link);

		if (c->req.service_id == req->service_id &&
		    rocemu_gid_equal(&c->x.addr.dst, &from->src) &&
		    rocemu_gid_equal(&c->x.addr.src, &from->dst) &&
		    (req->local_ca_guid != cm->cfg.ca_guid || req->local_qpn != c->local_qpn))
			return c;
	}
	return NULL;
}

static void take_request(struct cm_conn *c, const struct rocemu_cm_msg *m,
			 const struct cm_addr *from)
{
	c->req = m->req;
	c->req_tid = m->tid;
	c->peer_sport = from->sport;
	conn_set_remote(c, m->req.local_comm_id, m->req.local_ca_guid, m->req.local_qpn);
	conn_set_times(c);
	conn_set_state(c, CM_REQ_RCVD);
}

/** Peer to peer: both sent a REQ; the larger CA GUID, then QPN, stays the active
 * side. */
static enum cm_drop crossed(struct cm_conn *c, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	uint64_t own = c->x.cm->cfg.ca_guid, other = m->req.local_ca_guid;
	struct event *e;

	if (own > other || (own == other && c->local_qpn > m->req.local_qpn)) {
		/* The earlier REQ may have arrived before the peer was ready for it. */
		xchg_request_again(&c->x);
		return CM_DROP_NONE;
	}
	e = event_new();
	if (!e)
		return CM_DROP_NO_MEMORY;
	xchg_stop(&c->x);
	c->active = false;
	take_request(c, m, from);
	event_post(e, CM_EV_REQ, &c->x, m, from);
	return CM_DROP_NONE;
}

static enum cm_drop accepted(struct cm_listener *l, const struct rocemu_cm_msg *m,
			     const struct cm_addr *from)
{
	struct cm *cm = l->cm;
	struct cm_addr back = cm_addr_back(from);
	struct event *e = event_new();
	struct cm_conn *c = e ? conn_new(cm, &back, false) : NULL;

	if (!c) {
		event_free(e);
		return CM_DROP_NO_MEMORY;
	}
	c->listener = l;
	list_append(&l->conns, &c->listener_link);
	conn_undecided(c);
	take_request(c, m, from);
	event_post(e, CM_EV_REQ, &c->x, m, from);
	return CM_DROP_NONE;
}

enum cm_drop conn_input_req(struct cm *cm, rocemu_ns_t now, const struct rocemu_cm_msg *m,
			    const struct cm_addr *from)
{
	const struct rocemu_cm_req *req = &m->req;
	struct cm_listener *l;
	struct cm_conn *c;

	if (req->local_comm_id == 0) /* kept for "not known" */
		return CM_DROP_MALFORMED;
	if (!transport_known(req)) {
		cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_TRANSPORT);
		return CM_DROP_UNSUPPORTED;
	}
	c = conn_find_remote(cm, req->local_comm_id, req->local_ca_guid, &from->src);
	if (c && !rocemu_gid_equal(&c->x.addr.src, &from->dst))
		return CM_DROP_ADDRESS;
	if (c && same(c, m))
		return repeated(c, m, from);
	if (c && c->active &&
	    c->peer_to_peer) /* the peer's own REQ, which lost against the local one, comes late */
		return CM_DROP_DUPLICATE;
	if (c && c->state != CM_IDLE)
		return stale(c, now, m, from, ROCEMU_CM_REJ_DUPLICATE_COMM_ID);
	if (c)
		conn_forget_remote(c);
	c = find_peer(cm, req, from);
	if (c)
		return crossed(c, m, from);
	c = conn_find_qpn(cm, req->local_qpn, req->local_ca_guid, &from->src);
	if (c)
		return stale(c, now, m, from, ROCEMU_CM_REJ_STALE);
	if (req->path_mtu < 1 || req->path_mtu > 5) {
		cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_MTU);
		return CM_DROP_UNSUPPORTED;
	}
	l = listener_find(cm, req->service_id, &from->dst, req->private_data,
			  sizeof(req->private_data));
	if (!l) {
		cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_SERVICE_ID);
		return CM_DROP_NO_SERVICE;
	}
	if (!listener_has_room(l, from)) {
		if (listener_refuses(l, from))
			cm_rej_stray(cm, from, m, ROCEMU_CM_REJ_NO_RESOURCES);
		return CM_DROP_NO_RESOURCES;
	}
	return accepted(l, m, from);
}
