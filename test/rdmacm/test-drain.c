/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that disconnects: DISCONNECTED waits until completions were polled, for a bounded time.
 * The tests here replace libibverbs' report on completions; test/verbs tests the real one.
 */
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "bench.h"
#include "rdmacm/private.h"
#include "test.h"

/* Linked with --wrap=rcm_private. */
const struct rcm_private *__real_rcm_private(void);
const struct rcm_private *__wrap_rcm_private(void);

static struct {
	atomic_int looks;
	atomic_int unpolled_for; /* so many looks find completions */
	atomic_int watched;	 /* a channel's descriptor, or -1 */
	atomic_int events;	 /* looks after the first that found an event there */
	atomic_bool held;	 /* a check reports that it runs, and waits */
	sem_t there, go_on;
	uint32_t qpn;
} fake;

static bool fake_unpolled(struct ibv_context *context, uint32_t qpn)
{
	struct pollfd p = {.fd = atomic_load(&fake.watched), .events = POLLIN};
	const int look = atomic_fetch_add(&fake.looks, 1);

	(void)context;
	fake.qpn = qpn;
	atomic_fetch_add(&fake.events, poll(&p, 1, 0) == 1);
	if (atomic_load(&fake.held)) {
		sem_post(&fake.there);
		sem_wait(&fake.go_on);
	}
	return look < atomic_load(&fake.unpolled_for);
}

static struct rcm_private functions;

static void fake_functions(void)
{
	functions = *__real_rcm_private();
	functions.unpolled = fake_unpolled;
}

const struct rcm_private *__wrap_rcm_private(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fake_functions);
	return &functions;
}

static void begin(struct bench *b, int unpolled_for, bool held)
{
	bench_connect(b, "127.0.0.1");
	atomic_store(&fake.looks, 0);
	atomic_store(&fake.events, 0);
	atomic_store(&fake.unpolled_for, unpolled_for);
	atomic_store(&fake.held, held);
	atomic_store(&fake.watched, b->cch->fd);
	sem_init(&fake.there, 0, 0);
	sem_init(&fake.go_on, 0, 0);
}

TEST(disconnected, completions_not_polled__comes_when_they_are)
{
	struct bench b;

	begin(&b, 3, false);
	assert_int_equal(rdma_disconnect(b.server), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(atomic_load(&fake.looks), 4);
	assert_int_equal(atomic_load(&fake.events), 0);
	assert_int_equal(fake.qpn, b.client->qp->qp_num);
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(atomic_load(&fake.looks), 4); /* no wait after rdma_disconnect() */
	bench_end(&b);
}

TEST(disconnected, completions_never_polled__comes_nevertheless)
{
	struct bench b;

	begin(&b, 1000, false);
	assert_int_equal(rdma_disconnect(b.server), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(atomic_load(&fake.looks), 7);
	bench_end(&b);
}

TEST(disconnected, program_disconnects_meanwhile__comes_at_once)
{
	struct bench b;

	begin(&b, 1000, true);
	assert_int_equal(rdma_disconnect(b.server), 0);
	sem_wait(&fake.there);
	bench_no_event(b.cch);
	assert_int_equal(rdma_disconnect(b.client), 0);
	assert_int_equal(bench_expect(b.cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	sem_post(&fake.go_on);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_no_event(b.cch);
	assert_int_equal(atomic_load(&fake.looks), 1);
	bench_end(&b);
}

TEST(disconnected, id_destroyed_meanwhile__forgotten)
{
	struct bench b;

	begin(&b, 1000, true);
	assert_int_equal(rdma_disconnect(b.server), 0);
	sem_wait(&fake.there);
	rdma_destroy_qp(b.client);
	assert_int_equal(rdma_destroy_id(b.client), 0);
	b.client = NULL;
	sem_post(&fake.go_on);
	assert_int_equal(bench_expect(b.sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	bench_no_event(b.cch);
	assert_int_equal(atomic_load(&fake.looks), 1);
	bench_end(&b);
}
