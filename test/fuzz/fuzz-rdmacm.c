/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes rdmacm with a peer's messages: requests with any private data for listeners of each family
 * and port space, answers and rejections to local requests, in any order, beside a program that
 * makes any calls. What must hold: private data is within its bounds; a request's addresses are
 * those of the packet, in the listener's family, with the right port; no call waits forever; and in
 * the end nothing is left.
 */
#include "fuzz-rdmacm.h"

#include <fcntl.h>
#include <string.h>

#include "driver.h"
#include "rdmacm/addr.h"

enum { SLOTS = 6, LISTENERS = 5, PORT = 7000 };

struct fuzz {
	const uint8_t *at, *end;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener[LISTENERS];
	struct rdma_cm_id *id[SLOTS];
	struct cm_addr from; /* of the last MAD */
};

/* Listeners, and where: any of both families, one family, one address. */
static const struct {
	enum rdma_port_space ps;
	sa_family_t family;
	const struct rocemu_gid *gid; /* NULL: wildcard */
} listeners[LISTENERS] = {
	{RDMA_PS_TCP, AF_INET, &fuzz_own4}, {RDMA_PS_TCP, AF_INET6, NULL},
	{RDMA_PS_IB, AF_IB, NULL},	    {RDMA_PS_UDP, AF_INET, NULL},
	{RDMA_PS_UDP, AF_IB, &fuzz_own6},
};

static uint8_t byte(struct fuzz *f)
{
	return f->at < f->end ? *f->at++ : 0;
}

static uint64_t service(unsigned which)
{
	const enum rdma_port_space ps = listeners[which % LISTENERS].ps;

	return rocemu_cm_service_id((enum rocemu_port_space)ps, (uint16_t)(PORT + which));
}

/* ---- the peer ---- */

static void ids(const struct fuzz *f, uint8_t slot, uint8_t how, uint32_t *local, uint32_t *remote)
{
	const struct rdma_cm_id *base = f->id[slot % SLOTS];
	const struct cm_conn *c =
		base ? rcm_id_of((struct rdma_cm_id *)(uintptr_t)base)->conn : NULL;

	*remote = c ? cm_conn_local_id(c) : 0x1234;
	*local = c && cm_conn_remote_id(c) ? cm_conn_remote_id(c) : 0x80000001u + slot % 6;
	if (how & FUZZ_RCM_BAD_IDS)
		*remote ^= 0x100;
}

/* The sender's own addresses; then some bytes of them are changed. */
static void make_private(struct fuzz *f, uint8_t how, uint8_t *data, size_t len)
{
	bool ipv6 = !(how & FUZZ_RCM_IPV6) == !!(how & FUZZ_RCM_OTHER_FAMILY);
	struct rocemu_cma cma = {
		.ip_version = ipv6 ? 6 : 4,
		.sport = 77,
		.src = ipv6 ? fuzz_peer6 : fuzz_peer4,
		.dst = ipv6 ? fuzz_own6 : fuzz_own4,
	};

	if (how & FUZZ_RCM_LIES_SRC)
		cma.src.raw[15] ^= 8;
	if (how & FUZZ_RCM_LIES_DST)
		cma.dst.raw[15] ^= 8;
	if ((how & FUZZ_RCM_HEADER) && len >= ROCEMU_CMA_LEN)
		rocemu_cma_encode(&cma, data);
	for (unsigned n = byte(f) % 16; n > 0; n--) {
		size_t at = byte(f) % len;

		data[at] = byte(f);
	}
}

static void make_request(struct fuzz *f, struct rocemu_cm_msg *m, uint8_t slot, uint8_t which,
			 uint8_t a, uint8_t how)
{
	struct rocemu_cm_req *q = &m->req;

	if (m->attr_id == ROCEMU_CM_SIDR_REQ) {
		m->sidr_req.request_id = 0x80000001u + slot % 6;
		m->sidr_req.service_id = service(which);
		make_private(f, how, m->sidr_req.private_data, sizeof(m->sidr_req.private_data));
		return;
	}
	cm_req_init(q);
	q->local_comm_id = 0x80000001u + slot % 6;
	q->local_ca_guid = 0xb0;
	q->local_qpn = 0x50 + slot % 6;
	q->service_id = service(which);
	q->transport = a & 3;
	q->responder_resources = q->initiator_depth = a;
	q->retry_count = a & 7;
	make_private(f, how, q->private_data, sizeof(q->private_data));
}

