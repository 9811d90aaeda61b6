/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to QP 1 that a scenario writes, and those that come to that of the peer. */
#include <string.h>

#include "scenario/mad.h"
#include "scenario/peer.h"

enum {
	LID = 0xffff, /* of each path of RoCE */
	HOPS = 64,
	CM_TIMEOUT = 20, /* 4.3 s */
	CM_RETRIES = 15,
	RATE = 3, /* 10 Gbit/s: a path has one */
	MTU = 3,  /* 1024 bytes */
	ACK_TIMEOUT = 14,
	SOME_QPN = 7 << 14 | 3, /* a REQ's, if the peer has QP 1 only */
};

#define CA_GUID 0x0200000000000000ull

/* ---- what it sends ---- */

static bool begins(uint16_t attr_id)
{
	return attr_id == ROCEMU_CM_REQ || attr_id == ROCEMU_CM_SIDR_REQ;
}

void scenario_peer_begin_mad(struct scenario_peer *peer, const struct scenario_packet *p,
			     uint32_t comm_id)
{
	struct scenario_exchange *x = &peer->exchange;
	uint64_t given;

	if (!begins(p->mad.attr_id) || p->again)
		return;
	*x = (struct scenario_exchange){.comm_id = comm_id};
	if (mad_gives(&p->mad, "local_comm_id", &given) || mad_gives(&p->mad, "request_id", &given))
		x->comm_id = (uint32_t)given;
	x->tid = x->comm_id;
	if (mad_gives(&p->mad, "tid", &given))
		x->tid = given;
}

static struct rocemu_cm_path path_of(const struct scenario_peer *peer)
{
	return (struct rocemu_cm_path){.local_lid = LID,
				       .remote_lid = LID,
				       .local_gid = peer->gid,
				       .remote_gid = peer->device_gid,
				       .packet_rate = RATE,
				       .hop_limit = HOPS,
				       .ack_timeout = ACK_TIMEOUT};
}

static struct rocemu_cm_req req_of(const struct scenario_peer *peer)
{
	return (struct rocemu_cm_req){
		.local_comm_id = peer->exchange.comm_id,
		.local_ca_guid = CA_GUID | peer->gid.raw[15],
		.local_qpn = peer->qpn > ROCEMU_GSI_QPN ? peer->qpn : SOME_QPN,
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_cm_timeout = CM_TIMEOUT,
		.local_cm_timeout = CM_TIMEOUT,
		.starting_psn = peer->setup->sq_psn,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.path_mtu = MTU,
		.max_cm_retries = CM_RETRIES,
		.primary = path_of(peer),
	};
}

/** The numbers of the exchange, for a message that is not its first. */
static void set_ids(const struct scenario_exchange *x, struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
#define IDS(NAME, msg)                              \
	case ROCEMU_CM_##NAME:                      \
		m->msg.local_comm_id = x->comm_id;  \
		m->msg.remote_comm_id = x->peer_id; \
		break
		IDS(MRA, mra);
		IDS(REJ, rej);
		IDS(REP, rep);
		IDS(RTU, rtu);
		IDS(DREQ, dreq);
		IDS(DREP, drep);
		IDS(LAP, lap);
		IDS(APR, apr);
#undef IDS
	default:
		break;
	}
}

/** What a line leaves open. */
static void set_defaults(const struct scenario_peer *peer, struct rocemu_cm_msg *m)
{
	const struct scenario_exchange *x = &peer->exchange;

	set_ids(x, m);
	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		m->req = req_of(peer);
		break;
	case ROCEMU_CM_SIDR_REQ:
		m->sidr_req = (struct rocemu_cm_sidr_req){.request_id = x->comm_id,
							  .pkey = ROCEMU_PKEY_DEFAULT};
		break;
	case ROCEMU_CM_SIDR_REP:
		m->sidr_rep.request_id = x->peer_id;
		break;
	case ROCEMU_CM_REJ:
		m->rej.answered = ROCEMU_CM_TO_REP;
		m->rej.reason = ROCEMU_CM_REJ_CONSUMER;
		break;
	case ROCEMU_CM_MRA:
		m->mra.answered = ROCEMU_CM_TO_REP;
		m->mra.service_timeout = CM_TIMEOUT;
		break;
	case ROCEMU_CM_DREQ:
		m->dreq.remote_qpn = x->qpn;
		break;
	case ROCEMU_CM_LAP:
		m->lap.remote_qpn = x->qpn;
		m->lap.remote_cm_timeout = CM_TIMEOUT;
		m->lap.alternate = path_of(peer);
		break;
	default:
		break;
	}
}

/** A service of annex A11 needs the addresses in front of the private data. */
static void set_addresses(const struct scenario_peer *peer, struct rocemu_cm_msg *m)
{
	const struct rocemu_cma c = {.ip_version = rocemu_gid_is_ipv4(&peer->gid) ? 4 : 6,
				     .sport = peer->sport,
				     .src = peer->gid,
				     .dst = peer->device_gid};

	if (m->attr_id == ROCEMU_CM_REQ && rocemu_cm_service_is_ip(m->req.service_id))
		rocemu_cma_encode(&c, m->req.private_data);
	if (m->attr_id == ROCEMU_CM_SIDR_REQ && rocemu_cm_service_is_ip(m->sidr_req.service_id))
		rocemu_cma_encode(&c, m->sidr_req.private_data);
}

