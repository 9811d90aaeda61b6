/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that go and addresses that move while IDs are on them, on a veth pair of the test's own
 * namespace. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void assert_qp_state(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, state);
}

/* ---- addresses that come ---- */

#define QUERY_ADDRESS "ROCEMU_TEST_QUERY_ADDRESS"
#define QUERY_PORT    "ROCEMU_TEST_QUERY_PORT"

/* Retries until it is answered. */
static int query_until_answered(const char *address, uint16_t port)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	int status;

	do {
		struct rdma_conn_param param = {.qp_num = 77};
		struct rdma_cm_id *id;

		if (!ch || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(id, NULL, bench_addr(address, port), 1000))
			return 1;
		bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(id, 1000))
			return 2;
		bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (rdma_connect(id, &param))
			return 3;
		status = bench_expect(ch, RDMA_CM_EVENT_REJECTED);
		rdma_destroy_id(id);
	} while (status == 8); /* no such service, yet */
	return status == 28 ? 0 : 4;
}

/* Before main(), which would run the tests. */
__attribute__((constructor)) static void be_client(void)
{
	const char *address = getenv(QUERY_ADDRESS), *port = getenv(QUERY_PORT);

	if (address && port)
		_exit(query_until_answered(address, (uint16_t)atoi(port)));
}

/*
 * A process of its own, since one process is one end of QP 1. Not merely forked: this process has
 * threads, and a lock of AddressSanitizer's allocator that one of them holds would stay held
 * in the child.
 */
static pid_t start_client(const char *address, uint16_t port)
{
	char number[8];
	pid_t pid;

	snprintf(number, sizeof(number), "%u", (unsigned)port);
	setenv(QUERY_ADDRESS, address, 1);
	setenv(QUERY_PORT, number, 1);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "client", (char *)NULL);
		_exit(5);
	}
	unsetenv(QUERY_ADDRESS);
	unsetenv(QUERY_PORT);
	assert_true(pid > 0);
	return pid;
}

