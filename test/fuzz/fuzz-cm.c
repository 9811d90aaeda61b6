/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager under a peer that sends any sequence of messages, right or not, and a
 * consumer that makes any sequence of calls. What must hold: limits are kept, deadlines lie ahead,
 * what is sent is well-formed, a call in the wrong state is refused; and when the consumer has
 * destroyed everything, time alone empties the manager. Two connections with the same peer are
 * there from the beginning, whose IDs no message is given: they stay established.
 */
#include "fuzz-cm.h"

#include <errno.h>
#include <string.h>

#include "../cm/messages.h"
#include "base/bytes.h"
#include "base/util.h"
#include "cm/cm-internal.h"
#include "driver.h"

enum { SLOTS = 8, LISTENERS = 3, HALF_OPEN = 5, LINGERING = 4, SERVICE = 0x01061000 };
enum { BYSTANDERS = 2, PEERS_PORT = 55410, OTHER_PORT = 40000 };

struct fuzz {
	const uint8_t *at, *end;
	struct cm *cm;
	rocemu_ns_t now;
	struct cm_conn *conn[SLOTS];
	struct cm_sidr *sidr[SLOTS];
	struct cm_listener *listener[LISTENERS];
	struct cm_mad sent;	     /* the last */
	uint8_t mad[ROCEMU_MAD_LEN]; /* the last that came in */
	struct cm_addr from;
	bool exit_mads;
	struct cm_conn *bystander[BYSTANDERS]; /* active, passive */
};

static const struct rocemu_gid own = {{[10] = 0xff, 0xff, 10, 0, 0, 1}};
static const struct rocemu_gid peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
static const struct rocemu_gid other = {{[10] = 0xff, 0xff, 10, 0, 0, 3}};

