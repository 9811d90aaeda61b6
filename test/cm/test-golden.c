/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replays exchanges of the kernel's connection managers (captures cm_*), with rocemu's in the place
 * of each side in turn: it gets the messages that this side received, and the calls of its
 * programs. Its messages must equal the kernel's, byte for byte, except the communication ID that
 * each side chooses and the transaction ID derived from it.
 */
#include "test.h"

#include <fnmatch.h>
#include <string.h>

#include "../wire/golden.h"
#include "base/util.h"
#include "cm/cm.h"
#include "messages.h"

enum { MADS_MAX = 16 };

struct recorded {
	struct cm_addr addr;
	struct rocemu_cm_msg m;
};

struct exchange {
	const char *file;
	struct recorded mad[MADS_MAX];
	unsigned count;
};

static void collect(const char *file, const struct capture_rec *rec, void *user)
{
	struct exchange *x = user;
	struct recorded *r = &x->mad[x->count];
	struct rocemu_packet p;

	if (strcmp(file, x->file) != 0)
		return;
	assert_int_equal(rocemu_packet_decode(&p, rec->data, rec->len), ROCEMU_DROP_NONE);
	if (p.h.opcode != ROCEMU_UD_SEND_ONLY || p.h.dqpn != ROCEMU_GSI_QPN)
		return;
	assert_true(x->count++ < MADS_MAX);
	r->addr = (struct cm_addr){.src = rec->ip.src, .dst = rec->ip.dst};
	assert_int_equal(rocemu_cm_decode(&r->m, p.payload, p.payload_len), ROCEMU_MAD_OK);
}

/** rocemu's manager in the place of one side. */
struct role {
	struct cm *cm;
	struct rocemu_gid self;
	uint32_t kernel_id, own_id; /* what that side called the connection, what we do */
	/*
	 * The same for the transaction begun last: the kernel's come from its ID, rocemu's are
	 * random.
	 */
	uint64_t kernel_tid, own_tid;
	struct cm_listener *listener;
	struct cm_conn *conn;
	struct cm_sidr *sidr;
	unsigned sent, extra;
};

static void swap_u32(uint32_t *id, uint32_t from, uint32_t to)
{
	if (*id == from)
		*id = to;
}

/** Replace the kernel's IDs in m by that side's. */
static void rename_id(struct rocemu_cm_msg *m, const struct role *r)
{
	const uint32_t from = r->kernel_id, to = r->own_id;

	if (m->tid == r->kernel_tid)
		m->tid = r->own_tid;
	switch ((enum rocemu_cm_attr)m->attr_id) {
	case ROCEMU_CM_REQ:
		swap_u32(&m->req.local_comm_id, from, to);
		break;
	case ROCEMU_CM_SIDR_REQ:
		swap_u32(&m->sidr_req.request_id, from, to);
		break;
	case ROCEMU_CM_SIDR_REP:
		swap_u32(&m->sidr_rep.request_id, from, to);
		break;
#define BOTH(name, member)                                     \
	case ROCEMU_CM_##name:                                 \
		swap_u32(&m->member.local_comm_id, from, to);  \
		swap_u32(&m->member.remote_comm_id, from, to); \
		break;
		CM_MESSAGES_WITH_IDS(BOTH)
#undef BOTH
	}
}

static void role_start(struct role *r, const struct exchange *x, const struct rocemu_gid *self)
{
	struct cm_config cfg = {.seed = 7, .id_prefix = 3};
	struct cm_listen_param listen = {.any_addr = true};
	bool serves = false, sidr = false;

	memset(r, 0, sizeof(*r));
	r->self = *self;
	for (unsigned i = 0; i < x->count; i++) {
		const struct rocemu_cm_msg *m = &x->mad[i].m;
		bool own = memcmp(&x->mad[i].addr.src, self, sizeof(*self)) == 0;

		if (own && m->attr_id == ROCEMU_CM_REQ) {
			cfg.ca_guid = m->req.local_ca_guid;
			r->kernel_id = m->req.local_comm_id;
		} else if (own && m->attr_id == ROCEMU_CM_REP) {
			cfg.ca_guid = m->rep.local_ca_guid;
			r->kernel_id = m->rep.local_comm_id;
			serves = true;
		} else if (own && m->attr_id == ROCEMU_CM_SIDR_REQ) {
			r->kernel_id = m->sidr_req.request_id;
		} else if (own && m->attr_id == ROCEMU_CM_SIDR_REP) {
			serves = sidr = true;
		}
	}
	r->cm = cm_new(&cfg);
	assert_non_null(r->cm);
	if (!serves)
		return;
	listen.service_id = sidr ? x->mad[0].m.sidr_req.service_id : x->mad[0].m.req.service_id;
	assert_int_equal(cm_listen(r->cm, &listen, &r->listener), 0);
}

