/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests connections and lookups: each side's events, their end, channels. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "test.h"

static void assert_private(const void *data, size_t len, const char *text, size_t want_len)
{
	assert_int_equal(len, want_len);
	assert_memory_equal(data, text, strlen(text));
	for (size_t i = strlen(text); i < len; i++)
		assert_int_equal(((const uint8_t *)data)[i], 0);
}

TEST(connect, parameters_and_private_data__as_the_other_side_said)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {
		.private_data = "hello",
		.private_data_len = 5,
		.responder_resources = 3,
		.initiator_depth = 5,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 4,
	};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	bench_qp(b.client);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_private(ev->param.conn.private_data, ev->param.conn.private_data_len, "hello", 56);
	/* What the one starts the other has to take. */
	assert_int_equal(ev->param.conn.responder_resources, 5);
	assert_int_equal(ev->param.conn.initiator_depth, 3);
	assert_int_equal(ev->param.conn.flow_control, 1);
	assert_int_equal(ev->param.conn.retry_count, 6);
	assert_int_equal(ev->param.conn.rnr_retry_count, 4);
	assert_int_equal(ev->param.conn.qp_num, b.client->qp->qp_num);
	assert_int_equal(rdma_get_src_port(b.server), rdma_get_src_port(b.listener));
	assert_int_equal(rdma_get_dst_port(b.server), rdma_get_src_port(b.client));
	assert_int_equal(rdma_get_peer_addr(b.server)->sa_family, AF_INET);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	bench_qp(b.server);
	param.private_data = "welcome";
	param.private_data_len = 7;
	param.responder_resources = 2;
	param.initiator_depth = 1;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	ev = bench_event(b.cch, RDMA_CM_EVENT_ESTABLISHED);
	assert_private(ev->param.conn.private_data, ev->param.conn.private_data_len, "welcome",
		       196);
	assert_int_equal(ev->param.conn.responder_resources, 1);
	assert_int_equal(ev->param.conn.initiator_depth, 2);
	assert_int_equal(ev->param.conn.qp_num, b.server->qp->qp_num);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED);
	bench_end(&b);
}

static void assert_qp_state(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, state);
}

static void disconnect(const char *addr, bool from_server)
{
	struct bench b;

	bench_connect(&b, addr);
	assert_qp_state(b.client, IBV_QPS_RTS);
	assert_qp_state(b.server, IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(from_server ? b.server : b.client), 0);
	assert_qp_state(from_server ? b.server : b.client, IBV_QPS_ERR);
	assert_int_equal(bench_expect(from_server ? b.cch : b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(from_server ? b.client : b.server), 0);
	assert_int_equal(bench_expect(from_server ? b.sch : b.cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	/* Once more does no harm. */
	assert_int_equal(rdma_disconnect(b.client), 0);
	bench_end(&b);
}

TEST(disconnect, by_the_client__both_are_told)
{
	disconnect("127.0.0.1", false);
}

TEST(disconnect, by_the_server__both_are_told)
{
	disconnect("127.0.0.1", true);
}

TEST(disconnect, over_ipv6__both_are_told)
{
	disconnect("::1", false);
}

TEST(disconnect, by_both_at_once__each_is_told_once)
{
	struct bench b;

	bench_connect(&b, "127.0.0.1");
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(rdma_disconnect(b.server), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bench_expect(b.sch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bench_no_event(b.cch);
	bench_end(&b);
}

TEST(disconnect, by_destroying_the_id__the_other_side_is_told)
{
	struct bench b;

	bench_connect(&b, "127.0.0.1");
	rdma_destroy_qp(b.client);
	assert_int_equal(rdma_destroy_id(b.client), 0);
	b.client = NULL;
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_end(&b);
}

TEST(reject, with_private_data__reason_28_and_the_data)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 77};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	for (int ece = 0; ece < 2; ece++) {
		b.client = bench_client(b.cch, "127.0.0.1", b.listener);
		assert_int_equal(rdma_connect(b.client, &param), 0);
		ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
		b.server = ev->id;
		assert_int_equal(rdma_ack_cm_event(ev), 0);
		assert_int_equal(ece ? rdma_reject_ece(b.server, "no", 2)
				     : rdma_reject(b.server, "no", 2),
				 0);
		ev = bench_event(b.cch, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(ev->status, ece ? 35 : 28);
		assert_private(ev->param.conn.private_data, ev->param.conn.private_data_len, "no",
			       148);
		assert_int_equal(rdma_ack_cm_event(ev), 0);
		assert_int_equal(rdma_destroy_id(b.server), 0);
		assert_int_equal(rdma_destroy_id(b.client), 0);
	}
	b.client = b.server = NULL;
	bench_end(&b);
}

TEST(listener, destroyed_with_requests_that_nobody_took__they_are_rejected)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 77};
	struct pollfd p = {.fd = b.sch->fd, .events = POLLIN};

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_int_equal(rdma_destroy_id(b.listener), 0);
	b.listener = NULL;
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_REJECTED), 28);
	bench_no_event(b.sch);
	bench_end(&b);
}