static uint8_t byte(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static void come_in(struct fuzz *f)
{
	FUZZ_CHECK(cm_input(f->cm, f->now, f->mad, sizeof(f->mad), &f->from) < CM_DROP_COUNT);
}

/* ---- the peer ---- */

/** The peer's values in REQ and REP: few different ones, so that they collide. */
static uint32_t peer_id(uint8_t v)
{
	return 0x80000001u + v % 6;
}

static void ids(const struct fuzz *f, uint8_t slot, uint8_t odd, uint32_t *local, uint32_t *remote)
{
	const struct cm_conn *c = f->conn[slot % SLOTS];

	*remote = c ? cm_conn_local_id(c) : 0x1234;
	*local = c && cm_conn_remote_id(c) ? cm_conn_remote_id(c) : peer_id(slot);
	if (odd & FUZZ_CM_BAD_LOCAL_ID)
		*local ^= 0x100;
	if (odd & FUZZ_CM_BAD_REMOTE_ID)
		*remote ^= 0x100;
	if (odd & FUZZ_CM_NO_REMOTE_ID)
		*remote = 0;
}

/** The transaction ID that a message to c repeats; of those that the peer begins: any. */
static uint64_t tid_of(const struct fuzz *f, uint16_t attr_id, uint8_t slot, uint8_t any)
{
	const struct cm_conn *c = f->conn[slot % SLOTS];
	const struct cm_sidr *s = f->sidr[slot % SLOTS];

	if (attr_id == ROCEMU_CM_SIDR_REP)
		return s ? s->tid : any;
	if (!c || attr_id == ROCEMU_CM_DREQ || attr_id == ROCEMU_CM_LAP)
		return any;
	if (attr_id == ROCEMU_CM_DREP)
		return conn_dreq_tid(c);
	if (attr_id == ROCEMU_CM_APR || (attr_id == ROCEMU_CM_MRA && c->lap == LAP_SENT))
		return c->lap_tid;
	return c->req_tid;
}

static uint32_t own_qpn(const struct fuzz *f, uint8_t slot)
{
	const struct cm_conn *c = f->conn[slot % SLOTS];

	if (!c)
		return 0;
	return cm_conn_active(c) ? cm_conn_req(c)->local_qpn : cm_conn_rep(c)->local_qpn;
}

static void make_req(struct rocemu_cm_req *q, uint8_t a, uint8_t b, uint8_t c)
{
	cm_req_init(q);
	q->local_comm_id = peer_id(a);
	q->local_ca_guid = 0xb0 + b % 3;
	q->local_qpn = 0x50 + c % 5;
	q->service_id = SERVICE + a % 4;
	q->transport = b & 0x80 ? b >> 5 & 3 : ROCEMU_CM_RC;
	q->extended_transport = b >> 4 & 1;
	q->max_cm_retries = c >> 4;
	q->local_cm_timeout = c & 0x1f;
	q->primary.ack_timeout = a & 0x1f;
	q->private_data[0] = a;
}

static void make_message(struct fuzz *f, struct rocemu_cm_msg *m, uint8_t slot, uint8_t odd)
{
	uint8_t a = byte(f), b = byte(f), c = byte(f);
	uint32_t local, remote;

	ids(f, slot, odd, &local, &remote);
	m->tid = tid_of(f, m->attr_id, slot, a & 3) ^ (odd & FUZZ_CM_BAD_TID ? 1 : 0);
	switch ((enum rocemu_cm_attr)m->attr_id) {
	case ROCEMU_CM_REQ:
		make_req(&m->req, a, b, c);
		m->tid = m->req.local_comm_id;
		break;
	case ROCEMU_CM_SIDR_REQ:
		m->sidr_req = (struct rocemu_cm_sidr_req){.request_id = peer_id(a),
							  .service_id = SERVICE + b % 4};
		break;
	case ROCEMU_CM_SIDR_REP:
		m->sidr_rep.request_id =
			f->sidr[slot % SLOTS] ? cm_sidr_id(f->sidr[slot % SLOTS]) : a;
		m->sidr_rep.status = b;
		break;
#define BOTH(name, member)                         \
	case ROCEMU_CM_##name:                     \
		m->member.local_comm_id = local;   \
		m->member.remote_comm_id = remote; \
		break;
		CM_MESSAGES_WITH_IDS(BOTH)
#undef BOTH
	}
	if (m->attr_id == ROCEMU_CM_MRA) {
		m->mra.answered = a & 3;
		m->mra.service_timeout = b & 31;
	} else if (m->attr_id == ROCEMU_CM_REJ) {
		m->rej.reason = a % 40;
		m->rej.answered = b & 3;
		m->rej.ari_len = c % (ROCEMU_CM_INFO_LEN + 1);
		put_be64(m->rej.ari, 0xb0 + b % 3);
	} else if (m->attr_id == ROCEMU_CM_REP) {
		m->rep.local_comm_id = peer_id(a);
		m->rep.local_ca_guid = 0xb0 + b % 3;
		m->rep.local_qpn = m->rep.local_eecn = 0x50 + c % 5;
	} else if (m->attr_id == ROCEMU_CM_DREQ || m->attr_id == ROCEMU_CM_LAP) {
		uint32_t qpn = own_qpn(f, slot) ^ (odd & FUZZ_CM_BAD_QPN ? 1u : 0u);

		if (m->attr_id == ROCEMU_CM_DREQ)
			m->dreq.remote_qpn = qpn;
		else
			m->lap.remote_qpn = qpn;
	}
}

static void mad(struct fuzz *f)
{
	static const uint16_t attrs[] = {
#define X(name, id, member, len) id,
		ROCEMU_CM_MESSAGES(X)
#undef X
	};
	struct rocemu_cm_msg m = {.attr_id = attrs[byte(f) % ARRAY_LEN(attrs)]};
	uint8_t slot = byte(f), odd = byte(f);

	make_message(f, &m, slot, odd);
	FUZZ_CHECK(rocemu_cm_encode(&m, f->mad) == ROCEMU_MAD_LEN);
	if (odd & FUZZ_CM_BAD_VERSION)
		f->mad[2] ^= 1;
	f->from = (struct cm_addr){
		.src = odd & FUZZ_CM_BAD_ADDRESS ? other : peer, .dst = own, .sport = OTHER_PORT};
	come_in(f);
}

static void again(struct fuzz *f)
{
	uint8_t at = byte(f), v = byte(f);

	if (at)
		f->mad[at] = v;
	come_in(f);
}

static void raw(struct fuzz *f)
{
	size_t len = byte(f);

	if (len > (size_t)(f->end - f->at))
		len = (size_t)(f->end - f->at);
	cm_input(f->cm, f->now, f->at, len, &f->from);
	f->at += len;
}

/** The manager's own message, from the peer; or, as in a loopback, from itself. */
static void echo(struct fuzz *f)
{
	memcpy(f->mad, f->sent.data, sizeof(f->mad));
	f->from = (struct cm_addr){
		.src = f->sent.addr.dst, .dst = f->sent.addr.src, .sport = OTHER_PORT};
	come_in(f);
}

/* ---- the consumer ---- */

static void set_listener(struct fuzz *f)
{
	struct cm_listener **l = &f->listener[byte(f) % LISTENERS];
	uint8_t what = byte(f);
	struct cm_listen_param p = {.service_id = SERVICE + what % 4, .backlog = 1 + what % 5};

	if (*l) {
		cm_unlisten(*l, f->now);
		*l = NULL;
		return;
	}
	p.any_addr = what & 8;
	p.addr = own;
	p.ip_version = what & 16 ? 4 : 0;
	p.compare_len = what & 32 ? 1 : 0;
	p.compare_mask[0] = 1;
	if (cm_listen(f->cm, &p, l) != 0)
		*l = NULL;
}

static void connect_to(struct fuzz *f)
{
	struct cm_connect_param p = {.addr = {.src = own, .dst = peer}};
	uint8_t service = byte(f), how = byte(f);

	cm_req_init(&p.req);
	p.req.service_id = SERVICE + service % 4;
	p.req.local_qpn = 0x20 + how % 4;
	p.req.max_cm_retries = how >> 4;
	p.peer_to_peer = how & 1;
	if (how & 2)
		p.addr.dst = own;
	for (unsigned i = 0; i < SLOTS; i++)
		if (!f->conn[i]) {
			FUZZ_CHECK(cm_connect(f->cm, f->now, &p, &f->conn[i]) == 0);
			return;
		}
}

static int make_call(struct fuzz *f, struct cm_conn *c, unsigned call, uint8_t a, size_t len)
{
	static const uint8_t data[256];
	const struct rocemu_cm_rep rep = {.local_qpn = 0x30u + a % 4, .local_eecn = 0x30u + a % 4};
	const struct rocemu_cm_path path = {.sl = a & 1};

	switch ((enum fuzz_cm_call)call) {
	case FUZZ_CM_ACCEPT:
		return cm_accept(c, f->now, &rep, data, len);
	case FUZZ_CM_RTU:
		return cm_rtu(c, f->now, data, len);
	case FUZZ_CM_REJECT:
		return cm_reject(c, f->now, a, data, a, data, len);
	case FUZZ_CM_MRA:
		return cm_mra(c, f->now, a & 0xbf, data, len);
	case FUZZ_CM_DISCONNECT:
		return cm_disconnect(c, f->now, data, len);
	case FUZZ_CM_DREP:
		return cm_drep(c, f->now, data, len);
	case FUZZ_CM_LAP:
		return cm_lap(c, f->now, &path, a % 40, data, len);
	case FUZZ_CM_APR:
		return cm_apr(c, f->now, a, data, a % 80, data, len);
	case FUZZ_CM_ESTABLISH:
		return cm_establish(c, f->now);
	default:
		return 0;
	}
}

static void call(struct fuzz *f)
{
	struct cm_conn **c = &f->conn[byte(f) % SLOTS];
	unsigned what = byte(f) % FUZZ_CM_CALLS;
	uint8_t a = byte(f);
	size_t len = byte(f);
	enum cm_state before;
	int r;

	if (!*c)
		return;
	if (what == FUZZ_CM_DESTROY) {
		cm_conn_destroy(*c, f->now);
		*c = NULL;
		return;
	}
	before = cm_conn_state(*c);
	r = make_call(f, *c, what, a, len);
	FUZZ_CHECK(r == 0 || r == 1 || r == -EINVAL || r == -EMSGSIZE);
	FUZZ_CHECK(r == 0 || cm_conn_state(*c) == before);
}

static void sidr(struct fuzz *f)
{
	struct cm_sidr **s = &f->sidr[byte(f) % SLOTS];
	uint8_t what = byte(f);
	struct cm_sidr_param p = {.service_id = SERVICE + what % 4,
				  .addr = {.src = own, .dst = peer}};

	if (!*s) {
		p.timeout = what & 31;
		p.retries = what >> 5;
		FUZZ_CHECK(cm_sidr_request(f->cm, f->now, &p, s) == 0);
	} else if (what & 1) {
		int r = cm_sidr_reply(*s, f->now, what >> 1, 7, 7, NULL, 0, NULL, 0);

		FUZZ_CHECK(r == 0 || r == -EINVAL);
	} else {
		cm_sidr_destroy(*s, f->now);
		*s = NULL;
	}
}

static void output(struct fuzz *f, unsigned n)
{
	struct rocemu_cm_msg m;
	struct cm_exit_mad exit_mad;

	while (n-- > 0 && cm_output(f->cm, f->now, &f->sent, 1))
		FUZZ_CHECK(rocemu_cm_decode(&m, f->sent.data, ROCEMU_MAD_LEN) == ROCEMU_MAD_OK);
	while (f->exit_mads && cm_next_exit_mad(f->cm, &exit_mad))
		if (exit_mad.present)
			FUZZ_CHECK(rocemu_cm_decode(&m, exit_mad.mad.data, ROCEMU_MAD_LEN) ==
				   ROCEMU_MAD_OK);
}

/** A new connection goes into a free slot; if there is none, it is refused. */
static void keep(struct fuzz *f, const struct cm_event *ev)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (f->conn[i] == ev->conn) /* peer to peer */
			return;
	for (unsigned i = 0; i < SLOTS; i++)
		if (!f->conn[i]) {
			f->conn[i] = ev->conn;
			return;
		}
	cm_conn_destroy(ev->conn, f->now);
}

