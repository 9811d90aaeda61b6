/* SPDX-License-Identifier: BSD-2-Clause */
/* A REQ (and what else begins something): repeated, stale, crossed, refused, malformed. */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "cm/cm-internal.h"

TEST(request, taken__event_has_message_listener_and_address)
{
	struct bench b;

	bench_start(&b);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REQ), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "REQ");
	assert_ptr_equal(b.event.listener, b.listener);
	assert_int_equal(b.event.state, CM_REQ_RCVD);
	assert_int_equal(b.event.msg.req.local_qpn, BENCH_PEER_QPN);
	assert_memory_equal(&b.event.addr.src, &bench_peer, sizeof(bench_peer));
	assert_memory_equal(&cm_conn_addr(b.event.conn)->dst, &bench_peer, sizeof(bench_peer));
	assert_int_equal(cm_conn_addr(b.event.conn)->tclass, 0x20);
	assert_false(cm_conn_active(b.event.conn));
	bench_end(&b);
}

TEST(request, forgotten__its_next_copy_is_a_new_request)
{
	const struct cm_stats *st;
	struct bench b;

	bench_start(&b);
	st = cm_get_stats(b.cm);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REQ), CM_DROP_NONE);
		assert_string_equal(bench_events(&b), "REQ");
		assert_int_equal(st->conns, 1);
		cm_conn_forget(b.event.conn);
		assert_string_equal(bench_sends(&b), "-");
		assert_int_equal(st->half_open, 0);
	}
	bench_end(&b);
}

TEST(request, unknown_service__rej_8)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.service_id++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NO_SERVICE);
	assert_string_equal(bench_sends(&b), "REJ 8");
	assert_int_equal(b.sent.rej.remote_comm_id, BENCH_PEER_ID);
	assert_int_equal(b.sent.rej.local_comm_id, 0);
	assert_int_equal(b.sent.rej.answered, ROCEMU_CM_TO_REQ);
	assert_int_equal(b.sent.tid, BENCH_TID);
	assert_memory_equal(&b.sent_addr.dst, &bench_peer, sizeof(bench_peer));
	assert_memory_equal(&b.sent_addr.src, &bench_own, sizeof(bench_own));
	bench_end(&b);
}

TEST(request, unknown_transport__rej_9)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.transport = ROCEMU_CM_RD;
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNSUPPORTED);
	m.req.transport = ROCEMU_CM_EXTENDED;
	m.req.extended_transport = 2;
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNSUPPORTED);
	assert_string_equal(bench_sends(&b), "REJ 9 REJ 9");
	m.req.extended_transport = ROCEMU_CM_EXTENDED_XRC;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	bench_end(&b);
}

TEST(request, unknown_path_mtu__rej_26)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.path_mtu = 0;
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNSUPPORTED);
	m.req.path_mtu = 6;
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNSUPPORTED);
	assert_string_equal(bench_sends(&b), "REJ 26 REJ 26");
	m.req.path_mtu = 5;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	bench_end(&b);
}

TEST(request, each_path_mtu__accepted)
{
	for (uint8_t mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		struct rocemu_cm_msg m;
		struct bench b;

		bench_start(&b);
		bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
		m.req.path_mtu = mtu;
		assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
		bench_end(&b);
	}
}

/* ---- stale connections ---- */

TEST(stale, same_qp_in_a_new_req__rej_10_and_the_old_one_ends)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += 7;
	assert_int_equal(bench_in(&b, &m), CM_DROP_STALE);
	assert_string_equal(bench_sends(&b), "REJ 10 DREQ");
	assert_int_equal(cm_conn_state(c), CM_DREQ_SENT);
	bench_end(&b);
}

/* As the kernel has it: cmtime and others connect again with the QPN of a moment ago. */
TEST(stale, same_qp_in_timewait__a_connection_of_its_own)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_conn(&b, CM_TIMEWAIT);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += 7;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "REQ");
	bench_end(&b);
}

/**
 * The peer uses its ID again, and the local connection is over, though its consumer still has it.
 */
TEST(stale, same_id_when_ours_is_over__a_connection_of_its_own)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_IDLE);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.starting_psn++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_events(&b), "REQ");
	assert_ptr_not_equal(b.event.conn, c);
	bench_end(&b);
}

TEST(stale, same_qp_of_another_ca__a_connection_of_its_own)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_comm_id += 7;
	m.req.local_ca_guid++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	bench_end(&b);
}

/** CAs without a GUID are distinguished by address. */
TEST(stale, same_qp_without_guid_elsewhere__a_connection_of_its_own)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_ca_guid = 0;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(bench_in_from(&b, &m, &bench_other), CM_DROP_NONE);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	bench_end(&b);
}

TEST(stale, peer_restarted_with_the_same_id__rej_30_and_the_old_one_ends)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_qpn += 7;
	assert_int_equal(bench_in(&b, &m), CM_DROP_STALE);
	assert_string_equal(bench_sends(&b), "REJ 30 DREQ");
	assert_int_equal(cm_conn_state(c), CM_DREQ_SENT);
	bench_end(&b);
}

