/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads are cancelled wherever they are in calls, many times; what they used still works for
 * other threads, and events that they did not take are there for others.
 */
#include <arpa/inet.h>
#include <rdma/rsocket.h>
#include <sched.h>
#include <unistd.h>

#include "habits.h"

enum { ROUNDS = 100, STREAM_ROUNDS = 40 };

static struct end a, b;
static atomic_uint progress; /* of the thread that is to be cancelled */

/** Start a thread, let it get somewhere, cancel it. */
static void cancel_one(void *(*call)(void *), void *arg, unsigned round)
{
	pthread_t thread;
	void *result;

	progress = 0;
	CHECK(!pthread_create(&thread, NULL, call, arg));
	while (progress <= round % 7)
		sched_yield();
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

/** The QP works: an operation completes, after all that was posted before. */
static void use_qp(uint64_t mark)
{
	struct ibv_sge sge = {.addr = (uintptr_t)a.buf, .length = 8, .lkey = a.mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = mark,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {.remote_addr = (uintptr_t)b.buf, .rkey = b.mr->rkey},
		};
	struct ibv_wc wc;
	int n;

	CHECK(ibv_post_send(a.qp, &wr, &bad) == 0);
	do {
		while ((n = ibv_poll_cq(a.cq, 1, &wc)) == 0)
			;
		CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
	} while (wc.wr_id != mark);
}

static void open_both(void)
{
	end_open(&a);
	end_open(&b);
	end_connect(&a, &b);
	end_connect(&b, &a);
}

static void close_both(void)
{
	end_close(&a);
	end_close(&b);
}

/* ---- posts and polls ---- */

static void *post(void *unused)
{
	for (;;) {
		CHECK(end_post(&a, &b, 4096) == 0);
		progress++;
		end_wait(&a);
		pthread_testcancel();
	}
	return unused;
}

static void *poll_empty(void *unused)
{
	struct ibv_wc wc;

	for (;;) {
		CHECK(ibv_poll_cq(a.cq, 1, &wc) == 0);
		progress++;
		pthread_testcancel();
	}
	return unused;
}

static void data(void)
{
	open_both();
	for (unsigned i = 0; i < ROUNDS; i++) {
		cancel_one(post, NULL, i);
		use_qp(i + 1);
		cancel_one(poll_empty, NULL, i);
		use_qp(i + 1);
	}
	close_both();
}

/* ---- events ---- */

static void take_event(void)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(!ibv_get_cq_event(a.channel, &cq, &context));
	CHECK(cq == a.cq);
	ibv_ack_cq_events(cq, 1);
}

static void *wait_event(void *arg)
{
	atomic_bool *taken = arg;

	progress = 100;
	take_event();
	*taken = true;
	for (;;)
		pause();
	return NULL;
}

static void *wait_async(void *unused)
{
	struct ibv_async_event ev;

	progress = 100;
	ibv_get_async_event(a.ctx, &ev);
	return unused;
}

static void *post_armed(void *unused)
{
	CHECK(end_post(&a, &b, 8) == 0);
	return unused;
}

/** The event comes while its reader is cancelled: either the reader took it, or we can. */
static void events(void)
{
	pthread_t poster;

	open_both();
	for (unsigned i = 0; i < ROUNDS; i++) {
		atomic_bool taken = false;

		CHECK(!ibv_req_notify_cq(a.cq, 0));
		CHECK(!pthread_create(&poster, NULL, post_armed, NULL));
		cancel_one(wait_event, &taken, i);
		CHECK(!pthread_join(poster, NULL));
		if (!taken)
			take_event();
		end_wait(&a);
		cancel_one(wait_async, NULL, i);
	}
	close_both();
}

/* ---- every call: cancelled in its first cancellation point, if it has one ---- */

struct stepped {
	void *(*call)(void *arg);
	void *arg;
	unsigned at;
};

static void *run_to_step(void *arg)
{
	const struct stepped *s = arg;

	cancel_at = s->at;
	s->call(s->arg);
	return cancel_at ? NULL : s->arg;
}