static void make_answer(struct fuzz *f, struct rocemu_cm_msg *m, uint8_t slot, uint8_t a,
			uint8_t how)
{
	const struct rdma_cm_id *base = f->id[slot % SLOTS];
	const struct rcm_id *id = base ? rcm_id_of((struct rdma_cm_id *)(uintptr_t)base) : NULL;
	uint32_t local, remote;

	ids(f, slot, how, &local, &remote);
	switch ((enum rocemu_cm_attr)m->attr_id) {
#define BOTH(name, member)                                                                    \
	case ROCEMU_CM_##name:                                                                \
		m->member.local_comm_id = local;                                              \
		m->member.remote_comm_id = remote;                                            \
		make_private(f, how, m->member.private_data, sizeof(m->member.private_data)); \
		break;
		BOTH(MRA, mra)
		BOTH(REJ, rej)
		BOTH(REP, rep)
		BOTH(RTU, rtu)
		BOTH(DREQ, dreq)
		BOTH(DREP, drep)
		BOTH(LAP, lap)
		BOTH(APR, apr)
#undef BOTH
	case ROCEMU_CM_SIDR_REP:
		m->sidr_rep.request_id = id && id->sidr ? cm_sidr_id(id->sidr) : a;
		m->sidr_rep.status = a & 7;
		make_private(f, how, m->sidr_rep.private_data, sizeof(m->sidr_rep.private_data));
		break;
	default:
		break;
	}
	if (m->attr_id == ROCEMU_CM_REJ) {
		m->rej.reason = a & 64 ? ROCEMU_CM_REJ_SERVICE_ID : a % 40;
	} else if (m->attr_id == ROCEMU_CM_REP) {
		m->rep.local_ca_guid = 0xb0;
		m->rep.local_qpn = 0x50 + slot % 6;
		m->rep.responder_resources = m->rep.initiator_depth = a;
	} else if (m->attr_id == ROCEMU_CM_DREQ && id && id->conn) {
		m->dreq.remote_qpn = cm_conn_active(id->conn) ? cm_conn_req(id->conn)->local_qpn
							      : cm_conn_rep(id->conn)->local_qpn;
	}
}

static void come_in(struct fuzz *f)
{
	static const uint16_t attrs[] = {
#define X(name, id, member, len) id,
		ROCEMU_CM_MESSAGES(X)
#undef X
	};
	struct rocemu_cm_msg m = {.attr_id = attrs[byte(f) % ARRAY_LEN(attrs)]};
	uint8_t slot = byte(f), which = byte(f), a = byte(f), how = byte(f);
	uint8_t mad[ROCEMU_MAD_LEN];

	if (m.attr_id == ROCEMU_CM_REQ || m.attr_id == ROCEMU_CM_SIDR_REQ)
		make_request(f, &m, slot, which % (LISTENERS + 1), a, how);
	else
		make_answer(f, &m, slot, a, how);
	m.tid = slot;
	FUZZ_CHECK(rocemu_cm_encode(&m, mad) == ROCEMU_MAD_LEN);
	f->from = (struct cm_addr){.src = how & FUZZ_RCM_IPV6 ? fuzz_peer6 : fuzz_peer4,
				   .dst = how & FUZZ_RCM_IPV6 ? fuzz_own6 : fuzz_own4};
	fuzz_core_input(mad, &f->from);
}

/* ---- the program ---- */