static void assert_got_event(struct rdma_event_channel *ch, const struct rdma_cm_id *listener,
			     const char *address)
{
	uint16_t port = ntohs(rdma_get_src_port((struct rdma_cm_id *)(uintptr_t)listener));
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	pid_t pid = start_client(address, port);
	int status;

	ev = bench_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_reject(id, NULL, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

TEST(wildcard, addresses_and_interfaces_that_come_later__listened_on)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *listener;

	bench_veth();
	listener = bench_listener(ch, "0.0.0.0", RDMA_PS_TCP, 0);
	bench_ip("address add 10.1.9.9/24 dev p0");
	assert_got_event(ch, listener, "10.1.9.9");
	bench_ip("link add q0 type veth peer name q1");
	bench_ip("link set q1 up");
	bench_ip("address add 10.1.8.8/24 dev q0");
	bench_ip("link set q0 up");
	while (!bench_runs("q0"))
		sched_yield();
	assert_got_event(ch, listener, "10.1.8.8");
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete q0");
	bench_ip("link delete p0");
}

/* The interfaces of containers may all have one hardware address, and so one link-local one. */
TEST(wildcard, link_local_address_of_two_interfaces__listened_on_at_both)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *listener;

	bench_veth();
	bench_ip("link add q0 type veth peer name q1");
	bench_ip("link set q1 up");
	bench_ip("link set q0 up");
	bench_ip("address add fe80::7/64 dev p0 nodad");
	bench_ip("address add fe80::7/64 dev q0 nodad");
	while (!bench_runs("q0"))
		sched_yield();
	listener = bench_listener(ch, "::", RDMA_PS_TCP, 0);
	assert_got_event(ch, listener, "fe80::7%p0");
	assert_got_event(ch, listener, "fe80::7%q0");
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete q0");
	bench_ip("link delete p0");
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* With more interfaces than a program may have descriptors, it can listen all the same. */
TEST(wildcard, many_interfaces__a_device_is_opened_when_a_request_comes)
{
	enum { INTERFACES = 30 };
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *listener;
	unsigned before, listening;
	char line[100];

	bench_veth();
	for (unsigned i = 0; i < INTERFACES; i++) {
		snprintf(line, sizeof(line), "link add q%u type veth peer name r%u", i, i);
		bench_ip(line);
		snprintf(line, sizeof(line), "address add 10.2.%u.1/24 dev q%u", i, i);
		bench_ip(line);
		snprintf(line, sizeof(line), "link set q%u up", i);
		bench_ip(line);
	}
	before = descriptors();
	listener = bench_listener(ch, "0.0.0.0", RDMA_PS_TCP, 0);
	listening = descriptors();
	/* Those of interfaces that the last test removed may be closed meanwhile. */
	assert_true(listening < before + INTERFACES);
	assert_got_event(ch, listener, "10.2.7.1");
	/* Two contexts of two descriptors. */
	assert_true(descriptors() <= listening + 8);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	for (unsigned i = 0; i < INTERFACES; i++) {
		snprintf(line, sizeof(line), "link delete q%u", i);
		bench_ip(line);
	}
	bench_ip("link delete p0");
}

TEST(loopback, beside_another_interface__not_listed_and_connects)
{
	struct ibv_context **list;
	struct bench b;
	int n;

	bench_veth();
	while (!bench_runs("p0"))
		sched_yield();
	list = rdma_get_devices(&n);
	assert_int_equal(n, 1);
	assert_string_equal(ibv_get_device_name(list[0]->device), "rocemu_p0");
	rdma_free_devices(list);
	bench_connect(&b, "127.0.0.1");
	assert_string_equal(ibv_get_device_name(b.client->verbs->device), "rocemu_lo");
	bench_end(&b);
	bench_connect(&b, "::1");
	bench_end(&b);
	bench_ip("link delete p0");
}

/* ---- DEVICE_REMOVAL ---- */

/* The events of some IDs on a channel, whose order among each other does not matter: each ID's. */
static void expect_removal(struct rdma_event_channel *ch, struct rdma_cm_id *connected,
			   struct rdma_cm_id *other)
{
	bool ended = !connected;
	int removed = 0;

	while (removed < (connected ? 1 : 0) + (other ? 1 : 0)) {
		struct rdma_cm_event *ev;

		assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
		if (ev->event == RDMA_CM_EVENT_DISCONNECTED) {
			assert_true(ev->id == connected && !ended);
			assert_int_equal(ev->status, -ENODEV);
			ended = true;
		} else {
			assert_int_equal(ev->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
			assert_int_equal(ev->status, 0);
			assert_true(ev->id == other || (ev->id == connected && ended));
			removed++;
		}
		assert_int_equal(rdma_ack_cm_event(ev), 0);
	}
}

TEST(removal, connected__both_ids_and_the_listener_are_told_once)
{
	struct bench b;

	bench_veth();
	bench_connect(&b, "10.1.1.1");
	bench_ip("link delete p0");
	expect_removal(b.cch, b.client, NULL);
	assert_qp_state(b.client, IBV_QPS_ERR);
	expect_removal(b.sch, b.server, b.listener);
	assert_qp_state(b.server, IBV_QPS_ERR);
	/* Nothing to end, and no event of it. */
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(rdma_disconnect(b.server), 0);
	bench_no_event(b.cch);
	bench_no_event(b.sch);
	bench_end(&b);
}

TEST(removal, then_another_interface_of_that_name__programs_start_again)
{
	for (int turn = 0; turn < 3; turn++) {
		struct bench b;

		bench_veth();
		bench_connect(&b, "10.1.1.1");
		bench_ip("link delete p0");
		expect_removal(b.cch, b.client, NULL);
		bench_end(&b);
	}
}

/* The same name, hardware address and IP address, before the end of the first was noticed. */
TEST(removal, another_interface_at_once__new_ids_are_on_that_one)
{
	struct ibv_context *last = NULL;

	for (int turn = 0; turn < 10; turn++) {
		struct bench b;

		bench_veth();
		bench_ip("link set p0 address 02:00:00:00:00:01");
		bench_connect(&b, "10.1.1.1");
		assert_ptr_not_equal(b.client->verbs, last);
		assert_ptr_equal(b.client->verbs, b.server->verbs);
		last = b.client->verbs;
		bench_ip("link delete p0");
		bench_end(&b);
	}
}

TEST(removal, of_one_device__wildcard_listener_goes_on_with_others)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_conn_param param = {.qp_num = 77};
	struct rdma_cm_id *any, *client, *at_any;
	struct rdma_cm_event *ev;
	struct bench b;

	bench_veth();
	any = bench_listener(ch, "0.0.0.0", RDMA_PS_TCP, 0);
	bench_connect(&b, "10.1.1.1");
	bench_ip("link delete p0");
	expect_removal(b.cch, b.client, NULL);
	bench_end(&b);
	bench_no_event(ch);
	b.cch = bench_channel();
	client = bench_client(b.cch, "127.0.0.1", any);
	assert_int_equal(rdma_connect(client, &param), 0);
	ev = bench_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	at_any = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_reject(at_any, NULL, 0), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(at_any) || rdma_destroy_id(client) || rdma_destroy_id(any),
			 0);
	rdma_destroy_event_channel(b.cch);
	rdma_destroy_event_channel(ch);
}

