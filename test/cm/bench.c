/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "cm/cm-internal.h"
#include "messages.h"

const struct rocemu_gid bench_own = {{[10] = 0xff, 0xff, 10, 0, 0, 1}};
const struct rocemu_gid bench_peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
const struct rocemu_gid bench_other = {{[10] = 0xff, 0xff, 10, 0, 0, 3}};

void bench_start_config(struct bench *b, const struct cm_config *config)
{
	memset(b, 0, sizeof(*b));
	b->now = 1000;
	b->cm = cm_new(config);
	assert_non_null(b->cm);
}

void bench_start(struct bench *b)
{
	const struct cm_config config = {
		.seed = 1,
		.ca_guid = BENCH_OWN_GUID,
		.id_prefix = 9,
		.lap_events = true,
		.exit_mads = true,
	};
	const struct cm_listen_param listen = {.service_id = BENCH_SERVICE, .any_addr = true};

	bench_start_config(b, &config);
	assert_int_equal(cm_listen(b->cm, &listen, &b->listener), 0);
}

void bench_end(struct bench *b)
{
	cm_free(b->cm);
}

static void message_req(struct rocemu_cm_msg *m)
{
	struct rocemu_cm_req *q = &m->req;

	cm_req_init(q);
	q->local_comm_id = BENCH_PEER_ID;
	q->local_ca_guid = BENCH_PEER_GUID;
	q->local_qpn = BENCH_PEER_QPN;
	q->service_id = BENCH_SERVICE;
	q->max_cm_retries = BENCH_RETRIES;
}

/** The transaction ID of what the message answers, or of what the peer begins. */
static uint64_t tid_of(const struct cm_conn *c, uint16_t attr_id)
{
	switch ((enum rocemu_cm_attr)attr_id) {
	case ROCEMU_CM_MRA:
	case ROCEMU_CM_REJ:
	case ROCEMU_CM_REP:
	case ROCEMU_CM_RTU:
		return c->req_tid;
	case ROCEMU_CM_DREP:
		return conn_dreq_tid(c);
	case ROCEMU_CM_APR:
		return c->lap_tid;
	default:
		return BENCH_TID;
	}
}

void bench_message(const struct bench *b, const struct cm_conn *c, uint16_t attr_id,
		   struct rocemu_cm_msg *m)
{
	uint32_t own = c ? cm_conn_local_id(c) : 0x1234;

	(void)b;
	memset(m, 0, sizeof(*m));
	m->attr_id = attr_id;
	m->tid = c ? tid_of(c, attr_id) : BENCH_TID;
	switch ((enum rocemu_cm_attr)attr_id) {
	case ROCEMU_CM_REQ:
		message_req(m);
		break;
	case ROCEMU_CM_SIDR_REQ:
		m->sidr_req.request_id = BENCH_PEER_ID;
		m->sidr_req.service_id = BENCH_SERVICE;
		break;
	case ROCEMU_CM_SIDR_REP:
		m->sidr_rep.service_id = BENCH_SERVICE;
		m->sidr_rep.qpn = BENCH_PEER_QPN;
		break;
#define BOTH(name, member)                               \
	case ROCEMU_CM_##name:                           \
		m->member.local_comm_id = BENCH_PEER_ID; \
		m->member.remote_comm_id = own;          \
		break;
		CM_MESSAGES_WITH_IDS(BOTH)
#undef BOTH
	}
	if (attr_id == ROCEMU_CM_REP) {
		m->rep.local_ca_guid = BENCH_PEER_GUID;
		m->rep.local_qpn = BENCH_PEER_QPN;
	} else if (attr_id == ROCEMU_CM_DREQ) {
		m->dreq.remote_qpn = BENCH_OWN_QPN;
	} else if (attr_id == ROCEMU_CM_LAP) {
		m->lap.remote_qpn = BENCH_OWN_QPN;
	} else if (attr_id == ROCEMU_CM_REJ) {
		m->rej.reason = ROCEMU_CM_REJ_CONSUMER;
		m->rej.answered = ROCEMU_CM_TO_OTHER;
	} else if (attr_id == ROCEMU_CM_MRA) {
		m->mra.service_timeout = 24;
	}
}

enum cm_drop bench_in_addr(struct bench *b, const struct rocemu_cm_msg *m,
			   const struct cm_addr *addr)
{
	uint8_t mad[ROCEMU_MAD_LEN];

	assert_int_equal(rocemu_cm_encode(m, mad), ROCEMU_MAD_LEN);
	b->drop = cm_input(b->cm, b->now, mad, sizeof(mad), addr);
	return b->drop;
}

enum cm_drop bench_in_from(struct bench *b, const struct rocemu_cm_msg *m,
			   const struct rocemu_gid *from)
{
	const struct cm_addr addr = {
		.src = *from, .dst = bench_own, .tclass = 0x20, .sport = b->sport};

	return bench_in_addr(b, m, &addr);
}

enum cm_drop bench_in(struct bench *b, const struct rocemu_cm_msg *m)
{
	return bench_in_from(b, m, &bench_peer);
}

enum cm_drop bench_says(struct bench *b, const struct cm_conn *c, uint16_t attr_id)
{
	struct rocemu_cm_msg m;

