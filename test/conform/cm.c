/* SPDX-License-Identifier: BSD-2-Clause */
/* The passive side of connection management (IBTA 12.9, 12.11): REQ, RTU, DREQ, SIDR_REQ. */
#include "base/util.h"
#include "responder.h"

enum {
	CONNS = 256,
	RPING_PORT = 7174,
	FIRST_ID = 0x5000,
	CM_TIMEOUT_MIN = 8,
	DREQ_TRIES = 3,
	LID = 0xffff,
};

#define CA_GUID 0x0002c90300a1b2c3u

enum cm_state { FREE, REP_SENT, ESTABLISHED, DREQ_SENT, TIMEWAIT };

struct cm_conn {
	enum cm_state state;
	uint32_t id;
	uint64_t tid;
	struct rocemu_gid peer;
	struct rocemu_cm_req req;
	struct rocemu_cm_msg last; /* sent, to be repeated */
	struct qp *qp;		   /* borrowed; its number shows whether it is the same */
	uint32_t qpn;
	uint64_t deadline;
	unsigned tries; /* that are left */
};

static struct cm_conn conns[CONNS];
static unsigned made;

/* ---- answers without a connection ---- */

static void reject(const struct input *in, const struct rocemu_cm_msg *m, uint16_t reason,
		   enum rocemu_cm_answered what, uint32_t remote_id)
{
	struct rocemu_cm_msg a = {.attr_id = ROCEMU_CM_REJ, .tid = m->tid};

	a.rej.remote_comm_id = remote_id;
	a.rej.answered = (uint8_t)what;
	a.rej.reason = reason;
	if (mutant(M_TID))
		a.tid++;
	if (mutant(M_REJ_COMM_ID))
		a.rej.remote_comm_id++;
	gsi_send(&in->src, in->sport, &a);
}

static void answer_sidr(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct rocemu_cm_msg a = {.attr_id = ROCEMU_CM_SIDR_REP, .tid = m->tid};

	if (mutant(M_SIDR_SILENT))
		return;
	a.sidr_rep.request_id = m->sidr_req.request_id;
	a.sidr_rep.status = ROCEMU_CM_SIDR_SERVICE_ID;
	a.sidr_rep.service_id = m->sidr_req.service_id;
	gsi_send(&in->src, in->sport, &a);
}

static void answer_drep(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct rocemu_cm_msg a = {.attr_id = ROCEMU_CM_DREP, .tid = m->tid};

	a.drep.local_comm_id = m->dreq.remote_comm_id;
	a.drep.remote_comm_id = m->dreq.local_comm_id;
	gsi_send(&in->src, in->sport, &a);
}

/* ---- connections ---- */

static uint64_t timeout_ns(uint8_t code)
{
	return rocemu_ack_timeout_ns(MAX(code, (uint8_t)CM_TIMEOUT_MIN));
}

static void send_last(struct cm_conn *c)
{
	gsi_send(&c->peer, ROCEMU_UDP_PORT, &c->last);
}

static struct cm_conn *find(uint32_t id, const struct rocemu_gid *peer, uint32_t remote_id)
{
	for (unsigned i = 0; i < CONNS; i++)
		if (conns[i].state && conns[i].id == id &&
		    conns[i].req.local_comm_id == remote_id &&
		    rocemu_gid_equal(&conns[i].peer, peer))
			return &conns[i];
	return NULL;
}

/** The connection that a REQ was for; by its ID, or by its QPN. */
static struct cm_conn *find_req(const struct input *in, const struct rocemu_cm_req *req,
				bool by_qpn)
{
	for (unsigned i = 0; i < CONNS; i++) {
		struct cm_conn *c = &conns[i];

		if (!c->state || !rocemu_gid_equal(&c->peer, &in->src) ||
		    c->req.local_ca_guid != req->local_ca_guid)
			continue;
		if (by_qpn ? c->req.local_qpn == req->local_qpn && c->state != TIMEWAIT
			   : c->req.local_comm_id == req->local_comm_id)
			return c;
	}
	return NULL;
}

static void drop_qp(struct cm_conn *c)
{
	if (c->qp && c->qp->used && c->qp->qpn == c->qpn) {
		c->qp->app.conn = NULL;
		qp_destroy(c->qp);
	}
	c->qp = NULL;
}