/** The call that made the kernel send m. */
static void call(struct role *r, const struct recorded *out)
{
	const struct rocemu_cm_msg *m = &out->m;
	struct cm_connect_param c = {.req = m->req, .addr = out->addr};
	struct cm_sidr_param s = {.addr = out->addr, .timeout = CM_DEFAULT_TIMEOUT, .retries = 15};

	switch (m->attr_id) {
	case ROCEMU_CM_REQ:
		c.private_data = m->req.private_data;
		c.private_data_len = sizeof(m->req.private_data);
		assert_int_equal(cm_connect(r->cm, 0, &c, &r->conn), 0);
		r->own_id = cm_conn_local_id(r->conn);
		break;
	case ROCEMU_CM_REP:
		assert_int_equal(cm_accept(r->conn, 0, &m->rep, m->rep.private_data,
					   sizeof(m->rep.private_data)),
				 0);
		r->own_id = cm_conn_local_id(r->conn);
		break;
	case ROCEMU_CM_RTU:
		assert_int_equal(cm_rtu(r->conn, 0, NULL, 0), 0);
		break;
	case ROCEMU_CM_DREQ:
		assert_int_equal(cm_disconnect(r->conn, 0, NULL, 0), 0);
		break;
	case ROCEMU_CM_DREP:
		/* Sent without a call when both have disconnected. */
		if (cm_conn_state(r->conn) == CM_DREQ_RCVD)
			assert_int_equal(cm_drep(r->conn, 0, NULL, 0), 0);
		break;
	case ROCEMU_CM_REJ: /* no listener: without a call */
		break;
	case ROCEMU_CM_SIDR_REQ:
		s.service_id = m->sidr_req.service_id;
		s.pkey = m->sidr_req.pkey;
		s.private_data = m->sidr_req.private_data;
		s.private_data_len = sizeof(m->sidr_req.private_data);
		assert_int_equal(cm_sidr_request(r->cm, 0, &s, &r->sidr), 0);
		r->own_id = cm_sidr_id(r->sidr);
		break;
	case ROCEMU_CM_SIDR_REP:
		assert_int_equal(cm_sidr_reply(r->sidr, 0, m->sidr_rep.status, m->sidr_rep.qpn,
					       m->sidr_rep.qkey, NULL, 0, m->sidr_rep.private_data,
					       sizeof(m->sidr_rep.private_data)),
				 0);
		break;
	default:
		fail_msg("no call makes a %s", rocemu_cm_name(m->attr_id));
	}
}

static bool begins(const struct rocemu_cm_msg *m)
{
	return m->attr_id == ROCEMU_CM_REQ || m->attr_id == ROCEMU_CM_DREQ ||
	       m->attr_id == ROCEMU_CM_SIDR_REQ;
}

static void compare(struct role *r, const struct exchange *x, const struct recorded *out)
{
	struct rocemu_cm_msg want = out->m, sent;
	uint8_t bytes[ROCEMU_MAD_LEN];
	struct cm_mad mad;

	if (cm_output(r->cm, 0, &mad, 1) != 1)
		fail_msg("%s: no %s", x->file, rocemu_cm_name(want.attr_id));
	if (begins(&want)) {
		assert_int_equal(rocemu_cm_decode(&sent, mad.data, sizeof(mad.data)),
				 ROCEMU_MAD_OK);
		r->kernel_tid = want.tid;
		r->own_tid = sent.tid;
	}
	rename_id(&want, r);
	rocemu_cm_encode(&want, bytes);
	if (memcmp(mad.data, bytes, sizeof(bytes)) != 0)
		for (unsigned i = 0; i < sizeof(bytes); i++)
			if (mad.data[i] != bytes[i])
				fail_msg("%s: %s differs at byte %u: 0x%02x, kernel 0x%02x",
					 x->file, rocemu_cm_name(want.attr_id), i, mad.data[i],
					 bytes[i]);
	assert_memory_equal(&mad.addr.src, &out->addr.src, sizeof(mad.addr.src));
	assert_memory_equal(&mad.addr.dst, &out->addr.dst, sizeof(mad.addr.dst));
	r->sent++;
}