TEST(stale, rep_of_a_connected_qp__rej_10)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	bench_conn(&b, CM_ESTABLISHED);
	c = bench_connect(&b, false);
	bench_sends(&b);
	bench_message(&b, c, ROCEMU_CM_REP, &m);
	m.rep.local_comm_id += 7;
	assert_int_equal(bench_in(&b, &m), CM_DROP_STALE);
	assert_string_equal(bench_sends(&b), "REJ 10");
	assert_int_equal(b.sent.rej.answered, ROCEMU_CM_TO_REP);
	assert_int_equal(cm_conn_state(c), CM_REQ_SENT);
	bench_end(&b);
}

/* ---- peer to peer ---- */

TEST(peers, larger_guid__stays_active_and_repeats_its_req)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, true);
	bench_sends(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_ca_guid = BENCH_OWN_GUID - 1;
	bench_in(&b, &m);
	assert_string_equal(bench_sends(&b), "REQ");
	assert_string_equal(bench_events(&b), "-");
	assert_true(cm_conn_active(c));
	bench_end(&b);
}

TEST(peers, same_guid__larger_qpn_stays_active)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, true);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.local_ca_guid = BENCH_OWN_GUID;
	m.req.local_qpn = BENCH_OWN_QPN - 1;
	bench_in(&b, &m);
	assert_int_equal(cm_conn_state(c), CM_REQ_SENT);
	m.req.local_qpn = BENCH_OWN_QPN + 1;
	m.req.local_comm_id++;
	bench_in(&b, &m);
	assert_string_equal(bench_events(&b), "REQ");
	assert_ptr_equal(b.event.conn, c);
	assert_null(b.event.listener);
	assert_int_equal(cm_conn_state(c), CM_REQ_RCVD);
	assert_false(cm_conn_active(c));
	bench_end(&b);
}

/** To its own address: not a peer, but itself. */
TEST(peers, own_req_comes_back__not_taken_for_the_peers)
{
	struct cm_connect_param p = {.peer_to_peer = true};
	const struct cm_addr addr = {.src = bench_own, .dst = bench_own};
	struct cm_mad mad;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	cm_unlisten(b.listener, b.now);
	cm_req_init(&p.req);
	p.req.service_id = BENCH_SERVICE;
	p.req.local_qpn = BENCH_OWN_QPN;
	p.addr = addr;
	assert_int_equal(cm_connect(b.cm, b.now, &p, &c), 0);
	assert_int_equal(cm_output(b.cm, b.now, &mad, 1), 1);
	assert_int_equal(cm_input(b.cm, b.now, mad.data, sizeof(mad.data), &addr),
			 CM_DROP_NO_SERVICE);
	assert_int_equal(cm_conn_state(c), CM_REQ_SENT);
	bench_end(&b);
}

TEST(peers, no_such_service__not_yet)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, true);
	bench_message(&b, c, ROCEMU_CM_REJ, &m);
	m.rej.reason = ROCEMU_CM_REJ_SERVICE_ID;
	bench_in(&b, &m);
	assert_int_equal(cm_conn_state(c), CM_REQ_SENT);
	m.rej.reason = ROCEMU_CM_REJ_NO_QP;
	bench_in(&b, &m);
	assert_int_equal(cm_conn_state(c), CM_IDLE);
	bench_end(&b);
}

/* ---- identifiers ---- */

TEST(input, rep_of_an_unknown_connection__rej_6)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REP), CM_DROP_UNKNOWN_ID);
	assert_string_equal(bench_sends(&b), "REJ 6");
	assert_int_equal(b.sent.rej.remote_comm_id, BENCH_PEER_ID);
	assert_int_equal(b.sent.rej.local_comm_id, 0x1234);
	assert_int_equal(b.sent.rej.answered, ROCEMU_CM_TO_REP);
	bench_message(&b, NULL, ROCEMU_CM_REP, &m);
	m.rep.local_comm_id = 0;
	assert_int_equal(bench_in(&b, &m), CM_DROP_MALFORMED);
	bench_end(&b);
}

TEST(id, in_use__not_given_out_again)
{
	const struct cm_sidr_param ask = {.addr = {.src = bench_own, .dst = bench_peer}};
	struct cm_sidr *s;
	struct cm_conn *c;
	struct bench b;
	uint32_t before;

	bench_start(&b);
	before = b.cm->next_id;
	c = bench_connect(&b, false);
	b.cm->next_id = before; /* as after four million others */
	assert_int_equal(cm_sidr_request(b.cm, 0, &ask, &s), 0);
	assert_int_not_equal(cm_sidr_id(s), cm_conn_local_id(c));
	b.cm->next_id = before;
	assert_int_not_equal(cm_conn_local_id(bench_connect(&b, false)), cm_sidr_id(s));
	bench_end(&b);
}

