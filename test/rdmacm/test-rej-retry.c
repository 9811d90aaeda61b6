/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests servers that stop listening: which ones are retried, and which ones are treated as gone. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "bench.h"
#include "test.h"

enum {
	ASKED_MS = 500, /* minimum time of retries to a former server */
	NOBODYS_PORT = 9,
	RUNS = 20, /* a busy machine may be late in all but one */
};

static struct rdma_cm_id *listen_at(struct rdma_event_channel *ch, uint16_t port)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", port)), 0);
	assert_int_equal(rdma_listen(id, 0), 0);
	return id;
}

/* Two that were connected, and no listener any more. @return its port */
static uint16_t serve_once(struct bench *b)
{
	uint16_t port;

	bench_connect(b, "127.0.0.1");
	port = ntohs(rdma_get_src_port(b->listener));
	assert_int_equal(rdma_destroy_id(b->listener), 0);
	b->listener = NULL;
	return port;
}

static struct rdma_cm_id *resolve(struct rdma_event_channel *ch, uint16_t port)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", port), 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
	return id;
}

/* @return ms from the request to the answer that there is no listener */
static long refused(struct rdma_event_channel *ch, uint16_t port)
{
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_id *id = resolve(ch, port);
	long begin = (long)monotonic_ms();

	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_REJECTED), 8);
	begin = (long)monotonic_ms() - begin;
	assert_int_equal(rdma_destroy_id(id), 0);
	return begin;
}

TEST(rej_retry, server_that_listens_again__connected)
{
	struct rdma_conn_param param = {
		.qp_num = 0x123, .private_data = "hi", .private_data_len = 2};
	struct rdma_event_channel *ch, *sch;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id, *listener;
	struct bench b;
	uint16_t port = serve_once(&b);

	ch = bench_channel();
	sch = bench_channel();
	id = resolve(ch, port);
	assert_int_equal(rdma_connect(id, &param), 0);
	listener = listen_at(sch, port);
	ev = bench_event(sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_memory_equal(ev->param.conn.private_data, "hi", 2);
	assert_int_equal(ev->param.conn.qp_num, 0x123);
	param.qp_num = 0x456;
	assert_int_equal(rdma_accept(ev->id, &param), 0);
	bench_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(sch);
	bench_end(&b);
}

TEST(rej_retry, server_that_does_not__rejected_after_half_a_second)
{
	struct rdma_event_channel *ch;
	struct bench b;
	uint16_t port = serve_once(&b);

	ch = bench_channel();
	assert_true(refused(ch, port) >= ASKED_MS);
	rdma_destroy_event_channel(ch);
	bench_end(&b);
}

/* Several wait at once, each at another point of its own series. */
TEST(rej_retry, many_that_are_refused__each_is_told)
{
	enum { MANY = 20 };
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_id *ids[MANY];
	struct rdma_event_channel *ch;
	struct bench b;
	uint16_t port = serve_once(&b);

	ch = bench_channel();
	for (unsigned i = 0; i < MANY; i++) {
		ids[i] = resolve(ch, port);
		param.qp_num++;
		assert_int_equal(rdma_connect(ids[i], &param), 0);
	}
	/* One that goes while it waits. */
	assert_int_equal(rdma_destroy_id(ids[3]), 0);
	for (unsigned i = 1; i < MANY; i++)
		assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_REJECTED), 8);
	bench_no_event(ch);
	for (unsigned i = 0; i < MANY; i++)
		if (i != 3)
			assert_int_equal(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(ch);
	bench_end(&b);
}

static void assert_at_once(struct rdma_event_channel *ch, uint16_t port)
{
	for (unsigned i = 0; i < RUNS; i++)
		if (refused(ch, port) < ASKED_MS / 2)
			return;
	fail_msg("a rejection takes its time");
}

TEST(rej_retry, port_that_has_never_served__rejected_at_once)
{
	struct rdma_event_channel *ch;
	struct bench b;

	serve_once(&b);
	ch = bench_channel();
	assert_at_once(ch, NOBODYS_PORT);
	rdma_destroy_event_channel(ch);
	bench_end(&b);
}

TEST(rej_retry, switched_off__rejected_at_once)
{
	struct rdma_event_channel *ch;
	struct bench b;
	uint16_t port = serve_once(&b);

	ch = bench_channel();
	assert_int_equal(setenv("ROCEMU_CM_AGAIN", "off", 1), 0);
	assert_at_once(ch, port);
	unsetenv("ROCEMU_CM_AGAIN");
	rdma_destroy_event_channel(ch);
	bench_end(&b);
}
