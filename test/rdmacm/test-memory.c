/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No memory for events: what the program waits for comes all the same, for an event that was lost
 * does not come again. A request does: its peer sends it again.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "rdmacm/channel.h"
#include "test.h"

/*
 * Linked with --wrap=calloc. Visible: sanitized libraries that look up calloc would get this one;
 * they get their own.
 */
void *__real_calloc(size_t n, size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t n, size_t size);

/* On whatever thread. */
static atomic_bool no_memory; /* for events */
static atomic_bool no_channel;
static atomic_uint refused; /* events */

void *__wrap_calloc(size_t n, size_t size)
{
	if (atomic_load(&no_memory) && size == sizeof(struct rcm_event)) {
		atomic_fetch_add(&refused, 1);
		return NULL;
	}
	if (atomic_load(&no_channel) && size == sizeof(struct rcm_channel))
		return NULL;
	return __real_calloc(n, size);
}

/* What was dropped comes again soon. */
__attribute__((constructor)) static void hurry(void)
{
	setenv("ROCEMU_TIME_SCALE", "20", 1);
}

/*
 * A client that has sent its request and a server that has received it: from here on there is no
 * memory.
 */
static void ask(struct bench *b, bool qp)
{
	struct rdma_conn_param param = {.qp_num = 0x123, .retry_count = 7};
	struct rdma_cm_event *ev;

	*b = (struct bench){.cch = bench_channel(), .sch = bench_channel()};
	b->listener = bench_listener(b->sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b->client = bench_client(b->cch, "127.0.0.1", b->listener);
	if (qp)
		bench_qp(b->client);
	assert_int_equal(rdma_connect(b->client, &param), 0);
	ev = bench_event(b->sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b->server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	atomic_store(&no_memory, true);
}

static void end(struct bench *b)
{
	atomic_store(&no_memory, false);
	bench_end(b);
}

static void accept_and_disconnect(bool qp)
{
	struct rdma_conn_param param = {.qp_num = 0x456};
	struct bench b;

	ask(&b, qp);
	assert_int_equal(rdma_accept(b.server, &param), 0);
	bench_expect(b.cch, qp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (!qp)
		assert_int_equal(rdma_establish(b.client), 0);
	bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_disconnect(b.client), 0);
	bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rdma_disconnect(b.server), 0);
	bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED);
	bench_expect(b.cch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bench_expect(b.sch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	end(&b);
}

TEST(memory, none_for_any_event_of_a_connection__all_come)
{
	accept_and_disconnect(true);
}

TEST(memory, none_and_the_qp_is_the_programs__all_come)
{
	accept_and_disconnect(false);
}

TEST(memory, none_for_a_rejection__the_program_is_told)
{
	struct bench b;

	ask(&b, false);
	assert_int_equal(rdma_reject(b.server, NULL, 0), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_REJECTED), 28);
	end(&b);
}

TEST(memory, none_and_nothing_is_acknowledged__all_come)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED,
		RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_TIMEWAIT_EXIT};
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_event *ev[ARRAY_LEN(types)], *req;
	uint16_t port;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	port = ntohs(rdma_get_src_port(b.listener));
	assert_int_equal(rdma_create_id(b.cch, &b.client, NULL, RDMA_PS_TCP), 0);
	atomic_store(&no_memory, true);
	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		if (types[i] == RDMA_CM_EVENT_ADDR_RESOLVED)
			assert_int_equal(rdma_resolve_addr(b.client, NULL,
							   bench_addr("127.0.0.1", port), 1000),
					 0);
		if (types[i] == RDMA_CM_EVENT_ROUTE_RESOLVED)
			assert_int_equal(rdma_resolve_route(b.client, 1000), 0);
		if (types[i] == RDMA_CM_EVENT_CONNECT_RESPONSE) {
			/* Only the request is given memory. */
			atomic_store(&no_memory, false);
			assert_int_equal(rdma_connect(b.client, &param), 0);
			req = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
			b.server = req->id;
			assert_int_equal(rdma_ack_cm_event(req), 0);
			atomic_store(&no_memory, true);
			param.qp_num = 0x456;
			assert_int_equal(rdma_accept(b.server, &param), 0);
		}
		if (types[i] == RDMA_CM_EVENT_DISCONNECTED) {
			assert_int_equal(rdma_establish(b.client), 0);
			bench_expect(b.sch, RDMA_CM_EVENT_ESTABLISHED);
			assert_int_equal(rdma_disconnect(b.server), 0);
		}
		if (types[i] == RDMA_CM_EVENT_TIMEWAIT_EXIT)
			assert_int_equal(rdma_disconnect(b.client), 0);
		ev[i] = bench_event(b.cch, types[i]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		assert_ptr_equal(ev[i]->id, b.client);
		assert_int_equal(ev[i]->event, types[i]);
		assert_int_equal(rdma_ack_cm_event(ev[i]), 0);
	}
	end(&b);
}

TEST(memory, none_for_a_lookup__the_program_is_told)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x456};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_UDP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_connect(b.client, NULL), 0);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	atomic_store(&no_memory, true);
	assert_int_equal(rdma_accept(b.server, &param), 0);
	ev = bench_event(b.cch, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(ev->param.ud.qp_num, 0x456);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	end(&b);
}

/* As with the kernel and with TCP. */
TEST(memory, none_for_a_request__the_peers_next_try_is_taken)
{
	struct bench b = {.cch = bench_channel(), .sch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_event *ev;

	b.listener = bench_listener(b.sch, "127.0.0.1", RDMA_PS_TCP, 0);
	b.client = bench_client(b.cch, "127.0.0.1", b.listener);
	atomic_store(&no_memory, true);
	assert_int_equal(rdma_connect(b.client, &param), 0);
	while (atomic_load(&refused) == 0)
		sched_yield();
	bench_no_event(b.sch);
	atomic_store(&no_memory, false);
	ev = bench_event(b.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b.server = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	bench_no_event(b.cch);
	end(&b);
}

/* A synchronous ID has a channel of its own. Without one it could wait for nothing. */
TEST(memory, none_for_a_synchronous_requests_channel__refused_and_the_peer_is_told)
{
	struct bench b = {.cch = bench_channel()};
	struct rdma_conn_param param = {.qp_num = 0x123};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &b.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(b.listener, bench_addr("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_listen(b.listener, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		b.client = bench_client(b.cch, "127.0.0.1", b.listener);
		param.qp_num++;
		assert_int_equal(rdma_connect(b.client, &param), 0);
		atomic_store(&no_channel, i == 0);
		if (i == 0)
			assert_errno(rdma_get_request(b.listener, &id), ENOMEM);
		else
			assert_int_equal(rdma_get_request(b.listener, &id), 0);
		atomic_store(&no_channel, false);
		if (i == 1)
			assert_int_equal(rdma_destroy_id(id), 0);
		assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_REJECTED), 28);
		assert_int_equal(rdma_destroy_id(b.client), 0);
	}
	assert_int_equal(rdma_destroy_id(b.listener), 0);
	rdma_destroy_event_channel(b.cch);
}

/* A call that causes an event returns the error instead. */
TEST(memory, none_for_a_group__refused)
{
	struct rdma_event_channel *ch = bench_channel();
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	atomic_store(&no_memory, true);
	assert_errno(rdma_join_multicast(id, bench_addr("239.1.2.3", 0), NULL), ENOMEM);
	atomic_store(&no_memory, false);
	bench_no_event(ch);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