/* ---- QPs that the program looks after ---- */

TEST(own_qp, without_qp_on_the_id__connect_response_and_establish)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {
		.qp_num = 0x123, .responder_resources = 1, .initiator_depth = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_cm_event *ev;
	uint32_t server_rq_psn;
	int mask;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	assert_errno(rdma_init_qp_attr(b.client, &attr, &mask), EINVAL); /* not known yet */
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(b.server, &attr, &mask), 0);
	assert_true(mask & IBV_QP_DEST_QPN);
	assert_int_equal(attr.dest_qp_num, 0x123);
	server_rq_psn = attr.rq_psn;
	param.qp_num = 0x456;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	ev = bench_event(b.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(ev->param.conn.qp_num, 0x456);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(b.client, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, 0x456);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(b.client, &attr, &mask), 0);
	assert_int_equal(attr.sq_psn, server_rq_psn);
	assert_int_equal(rdma_establish(b.client), 0);
	assert_errno(rdma_establish(b.client), EINVAL);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_errno(rdma_notify(b.server, IBV_EVENT_COMM_EST), EISCONN);
	assert_errno(rdma_notify(b.server, IBV_EVENT_PORT_ERR), EINVAL);
	bench_end(&b);
}

TEST(notify, data_before_the_rtu__established)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	param.qp_num = 0x456;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	assert_int_equal(rdma_notify(b.server, IBV_EVENT_COMM_EST), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(b.client), 0);
	/* The RTU that comes now makes no event. */
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_end(&b);
}

/* Its context is the listener's still: UCX takes it for a connection's. */
TEST(accept, client_gone_before__no_event_and_refused)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_id *second;
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_destroy_id(b.client), 0);
	/* The next event is the next client's. */
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	param.qp_num = 0x124;
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	second = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	param.qp_num = 0x456;
	assert_errno(rdma_accept(b.server, &param), EINVAL);
	assert_int_equal(rdma_destroy_id(b.server), 0);
	b.server = second;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	bench_end(&b);
}

TEST(connect, qp_that_cannot_be_moved__connect_error_and_the_server_is_told)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rdma_conn_param param = {.qp_num = 0x456};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	bench_qp(b.client);
	assert_int_equal(rdma_connect(b.client, NULL), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(ibv_modify_qp(b.client->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rdma_accept(b.server, &param), 0);
	assert_true(bench_expect(b.cch, RDMA_CM_EVENT_CONNECT_ERROR) < 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_REJECTED), 28);
	bench_end(&b);
}

TEST(option, tos_and_ack_timeout__in_the_attributes)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	uint8_t tos = 0x60, timeout = 14;
	struct rdma_cm_event *ev;
	int mask;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_set_option(b.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	assert_int_equal(
		rdma_set_option(b.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
		0);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_init_qp_attr(b.server, &attr, &mask), 0);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 0x60);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(b.server, &attr, &mask), 0);
	assert_int_equal(attr.timeout, 14);
	bench_end(&b);
}

TEST(option, a_path_from_elsewhere__route_resolved_with_it)
{
	struct rdma_event_channel *ch = bench_channel();
	struct ibv_path_data path = {
		.path = {.mtu = IBV_MTU_512, .tclass = 0x20, .packetlifetime = 14}};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_errno(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)),
		     EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 1), 1), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_errno(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 5), EINVAL);
	assert_int_equal(
		rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->mtu, IBV_MTU_512);
	assert_int_equal(id->route.path_rec->traffic_class, 0x20);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* ---- datagrams ---- */

TEST(lookup, of_a_datagram_service__address_qpn_and_qkey)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.private_data = "who", .private_data_len = 3};
	struct rdma_cm_event *ev;
	struct ibv_ah *ah;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_UDP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	bench_qp(b.client);
	assert_qp_state(b.client, IBV_QPS_RTS);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_private(ev->param.ud.private_data, ev->param.ud.private_data_len, "who", 180);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	bench_qp(b.server);
	param.private_data = "me";
	param.private_data_len = 2;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	ev = bench_event(b.cch, RDMA_CM_EVENT_ESTABLISHED);
	assert_private(ev->param.ud.private_data, ev->param.ud.private_data_len, "me", 136);
	assert_int_equal(ev->param.ud.qp_num, b.server->qp->qp_num);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	ah = ibv_create_ah(b.client->pd, &ev->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	ibv_destroy_ah(ah);
	bench_end(&b);
}

