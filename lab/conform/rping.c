/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rping -s at the device, a listener of rdma_cm: the tester's own REQ sets up its queue pair.
 *
 * rping is a requester. A SEND of 16 bytes to it has an address, a key and a length: it READs them,
 * and SENDs 16 bytes when they are there. The next such SEND has where they go: it WRITEs back what
 * it has READ, up to the first byte of 0, and SENDs. When a request of its has failed, it
 * disconnects.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/bytes.h"
#include "base/util.h"
#include "conform/session.h"

enum {
	REPLY_MS = 2000,
	TRIES = 3,
	LEAVE_MS = 200,
	PING_LEN = 16,
	RKEY = 0x4711,
	BUFFER = 32768, /* bytes, of rping: what the longest READ of a case takes */
};

static uint8_t ib_mtu(unsigned bytes)
{
	uint8_t mtu = 1;

	while (mtu < 5 && 128u << mtu < bytes)
		mtu++;
	return mtu;
}

/** The REQ that asks for the world's attributes. */
static void make_req(struct conform_world *w, struct rocemu_cm_msg *m)
{
	const struct scenario_setup *u = &w->setup;
	const struct rocemu_cma cma = {.ip_version = rocemu_gid_is_ipv4(&w->peer.gid) ? 4 : 6,
				       .sport = 40000,
				       .src = w->peer.gid,
				       .dst = w->peer.device_gid};

	gsi_req(w->s, m);
	m->req.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, w->s->o.port[w->s->kind]);
	m->req.local_qpn = w->peer.qpn;
	m->req.responder_resources = (uint8_t)u->rd_atomic;
	m->req.initiator_depth = (uint8_t)u->dest_rd_atomic;
	m->req.starting_psn = u->sq_psn;
	m->req.retry_count = (uint8_t)u->retry_cnt;
	m->req.rnr_retry_count = (uint8_t)u->rnr_retry;
	m->req.path_mtu = ib_mtu(u->mtu);
	m->req.primary.ack_timeout = (uint8_t)u->timeout;
	rocemu_cma_encode(&cma, m->req.private_data);
	w->comm_id = m->req.local_comm_id;
}

int rping_establish(struct conform_world *w)
{
	const struct rocemu_cm_msg rtu = {
		.attr_id = ROCEMU_CM_RTU,
		.tid = w->comm_id,
		.rtu = {.local_comm_id = w->comm_id, .remote_comm_id = w->remote_comm_id}};

	return gsi_send(w->s, &rtu);
}

static int take_reply(struct conform_world *w, const struct rocemu_cm_rep *rep)
{
	w->remote_comm_id = rep->local_comm_id;
	w->peer.device_qpn = rep->local_qpn;
	w->setup.rq_psn = rep->starting_psn & ROCEMU_PSN_MASK;
	return w->setup.state == IBV_QPS_RTR ? 0 : rping_establish(w);
}

int rping_connect(struct conform_world *w)
{
	struct rocemu_cm_msg req, m;
	int error = -ETIMEDOUT;

	make_req(w, &req);
	for (unsigned i = 0; i < TRIES && error == -ETIMEDOUT; i++) {
		error = gsi_send(w->s, &req);
		if (!error)
			error = gsi_wait(w->s, w->comm_id, REPLY_MS, &m);
	}
	if (error)
		return error;
	if (m.attr_id == ROCEMU_CM_REJ)
		w->reason = m.rej.reason;
	if (w->reason == ROCEMU_CM_REJ_MTU)
		return -EOPNOTSUPP;
	if (m.attr_id != ROCEMU_CM_REP)
		return -ECONNREFUSED;
	return take_reply(w, &m.rep);
}

void rping_end(struct conform_world *w)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_DREQ,
				  .tid = w->comm_id,
				  .dreq = {.local_comm_id = w->comm_id,
					   .remote_comm_id = w->remote_comm_id,
					   .remote_qpn = w->peer.device_qpn}};
	struct rocemu_cm_msg answer;

	for (unsigned i = 0; i < TRIES && !w->left; i++)
		if (gsi_send(w->s, &m) || !gsi_wait(w->s, w->comm_id, LEAVE_MS, &answer))
			return;
}

/* ---- its requests ---- */