TEST(id, zero__not_given_out)
{
	const struct cm_config config = {.id_prefix = 0};
	uint32_t zero = 0;
	struct bench b;

	bench_start_config(&b, &config);
	while (cm_id_nth(b.cm, zero) != 0)
		zero++;
	b.cm->next_id = zero;
	assert_int_equal(cm_conn_local_id(bench_connect(&b, false)), cm_id_nth(b.cm, zero + 1));
	bench_end(&b);
}

/** A peer cannot derive other IDs from those of its own connections. */
TEST(id, next__in_no_order_but_each_once)
{
	enum { IDS = 1 << 16 };
	static uint8_t seen[CM_ID_COUNT];
	const struct cm_config other = {.seed = 1, .seed_high = 1, .id_prefix = 9};
	unsigned near = 0, same = 0;
	struct bench b, c;

	bench_start(&b);
	bench_start_config(&c, &other);
	memset(seen, 0, sizeof(seen));
	for (uint32_t n = 0; n < IDS; n++) {
		uint32_t id = cm_id_nth(b.cm, n), next = cm_id_nth(b.cm, n + 1);

		assert_true(id < CM_ID_COUNT);
		assert_false(seen[id]++);
		near += (id > next ? id - next : next - id) < CM_ID_COUNT / 64;
		same += id == cm_id_nth(c.cm, n);
	}
	/* One in 32, were they drawn by lot; none. */
	assert_in_range(near, IDS / 32 * 9 / 10, IDS / 32 * 11 / 10);
	assert_in_range(same, 0, 4);
	bench_end(&b);
	bench_end(&c);
}

TEST(id, transaction__not_told_by_the_communication_id)
{
	struct rocemu_cm_msg first;
	struct bench b;

	bench_start(&b);
	bench_connect(&b, false);
	bench_sends(&b);
	first = b.sent;
	bench_connect(&b, false);
	bench_sends(&b);
	assert_true((b.sent.tid ^ first.tid) >> 32 != 0);
	assert_true((uint32_t)(b.sent.tid ^ first.tid) != 0);
	assert_int_not_equal(__builtin_bswap32((uint32_t)b.sent.tid), b.sent.req.local_comm_id);
	bench_end(&b);
}

TEST(stats, messages__counted_by_kind)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_says(&b, c, ROCEMU_CM_RTU);
	assert_int_equal(cm_get_stats(b.cm)->sent[ROCEMU_CM_REP - ROCEMU_CM_REQ], 1);
	assert_int_equal(cm_get_stats(b.cm)->rcvd[ROCEMU_CM_REQ - ROCEMU_CM_REQ], 1);
	assert_int_equal(cm_get_stats(b.cm)->rcvd[ROCEMU_CM_RTU - ROCEMU_CM_REQ], 2);
	assert_int_equal(cm_get_stats(b.cm)->drops[CM_DROP_DUPLICATE], 1);
	assert_int_equal(cm_get_stats(b.cm)->established, 1);
	bench_end(&b);
}

/* ---- what is not a message ---- */

TEST(input, malformed__dropped_and_counted)
{
	const struct cm_addr addr = {.src = bench_peer, .dst = bench_own};
	uint8_t mad[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	rocemu_cm_encode(&m, mad);
	assert_int_equal(cm_input(b.cm, 0, mad, 255, &addr), CM_DROP_MALFORMED);
	mad[0] = 2; /* base version */
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_MALFORMED);
	mad[0] = 1;
	mad[1] = 4; /* class */
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_MALFORMED);
	mad[1] = ROCEMU_CM_CLASS;
	mad[3] = 1; /* method Get */
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_MALFORMED);
	mad[3] = ROCEMU_CM_METHOD_SEND;
	mad[17] = 0x30; /* attribute */
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_MALFORMED);
	m.req.local_comm_id = 0;
	assert_int_equal(bench_in(&b, &m), CM_DROP_MALFORMED);
	assert_int_equal(cm_get_stats(b.cm)->drops[CM_DROP_MALFORMED], 6);
	assert_string_equal(bench_sends(&b), "-");
	bench_end(&b);
}

TEST(input, unknown_class_version__rej_31_for_a_req_only)
{
	const struct cm_addr addr = {.src = bench_peer, .dst = bench_own};
	uint8_t mad[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	rocemu_cm_encode(&m, mad);
	mad[2] = 3;
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_VERSION);
	assert_string_equal(bench_sends(&b), "REJ 31");
	bench_message(&b, NULL, ROCEMU_CM_SIDR_REQ, &m);
	rocemu_cm_encode(&m, mad);
	mad[2] = 1;
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_VERSION);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(b.sent.sidr_rep.status, ROCEMU_CM_SIDR_VERSION);
	bench_message(&b, NULL, ROCEMU_CM_RTU, &m);
	rocemu_cm_encode(&m, mad);
	mad[2] = 3;
	assert_int_equal(cm_input(b.cm, 0, mad, 256, &addr), CM_DROP_VERSION);
	assert_string_equal(bench_sends(&b), "-");
	bench_end(&b);
}

TEST(manager, prefix_out_of_range__not_made)
{
	const struct cm_config config = {.id_prefix = 1024};

	assert_null(cm_new(&config));
	cm_free(NULL);
}
