/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection comes about, or does not: the messages on a network that loses nothing, and what the
 * consumers see. */
#include "net.h"

#include <string.h>

#include "base/util.h"
#include "test.h"

TEST(connect, accepted__established_on_both_sides)
{
	struct net n;

	net_start(&n, 1);
	net_connect(&n, A);
	net_run(&n);
	assert_string_equal(n.wire, "A:REQ B:REP A:RTU");
	assert_string_equal(n.side[A].log, "REP");
	assert_string_equal(n.side[B].log, "REQ; RTU");
	assert_int_equal(cm_conn_state(n.side[A].conn), CM_ESTABLISHED);
	assert_int_equal(cm_conn_state(n.side[B].conn), CM_ESTABLISHED);
	assert_int_equal(cm_conn_remote_id(n.side[A].conn), cm_conn_local_id(n.side[B].conn));
	assert_int_equal(cm_conn_remote_id(n.side[B].conn), cm_conn_local_id(n.side[A].conn));
	assert_int_equal(cm_conn_local_id(n.side[A].conn) >> CM_ID_PREFIX_SHIFT, 5);
	assert_int_equal(cm_conn_local_id(n.side[B].conn) >> CM_ID_PREFIX_SHIFT, 6);
	assert_int_equal(cm_conn_req(n.side[B].conn)->local_qpn, NET_QPN_A);
	assert_int_equal(cm_conn_rep(n.side[A].conn)->local_qpn, NET_QPN_B);
	net_finish(&n);
}

/* The timeouts and retries are those of the kernel's RDMA CM. */
TEST(req_init, any__its_defaults)
{
	struct rocemu_cm_req req;

	memset(&req, 0xff, sizeof(req));
	cm_req_init(&req);
	assert_int_equal(req.pkey, 0xffff);
	assert_int_equal(req.path_mtu, 3); /* 1024 */
	assert_int_equal(req.remote_cm_timeout, 20);
	assert_int_equal(req.local_cm_timeout, 20);
	assert_int_equal(req.max_cm_retries, 15);
	assert_int_equal(req.primary.local_lid, 0xffff);
	assert_int_equal(req.primary.remote_lid, 0xffff);
	assert_int_equal(req.primary.hop_limit, 64);
	assert_int_equal(req.primary.ack_timeout, 19);
	assert_int_equal(req.local_qpn, 0);
}

/* What a monitor reads. */
TEST(connect, and_disconnect__each_message_counted_where_it_was_sent)
{
	static const uint16_t by_a[] = {ROCEMU_CM_REQ, ROCEMU_CM_RTU, ROCEMU_CM_DREQ},
			      by_b[] = {ROCEMU_CM_REP, ROCEMU_CM_DREP};
	uint64_t sent[2] = {0};
	struct net n;

	net_start(&n, 1);
	net_connect(&n, A);
	net_run(&n);
	assert_int_equal(cm_disconnect(n.side[A].conn, n.now, NULL, 0), 0);
	net_run(&n);
	for (unsigned i = 0; i < ARRAY_LEN(by_a); i++)
		assert_int_equal(cm_get_stats(n.side[A].cm)->sent[by_a[i] - ROCEMU_CM_REQ], 1);
	for (unsigned i = 0; i < ARRAY_LEN(by_b); i++)
		assert_int_equal(cm_get_stats(n.side[B].cm)->sent[by_b[i] - ROCEMU_CM_REQ], 1);
	for (unsigned i = 0; i < ARRAY_LEN(cm_get_stats(n.side[A].cm)->sent); i++) {
		sent[A] += cm_get_stats(n.side[A].cm)->sent[i];
		sent[B] += cm_get_stats(n.side[B].cm)->sent[i];
	}
	assert_int_equal(sent[A], ARRAY_LEN(by_a));
	assert_int_equal(sent[B], ARRAY_LEN(by_b));
	net_finish(&n);
}

TEST(disconnect, from_the_active_side__timewait_then_idle)
{
	struct net n;

	net_start(&n, 1);
	net_connect(&n, A);
	net_run(&n);
	n.wire[0] = 0;
	assert_int_equal(cm_disconnect(n.side[A].conn, n.now, NULL, 0), 0);
	net_run(&n);
	assert_string_equal(n.wire, "A:DREQ B:DREP");
	assert_string_equal(n.side[A].log, "REP; DREP; TIMEWAIT_EXIT");
	assert_string_equal(n.side[B].log, "REQ; RTU; DREQ; TIMEWAIT_EXIT");
	net_finish(&n);
}

