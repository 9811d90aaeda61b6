/* SPDX-License-Identifier: BSD-2-Clause */
/* A listener of rdma_cm at the device: the tester's own REQ sets up its queue pair. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "conform/session.h"

enum { REPLY_MS = 2000, TRIES = 3, LEAVE_MS = 200 };

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

static void take_reply(struct conform_world *w, const struct rocemu_cm_rep *rep)
{
	struct rocemu_cm_msg rtu = {
		.attr_id = ROCEMU_CM_RTU,
		.tid = w->comm_id,
		.rtu = {.local_comm_id = w->comm_id, .remote_comm_id = rep->local_comm_id}};

	w->remote_comm_id = rep->local_comm_id;
	w->peer.device_qpn = rep->local_qpn;
	w->setup.rq_psn = rep->starting_psn & ROCEMU_PSN_MASK;
	gsi_send(w->s, &rtu);
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
	if (m.attr_id != ROCEMU_CM_REP)
		return -ECONNREFUSED;
	take_reply(w, &m.rep);
	return 0;
}

void rping_end(struct conform_world *w)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_DREQ,
				  .tid = w->comm_id,
				  .dreq = {.local_comm_id = w->comm_id,
					   .remote_comm_id = w->remote_comm_id,
					   .remote_qpn = w->peer.device_qpn}};
	struct rocemu_cm_msg answer;

	for (unsigned i = 0; i < TRIES; i++)
		if (gsi_send(w->s, &m) || !gsi_wait(w->s, w->comm_id, LEAVE_MS, &answer))
			return;
}

bool rping_there(struct conform_session *s, char *why, size_t size)
{
	struct conform_world w = {
		.s = s,
		.setup = {.mtu = 1024, .timeout = 14, .retry_cnt = 7},
		.peer = {.gid = wire_gid(s->wire), .device_gid = s->o.target, .qpn = ++s->qpn}};
	const int error = rping_connect(&w);

	if (error)
		snprintf(why, size, "CM service of TCP port %u: %s", s->o.port[SCENARIO_PEER_RPING],
			 error == -ECONNREFUSED ? "rejected" : strerror(-error));
	else
		rping_end(&w);
	return !error;
}