static void keep_sidr(struct fuzz *f, const struct cm_event *ev)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (!f->sidr[i]) {
			f->sidr[i] = ev->sidr;
			return;
		}
	cm_sidr_destroy(ev->sidr, f->now);
}

static void events(struct fuzz *f, unsigned n)
{
	struct cm_event ev;

	while (n-- > 0 && cm_next_event(f->cm, &ev)) {
		FUZZ_CHECK(ev.type < CM_EV_COUNT);
		FUZZ_CHECK(!ev.conn != !ev.sidr);
		if (ev.type == CM_EV_REQ)
			keep(f, &ev);
		else if (ev.type == CM_EV_SIDR_REQ)
			keep_sidr(f, &ev);
	}
}

static void pass(struct fuzz *f, rocemu_ns_t ns)
{
	f->now += ns;
	cm_expire(f->cm, f->now);
	FUZZ_CHECK(cm_deadline(f->cm) > f->now);
}

/* ---- connections that have nothing to do with it ---- */

static void says(struct fuzz *f, struct rocemu_cm_msg *m)
{
	const struct cm_addr from = {.src = peer, .dst = own, .sport = PEERS_PORT};
	uint8_t bytes[ROCEMU_MAD_LEN];

	rocemu_cm_encode(m, bytes);
	FUZZ_CHECK(cm_input(f->cm, f->now, bytes, sizeof(bytes), &from) == CM_DROP_NONE);
}