TEST(user, of_connection_and_resolution__in_their_events)
{
	struct net n;
	int mark;

	net_start(&n, 1);
	net_connect(&n, A);
	cm_conn_set_user(n.side[A].conn, &mark);
	assert_ptr_equal(cm_conn_user(n.side[A].conn), &mark);
	net_run(&n);
	assert_ptr_equal(n.side[A].last.user, &mark);
	net_sidr(&n, A);
	cm_sidr_set_user(n.side[A].sidr, &n);
	assert_ptr_equal(cm_sidr_user(n.side[A].sidr), &n);
	net_run(&n);
	assert_ptr_equal(n.side[A].last.user, &n);
	assert_memory_equal(&cm_sidr_addr(n.side[B].sidr)->dst, &n.side[A].gid, 16);
	net_finish(&n);
}

TEST(unlisten, resolution_under_way__lives_on)
{
	struct net n;

	net_start(&n, 1);
	n.side[B].policy = NET_SILENT;
	net_sidr(&n, A);
	net_run_until(&n, n.now + 2 * NET_DELAY_NS);
	assert_string_equal(n.side[B].log, "SIDR_REQ");
	cm_unlisten(n.side[B].listener, n.now);
	cm_sidr_destroy(n.side[B].sidr, n.now);
	n.side[B].sidr = NULL;
	net_run(&n);
	assert_int_equal(n.side[A].last.msg.sidr_rep.status, ROCEMU_CM_SIDR_REJECTED);
	net_finish(&n);
}

TEST(texts, outside_of_the_enumerations__unknown)
{
	assert_string_equal(cm_state_text(CM_REP_SENT), "REP_SENT");
	assert_string_equal(cm_state_text(CM_STATE_COUNT), "unknown");
	assert_string_equal(cm_event_text(CM_EV_SIDR_REP), "SIDR_REP");
	assert_string_equal(cm_event_text(CM_EV_COUNT), "unknown");
	assert_string_equal(cm_drop_text(CM_DROP_STALE), "of a stale connection");
	assert_string_equal(cm_drop_text(CM_DROP_COUNT), "unknown");
}

TEST(reject, each_reason__arrives_with_its_information)
{
	static const uint16_t reasons[] = {
#define X(name, value, text) ROCEMU_CM_REJ_##name,
		ROCEMU_CM_REJ_REASONS(X)
#undef X
	};

	for (unsigned i = 0; i < ARRAY_LEN(reasons); i++) {
		struct net_side *a, *b;
		struct net n;

		net_start(&n, i);
		a = &n.side[A];
		b = &n.side[B];
		b->policy = NET_SILENT;
		net_connect(&n, A);
		net_run_until(&n, n.now + 2 * NET_DELAY_NS);
		assert_int_equal(cm_reject(b->conn, n.now, reasons[i], "more", 4, "why", 3), 0);
		net_run_until(&n, n.now + 2 * NET_DELAY_NS);
		assert_int_equal(a->last.type, CM_EV_REJ);
		assert_int_equal(a->last.msg.rej.reason, reasons[i]);
		assert_int_equal(a->last.msg.rej.answered, ROCEMU_CM_TO_REQ);
		assert_int_equal(a->last.msg.rej.ari_len, 4);
		assert_memory_equal(a->last.msg.rej.ari, "more", 4);
		assert_memory_equal(a->last.msg.rej.private_data, "why", 3);
		assert_int_equal(cm_conn_state(a->conn),
				 reasons[i] == ROCEMU_CM_REJ_STALE ? CM_TIMEWAIT : CM_IDLE);
		net_finish(&n);
	}
}