static void set_qp(struct cm_conn *c, struct qp *qp)
{
	const struct rocemu_cm_req *req = &c->req;
	const uint32_t psn = req->starting_psn;

	c->qp = qp;
	c->qpn = qp->qpn;
	qp->deaf = mutant(M_BEFORE_RTU);
	qp->mtu = mutant(M_REQ_MTU) ? 1024 : 128u << req->path_mtu;
	qp->resp.epsn = (uint32_t)(net_now() >> 8) & ROCEMU_PSN_MASK;
	qp->req.psn = qp->req.una = qp->req.next = qp->req.end =
		mutant(M_REQ_PSN) ? psn & ROCEMU_PSN_MASK >> 1 : psn;
	qp->req.timeout = req->primary.ack_timeout;
	qp->req.retry_cnt = qp->req.retries = req->retry_count;
	qp->req.rnr_retry = qp->req.rnr_retries = req->rnr_retry_count;
	qp->req.depth = req->responder_resources;
	qp->resp.depth = MIN((unsigned)req->initiator_depth, (unsigned)KEPT);
	qp->access = IBV_ACCESS_REMOTE_WRITE |
		     (req->initiator_depth ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
	rping_start(qp, c);
}

static void make_rep(struct cm_conn *c)
{
	const struct rocemu_cm_req *req = &c->req;
	struct rocemu_cm_rep *rep = &c->last.rep;

	c->last = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_REP, .tid = c->tid};
	rep->local_comm_id = c->id;
	rep->remote_comm_id = req->local_comm_id;
	rep->local_qpn = c->qpn;
	rep->starting_psn = c->qp->resp.epsn;
	rep->responder_resources = req->initiator_depth;
	rep->initiator_depth = req->responder_resources;
	rep->rnr_retry_count = req->rnr_retry_count;
	rep->failover_accepted = 1; /* there are no alternate paths */
	rep->local_ca_guid = CA_GUID;
}

static void connect_req(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct cm_conn *c = &conns[made % CONNS];
	struct qp *qp = qp_new(QP_RC, &in->src, m->req.local_qpn);

	if (!qp) {
		reject(in, m, ROCEMU_CM_REJ_NO_RESOURCES, ROCEMU_CM_TO_REQ, m->req.local_comm_id);
		return;
	}
	drop_qp(c);
	*c = (struct cm_conn){.state = REP_SENT, .id = FIRST_ID + made++, .tid = m->tid};
	c->peer = in->src;
	c->req = m->req;
	set_qp(c, qp);
	make_rep(c);
	c->tries = mutant(M_RTU_LOST) ? 0 : m->req.max_cm_retries;
	c->deadline = net_now() + timeout_ns(m->req.local_cm_timeout);
	send_last(c);
}

/** The peer begins anew with a queue pair that was connected: what was connected is gone. */
static void stale(struct cm_conn *c, const struct input *in, const struct rocemu_cm_msg *m)
{
	reject(in, m, ROCEMU_CM_REJ_STALE, ROCEMU_CM_TO_REQ, m->req.local_comm_id);
	cm_disconnect(c);
}

static bool is_rping(const struct rocemu_cm_req *req)
{
	return req->service_id == rocemu_cm_service_id(ROCEMU_PS_TCP, RPING_PORT);
}

static void req_input_cm(const struct input *in, const struct rocemu_cm_msg *m)
{
	const struct rocemu_cm_req *req = &m->req;
	struct cm_conn *c = find_req(in, req, false);

	if (c && c->tid == m->tid && c->state == REP_SENT) {
		if (!mutant(M_REQ_AGAIN))
			send_last(c);
		return;
	}
	if (c && c->tid == m->tid)
		return;
	if (req->transport != ROCEMU_CM_RC && !mutant(M_TRANSPORT)) {
		reject(in, m, ROCEMU_CM_REJ_TRANSPORT, ROCEMU_CM_TO_REQ, req->local_comm_id);
		return;
	}
	if (c && !mutant(M_REUSED_ID)) {
		reject(in, m, ROCEMU_CM_REJ_DUPLICATE_COMM_ID, ROCEMU_CM_TO_REQ,
		       req->local_comm_id);
		return;
	}
	c = find_req(in, req, true);
	if (c && !mutant(M_CM_STALE))
		stale(c, in, m);
	else if (mutant(M_LID_FIELDS) && req->primary.remote_lid != LID)
		reject(in, m, ROCEMU_CM_REJ_PRIMARY_LID, ROCEMU_CM_TO_REQ, req->local_comm_id);
	else if (is_rping(req) && (req->path_mtu < 1 || req->path_mtu > (mutant(M_CM_MTU) ? 3 : 5)))
		reject(in, m, ROCEMU_CM_REJ_MTU, ROCEMU_CM_TO_REQ, req->local_comm_id);
	else if (is_rping(req))
		connect_req(in, m);
	else if (!mutant(M_HELLO_SILENT))
		reject(in, m,
		       mutant(M_HELLO_REASON) ? ROCEMU_CM_REJ_NO_RESOURCES
					      : ROCEMU_CM_REJ_SERVICE_ID,
		       ROCEMU_CM_TO_REQ, req->local_comm_id);
}

