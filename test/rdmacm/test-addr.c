/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: what may be bound and resolved, what is seen of it afterwards, and AF_IB, where a GID
 * and a service ID stand for IP address and port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "test.h"

enum { IP_HEADER = 36, REQ_PRIVATE = 92 };

static const uint64_t all = UINT64_MAX;

/* Before the first device is opened: it learns of addresses later than they are there. */
static struct rdma_event_channel *start(void)
{
	bench_namespace();
	bench_link_local("fe80::77");
	return bench_channel();
}

static uint64_t service(enum rdma_port_space ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

static const struct sockaddr_ib *ib_of(const struct sockaddr *sa)
{
	assert_int_equal(sa->sa_family, AF_IB);
	return (const struct sockaddr_ib *)(const void *)sa;
}

static void expect_gid(const struct sockaddr *sa, const char *text)
{
	assert_memory_equal(&ib_of(sa)->sib_addr, &ib_of(bench_gid(text, 0, 0))->sib_addr, 16);
}

/* ---- bind ---- */

TEST(bind, gid__device_and_service_id)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	const struct sockaddr_ib *ib;
	uint16_t port;

	assert_int_equal(rdma_bind_addr(id, bench_gid("127.0.0.1", 0, 0)), 0);
	assert_non_null(id->verbs);
	ib = ib_of(rdma_get_local_addr(id));
	port = ntohs(rdma_get_src_port(id));
	assert_true(port >= 1024);
	assert_int_equal(be64toh(ib->sib_sid), service(RDMA_PS_TCP, port));
	assert_int_equal(be64toh(ib->sib_sid_mask), all);
	expect_gid(rdma_get_local_addr(id), "127.0.0.1");
	assert_int_equal(rdma_get_peer_addr(id)->sa_family, AF_IB);
	assert_int_equal(rdma_get_dst_port(id), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, wildcard_gid__no_device_and_listens)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	assert_int_equal(rdma_bind_addr(id, bench_gid("::", 0, 0)), 0);
	assert_null(id->verbs);
	assert_int_equal(rdma_listen(id, 1), 0);
	expect_gid(rdma_get_local_addr(id), "::");
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, service_id_and_mask__port_space_of_the_id)
{
	static const struct {
		enum rdma_port_space ps;
		uint64_t sid, mask;
		int err;
		uint64_t space;
	} table[] = {
		{RDMA_PS_TCP, 0x01060000, RDMA_IB_IP_PS_MASK, 0, RDMA_PS_TCP},
		{RDMA_PS_UDP, 0x01110000, RDMA_IB_IP_PS_MASK, 0, RDMA_PS_UDP},
		{RDMA_PS_IB, 0x013f0000, RDMA_IB_IP_PS_MASK, 0, RDMA_PS_IB},
		/* Left open: the ID's own. */
		{RDMA_PS_TCP, 0x01110000, 0, 0, RDMA_PS_TCP},
		{RDMA_PS_IB, 0, 0, 0, RDMA_PS_IB},
		/* RDMA_PS_IB may have any of them, the others may not. */
		{RDMA_PS_IB, 0x01060000, RDMA_IB_IP_PS_MASK, 0, RDMA_PS_TCP},
		{RDMA_PS_IB, 0x01110000, RDMA_IB_IP_PS_MASK, 0, RDMA_PS_UDP},
		{RDMA_PS_TCP, 0x01110000, RDMA_IB_IP_PS_MASK, EPROTONOSUPPORT, 0},
		{RDMA_PS_UDP, 0x01060000, RDMA_IB_IP_PS_MASK, EPROTONOSUPPORT, 0},
		{RDMA_PS_TCP, 0x1234567800001, UINT64_MAX, EPROTONOSUPPORT, 0},
		{RDMA_PS_IB, 0x1234567800001, UINT64_MAX, EPROTONOSUPPORT, 0},
		{RDMA_PS_IPOIB, 0, 0, EPROTONOSUPPORT, 0},
	};
	struct rdma_event_channel *ch = start();

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rdma_cm_id *id = new_id(ch, table[i].ps);
		struct sockaddr *sa = bench_gid("::1", table[i].sid, table[i].mask);

		if (table[i].err) {
			assert_errno(rdma_bind_addr(id, sa), table[i].err);
		} else {
			assert_int_equal(rdma_bind_addr(id, sa), 0);
			assert_int_equal(be64toh(ib_of(rdma_get_local_addr(id))->sib_sid) >> 16,
					 table[i].space);
		}
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(ch);
}