/** As rdma_cm does it: the service ID from port space and port, the addresses before the data. */
TEST(connect, by_ip_port__addresses_and_data_arrive)
{
	static const enum rocemu_port_space spaces[] = {ROCEMU_PS_TCP, ROCEMU_PS_UDP, ROCEMU_PS_IB};
	uint8_t data[ROCEMU_CMA_LEN + 4];
	struct rocemu_cma cma = {.ip_version = 4, .sport = 54321};
	struct cm_connect_param p;
	struct cm_listener *l;
	struct net n;

	for (unsigned i = 0; i < ARRAY_LEN(spaces); i++) {
		struct cm_listen_param listen = {.any_addr = true, .ip_version = 4};

		net_start(&n, i);
		listen.service_id = rocemu_cm_service_id(spaces[i], 4711);
		assert_int_equal(cm_listen(n.side[B].cm, &listen, &l), 0);
		net_connect_param(&n, A, &p);
		cma.src = p.addr.src;
		cma.dst = p.addr.dst;
		assert_int_equal(rocemu_cma_encode(&cma, data), ROCEMU_CMA_LEN);
		memcpy(data + ROCEMU_CMA_LEN, "user", 4);
		p.req.service_id = listen.service_id;
		p.private_data = data;
		p.private_data_len = sizeof(data);
		assert_int_equal(cm_connect(n.side[A].cm, n.now, &p, &n.side[A].conn), 0);
		net_run(&n);
		assert_string_equal(n.side[B].log, "REQ; RTU");
		assert_memory_equal(cm_conn_req(n.side[B].conn)->private_data, data, sizeof(data));
		memset(&cma, 0, sizeof(cma));
		assert_int_equal(rocemu_cma_decode(&cma, cm_conn_req(n.side[B].conn)->private_data,
						   ROCEMU_CM_REQ_PRIVATE_LEN),
				 ROCEMU_MAD_OK);
		assert_int_equal(cma.sport, 54321);
		net_finish(&n);
	}
}

/* ---- many at once ---- */

enum { MANY = 1000 };

/** Everything that waits on one side goes to the other. */
static bool pass_on(struct cm *from, struct cm *to)
{
	struct cm_mad mad;
	bool any = false;

	while (cm_output(from, 1, &mad, 1)) {
		cm_input(to, 1, mad.data, sizeof(mad.data), &mad.addr);
		any = true;
	}
	return any;
}

static unsigned answer_all(struct cm *cm, struct cm_conn **conns)
{
	struct rocemu_cm_rep rep = {0};
	unsigned seen = 0;
	struct cm_event ev;

	while (cm_next_event(cm, &ev)) {
		seen++;
		if (ev.type == CM_EV_REQ) {
			rep.local_qpn = ev.msg.req.local_qpn;
			conns[ev.msg.req.local_qpn - NET_QPN_A] = ev.conn;
			assert_int_equal(cm_accept(ev.conn, 1, &rep, NULL, 0), 0);
		} else if (ev.type == CM_EV_REP) {
			assert_int_equal(cm_rtu(ev.conn, 1, NULL, 0), 0);
		} else if (ev.type == CM_EV_DREQ) {
			assert_int_equal(cm_drep(ev.conn, 1, NULL, 0), 0);
		}
	}
	return seen;
}

static void pump(struct net *n, struct cm_conn **conns)
{
	bool any;

	do {
		any = pass_on(n->side[A].cm, n->side[B].cm);
		any |= answer_all(n->side[B].cm, conns) > 0;
		any |= pass_on(n->side[B].cm, n->side[A].cm);
		any |= answer_all(n->side[A].cm, conns) > 0;
	} while (any);
}

TEST(connect, a_thousand_at_once__all_established_and_nothing_left)
{
	static struct cm_conn *a[MANY], *b[MANY];
	struct cm_connect_param p;
	struct net n;

	net_start(&n, 1);
	cm_listener_set_backlog(n.side[B].listener, MANY);
	net_connect_param(&n, A, &p);
	for (unsigned i = 0; i < MANY; i++) {
		p.req.local_qpn = NET_QPN_A + i;
		assert_int_equal(cm_connect(n.side[A].cm, 1, &p, &a[i]), 0);
	}
	pump(&n, b);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(cm_conn_state(a[i]), CM_ESTABLISHED);
		assert_int_equal(cm_conn_state(b[i]), CM_ESTABLISHED);
		assert_int_equal(cm_conn_remote_id(a[i]), cm_conn_local_id(b[i]));
		assert_int_equal(cm_disconnect(i % 2 ? a[i] : b[i], 1, NULL, 0), 0);
	}
	pump(&n, b);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(cm_conn_state(a[i]), CM_TIMEWAIT);
		assert_int_equal(cm_conn_state(b[i]), CM_TIMEWAIT);
		cm_conn_destroy(a[i], 1);
		cm_conn_destroy(b[i], 1);
	}
	net_finish(&n);
}