static void check_address(const struct sockaddr *sa, const struct rdma_cm_id *listener,
			  const struct rocemu_gid *v4, const struct rocemu_gid *v6)
{
	const struct sockaddr *own = &listener->route.addr.src_addr;
	struct rocemu_gid gid;

	rcm_addr_to_gid(sa, &gid);
	FUZZ_CHECK(memcmp(&gid, v4, sizeof(gid)) == 0 || memcmp(&gid, v6, sizeof(gid)) == 0);
	/* An IPv6 wildcard may get IPv4 ones. */
	FUZZ_CHECK(sa->sa_family == own->sa_family ||
		   (own->sa_family == AF_INET6 && sa->sa_family == AF_INET));
	FUZZ_CHECK(sa->sa_family == AF_IB ||
		   (sa->sa_family == AF_INET) == rocemu_gid_is_ipv4(&gid));
}

static void check_request(const struct rdma_cm_event *ev)
{
	struct rdma_cm_id *id = ev->id, *listener = ev->listen_id;

	FUZZ_CHECK(listener && id != listener);
	check_address(rdma_get_local_addr(id), listener, &fuzz_own4, &fuzz_own6);
	check_address(rdma_get_peer_addr(id), listener, &fuzz_peer4, &fuzz_peer6);
	FUZZ_CHECK(rdma_get_src_port(id) == rdma_get_src_port(listener));
	FUZZ_CHECK(id->verbs && id->pd && id->qp_type == listener->qp_type);
}

static void check_data(const struct rdma_cm_event *ev)
{
	bool ud = ev->id->qp_type == IBV_QPT_UD;
	const uint8_t *data = ud ? ev->param.ud.private_data : ev->param.conn.private_data;
	size_t len = ud ? ev->param.ud.private_data_len : ev->param.conn.private_data_len;
	volatile uint8_t sum = 0;

	FUZZ_CHECK(len == 0 || data);
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		FUZZ_CHECK(len ==
			   (ud ? ROCEMU_CM_SIDR_REQ_PRIVATE_LEN : ROCEMU_CM_REQ_PRIVATE_LEN) -
				   ROCEMU_CMA_LEN);
	for (size_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + data[i]);
}

static void keep(struct fuzz *f, struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (!f->id[i]) {
			f->id[i] = id;
			return;
		}
	FUZZ_CHECK(rdma_destroy_id(id) == 0);
}

static void take_events(struct fuzz *f, unsigned n)
{
	struct rdma_cm_event *ev;

	while (n-- > 0 && rdma_get_cm_event(f->channel, &ev) == 0) {
		bool is_request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		struct rdma_cm_id *id = ev->id;

		FUZZ_CHECK(ev->event <= RDMA_CM_EVENT_TIMEWAIT_EXIT);
		if (is_request)
			check_request(ev);
		check_data(ev);
		FUZZ_CHECK(rdma_ack_cm_event(ev) == 0);
		if (is_request)
			keep(f, id);
	}
}

static void call(struct fuzz *f)
{
	static const uint8_t data[UINT8_MAX];
	struct rdma_cm_id **id = &f->id[byte(f) % SLOTS];
	unsigned what = byte(f) % FUZZ_RCM_CALLS;
	uint8_t a = byte(f), len = byte(f);
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = len,
					.responder_resources = a,
					.initiator_depth = a,
					.qp_num = 0x30};
	int ret = 0;

	if (!*id)
		return;
	switch ((enum fuzz_rcm_call)what) {
	case FUZZ_RCM_ACCEPT:
		(*id)->qp = a & 1 ? fuzz_core_qp() : NULL;
		ret = rdma_accept(*id, a & 2 || !(a & 1) ? &param : NULL);
		break;
	case FUZZ_RCM_REJECT:
		ret = a & 1 ? rdma_reject_ece(*id, data, len) : rdma_reject(*id, data, len);
		break;
	case FUZZ_RCM_DISCONNECT:
		ret = rdma_disconnect(*id);
		break;
	case FUZZ_RCM_ESTABLISH:
		ret = rdma_establish(*id);
		break;
	case FUZZ_RCM_NOTIFY:
		ret = rdma_notify(*id, IBV_EVENT_COMM_EST);
		break;
	default:
		FUZZ_CHECK(rdma_destroy_id(*id) == 0);
		*id = NULL;
		return;
	}
	FUZZ_CHECK(ret == 0 || (ret == -1 && errno > 0));
}