static void receive(struct role *r, const struct recorded *in)
{
	struct rocemu_cm_msg m = in->m;
	uint8_t bytes[ROCEMU_MAD_LEN];
	struct cm_event ev;

	rename_id(&m, r);
	rocemu_cm_encode(&m, bytes);
	cm_input(r->cm, 0, bytes, sizeof(bytes), &in->addr);
	while (cm_next_event(r->cm, &ev)) {
		if (ev.type == CM_EV_REQ)
			r->conn = ev.conn;
		if (ev.type == CM_EV_SIDR_REQ)
			r->sidr = ev.sidr;
	}
}

static bool sends(const struct exchange *x, unsigned i, const struct rocemu_gid *self)
{
	return memcmp(&x->mad[i].addr.src, self, sizeof(*self)) == 0;
}

/** DREQs that crossed: the kernel had called before it saw the one that the capture has first. */
static bool crosses(const struct exchange *x, unsigned i, const struct rocemu_gid *self)
{
	return i + 1 < x->count && !sends(x, i, self) && sends(x, i + 1, self) &&
	       x->mad[i].m.attr_id == ROCEMU_CM_DREQ && x->mad[i + 1].m.attr_id == ROCEMU_CM_DREQ;
}

static void play(const struct exchange *x, const struct rocemu_gid *self, struct role *r)
{
	struct cm_mad mad;

	role_start(r, x, self);
	for (unsigned i = 0; i < x->count; i++) {
		bool late = crosses(x, i, self);

		if (late)
			i++;
		if (sends(x, i, self)) {
			call(r, &x->mad[i]);
			compare(r, x, &x->mad[i]);
		} else {
			receive(r, &x->mad[i]);
		}
		if (late)
			receive(r, &x->mad[i - 1]);
	}
	while (cm_output(r->cm, 0, &mad, 1))
		r->extra++;
	cm_free(r->cm);
}

static void replay(const char *file, unsigned by_client, unsigned by_server, unsigned extra)
{
	static struct exchange x;
	struct role r;

	memset(&x, 0, sizeof(x));
	x.file = file;
	golden_for_each(collect, &x);
	assert_int_equal(x.count, by_client + by_server);
	play(&x, &x.mad[0].addr.src, &r);
	assert_int_equal(r.sent, by_client);
	assert_int_equal(r.extra, extra);
	play(&x, &x.mad[0].addr.dst, &r);
	assert_int_equal(r.sent, by_server);
	assert_int_equal(r.extra, 0);
}

TEST(golden, rping__both_sides_send_what_the_kernel_sent)
{
	replay("cm_rping.pcap", 3, 2, 0);
}

TEST(golden, rping_ipv6__both_sides_send_what_the_kernel_sent)
{
	replay("cm_rping_ipv6.pcap", 3, 2, 0);
}

TEST(golden, ucmatose__both_sides_send_what_the_kernel_sent)
{
	replay("cm_ucmatose.pcap", 3, 2, 0);
}

TEST(golden, udaddy__both_sides_send_what_the_kernel_sent)
{
	replay("cm_udaddy.pcap", 1, 1, 0);
}

TEST(golden, nobody_listens__both_sides_send_what_the_kernel_sent)
{
	replay("cm_reject_no_listener.pcap", 1, 1, 0);
}

/**
 * Both sides send a DREQ. The kernel's client leaves the server's unanswered; rocemu's sends a
 * DREP.
 */
TEST(golden, rdma_client__both_sides_send_what_the_kernel_sent_and_a_drep)
{
	replay("cm_rdma_client.pcap", 3, 3, 1);
}
