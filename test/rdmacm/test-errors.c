/* SPDX-License-Identifier: BSD-2-Clause */
/* What calls refuse: the wrong state, arguments out of range, addresses and ports that cannot be
 * had. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "test.h"

static struct rdma_cm_id *fresh(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

TEST(id, unknown_port_space__einval)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	assert_errno(rdma_create_id(ch, &id, NULL, (enum rdma_port_space)7), EINVAL);
	rdma_destroy_event_channel(ch);
}

TEST(id, calls_out_of_order__einval)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr qp = {.qp_state = IBV_QPS_INIT};
	int mask;

	assert_errno(rdma_resolve_route(id, 1), EINVAL);
	assert_errno(rdma_connect(id, &param), EINVAL);
	assert_errno(rdma_accept(id, &param), EINVAL);
	assert_errno(rdma_reject(id, NULL, 0), EINVAL);
	assert_errno(rdma_disconnect(id), EINVAL);
	assert_errno(rdma_establish(id), EINVAL);
	assert_errno(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	assert_errno(rdma_create_qp(id, NULL, &attr), EINVAL);
	assert_errno(rdma_init_qp_attr(id, &qp, &mask), EINVAL);
	assert_errno(rdma_get_request(id, &id), EINVAL);
	bench_no_event(ch);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(id, second_bind_and_second_listen__einval)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = bench_listener(ch, "127.0.0.1", RDMA_PS_TCP, 1);

	assert_errno(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), EINVAL);
	assert_errno(rdma_listen(id, 1), EINVAL);
	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 1), 1), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, address_of_nobody__eaddrnotavail)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);

	assert_errno(rdma_bind_addr(id, bench_addr("192.0.2.1", 0)), EADDRNOTAVAIL);
	assert_errno(rdma_bind_addr(id, &(struct sockaddr){.sa_family = AF_UNIX}), EINVAL);
	assert_errno(rdma_bind_addr(id, &(struct sockaddr){.sa_family = AF_UNSPEC}), EINVAL);
	/* A socket may be bound to these. */
	assert_errno(rdma_bind_addr(id, bench_addr("239.1.2.3", 0)), EADDRNOTAVAIL);
	assert_errno(rdma_bind_addr(id, bench_addr("ff15::1", 0)), EADDRNOTAVAIL);
	assert_errno(rdma_bind_addr(id, bench_addr("255.255.255.255", 0)), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, port_in_use__eaddrinuse_until_it_is_free)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *a = fresh(ch), *b = fresh(ch), *udp;
	uint16_t port;

	assert_int_equal(rdma_bind_addr(a, bench_addr("127.0.0.1", 0)), 0);
	port = ntohs(rdma_get_src_port(a));
	assert_errno(rdma_bind_addr(b, bench_addr("127.0.0.1", port)), EADDRINUSE);
	assert_errno(rdma_bind_addr(b, bench_addr("0.0.0.0", port)), EADDRINUSE);
	/* Port spaces are apart. */
	assert_int_equal(rdma_create_id(ch, &udp, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(udp, bench_addr("127.0.0.1", port)), 0);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_bind_addr(b, bench_addr("127.0.0.1", port)), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	assert_int_equal(rdma_destroy_id(udp), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, reuseaddr_on_both__shared_but_one_listens)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *a = fresh(ch), *b = fresh(ch);
	int on = 1;

	assert_int_equal(
		rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(
		rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)), 0);
	assert_int_equal(rdma_bind_addr(a, bench_addr("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_bind_addr(b, bench_addr("127.0.0.1", ntohs(rdma_get_src_port(a)))),
			 0);
	assert_int_equal(rdma_listen(a, 1), 0);
	assert_errno(rdma_listen(b, 1), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_listen(b, 1), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, ipv6_wildcard__takes_ipv4_in_unless_afonly)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *six = fresh(ch), *four = fresh(ch), *only = fresh(ch);
	int on = 1;
	uint16_t port;

	assert_int_equal(rdma_bind_addr(six, bench_addr("::", 0)), 0);
	port = ntohs(rdma_get_src_port(six));
	assert_errno(rdma_bind_addr(four, bench_addr("0.0.0.0", port)), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(six), 0);
	assert_int_equal(
		rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
	assert_int_equal(rdma_bind_addr(only, bench_addr("::", port)), 0);
	assert_int_equal(rdma_bind_addr(four, bench_addr("0.0.0.0", port)), 0);
	assert_int_equal(rdma_destroy_id(only), 0);
	assert_int_equal(rdma_destroy_id(four), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve, families_that_differ__einval)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);

	assert_errno(rdma_resolve_addr(id, bench_addr("127.0.0.1", 0), bench_addr("::1", 1), 1),
		     EINVAL);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("::1", 1), 1), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve, no_route__enetunreach)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);

	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("192.0.2.1", 1), 1), ENETUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* In a process of its own, whose devices are its own choice. */