/* An ID as rdma_resolve_route() leaves it, of a listener's kind. */
static void connect_to(struct fuzz *f)
{
	uint8_t what = byte(f), len = byte(f);
	unsigned which = what % LISTENERS;
	bool ipv6 = what & 64;
	struct rdma_conn_param param = {
		.private_data = &what, .private_data_len = len & 1, .qp_num = 0x20};
	struct rdma_cm_id *base;
	struct rcm_local local;
	struct rcm_id *id;

	FUZZ_CHECK(rdma_create_id(f->channel, &base, NULL, listeners[which].ps) == 0);
	id = rcm_id_of(base);
	fuzz_core_local(ipv6 ? &fuzz_own6 : &fuzz_own4, &local);
	rcm_lock_take();
	rcm_id_set_local(id, &local);
	rcm_lock_drop();
	rcm_addr_make(&base->route.addr.src_addr, listeners[which].family, &local.gid,
		      service(which) + 1000, 0);
	rcm_addr_make(&base->route.addr.dst_addr, listeners[which].family,
		      ipv6 ? &fuzz_peer6 : &fuzz_peer4, service(which), 0);
	id->state = RCM_ROUTE_RESOLVED;
	id->generation = 1;
	if (what & 128)
		base->qp = fuzz_core_qp();
	FUZZ_CHECK(rdma_connect(base, &param) == 0);
	keep(f, base);
}

static struct rdma_cm_id *start_listening(struct fuzz *f, unsigned which)
{
	static const struct rocemu_gid any4 = {{[10] = 0xff, 0xff}}, any6;
	const struct rocemu_gid *gid = listeners[which].gid;
	struct rdma_cm_id *base;
	struct rcm_local local;
	struct rcm_id *id;

	FUZZ_CHECK(rdma_create_id(f->channel, &base, NULL, listeners[which].ps) == 0);
	id = rcm_id_of(base);
	if (gid) {
		fuzz_core_local(gid, &local);
		rcm_lock_take();
		rcm_id_set_local(id, &local);
		rcm_lock_drop();
	} else {
		gid = listeners[which].family == AF_INET ? &any4 : &any6;
	}
	rcm_addr_make(&base->route.addr.src_addr, listeners[which].family, gid, service(which), 0);
	id->state = RCM_BOUND;
	id->generation = 1;
	FUZZ_CHECK(rdma_listen(base, 3) == 0);
	return base;
}

static void command(struct fuzz *f)
{
	switch (byte(f) % FUZZ_RCM_COMMANDS) {
	default:
		come_in(f);
		break;
	case FUZZ_RCM_EVENTS:
		take_events(f, byte(f));
		break;
	case FUZZ_RCM_CALL:
		call(f);
		break;
	case FUZZ_RCM_CONNECT:
		connect_to(f);
		break;
	case FUZZ_RCM_TIME:
		fuzz_core_pass((rocemu_ns_t)1 << byte(f) % 40);
		break;
	case FUZZ_RCM_QP:
		fuzz_core_fail_qps(byte(f) & 1);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {.at = data, .end = data + size};

	fuzz_core_start();
	f.channel = rdma_create_event_channel();
	FUZZ_CHECK(f.channel && fcntl(f.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	for (unsigned i = 0; i < LISTENERS; i++)
		f.listener[i] = start_listening(&f, i);
	while (f.at < f.end)
		command(&f);
	/* What the program has not taken goes with its ID. */
	if (size % 2)
		take_events(&f, UINT8_MAX);
	for (unsigned i = 0; i < SLOTS; i++)
		if (f.id[i])
			FUZZ_CHECK(rdma_destroy_id(f.id[i]) == 0);
	for (unsigned i = 0; i < LISTENERS; i++)
		FUZZ_CHECK(rdma_destroy_id(f.listener[i]) == 0);
	rdma_destroy_event_channel(f.channel);
	fuzz_core_end();
	return 0;
}
