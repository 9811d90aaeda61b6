/* SPDX-License-Identifier: BSD-2-Clause */
/* Several threads at once, and processes that fork. For the thread sanitizer as much as for itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "test.h"

enum { THREADS = 4, TURNS = 25 };

/* ---- a server thread that answers all requests, until stopped ---- */

struct server {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	unsigned accepted, disconnected;
};

static void on_event(struct server *s, struct rdma_cm_event *ev)
{
	static uint32_t qpn = 0x100000;
	struct rdma_conn_param param = {.qp_num = qpn++};
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;

	rdma_ack_cm_event(ev);
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (rdma_accept(id, &param) == 0)
			s->accepted++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		s->disconnected++;
		rdma_disconnect(id);
		rdma_destroy_id(id);
		break;
	default:
		break;
	}
}

static void *serve(void *arg)
{
	struct server *s = arg;
	struct rdma_cm_event *ev;

	while (s->disconnected < THREADS * TURNS && rdma_get_cm_event(s->ch, &ev) == 0)
		on_event(s, ev);
	return NULL;
}

/* ---- clients ---- */

static int next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	bool good;

	if (rdma_get_cm_event(ch, &ev))
		return -1;
	good = ev->event == type && ev->status == 0;
	rdma_ack_cm_event(ev);
	return good ? 0 : -1;
}

/* Cmocka's assertions are for its own thread: 0, or the line that failed. */
static int connect_once(struct rdma_event_channel *ch, uint16_t port)
{
	/* A QPN may be in one connection only. */
	static atomic_uint qpn = 0x1000;
	struct rdma_conn_param param = {.qp_num = atomic_fetch_add(&qpn, 1)};
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
		return __LINE__;
	if (rdma_resolve_addr(id, NULL, bench_addr("127.0.0.1", port), 1) ||
	    next(ch, RDMA_CM_EVENT_ADDR_RESOLVED))
		return __LINE__;
	if (rdma_resolve_route(id, 1) || next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return __LINE__;
	if (rdma_connect(id, &param) || next(ch, RDMA_CM_EVENT_CONNECT_RESPONSE) ||
	    rdma_establish(id))
		return __LINE__;
	if (rdma_disconnect(id) || next(ch, RDMA_CM_EVENT_DISCONNECTED))
		return __LINE__;
	return rdma_destroy_id(id) ? __LINE__ : 0;
}

static void *connect_often(void *arg)
{
	uint16_t port = *(const uint16_t *)arg;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	intptr_t line = 0;

	for (int i = 0; ch && i < TURNS && !line; i++)
		line = connect_once(ch, port);
	if (ch)
		rdma_destroy_event_channel(ch);
	return (void *)line;
}

TEST(threads, four_connecting_to_a_fifth__every_connection_comes_and_goes)
{
	struct server s = {.ch = bench_channel()};
	pthread_t server, client[THREADS];
	uint16_t port;
	void *line;

	s.listener = bench_listener(s.ch, "127.0.0.1", RDMA_PS_TCP, 0);
	port = ntohs(rdma_get_src_port(s.listener));
	assert_int_equal(pthread_create(&server, NULL, serve, &s), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&client[i], NULL, connect_often, &port), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(client[i], &line), 0);
		assert_int_equal((intptr_t)line, 0);
	}
	assert_int_equal(pthread_join(server, NULL), 0);
	assert_int_equal(s.accepted, THREADS * TURNS);
	assert_int_equal(rdma_destroy_id(s.listener), 0);
	rdma_destroy_event_channel(s.ch);
}

static atomic_uint taken;

static void *take_events(void *arg)
{
	struct rdma_event_channel *ch = arg;
	struct rdma_cm_event *ev;

	while (atomic_load(&taken) < THREADS * TURNS && rdma_get_cm_event(ch, &ev) == 0) {
		rdma_ack_cm_event(ev);
		atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

TEST(threads, two_reading_one_channel__each_event_once)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id[THREADS * TURNS];
	pthread_t reader[2];

	atomic_store(&taken, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, take_events, ch), 0);
	for (int i = 0; i < THREADS * TURNS; i++) {
		assert_int_equal(rdma_create_id(ch, &id[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(id[i], NULL, bench_addr("127.0.0.1", 1), 1), 0);
	}
	/* One of them may wait for an event that the other took last: one more for it. */
	while (atomic_load(&taken) < THREADS * TURNS)
		sched_yield();
	assert_int_equal(rdma_resolve_route(id[0], 1), 0);
	assert_int_equal(rdma_resolve_route(id[1], 1), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(reader[i], NULL), 0);
	for (int i = 0; i < THREADS * TURNS; i++)
		assert_int_equal(rdma_destroy_id(id[i]), 0);
	rdma_destroy_event_channel(ch);
}

TEST(fork, child_of_a_process_with_connections__connects_on_its_own)
{
	struct bench b;
	struct rdma_cm_event *ev;
	uint16_t port;
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	bench_connect(&b, "127.0.0.1");
	port = ntohs(rdma_get_src_port(b.listener));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rdma_event_channel *ch = rdma_create_event_channel();

		/* What the parent has is not the child's to use. */
		if (!ch || rdma_disconnect(b.client) == 0 || errno != EINVAL)
			_exit(1);
		if (connect_once(ch, port))
			_exit(2);
		/* Nor when it has connection management of its own. */
		_exit(rdma_disconnect(b.client) == 0 || errno != EINVAL ? 3 : 0);
	}
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_accept(ev->id, &(struct rdma_conn_param){.qp_num = 0x123}), 0);
	rdma_ack_cm_event(ev);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_DISCONNECTED);
	assert_ptr_not_equal(ev->id, b.server);
	rdma_disconnect(ev->id);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	{
		struct rdma_cm_id *id = ev->id;

		rdma_ack_cm_event(ev);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	/* The parent's connection is untouched. */
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_end(&b);
}
