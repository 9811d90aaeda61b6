/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that end in a signal's handler, in the middle of a call: exit() runs the destructors of
 * libraries in the thread that was interrupted, with all locks that it holds.
 */
#include <arpa/inet.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "habits.h"

enum { CHILDREN = 100, WARM_US = 2000, RANDOM_US = 20000, WORDS = 64 };

static struct server server;

static void leave(int signal)
{
	(void)signal;
	exit(0);
}

/** The handler is to run in this thread, and not before it is about to begin its calls. */
static void leave_soon(void)
{
	const unsigned us = WARM_US + (unsigned)random() % RANDOM_US;
	const struct itimerval timer = {.it_value.tv_usec = us};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
}

static void data(void)
{
	struct end e;

	end_open(&e);
	end_connect(&e, &e);
	leave_soon();
	for (;;) {
		CHECK(!end_post(&e, &e, 3000));
		end_wait(&e);
	}
}

static void events(void)
{
	struct ibv_cq *cq;
	void *context;
	struct end e;

	end_open(&e);
	end_connect(&e, &e);
	leave_soon();
	for (;;) {
		CHECK(!ibv_req_notify_cq(e.cq, 0));
		CHECK(!end_post(&e, &e, 3000));
		CHECK(!ibv_get_cq_event(e.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		end_wait(&e);
	}
}

static void objects(void)
{
	struct end e;

	end_open(&e);
	leave_soon();
	for (;;) {
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
						.send_cq = e.cq,
						.recv_cq = e.cq,
						.cap = {4, 4, 1, 1, 0}};
		struct ibv_qp *qp = ibv_create_qp(e.pd, &init);
		struct ibv_mr *mr = ibv_reg_mr(e.pd, e.buf, BUF, 0);

		CHECK(qp && mr);
		CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
	}
}

static void devices(void)
{
	leave_soon();
	for (;;) {
		struct end e;

		end_open(&e);
		end_close(&e);
	}
}

static void connections(void)
{
	server_start(&server);
	server_use(&server);
	leave_soon();
	for (;;)
		server_use(&server);
}

/** rdma_cm's calls that are over at once. */
static void ids(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel);
	leave_soon();
	for (;;) {
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 10000));
		CHECK(!rdma_get_cm_event(channel, &event));
		CHECK(!rdma_ack_cm_event(event));
		CHECK(!rdma_destroy_id(id));
	}
}

static void *echo(void *arg)
{
	const int fd = raccept(*(int *)arg, NULL, NULL);
	char words[WORDS];
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = rrecv(fd, words, sizeof(words), 0)) > 0)
		CHECK(rsend(fd, words, (size_t)n, 0) == n);
	return NULL;
}

static void streams(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);
	char words[WORDS] = "";
	pthread_t thread;

	CHECK(listener >= 0 && fd >= 0);
	CHECK(!rbind(listener, (struct sockaddr *)&at, sizeof(at)) && !rlisten(listener, 1));
	CHECK(!rgetsockname(listener, (struct sockaddr *)&at, &len));
	CHECK(!pthread_create(&thread, NULL, echo, &listener));
	CHECK(!rconnect(fd, (struct sockaddr *)&at, sizeof(at)));
	leave_soon();
	for (;;) {
		CHECK(rsend(fd, words, sizeof(words), 0) == sizeof(words));
		CHECK(rrecv(fd, words, sizeof(words), MSG_WAITALL) == sizeof(words));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} work[] = {
	{"data", data},	      {"events", events},	    {"objects", objects},
	{"devices", devices}, {"connections", connections}, {"ids", ids},
	{"streams", streams},
};

int run_exit(const char *what)
{
	sigset_t set;
	unsigned at = 0;

	while (at < sizeof(work) / sizeof(*work) && strcmp(work[at].name, what) != 0)
		at++;
	CHECK(at < sizeof(work) / sizeof(*work));
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	CHECK(signal(SIGALRM, leave) != SIG_ERR);
	for (unsigned i = 0; i < CHILDREN; i++) {
		const pid_t child = fork();

		if (!child) {
			srandom(i);
			work[at].run();
		}
		wait_for(child);
	}
	return 0;
}