/** @return false: there are fewer steps. */
static bool cancel_at_step(void *(*call)(void *), void *arg, unsigned at)
{
	struct stepped s = {call, arg, at};
	pthread_t thread;
	void *result;

	CHECK(!pthread_create(&thread, NULL, run_to_step, &s));
	CHECK(!pthread_join(thread, &result));
	return result != NULL;
}

static void *use_server(void *server)
{
	server_use(server);
	return NULL;
}

static void connections(void)
{
	struct server server;

	server_start(&server);
	for (unsigned at = 1; cancel_at_step(use_server, &server, at); at++)
		server_use(&server);
	server_stop(&server);
}

static void *use_objects(void *unused)
{
	struct end e;

	end_open(&e);
	end_connect(&e, &e);
	CHECK(end_post(&e, &e, BUF) == 0);
	end_wait(&e);
	end_close(&e);
	return unused;
}

static void objects(void)
{
	for (unsigned at = 1; cancel_at_step(use_objects, &a, at); at++)
		use_objects(NULL);
}

/* ---- streams ---- */

struct stream {
	int listener, client, server;
	struct sockaddr_in at;
};

static void *accept_one(void *arg)
{
	struct stream *s = arg;

	CHECK((s->server = raccept(s->listener, NULL, NULL)) >= 0);
	return NULL;
}

static void *accept_none(void *arg)
{
	struct stream *s = arg;

	progress = 100;
	raccept(s->listener, NULL, NULL);
	return NULL;
}

static void *receive(void *arg)
{
	const struct stream *s = arg;
	char buf[512];

	progress = 100;
	while (rrecv(s->client, buf, sizeof(buf), 0) > 0)
		;
	return NULL;
}

static void *send_all(void *arg)
{
	const struct stream *s = arg;
	static char buf[4096];

	while (rsend(s->server, buf, sizeof(buf), 0) > 0)
		progress++;
	return NULL;
}

static void *poll_both(void *arg)
{
	const struct stream *s = arg;
	struct pollfd fds[2] = {{.fd = s->listener, .events = POLLIN},
				{.fd = s->client, .events = POLLPRI}};

	for (;;) {
		progress++;
		rpoll(fds, 2, 1);
	}
	return NULL;
}

static void streams(void)
{
	struct stream s = {
		.at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(s.at);
	char byte = 1;

	CHECK((s.listener = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(!rbind(s.listener, (struct sockaddr *)&s.at, sizeof(s.at)));
	CHECK(!rlisten(s.listener, 8));
	CHECK(!rgetsockname(s.listener, (struct sockaddr *)&s.at, &len));
	for (unsigned i = 0; i < STREAM_ROUNDS; i++) {
		pthread_t thread;

		cancel_one(accept_none, &s, i);
		CHECK(!pthread_create(&thread, NULL, accept_one, &s));
		CHECK((s.client = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
		CHECK(!rconnect(s.client, (struct sockaddr *)&s.at, sizeof(s.at)));
		CHECK(!pthread_join(thread, NULL));
		cancel_one(receive, &s, i);
		cancel_one(poll_both, &s, i);
		/* There is no reader: it ends asleep, or busy. */
		cancel_one(send_all, &s, i);
		CHECK(rsend(s.client, &byte, 1, 0) == 1);
		CHECK(rrecv(s.server, &byte, 1, 0) == 1);
		/* It waits for threads that use the socket. */
		CHECK(!rclose(s.client));
		CHECK(!rclose(s.server));
	}
	CHECK(!rclose(s.listener));
}

int run_cancel(const char *what)
{
	if (strcmp(what, "data") == 0)
		data();
	else if (strcmp(what, "events") == 0)
		events();
	else if (strcmp(what, "objects") == 0)
		objects();
	else if (strcmp(what, "connections") == 0)
		connections();
	else if (strcmp(what, "streams") == 0)
		streams();
	else
		return 2;
	return 0;
}