TEST(bind, gid_and_ip_address__one_book_of_ports)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_TCP);
	struct rdma_cm_id *other = new_id(ch, RDMA_PS_IB);
	uint16_t port;

	assert_int_equal(rdma_bind_addr(a, bench_gid("127.0.0.1", 0, 0)), 0);
	port = ntohs(rdma_get_src_port(a));
	assert_errno(rdma_bind_addr(b, bench_addr("127.0.0.1", port)), EADDRINUSE);
	assert_errno(rdma_bind_addr(b, bench_addr("0.0.0.0", port)), EADDRINUSE);
	assert_errno(rdma_bind_addr(b, bench_gid("::", service(RDMA_PS_TCP, port), all)),
		     EADDRINUSE);
	/* By its service ID, not by the ID's port space. */
	assert_errno(rdma_bind_addr(other, bench_gid("::", service(RDMA_PS_TCP, port), all)),
		     EADDRINUSE);
	assert_int_equal(rdma_bind_addr(other, bench_gid("::", service(RDMA_PS_IB, port), all)), 0);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_bind_addr(b, bench_addr("127.0.0.1", port)), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(ch);
}

TEST(bind, loopback_address_of_no_device__wildcard)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *other = new_id(ch, RDMA_PS_TCP);
	struct rdma_cm_id *client;
	uint16_t port;

	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.77", 0)), 0);
	assert_null(id->verbs);
	port = ntohs(rdma_get_src_port(id));
	assert_errno(rdma_bind_addr(other, bench_addr("127.0.0.1", port)), EADDRINUSE);
	assert_int_equal(rdma_listen(id, 1), 0);
	client = bench_client(ch, "127.0.0.1", id);
	bench_qp(client);
	assert_int_equal(rdma_connect(client, NULL), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST), 0);
	rdma_destroy_qp(client);
	assert_int_equal(rdma_destroy_id(client), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
}