static int resolve_without_device(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	setenv("ROCEMU_DEVICES", "four=127.0.0.1", 1);
	if (!ch || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, bench_addr("::1", 1), 1) || rdma_get_cm_event(ch, &ev))
		return 1;
	return ev->event == RDMA_CM_EVENT_ADDR_ERROR && ev->status == -ENODEV ? 0 : 2;
}

TEST(resolve, source_without_device__addr_error)
{
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	bench_namespace();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(resolve_without_device());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

TEST(option, unknown_or_of_another_size__refused)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);
	uint8_t byte = 32;
	int word = 1;

	assert_errno(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &word, sizeof(word)),
		     EINVAL);
	assert_errno(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1),
		     EINVAL);
	assert_errno(rdma_set_option(id, RDMA_OPTION_ID, 99, &word, sizeof(word)), ENOSYS);
	assert_errno(rdma_set_option(id, 99, 0, &word, sizeof(word)), ENOSYS);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	/* Too late for options that affect binding. */
	assert_errno(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, sizeof(word)),
		EINVAL);
	assert_errno(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &word, sizeof(word)),
		EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(connect, private_data_or_resources_too_much__einval)
{
	static const uint8_t data[255];
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *l = bench_listener(ch, "127.0.0.1", RDMA_PS_TCP, 1);
	struct rdma_cm_id *id = bench_client(ch, "127.0.0.1", l);
	struct rdma_conn_param param = {.private_data = data, .private_data_len = 57};
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(id->verbs, &attr), 0);
	bench_qp(id);
	assert_errno(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 0;
	if (attr.max_qp_rd_atom < 0xfe) {
		param.responder_resources = (uint8_t)(attr.max_qp_rd_atom + 1);
		assert_errno(rdma_connect(id, &param), EINVAL);
	}
	param.responder_resources = 0;
	param.private_data_len = 56;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_errno(rdma_connect(id, &param), EINVAL);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(ch);
}

TEST(accept, private_data_too_long__einval_and_it_can_still_be_refused)
{
	static const uint8_t data[255];
	struct rdma_event_channel *cch = bench_channel(), *sch = bench_channel();
	struct rdma_cm_id *l = bench_listener(sch, "127.0.0.1", RDMA_PS_TCP, 1), *server;
	struct rdma_cm_id *id = bench_client(cch, "127.0.0.1", l);
	struct rdma_conn_param param = {.qp_num = 77};
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_connect(id, &param), 0);
	ev = bench_event(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	param.private_data = data;
	param.private_data_len = 197;
	assert_errno(rdma_accept(server, &param), EINVAL);
	assert_errno(rdma_accept(server, NULL), EINVAL); /* no QP to name */
	assert_errno(rdma_reject(server, data, 149), EINVAL);
	assert_int_equal(rdma_reject(server, data, 148), 0);
	assert_int_equal(bench_expect(cch, RDMA_CM_EVENT_REJECTED), 28);
	assert_errno(rdma_reject(server, NULL, 0), EINVAL);
	assert_int_equal(rdma_destroy_id(server), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(cch);
	rdma_destroy_event_channel(sch);
}

TEST(connect, unknown_service__rejected_with_8)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *l = bench_listener(ch, "127.0.0.1", RDMA_PS_TCP, 1);
	struct rdma_cm_id *id = bench_client(ch, "127.0.0.1", l);
	struct rdma_conn_param param = {.qp_num = 77};

	assert_int_equal(rdma_destroy_id(l), 0);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_REJECTED), 8);
	/* It was never connected: nothing happens, as in the kernel. */
	assert_int_equal(rdma_disconnect(id), 0);
	bench_no_event(ch);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* An address with a closed RoCE port, as of a host whose server was not started. */
TEST(connect, nobody_at_the_address__unreachable_at_once)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_conn_param param = {.qp_num = 77};
	enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};

	for (unsigned i = 0; i < 2; i++) {
		struct rdma_cm_id *id;

		assert_int_equal(rdma_create_id(ch, &id, NULL, spaces[i]), 0);
		assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.9", 7), 1000), 0);
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
		assert_int_equal(rdma_resolve_route(id, 1000), 0);
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
		assert_int_equal(rdma_connect(id, &param), 0);
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_UNREACHABLE), -ECONNREFUSED);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(ch);
}