	bench_message(b, c, attr_id, &m);
	return bench_in(b, &m);
}

static void note(struct bench *b, const char *text)
{
	size_t len = strlen(b->text);

	assert_true(len + strlen(text) + 2 < sizeof(b->text));
	snprintf(b->text + len, sizeof(b->text) - len, "%s%s", len ? " " : "", text);
}

static const char *noted(struct bench *b)
{
	if (!b->text[0])
		note(b, "-");
	return b->text;
}

const char *bench_sends(struct bench *b)
{
	struct cm_mad mad;
	char text[32];

	b->text[0] = 0;
	while (cm_output(b->cm, b->now, &mad, 1)) {
		assert_int_equal(rocemu_cm_decode(&b->sent, mad.data, sizeof(mad.data)),
				 ROCEMU_MAD_OK);
		b->sent_addr = mad.addr;
		snprintf(text, sizeof(text), "%s", rocemu_cm_name(b->sent.attr_id));
		if (b->sent.attr_id == ROCEMU_CM_REJ)
			snprintf(text, sizeof(text), "REJ %u", b->sent.rej.reason);
		note(b, text);
	}
	return noted(b);
}

const char *bench_events(struct bench *b)
{
	struct cm_event ev;

	b->text[0] = 0;
	while (cm_next_event(b->cm, &ev)) {
		b->event = ev;
		note(b, cm_event_text(ev.type));
	}
	return noted(b);
}

void bench_expire(struct bench *b)
{
	assert_true(cm_deadline(b->cm) != ROCEMU_NEVER);
	b->now = cm_deadline(b->cm);
	cm_expire(b->cm, b->now);
}

/* ---- connections in a state ---- */

static void calm(struct bench *b)
{
	bench_sends(b);
	bench_events(b);
}

struct cm_conn *bench_connect(struct bench *b, bool peer_to_peer)
{
	struct cm_connect_param p = {.peer_to_peer = peer_to_peer};
	struct cm_conn *c;

	cm_req_init(&p.req);
	p.req.service_id = BENCH_SERVICE;
	p.req.local_qpn = BENCH_OWN_QPN;
	p.req.max_cm_retries = BENCH_RETRIES;
	p.addr.src = bench_own;
	p.addr.dst = bench_peer;
	assert_int_equal(cm_connect(b->cm, b->now, &p, &c), 0);
	return c;
}

/** From ESTABLISHED on both sides have the same states. */
static void go_on(struct bench *b, struct cm_conn *c, enum cm_state state)
{
	calm(b);
	switch (state) {
	case CM_DREQ_SENT:
		assert_int_equal(cm_disconnect(c, b->now, NULL, 0), 0);
		break;
	case CM_DREQ_RCVD:
	case CM_TIMEWAIT:
	case CM_IDLE:
		bench_says(b, c, ROCEMU_CM_DREQ);
		if (state != CM_DREQ_RCVD)
			assert_int_equal(cm_drep(c, b->now, NULL, 0), 0);
		if (state == CM_IDLE)
			bench_expire(b);
		break;
	default:
		break;
	}
	calm(b);
	assert_int_equal(cm_conn_state(c), state);
}

struct cm_conn *bench_active_conn(struct bench *b, enum cm_state state)
{
	struct cm_conn *c = bench_connect(b, false);
	struct rocemu_cm_msg mra;

	calm(b);
	if (state == CM_MRA_REQ_RCVD) {
		bench_message(b, c, ROCEMU_CM_MRA, &mra);
		bench_in(b, &mra);
	} else if (state != CM_REQ_SENT) {
		bench_says(b, c, ROCEMU_CM_REP);
		if (state == CM_MRA_REP_SENT)
			assert_int_equal(cm_mra(c, b->now, 20, NULL, 0), 0);
		else if (state != CM_REP_RCVD)
			assert_int_equal(cm_rtu(c, b->now, NULL, 0), 0);
	}
	go_on(b, c, state);
	return c;
}

static struct cm_conn *passive_conn(struct bench *b, enum cm_state state)
{
	const struct rocemu_cm_rep rep = {.local_qpn = BENCH_OWN_QPN};
	struct rocemu_cm_msg m;
	struct cm_conn *c;

	bench_says(b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_events(b), "REQ");
	c = b->event.conn;
	if (state == CM_MRA_REQ_SENT)
		assert_int_equal(cm_mra(c, b->now, 20, NULL, 0), 0);
	else if (state != CM_REQ_RCVD)
		assert_int_equal(cm_accept(c, b->now, &rep, NULL, 0), 0);
	calm(b);
	if (state == CM_MRA_REP_RCVD) {
		bench_message(b, c, ROCEMU_CM_MRA, &m);
		m.mra.answered = ROCEMU_CM_TO_REP;
		bench_in(b, &m);
	} else if (state >= CM_ESTABLISHED || state == CM_IDLE) {
		bench_says(b, c, ROCEMU_CM_RTU);
	}
	go_on(b, c, state);
	return c;
}

struct cm_conn *bench_conn(struct bench *b, enum cm_state state)
{
	switch (state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		return bench_active_conn(b, state);
	default:
		return passive_conn(b, state);
	}
}