static struct cm_conn *bystander_active(struct fuzz *f)
{
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REP};
	struct cm_connect_param p = {.addr = {.src = own, .dst = peer}};
	struct cm_event ev;
	struct cm_conn *c;

	cm_req_init(&p.req);
	p.req.service_id = SERVICE;
	p.req.local_qpn = 0x66;
	FUZZ_CHECK(cm_connect(f->cm, f->now, &p, &c) == 0);
	m.tid = c->req_tid;
	m.rep.remote_comm_id = c->local_id;
	m.rep.local_comm_id = 0x90000001;
	m.rep.local_ca_guid = 0xb0;
	m.rep.local_qpn = 0x54; /* REQs of the input name it, too */
	says(f, &m);
	FUZZ_CHECK(cm_next_event(f->cm, &ev) && cm_rtu(c, f->now, NULL, 0) == 0);
	return c;
}

static struct cm_conn *bystander_passive(struct fuzz *f)
{
	const struct cm_listen_param p = {.service_id = SERVICE, .any_addr = true};
	const struct rocemu_cm_rep rep = {.local_qpn = 0x67};
	struct rocemu_cm_msg m = {.attr_id = ROCEMU_CM_REQ, .tid = 0x123456789abc};
	struct cm_listener *l;
	struct cm_event ev;
	struct cm_conn *c;

	FUZZ_CHECK(cm_listen(f->cm, &p, &l) == 0);
	cm_req_init(&m.req);
	m.req.local_comm_id = 0x90000002;
	m.req.local_ca_guid = 0xb1;
	m.req.local_qpn = 0x54;
	m.req.service_id = SERVICE;
	says(f, &m);
	FUZZ_CHECK(cm_next_event(f->cm, &ev));
	c = ev.conn;
	FUZZ_CHECK(cm_accept(c, f->now, &rep, NULL, 0) == 0);
	m = (struct rocemu_cm_msg){.attr_id = ROCEMU_CM_RTU, .tid = m.tid};
	m.rtu.local_comm_id = 0x90000002;
	m.rtu.remote_comm_id = c->local_id;
	says(f, &m);
	FUZZ_CHECK(cm_next_event(f->cm, &ev));
	cm_unlisten(l, f->now);
	return c;
}