int rping_post(struct conform_world *w, const struct scenario_request *r)
{
	const bool read = w->pings % 2 == 0;
	struct scenario_packet p = {.h = {.opcode = ROCEMU_RC_SEND_ONLY, .psn = w->pings},
				    .len = PING_LEN,
				    .data_len = PING_LEN};
	int error;

	if (r->opcode != (read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE))
		return -EINVAL;
	put_be64(p.data, scenario_peer_va(&w->peer, &r->to));
	put_be32(p.data + 8, r->rkey ? r->rkey : RKEY);
	put_be32(p.data + 12, r->len);
	error = conform_send(w, &p);
	wire_mark(w->s->wire);
	w->pings++;
	return error;
}

bool rping_is_own_ack(const struct conform_world *w, const struct rocemu_hdrs *h)
{
	const uint32_t psn = (h->psn - w->setup.rq_psn) & ROCEMU_PSN_MASK;

	return h->opcode == ROCEMU_RC_ACK && psn < w->pings &&
	       (h->aeth.syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK;
}

bool rping_leaves(struct conform_world *w)
{
	struct rocemu_cm_msg m, drep = {.attr_id = ROCEMU_CM_DREP};
	const bool first = !w->left;
	uint64_t ns;

	if (!w->comm_id || !gsi_find(w->s, w->comm_id, &m, &ns) || m.attr_id != ROCEMU_CM_DREQ)
		return false;
	drep.tid = m.tid;
	drep.drep.local_comm_id = w->comm_id;
	drep.drep.remote_comm_id = m.dreq.local_comm_id;
	gsi_send(w->s, &drep);
	w->left = true;
	if (first)
		wire_effect(w->s->wire, ns);
	return first;
}

/* ---- is it there? ---- */

/** The next effect, or NULL: none came. */
static const char *next_effect(struct conform_world *w)
{
	const uint64_t until = conform_now() + REPLY_MS * (uint64_t)NS_PER_MS;
	struct pollfd wait = {.fd = wire_fd(w->s->wire), .events = POLLIN};
	const char *came;

	while (!(came = conform_next(w)) && conform_now() < until)
		poll(&wait, 1, 1);
	return came;
}

/** It is a case's matter that the first PSN is the right one. */
static void begin_at(struct conform_world *w, const struct rocemu_hdrs *h)
{
	w->setup.sq_psn = h->psn;
	w->requests = (struct conform_requests){0};
	requests_note(w, h);
}

static bool begins(const char *text, const char *with)
{
	return text && strncmp(text, with, strlen(with)) == 0;
}

/** Does it do as rping does, with a buffer that is large enough? NULL: yes. */
static const char *what_differs(struct conform_world *w)
{
	const struct scenario_request ping = {
		.opcode = IBV_WR_RDMA_READ, .len = BUFFER, .to.area = SCENARIO_NOWHERE};
	bool reads = false;
	const char *came;

	if (rping_post(w, &ping))
		return "nothing can be sent to it";
	/* A device may READ in parts. */
	while (begins(came = next_effect(w), "READ_REQUEST")) {
		if (!reads)
			begin_at(w, &w->last.h);
		reads = true;
		requests_answer(w, &w->last.h);
	}
	if (begins(came, "SEND_ONLY"))
		return NULL;
	return reads ? "its buffer has less than 32768 bytes" : "it does not do as rping does";
}

bool rping_there(struct conform_session *s, char *why, size_t size)
{
	struct conform_world w = {
		.s = s,
		.setup = {.type = IBV_QPT_RC,
			  .mtu = 1024,
			  .timeout = 14,
			  .retry_cnt = 7,
			  .rd_atomic = 1},
		.peer = {.gid = wire_gid(s->wire), .device_gid = s->o.target, .qpn = ++s->qpn}};
	const char *text;
	int error;

	w.peer.setup = &w.setup;
	wire_begin(s->wire, 0);
	error = rping_connect(&w);
	conform_choose_port(&w.peer);
	text = w.reason ? rocemu_cm_rej_text(w.reason)
	       : error	? strerror(-error)
			: what_differs(&w);
	if (text)
		snprintf(why, size, "CM service of TCP port %u: %s", s->o.port[SCENARIO_PEER_RPING],
			 text);
	if (!error)
		rping_end(&w);
	return !text;
}