TEST(removal, before_connecting__calls_say_enodev)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_cm_id *bound, *route;

	bench_veth();
	b.listener = bench_listener(b.sch, "10.1.1.1", RDMA_PS_TCP, 0);
	route = bench_client(b.cch, "10.1.1.1", b.listener);
	bench_qp(route);
	assert_int_equal(rdma_create_id(b.cch, &b.client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(b.client, NULL, bench_addr("10.1.1.9", 7), 1), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_create_id(b.cch, &bound, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(bound, bench_addr("10.1.1.2", 0)), 0);
	bench_ip("link delete p0");
	for (int i = 0; i < 3; i++)
		bench_expect(b.cch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_errno(rdma_connect(route, NULL), ENODEV);
	assert_errno(rdma_resolve_route(b.client, 1), ENODEV);
	assert_errno(rdma_listen(bound, 0), ENODEV);
	bench_no_event(b.cch);
	rdma_destroy_qp(route);
	assert_int_equal(rdma_destroy_id(route) || rdma_destroy_id(bound), 0);
	bench_end(&b);
}

TEST(removal, with_a_request_that_nobody_took__both_told)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 77};
	struct pollfd p = {.fd = b.sch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	bench_veth();
	b.listener = bench_listener(b.sch, "10.1.1.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "10.1.1.1", b.listener);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	assert_int_equal(poll(&p, 1, 60000), 1);
	bench_ip("link delete p0");
	/* Without a device there is no answer. */
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_UNREACHABLE), -ENODEV);
	bench_expect(b.cch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_errno(rdma_accept(b.server, &param), EINVAL);
	/* The listener's: the request's ID, which was not accepted, has no events. */
	bench_expect(b.sch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	bench_end(&b);
}

TEST(removal, while_a_datagram_service_is_looked_up__unreachable)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct pollfd p = {.fd = b.sch->fd, .events = POLLIN};

	bench_veth();
	b.listener = bench_listener(b.sch, "10.1.1.1", RDMA_PS_UDP, 0);
	b.client = bench_client(b.cch, "10.1.1.1", b.listener);
	assert_int_equal(rdma_connect(b.client, NULL), 0);
	assert_int_equal(poll(&p, 1, 60000), 1);
	bench_ip("link delete p0");
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_UNREACHABLE), -ENODEV);
	bench_expect(b.cch, RDMA_CM_EVENT_DEVICE_REMOVAL);
	bench_end(&b);
}

TEST(removal, the_programs_own_events__are_still_there_for_it)
{
	struct ibv_async_event async;
	struct bench b;

	bench_veth();
	bench_connect(&b, "10.1.1.1");
	bench_ip("link delete p0");
	expect_removal(b.cch, b.client, NULL);
	do {
		assert_int_equal(ibv_get_async_event(b.client->verbs, &async), 0);
		ibv_ack_async_event(&async);
	} while (async.event_type != IBV_EVENT_DEVICE_FATAL);
	bench_end(&b);
}

static void *remove_it(void *arg)
{
	(void)arg;
	if (system("ip link delete p0") != 0)
		return NULL;
	return arg;
}

/* Synchronous IDs: the call that waits ends, and no later one waits. */
TEST(removal, while_a_call_waits__it_ends_with_enodev)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *listener;
	pthread_t thread;
	void *result;

	bench_veth();
	listener = bench_listener(ch, "10.1.1.1", RDMA_PS_TCP, 0);
	assert_int_equal(rdma_migrate_id(listener, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, remove_it, ch), 0);
	{
		struct rdma_cm_id *request;

		assert_errno(rdma_get_request(listener, &request), ENODEV);
		assert_errno(rdma_get_request(listener, &request), ENODEV);
	}
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_non_null(result);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* ---- ADDR_CHANGE ---- */