TEST(bind, link_local__with_its_interface)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct sockaddr_in6 *in6;

	assert_errno(rdma_bind_addr(id, bench_addr("fe80::77", 0)), EINVAL);
	in6 = (struct sockaddr_in6 *)(void *)bench_addr("fe80::77", 0);
	in6->sin6_scope_id = 9999;
	assert_errno(rdma_bind_addr(id, (struct sockaddr *)in6), ENODEV);
	in6->sin6_scope_id = if_nametoindex("lo");
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)in6), 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
	/* A GID is of one device. */
	id = new_id(ch, RDMA_PS_TCP);
	assert_int_equal(rdma_bind_addr(id, bench_gid("fe80::77", 0, 0)), 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* ---- resolve ---- */

TEST(resolve_addr, families_that_differ__einval)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	assert_errno(rdma_resolve_addr(id, bench_addr("0.0.0.0", 0), bench_addr("::1", 1), 1),
		     EINVAL);
	assert_errno(rdma_resolve_addr(id, bench_addr("127.0.0.1", 0),
				       bench_gid("127.0.0.1", 1, all), 1),
		     EINVAL);
	assert_errno(rdma_resolve_addr(id, NULL, &(struct sockaddr){.sa_family = AF_UNIX}, 1),
		     EINVAL);
	assert_int_equal(rdma_bind_addr(id, bench_addr("0.0.0.0", 0)), 0);
	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("::1", 1), 1), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve_addr, fails__destination_not_kept)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("192.0.2.1", 1), 1), ENETUNREACH);
	assert_int_equal(rdma_get_peer_addr(id)->sa_family, AF_UNSPEC);
	assert_int_equal(rdma_get_dst_port(id), 0);
	/* From the loopback address, too. */
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("192.0.2.1", 1), 1), -1);
	/* And another try is free. */
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 7), 1), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7);
	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 7), 1), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve_addr, source_port_given__kept)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *other = new_id(ch, RDMA_PS_TCP);

	assert_int_equal(
		rdma_resolve_addr(id, bench_addr("0.0.0.0", 7501), bench_addr("127.0.0.1", 7), 1),
		0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(ntohs(rdma_get_src_port(id)), 7501);
	assert_errno(rdma_bind_addr(other, bench_addr("127.0.0.1", 7501)), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(ch);
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *ch, enum rdma_port_space ps,
				   struct sockaddr *src, struct sockaddr *dst)
{
	struct rdma_cm_id *id = new_id(ch, ps);

	assert_int_equal(rdma_resolve_addr(id, src, dst, 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

TEST(resolve_addr, gid__both_addresses_are_gids)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id;

	id = resolved(ch, RDMA_PS_TCP, NULL, bench_gid("127.0.0.1", service(RDMA_PS_TCP, 7), all));
	expect_gid(rdma_get_local_addr(id), "127.0.0.1");
	expect_gid(rdma_get_peer_addr(id), "127.0.0.1");
	assert_int_equal(be64toh(ib_of(rdma_get_local_addr(id))->sib_sid),
			 service(RDMA_PS_TCP, ntohs(rdma_get_src_port(id))));
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7);
	assert_int_equal(rdma_destroy_id(id), 0);
	/* A wildcard is this host. */
	id = resolved(ch, RDMA_PS_IB, bench_gid("::", 0, 0),
		      bench_gid("::", service(RDMA_PS_TCP, 7), all));
	expect_gid(rdma_get_peer_addr(id), "::1");
	assert_int_equal(be64toh(ib_of(rdma_get_peer_addr(id))->sib_sid), service(RDMA_PS_TCP, 7));
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(resolve_addr, link_local_without_interface__found)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id;

	id = resolved(ch, RDMA_PS_TCP, NULL, bench_addr("fe80::77", 7));
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = resolved(ch, RDMA_PS_TCP, NULL, bench_gid("fe80::77", service(RDMA_PS_TCP, 7), all));
	expect_gid(rdma_get_local_addr(id), "fe80::77");
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* ---- neighbours ---- */

TEST(resolve_addr, neighbour_that_does_not_answer__addr_error_in_time)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *sync;

	bench_veth();
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.8", 7), 100), 0);
	/* Not while it waits. */
	assert_errno(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", 7), 100), EINVAL);
	assert_errno(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), EINVAL);
	assert_errno(rdma_resolve_route(id, 1), EINVAL);
	assert_errno(rdma_listen(id, 1), EINVAL);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	/* And then it may be tried again. */
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 100), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	/* A call that waits sets the flag. */
	assert_int_equal(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	assert_errno(rdma_resolve_addr(sync, NULL, bench_addr("10.1.1.8", 7), 100), ETIMEDOUT);
	assert_int_equal(rdma_destroy_id(sync), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(resolve_addr, neighbour_found_while_waited_for__resolved)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP), *bound = new_id(ch, RDMA_PS_TCP);

	bench_veth();
	assert_int_equal(rdma_bind_addr(bound, bench_addr("0.0.0.0", 7501)), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.7", 7), 60000), 0);
	assert_int_equal(rdma_resolve_addr(bound, NULL, bench_addr("10.1.1.7", 7), 60000), 0);
	bench_no_event(ch);
	assert_int_equal(rdma_get_src_port(id), 0);
	bench_ip("neighbour replace 10.1.1.7 lladdr 02:00:00:00:00:07 dev p0 nud permanent");
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_memory_equal(&((struct sockaddr_in *)(void *)rdma_get_local_addr(id))->sin_addr,
			    &((struct sockaddr_in *)(void *)bench_addr("10.1.1.1", 0))->sin_addr,
			    4);
	assert_int_equal(ntohs(rdma_get_src_port(bound)), 7501);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(bound), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

TEST(resolve_addr, from_loopback_to_another_host__einval)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	bench_veth();
	bench_ip("address add fd01::1/64 dev p0 nodad");
	bench_ip("neighbour add fd01::9 lladdr 02:00:00:00:00:09 dev p0 nud permanent");
	assert_errno(rdma_resolve_addr(id, bench_addr("::1", 0), bench_addr("fd01::9", 7), 100),
		     EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = new_id(ch, RDMA_PS_TCP);
	assert_errno(
		rdma_resolve_addr(id, bench_addr("127.0.0.1", 0), bench_addr("10.1.1.9", 7), 100),
		EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

/* A device's packets leave by its own interface, where the neighbour is another entry. */
TEST(resolve_addr, neighbour_of_another_interface_in_the_subnet__not_found)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	bench_veth();
	bench_ip("link add q0 type veth peer name q1");
	bench_ip("link set q1 up");
	bench_ip("link set q0 up");
	bench_ip("address add 10.1.1.3/24 dev q0");
	while (!bench_runs("q0"))
		sched_yield();
	/* Known on p0. */
	assert_int_equal(
		rdma_resolve_addr(id, bench_addr("10.1.1.3", 0), bench_addr("10.1.1.9", 7), 100),
		0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	bench_ip("neighbour replace 10.1.1.9 lladdr 02:00:00:00:00:09 dev q0 nud permanent");
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.9", 7), 100), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	/* This host's own address needs none. */
	assert_int_equal(rdma_destroy_id(id), 0);
	id = new_id(ch, RDMA_PS_TCP);
	assert_int_equal(
		rdma_resolve_addr(id, bench_addr("10.1.1.3", 0), bench_addr("10.1.1.1", 7), 100),
		0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete q0");
	bench_ip("link delete p0");
}

TEST(resolve_addr, destroyed_while_a_neighbour_is_waited_for__nothing_comes)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);

	bench_veth();
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.8", 7), 1), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = new_id(ch, RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("10.1.1.8", 7), 50), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
	bench_no_event(ch);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	bench_ip("link delete p0");
}

/* ---- connections ---- */

/* A listener at one address, a client to another, both of one host: the request comes, with the
 * client's data; answered. */
static void connect_pair(struct rdma_event_channel *ch, struct rdma_cm_id *listener,
			 struct rdma_cm_id *client, sa_family_t family)
{
	struct rdma_conn_param param = {
		.private_data = "hello", .private_data_len = 5, .retry_count = 7};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *server;
	bool ud = client->qp_type == IBV_QPT_UD;

	bench_qp(client);
	assert_int_equal(rdma_connect(client, &param), 0);
	ev = bench_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	server = ev->id;
	assert_memory_equal(ud ? ev->param.ud.private_data : ev->param.conn.private_data, "hello",
			    5);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_get_local_addr(server)->sa_family, family);
	assert_int_equal(rdma_get_peer_addr(server)->sa_family, family);
	assert_int_equal(rdma_get_src_port(server), rdma_get_src_port(listener));
	assert_int_equal(rdma_get_src_port(server), rdma_get_dst_port(client));
	assert_int_equal(rdma_get_dst_port(server), rdma_get_src_port(client));
	bench_qp(server);
	assert_int_equal(rdma_accept(server, &param), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ESTABLISHED), 0);
	if (!ud)
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ESTABLISHED), 0);
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	assert_int_equal(rdma_destroy_id(server), 0);
}

/* Which: 1 the listener, 2 the client uses AF_IB. */
static void connect_as(enum rdma_port_space ps, const char *at, const char *to, unsigned which)
{
	struct rdma_event_channel *ch = start();
	struct rdma_cm_id *listener = new_id(ch, ps), *client;
	uint16_t port;

	assert_int_equal(
		rdma_bind_addr(listener, which & 1 ? bench_gid(at, 0, 0) : bench_addr(at, 0)), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	port = ntohs(rdma_get_src_port(listener));
	client = resolved(ch, ps, NULL,
			  which & 2 ? bench_gid(to, service(ps, port), all) : bench_addr(to, port));
	connect_pair(ch, listener, client, rdma_get_local_addr(listener)->sa_family);
	assert_int_equal(rdma_destroy_id(client), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

TEST(connect, gids_or_ip_addresses__each_with_each)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_IB, RDMA_PS_UDP};

	for (unsigned i = 0; i < 3; i++)
		for (unsigned which = 0; which < 4; which++) {
			connect_as(spaces[i], "127.0.0.1", "127.0.0.1", which);
			connect_as(spaces[i], "::1", "::1", which);
			connect_as(spaces[i], "::", "::1", which);
			connect_as(spaces[i], "::", "127.0.0.1", which | 1);
		}
}

/* Annex A11: the header with IP addresses is for its own service IDs only. */
TEST(connect, service_outside_the_ip_services__no_header)
{
	struct rdma_event_channel *ch = start();
	uint8_t data[REQ_PRIVATE] = {1};
	struct rdma_conn_param param = {.private_data = data, .private_data_len = REQ_PRIVATE};
	struct rdma_cm_id *id;

	id = resolved(ch, RDMA_PS_IB, NULL, bench_gid("::1", service(RDMA_PS_IB, 7), all));
	bench_qp(id);
	assert_errno(rdma_connect(id, &param), EINVAL);
	param.private_data_len = REQ_PRIVATE - IP_HEADER;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_REJECTED), 8);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = resolved(ch, RDMA_PS_IB, NULL, bench_gid("::1", 0x1234567800001, all));
	bench_qp(id);
	param.private_data_len = REQ_PRIVATE;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_REJECTED), 8);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