void cm_established(struct cm_conn *c)
{
	if (c->state != REP_SENT)
		return;
	c->state = ESTABLISHED;
	c->deadline = 0;
	c->qp->deaf = false;
}

static void rtu_input(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct cm_conn *c = find(m->rtu.remote_comm_id, &in->src, m->rtu.local_comm_id);

	if (c)
		cm_established(c);
}

static void dreq_input(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct cm_conn *c = find(m->dreq.remote_comm_id, &in->src, m->dreq.local_comm_id);

	if (!c) {
		if (!mutant(M_DREQ_UNKNOWN))
			answer_drep(in, m);
		return;
	}
	if (m->dreq.remote_qpn != c->qpn && c->state != TIMEWAIT && !mutant(M_DREQ_QPN))
		return;
	if (c->state == TIMEWAIT && mutant(M_DREQ_AGAIN))
		return;
	drop_qp(c);
	c->state = TIMEWAIT;
	c->deadline = 0;
	if (!mutant(M_DREQ_SILENT))
		answer_drep(in, m);
}

void cm_disconnect(struct cm_conn *c)
{
	if (c->state != ESTABLISHED && c->state != REP_SENT)
		return;
	drop_qp(c);
	c->state = DREQ_SENT;
	c->tries = DREQ_TRIES;
	c->last = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_DREQ, .tid = c->tid + 1};
	c->last.dreq.local_comm_id = c->id;
	c->last.dreq.remote_comm_id = c->req.local_comm_id;
	c->last.dreq.remote_qpn = c->req.local_qpn;
	c->deadline = net_now() + timeout_ns(c->req.local_cm_timeout);
	send_last(c);
}

static void drep_input(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct cm_conn *c = find(m->drep.remote_comm_id, &in->src, m->drep.local_comm_id);

	if (!c || c->state != DREQ_SENT)
		return;
	c->state = TIMEWAIT;
	c->deadline = 0;
}

static void rej_input(const struct input *in, const struct rocemu_cm_msg *m)
{
	struct cm_conn *c = find(m->rej.remote_comm_id, &in->src, m->rej.local_comm_id);

	if (!c || c->state != REP_SENT)
		return;
	drop_qp(c);
	c->state = TIMEWAIT;
	c->deadline = 0;
}

void cm_input(const struct input *in, const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		req_input_cm(in, m);
		break;
	case ROCEMU_CM_RTU:
		rtu_input(in, m);
		break;
	case ROCEMU_CM_REP: /* to no REQ */
		if (!mutant(M_REP_UNKNOWN))
			reject(in, m, ROCEMU_CM_REJ_COMM_ID, ROCEMU_CM_TO_REP,
			       m->rep.local_comm_id);
		break;
	case ROCEMU_CM_REJ:
		rej_input(in, m);
		break;
	case ROCEMU_CM_DREQ:
		dreq_input(in, m);
		break;
	case ROCEMU_CM_DREP:
		drep_input(in, m);
		break;
	case ROCEMU_CM_SIDR_REQ:
		answer_sidr(in, m);
		break;
	case ROCEMU_CM_LAP:
		if (mutant(M_LAP_UNKNOWN))
			reject(in, m, ROCEMU_CM_REJ_COMM_ID, ROCEMU_CM_TO_OTHER,
			       m->lap.local_comm_id);
		break;
	default:
		break;
	}
}

static void timer(struct cm_conn *c, uint64_t now)
{
	if (!c->tries) {
		drop_qp(c);
		c->state = TIMEWAIT;
		c->deadline = 0;
		return;
	}
	c->tries--;
	c->deadline = now + timeout_ns(c->req.local_cm_timeout);
	send_last(c);
}

uint64_t cm_timers(uint64_t now)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < CONNS; i++) {
		struct cm_conn *c = &conns[i];

		if (c->deadline && c->deadline <= now)
			timer(c, now);
		if (c->deadline && (!next || c->deadline < next))
			next = c->deadline;
	}
	return next;
}