TEST(lookup, refused__unreachable_with_2)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "::1", RDMA_PS_UDP, 0);
	b.client = bench_client(b.cch, "::1", b.listener);
	assert_int_equal(rdma_connect(b.client, NULL), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_errno(rdma_accept(b.server, NULL), EINVAL); /* no QP to name */
	assert_int_equal(rdma_reject(b.server, NULL, 0), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_UNREACHABLE), 2);
	bench_end(&b);
}

TEST(multicast, joined_and_left__group_in_the_event_each_time)
{
	struct rdma_event_channel *ch = bench_channel();
	static const uint8_t mgid[16] = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	int context;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	bench_qp(id);
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(rdma_join_multicast(id, bench_addr("239.1.2.3", 0), &context), 0);
		assert_errno(rdma_join_multicast(id, bench_addr("239.1.2.3", 0), NULL), EADDRINUSE);
		ev = bench_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
		assert_int_equal(ev->status, 0);
		assert_ptr_equal(ev->param.ud.private_data, &context);
		assert_int_equal(ev->param.ud.qp_num, 0xffffff);
		assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
		assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw, mgid, 16);
		assert_int_equal(rdma_ack_cm_event(ev), 0);
		assert_int_equal(rdma_leave_multicast(id, bench_addr("239.1.2.3", 0)), 0);
	}
	/* One that is left before its event is taken has none; one that is not left goes with the
	 * ID. */
	assert_int_equal(rdma_join_multicast(id, bench_addr("239.1.2.4", 0), NULL), 0);
	assert_int_equal(rdma_leave_multicast(id, bench_addr("239.1.2.4", 0)), 0);
	bench_no_event(ch);
	assert_int_equal(rdma_join_multicast(id, bench_addr("239.1.2.5", 0), NULL), 0);
	bench_expect(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* ---- channels ---- */

TEST(migrate, event_that_waits__goes_along)
{
	struct rdma_event_channel *a = bench_channel(), *b = bench_channel();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(a, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 1), 1), 0);
	assert_int_equal(rdma_migrate_id(id, b), 0);
	assert_ptr_equal(id->channel, b);
	bench_no_event(a);
	assert_int_equal(bench_expect(b, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1), 0);
	assert_int_equal(bench_expect(b, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(b);
}

TEST(migrate, listener_with_a_request__both_go_along)
{
	struct rdma_event_channel *old = bench_channel();
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct pollfd p = {.fd = old->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(old, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	assert_int_equal(poll(&p, 1, 60000), 1);
	assert_int_equal(rdma_migrate_id(b.listener, b.sch), 0);
	rdma_destroy_event_channel(old);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_ptr_equal(b.server->channel, b.sch);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	param.qp_num = 0x456;
	assert_int_equal(rdma_accept(b.server, &param), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_establish(b.client), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED), 0);
	bench_end(&b);
}

TEST(migrate, to_no_channel__calls_wait)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_errno(rdma_migrate_id(id, NULL), EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 1), 1), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_migrate_id(id, ch), 0);
	assert_null(id->event);
	assert_int_equal(rdma_resolve_route(id, 1), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

struct destroyer {
	struct rdma_cm_id *id;
	pthread_barrier_t begins;
	atomic_bool acked;
};

static void *destroy_in_thread(void *arg)
{
	struct destroyer *d = arg;

	pthread_barrier_wait(&d->begins);
	rdma_destroy_id(d->id);
	return atomic_load(&d->acked) ? d : NULL;
}

TEST(destroy, event_not_acknowledged__waits_for_it)
{
	struct rdma_event_channel *ch = bench_channel();
	struct destroyer d = {0};
	struct rdma_cm_event *ev;
	pthread_t thread;
	void *result;

	assert_int_equal(rdma_create_id(ch, &d.id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(d.id, NULL, bench_addr("127.0.0.1", 1), 1), 0);
	ev = bench_event(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	pthread_barrier_init(&d.begins, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, destroy_in_thread, &d), 0);
	pthread_barrier_wait(&d.begins);
	for (int i = 0; i < 100; i++)
		sched_yield();
	atomic_store(&d.acked, true);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_non_null(result);
	pthread_barrier_destroy(&d.begins);
	rdma_destroy_event_channel(ch);
}