static void start_bystanders(struct fuzz *f)
{
	f->bystander[0] = bystander_active(f);
	f->bystander[1] = bystander_passive(f);
	while (cm_output(f->cm, f->now, &f->sent, 1))
		;
	/* No message sent from now on depends on them. */
	memset(&f->sent, 0, sizeof(f->sent));
}

/* ---- */

static void check(const struct fuzz *f)
{
	const struct cm_stats *st = cm_get_stats(f->cm);

	FUZZ_CHECK(st->half_open <= 2 * HALF_OPEN);
	for (unsigned i = 0; i < SLOTS; i++)
		if (f->conn[i])
			FUZZ_CHECK(cm_conn_state(f->conn[i]) < CM_STATE_COUNT);
	for (unsigned i = 0; i < BYSTANDERS; i++)
		FUZZ_CHECK(cm_conn_state(f->bystander[i]) == CM_ESTABLISHED);
}

static void command(struct fuzz *f)
{
	unsigned c = byte(f) % FUZZ_CM_COMMANDS;

	switch (c) {
	default:
		mad(f);
		break;
	case FUZZ_CM_AGAIN:
		again(f);
		break;
	case FUZZ_CM_RAW:
		raw(f);
		break;
	case FUZZ_CM_ECHO:
		echo(f);
		break;
	case FUZZ_CM_LISTEN:
		set_listener(f);
		break;
	case FUZZ_CM_CONNECT:
		connect_to(f);
		break;
	case FUZZ_CM_CALL:
		call(f);
		break;
	case FUZZ_CM_SIDR:
		sidr(f);
		break;
	case FUZZ_CM_OUTPUT:
		output(f, 1u + byte(f));
		break;
	case FUZZ_CM_EVENTS:
		events(f, 1u + byte(f));
		break;
	case FUZZ_CM_TIME:
		pass(f, (rocemu_ns_t)1 << byte(f) % 40);
		break;
	}
}

/** Everything destroyed: nothing but time is needed. */
static void end(struct fuzz *f)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (f->conn[i])
			cm_conn_destroy(f->conn[i], f->now);
		if (f->sidr[i])
			cm_sidr_destroy(f->sidr[i], f->now);
		f->conn[i] = NULL;
		f->sidr[i] = NULL;
	}
	for (unsigned i = 0; i < BYSTANDERS; i++)
		cm_conn_destroy(f->bystander[i], f->now);
	for (unsigned i = 0; i < LISTENERS; i++)
		if (f->listener[i])
			cm_unlisten(f->listener[i], f->now);
	output(f, UINT32_MAX);
	FUZZ_CHECK(cm_get_stats(f->cm)->conns <= LINGERING);
	for (unsigned i = 0; cm_deadline(f->cm) != ROCEMU_NEVER; i++) {
		FUZZ_CHECK(i < 1000);
		pass(f, cm_deadline(f->cm) - f->now);
		output(f, UINT32_MAX);
	}
	FUZZ_CHECK(cm_get_stats(f->cm)->conns == 0);
	FUZZ_CHECK(cm_get_stats(f->cm)->half_open == 0);
	cm_free(f->cm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.at = data, .end = data + size, .now = 1};
	uint8_t options = byte(&f);
	struct cm_config config = {
		.ca_guid = 0xb1,
		.id_prefix = 1,
		.max_half_open = HALF_OPEN,
		.max_lingering = LINGERING,
		.exit_mads = options & 1,
		.lap_events = options & 2,
	};

	/* Another key for each input: the input cannot hold IDs that were given out in an earlier
	 * run. */
	for (size_t i = 0; i < size; i++)
		config.seed = (config.seed ^ data[i]) * 0x100000001b3u;

	f.exit_mads = config.exit_mads;
	f.from = (struct cm_addr){.src = peer, .dst = own, .sport = OTHER_PORT};
	f.cm = cm_new(&config);
	FUZZ_CHECK(f.cm);
	start_bystanders(&f);
	while (f.at < f.end) {
		command(&f);
		check(&f);
	}
	events(&f, UINT32_MAX);
	end(&f);
	return 0;
}