TEST(lookup, unknown_service__unreachable_with_1)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *l = bench_listener(ch, "127.0.0.1", RDMA_PS_UDP, 1);
	struct rdma_cm_id *id = bench_client(ch, "127.0.0.1", l);

	assert_int_equal(rdma_destroy_id(l), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_UNREACHABLE), 1);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* Connections of a client that the server has not seen; destroyed by forget(). */
static void ask(struct rdma_event_channel *ch, const struct rdma_cm_id *l, struct rdma_cm_id **ids,
		unsigned n)
{
	struct rdma_conn_param param = {0};

	/* First all routes: afterwards answers come. */
	for (unsigned i = 0; i < n; i++)
		ids[i] = bench_client(ch, "127.0.0.1", l);
	for (unsigned i = 0; i < n; i++) {
		param.qp_num = 100 + i;
		assert_int_equal(rdma_connect(ids[i], &param), 0);
	}
}

static void forget(struct rdma_cm_id **ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
}

/* No request is refused for coming a moment before the program checks. */
TEST(listen, more_than_the_backlog__each_is_heard)
{
	enum { CLIENTS = 8 };
	struct rdma_event_channel *cch = bench_channel(), *sch = bench_channel();
	struct rdma_cm_id *l = bench_listener(sch, "127.0.0.1", RDMA_PS_TCP, 1), *ids[CLIENTS];
	struct rdma_cm_event *ev;
	struct rdma_cm_id *server;

	ask(cch, l, ids, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		ev = bench_event(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
		server = ev->id;
		assert_int_equal(rdma_ack_cm_event(ev), 0);
		/* Destroyed without an answer: that is one. */
		assert_int_equal(rdma_destroy_id(server), 0);
		assert_int_equal(bench_expect(cch, RDMA_CM_EVENT_REJECTED), 28);
	}
	bench_no_event(cch);
	forget(ids, CLIENTS);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(cch);
	rdma_destroy_event_channel(sch);
}

TEST(listen, flood__rejected_above_4096)
{
	enum { CLIENTS = 4096 + 3 };
	struct rdma_event_channel *cch = bench_channel(), *sch = bench_channel();
	struct rdma_cm_id *l = bench_listener(sch, "127.0.0.1", RDMA_PS_TCP, 1);
	struct rdma_cm_id **ids = calloc(CLIENTS, sizeof(struct rdma_cm_id *));

	assert_non_null(ids);
	ask(cch, l, ids, CLIENTS);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(bench_expect(cch, RDMA_CM_EVENT_REJECTED), 3); /* no resources */
	bench_no_event(cch);
	/* The others end with the listener. */
	assert_int_equal(rdma_destroy_id(l), 0);
	for (unsigned i = 0; i < CLIENTS - 3; i++)
		assert_int_equal(bench_expect(cch, RDMA_CM_EVENT_REJECTED), 28);
	forget(ids, CLIENTS);
	free(ids);
	rdma_destroy_event_channel(cch);
	rdma_destroy_event_channel(sch);
}

TEST(multicast, of_another_kind_or_not_joined__refused)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_join_mc_attr_ex ex = {.addr = bench_addr("239.1.2.3", 0)};
	struct rdma_cm_id *rc = fresh(ch), *ud;

	assert_int_equal(rdma_create_id(ch, &ud, NULL, RDMA_PS_UDP), 0);
	assert_errno(rdma_join_multicast(ud, bench_addr("239.1.2.3", 0), NULL),
		     EINVAL); /* not bound */
	assert_int_equal(rdma_bind_addr(rc, bench_addr("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_bind_addr(ud, bench_addr("127.0.0.1", 0)), 0);
	assert_errno(rdma_join_multicast(rc, bench_addr("239.1.2.3", 0), NULL), EINVAL);
	assert_errno(rdma_join_multicast(ud, bench_addr("127.0.0.1", 0), NULL), EINVAL);
	assert_errno(rdma_join_multicast_ex(ud, &ex, NULL), EINVAL); /* sends nothing */
	assert_errno(rdma_leave_multicast(ud, bench_addr("239.1.2.3", 0)), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(rc), 0);
	assert_int_equal(rdma_destroy_id(ud), 0);
	rdma_destroy_event_channel(ch);
}

TEST(channel, empty_and_non_blocking__eagain)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id = fresh(ch);
	struct rdma_cm_event *ev;

	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_errno(rdma_get_cm_event(ch, &ev), EAGAIN);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 1), 1), 0);
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_errno(rdma_get_cm_event(ch, &ev), EAGAIN);
	assert_errno(rdma_get_cm_event(ch, NULL), EINVAL);
	assert_errno(rdma_ack_cm_event(NULL), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(event_str, each_type__its_name)
{
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED),
			    "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			    "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
}