void scenario_peer_encode_mad(const struct scenario_peer *peer, struct scenario_packet *p)
{
	struct rocemu_cm_msg m = {.attr_id = p->mad.attr_id, .tid = peer->exchange.tid};
	uint64_t number;

	set_defaults(peer, &m);
	mad_set_values(&p->mad, &m);
	if (!mad_gives(&p->mad, "private_data", &number))
		set_addresses(peer, &m);
	rocemu_cm_encode(&m, p->data);
	mad_set_header(&p->mad, p->data);
	p->data_len = p->mad.len;
}

/* ---- what comes to it ---- */

bool scenario_is_mad(const struct rocemu_hdrs *h)
{
	return h->opcode == ROCEMU_UD_SEND_ONLY && h->dqpn == ROCEMU_GSI_QPN;
}

/** The IDs of a message: the peer's, and that of the device; or 0. */
struct ids {
	uint32_t mine, its;
};

static struct ids ids_of(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
#define IDS(NAME, msg)         \
	case ROCEMU_CM_##NAME: \
		return (struct ids){m->msg.remote_comm_id, m->msg.local_comm_id}
		IDS(MRA, mra);
		IDS(REJ, rej);
		IDS(REP, rep);
		IDS(RTU, rtu);
		IDS(DREQ, dreq);
		IDS(DREP, drep);
		IDS(LAP, lap);
		IDS(APR, apr);
#undef IDS
	case ROCEMU_CM_SIDR_REP:
		return (struct ids){m->sidr_rep.request_id, 0};
	case ROCEMU_CM_REQ:
		return (struct ids){0, m->req.local_comm_id};
	default:
		return (struct ids){0, m->sidr_req.request_id};
	}
}

/** It begins an exchange of its own, so it has a transaction ID of its own. */
static bool is_request(uint16_t attr_id)
{
	return begins(attr_id) || attr_id == ROCEMU_CM_DREQ || attr_id == ROCEMU_CM_LAP;
}

void scenario_peer_take_mad(struct scenario_peer *peer, const uint8_t *mad, size_t len)
{
	struct scenario_exchange *x = &peer->exchange;
	struct rocemu_cm_msg m;

	if (rocemu_cm_decode(&m, mad, len) != ROCEMU_MAD_OK)
		return;
	if (ids_of(&m).its)
		x->peer_id = ids_of(&m).its;
	if (is_request(m.attr_id))
		x->tid = m.tid;
	if (m.attr_id == ROCEMU_CM_REP)
		x->qpn = m.rep.local_qpn;
	x->over |= m.attr_id == ROCEMU_CM_REJ || m.attr_id == ROCEMU_CM_DREP;
}

static const char *answered_text(uint8_t answered)
{
	static const char *const text[] = {"REQ", "REP", "OTHER", "?"};

	return text[answered & 3];
}

void scenario_mad_text(const uint8_t *mad, size_t len, char *to, size_t size)
{
	struct rocemu_cm_msg m;
	struct rocemu_mad h;

	if (rocemu_cm_decode(&m, mad, len) != ROCEMU_MAD_OK) {
		if (rocemu_mad_decode(&h, mad, len) != ROCEMU_MAD_OK)
			snprintf(to, size, "MAD of %zu bytes", len);
		else
			snprintf(to, size, "MAD class %u method %u attr_id %u status %u",
				 h.mgmt_class, h.method, h.attr_id, h.status);
		return;
	}
	if (m.attr_id == ROCEMU_CM_REJ)
		snprintf(to, size, "REJ %u to %s", m.rej.reason, answered_text(m.rej.answered));
	else if (m.attr_id == ROCEMU_CM_SIDR_REP)
		snprintf(to, size, "SIDR_REP %u", m.sidr_rep.status);
	else if (m.attr_id == ROCEMU_CM_APR)
		snprintf(to, size, "APR %u", m.apr.status);
	else
		snprintf(to, size, "%s", rocemu_cm_name(m.attr_id));
}

const char *scenario_mad_fault(const struct scenario_peer *peer, const struct rocemu_hdrs *h,
			       const uint8_t *mad, size_t len)
{
	const struct scenario_exchange *x = &peer->exchange;
	struct rocemu_cm_msg m;

	if (h->deth.qkey != ROCEMU_GSI_QKEY)
		return " WITH ANOTHER Q_KEY";
	if (h->deth.sqpn != ROCEMU_GSI_QPN)
		return " FROM ANOTHER QP";
	if (rocemu_cm_decode(&m, mad, len) != ROCEMU_MAD_OK || begins(m.attr_id))
		return "";
	if (ids_of(&m).mine != x->comm_id)
		return " WITH ANOTHER COMM_ID";
	if (x->peer_id && ids_of(&m).its && ids_of(&m).its != x->peer_id)
		return " FROM ANOTHER COMM_ID";
	return is_request(m.attr_id) || m.tid == x->tid ? "" : " WITH ANOTHER TID";
}