/* Until an ID may be bound to the address again: the table follows a moment later. */
static void wait_for_address(struct rdma_event_channel *ch, const char *address)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	while (rdma_bind_addr(id, bench_addr(address, 0)) != 0)
		assert_true(errno == EADDRNOTAVAIL || errno == ENODEV);
	assert_int_equal(rdma_destroy_id(id), 0);
}

TEST(address, removed__ids_with_it_are_told_and_others_not)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *other;
	struct bench b;

	bench_veth();
	/* The other address of that network stays when the first goes. */
	bench_ip("address add 10.2.2.2/24 dev p0");
	assert_int_equal(rdma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
	wait_for_address(ch, "10.2.2.2");
	assert_int_equal(rdma_bind_addr(other, bench_addr("10.2.2.2", 0)), 0);
	bench_connect(&b, "10.1.1.1");
	/* It comes back: a later loss is reported again. */
	for (int turn = 0; turn < 2; turn++) {
		bench_ip("address del 10.1.1.1/24 dev p0");
		assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_ADDR_CHANGE), 0);
		assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ADDR_CHANGE), 0);
		assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ADDR_CHANGE), 0);
		assert_qp_state(b.client, IBV_QPS_RTS);
		bench_ip("address add 10.1.1.1/24 dev p0");
		wait_for_address(ch, "10.1.1.1");
	}
	/* What was there goes on. */
	assert_int_equal(rdma_disconnect(b.client), 0);
	bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(b.server), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED);
	bench_no_event(ch);
	assert_int_equal(rdma_destroy_id(other), 0);
	bench_end(&b);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(address, moved_to_another_device__addr_change_and_the_new_one_serves)
{
	struct bench b, after;

	bench_veth();
	bench_connect(&b, "10.1.1.2");
	bench_ip("address del 10.1.1.2/24 dev p0");
	bench_ip("address add 10.1.1.2/24 dev p1");
	/* The client has the network's first address, by routing. */
	bench_expect(b.sch, RDMA_CM_EVENT_ADDR_CHANGE);
	bench_expect(b.sch, RDMA_CM_EVENT_ADDR_CHANGE);
	bench_no_event(b.cch);
	wait_for_address(b.cch, "10.1.1.2");
	assert_int_equal(rdma_destroy_id(b.listener), 0);
	b.listener = NULL;
	bench_connect(&after, "10.1.1.2");
	assert_ptr_not_equal(after.server->verbs, b.server->verbs);
	bench_end(&after);
	bench_end(&b);
	bench_ip("link delete p0");
}

/* ---- ROUTE_ERROR ---- */

/* An ID whose destination is another host of p0's network. */
static struct rdma_cm_id *resolved(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 1), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	return id;
}

/* The result of route resolution after a command, and that it may be tried again. */
static void assert_route_error(const char *harm, const char *repair, int status)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;
	int got;

	bench_veth();
	id = resolved(ch);
	bench_ip(harm);
	/* The kernel reports a carrier's loss a moment later. */
	while (status == -ENETDOWN && bench_runs("p0"))
		sched_yield();
	assert_int_equal(rdma_resolve_route(id, 1), 0);
	while (true) {
		struct rdma_cm_event *ev;

		/* Beside the hint about the address, which comes when it comes. */
		assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
		got = ev->event == RDMA_CM_EVENT_ROUTE_ERROR ? ev->status : 0;
		assert_true(got || ev->event == RDMA_CM_EVENT_ADDR_CHANGE);
		assert_int_equal(rdma_ack_cm_event(ev), 0);
		if (got)
			break;
	}
	assert_int_equal(got, status);
	assert_errno(rdma_connect(id, NULL), EINVAL);
	if (repair) {
		bench_ip(repair);
		while (!bench_runs("p0"))
			sched_yield();
		assert_int_equal(rdma_resolve_route(id, 1), 0);
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	}
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(route, own_address_gone__route_error)
{
	assert_route_error("address flush dev p0", NULL, -EADDRNOTAVAIL);
}

TEST(route, interface_down__route_error_until_it_is_up)
{
	assert_route_error("link set p0 down", "link set p0 up", -ENETUNREACH);
}

TEST(route, no_carrier__route_error_until_there_is_one)
{
	assert_route_error("link set p1 down", "link set p1 up", -ENETDOWN);
}

TEST(route, synchronous_id__the_call_says_so)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	bench_veth();
	id = resolved(ch);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	bench_ip("link set p0 down");
	assert_errno(rdma_resolve_route(id, 1), ENETUNREACH);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}
