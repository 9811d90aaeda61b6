/* SPDX-License-Identifier: BSD-2-Clause */
/* QP 1 of the tester: messages of communication management. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/session.h"
#include "wire/gsi.h"

enum {
	HELLO_MS = 200, /* then it is taken as lost */
	HELLO_TRIES = 10,
	LID = 0xffff, /* of each path of RoCE */
	HOPS = 64,
	TIMEOUT = 20, /* of messages: 4.3 s */
	RETRIES = 15,
	RATE = 3, /* 10 Gbit/s, as there has to be one */
	ACK_TIMEOUT = 14,
	HELLO_QPN = 0xfffffe, /* of no queue pair */
	NOISE = 100,	      /* questions */
	HELLO = 0x68656c6c,   /* upper half of transaction IDs of hellos */
	OLD = 1 << 20, /* communication IDs before that of the case at hand: those of others */
};

/** The communication ID of the tester in a message that came. */
static uint32_t comm_id_of(const struct rocemu_cm_msg *m)
{
	switch (m->attr_id) {
	case ROCEMU_CM_MRA:
		return m->mra.remote_comm_id;
	case ROCEMU_CM_REJ:
		return m->rej.remote_comm_id;
	case ROCEMU_CM_REP:
		return m->rep.remote_comm_id;
	case ROCEMU_CM_DREQ:
		return m->dreq.remote_comm_id;
	case ROCEMU_CM_DREP:
		return m->drep.remote_comm_id;
	case ROCEMU_CM_SIDR_REP:
		return m->sidr_rep.request_id;
	default:
		return 0;
	}
}

/** Is a message the case's, which sees what comes to QP 1? What belongs to cases before is not. */
static bool of_case(const struct conform_session *s, const uint8_t *mad)
{
	struct rocemu_cm_msg m;

	if (!s->gsi)
		return false;
	if (rocemu_cm_decode(&m, mad, ROCEMU_MAD_LEN) != ROCEMU_MAD_OK)
		return true;
	return m.tid >> 32 != HELLO && s->case_id - comm_id_of(&m) >= OLD;
}

bool gsi_take(void *session, const struct wire_packet *p)
{
	struct conform_session *s = session;
	struct rocemu_packet packet;
	struct conform_mad *m;

	if (rocemu_packet_decode(&packet, p->data, p->len) != ROCEMU_DROP_NONE)
		return false;
	/* Queue pairs of the cases before: what still comes to them is not asked for. */
	if (packet.h.dqpn >= WIRE_QPN && packet.h.dqpn < s->qpn)
		return true;
	if (packet.h.dqpn != ROCEMU_GSI_QPN || packet.payload_len != ROCEMU_MAD_LEN ||
	    of_case(s, packet.payload))
		return false;
	if (s->count == CONFORM_KEPT) {
		s->first = (s->first + 1) % CONFORM_KEPT;
		s->count--;
	}
	m = &s->mad[(s->first + s->count++) % CONFORM_KEPT];
	m->p = *p;
	m->p.data = NULL;
	memcpy(m->mad, packet.payload, ROCEMU_MAD_LEN);
	return true;
}

void gsi_req(struct conform_session *s, struct rocemu_cm_msg *m)
{
	const struct rocemu_gid gid = wire_gid(s->wire);

	*m = (struct rocemu_cm_msg){
		.attr_id = ROCEMU_CM_REQ,
		.tid = ++s->comm_id,
		.req = {.local_comm_id = s->comm_id,
			.service_id = s->service,
			.local_ca_guid = 0x0200000000000001,
			.local_qpn = s->qpn,
			.responder_resources = 1,
			.initiator_depth = 1,
			.remote_cm_timeout = TIMEOUT,
			.local_cm_timeout = TIMEOUT,
			.max_cm_retries = RETRIES,
			.retry_count = 7,
			.rnr_retry_count = 7,
			.pkey = ROCEMU_PKEY_DEFAULT,
			.path_mtu = 3,
			.primary = {.local_lid = LID,
				    .remote_lid = LID,
				    .local_gid = gid,
				    .remote_gid = s->o.target,
				    .packet_rate = RATE,
				    .hop_limit = HOPS,
				    .ack_timeout = ACK_TIMEOUT}},
	};
}

int gsi_send(struct conform_session *s, const struct rocemu_cm_msg *m)
{
	struct gsi_mad g = {.src = wire_gid(s->wire), .dst = s->o.target, .sport = ROCEMU_UDP_PORT};
	uint8_t packet[GSI_PACKET_LEN];

	if (!rocemu_cm_encode(m, g.mad))
		return -EINVAL;
	conform_pace(s);
	gsi_hdr_encode(&g, s->psn++);
	gsi_packet_encode(&g, packet);
	return wire_send_bytes(s->wire, &s->o.target, g.sport, 0, packet, sizeof(packet));
}

bool gsi_find(struct conform_session *s, uint32_t comm_id, struct rocemu_cm_msg *m, uint64_t *ns)
{
	for (unsigned i = 0; i < s->count; i++) {
		struct conform_mad *at = &s->mad[(s->first + i) % CONFORM_KEPT];

		if (rocemu_cm_decode(m, at->mad, sizeof(at->mad)) != ROCEMU_MAD_OK ||
		    comm_id_of(m) != comm_id || m->attr_id == ROCEMU_CM_MRA)
			continue;
		*ns = at->p.ns;
		for (; i + 1 < s->count; i++)
			s->mad[(s->first + i) % CONFORM_KEPT] =
				s->mad[(s->first + i + 1) % CONFORM_KEPT];
		s->count--;
		return true;
	}
	return false;
}

int gsi_wait(struct conform_session *s, uint32_t comm_id, unsigned ms, struct rocemu_cm_msg *m)
{
	const uint64_t until = conform_now() + ms * (uint64_t)NS_PER_MS;
	struct pollfd wait = {.fd = wire_fd(s->wire), .events = POLLIN};

	for (;;) {
		uint64_t now, ns;

		wire_receive(s->wire);
		if (gsi_find(s, comm_id, m, &ns))
			return 0;
		now = conform_now();
		if (now >= until)
			return -ETIMEDOUT;
		poll(&wait, 1, (int)((until - now) / NS_PER_MS) + 1);
	}
}

int gsi_hello(struct conform_session *s)
{
	struct rocemu_cm_msg m, answer;
	int error = -ETIMEDOUT;

	gsi_req(s, &m);
	/* A REQ with the QPN of a connection would end that (IBTA 12.9.8.3.1, stale connection). */
	m.req.local_qpn = HELLO_QPN;
	m.tid |= (uint64_t)HELLO << 32;
	s->hello = m.req.local_comm_id;
	for (unsigned i = 0; i < HELLO_TRIES && error == -ETIMEDOUT; i++) {
		error = gsi_send(s, &m);
		if (!error)
			error = gsi_wait(s, m.req.local_comm_id, HELLO_MS, &answer);
	}
	s->hello = 0;
	return error;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

bool conform_alive(struct conform_session *s)
{
	return gsi_hello(s) == 0;
}

bool conform_noise(struct conform_session *s, struct conform_noise *n)
{
	uint64_t ns[NOISE];

	for (unsigned i = 0; i < NOISE; i++) {
		s->hello_sent_ns = s->hello_came_ns = 0;
		if (gsi_hello(s) || s->hello_came_ns < s->hello_sent_ns)
			return false;
		ns[i] = s->hello_came_ns - s->hello_sent_ns;
	}
	qsort(ns, NOISE, sizeof(*ns), compare);
	*n = (struct conform_noise){ns[0], ns[NOISE / 2], ns[NOISE - 1]};
	return true;
}
