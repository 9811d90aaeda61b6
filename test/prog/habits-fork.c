/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that fork while their threads have traffic and connections: the fork returns, the
 * parent goes on, and the child's copies fail, can be destroyed and do not keep it from having its
 * own.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "habits.h"

enum { FORKS = 150, DESTROYERS = 25, SPAWNS = 40 };

extern char **environ;

static struct end a, b;
static struct server server;
static atomic_bool stop;
static atomic_uint written, events, connected;

/* ---- what the parent's threads do ---- */

static void *write_data(void *unused)
{
	while (!stop) {
		CHECK(end_post(&a, &b, 8192) == 0);
		end_wait(&a);
		written++;
	}
	return unused;
}

/** The other way, by events. */
static void *write_asleep(void *unused)
{
	while (!stop) {
		struct ibv_cq *cq;
		void *context;

		CHECK(!ibv_req_notify_cq(b.cq, 0));
		CHECK(end_post(&b, &a, 8) == 0);
		CHECK(!ibv_get_cq_event(b.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		end_wait(&b);
		events++;
	}
	return unused;
}

static void *connect_again(void *unused)
{
	while (!stop) {
		server_use(&server);
		connected++;
	}
	return unused;
}

static void *(*const busy[])(void *) = {write_data, write_asleep, connect_again};
static pthread_t threads[3];

static void begin(void)
{
	end_open(&a);
	end_open(&b);
	end_connect(&a, &b);
	end_connect(&b, &a);
	server_start(&server);
	for (unsigned i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, busy[i], NULL));
}

/** All of them still get somewhere. */
static void finish(void)
{
	const unsigned w = written, e = events, c = connected;

	while (written == w || events == e || connected == c)
		usleep(100);
	stop = true;
	for (unsigned i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	server_stop(&server);
	end_close(&a);
	end_close(&b);
}

/* ---- what children do ---- */

static void use_refused(void)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad_recv, recv = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event async;
	struct rdma_cm_event *ev;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	CHECK(ibv_post_send(a.qp, &wr, &bad) == ENODEV && bad == &wr);
	CHECK(ibv_post_recv(a.qp, &recv, &bad_recv) == ENODEV && bad_recv == &recv);
	CHECK(ibv_poll_cq(a.cq, 1, &wc) == -1 && errno == ENODEV);
	CHECK(ibv_req_notify_cq(a.cq, 0) == ENODEV);
	CHECK(ibv_get_cq_event(b.channel, &cq, &context) == -1 && errno == ENODEV);
	CHECK(ibv_get_async_event(a.ctx, &async) == -1 && errno == ENODEV);
	CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE) == ENODEV);
	CHECK(!ibv_alloc_pd(a.ctx) && errno == ENODEV);
	CHECK(!ibv_reg_mr(a.pd, a.buf, 8, 0) && errno == ENODEV);
	CHECK(!ibv_create_cq(a.ctx, 1, NULL, NULL, 0) && errno == ENODEV);
	CHECK(rdma_get_cm_event(server.channel, &ev) == -1 && errno == ENODEV);
	CHECK(rdma_listen(server.listener, 1) == -1 && errno == EINVAL);
}

static void destroy_inherited(void)
{
	CHECK(!rdma_destroy_id(server.listener));
	rdma_destroy_event_channel(server.channel);
	end_close(&a);
	end_close(&b);
}

static void use_own(void)
{
	struct server own;
	struct end e;

	end_open(&e);
	end_connect(&e, &e);
	CHECK(end_post(&e, &e, BUF) == 0);
	end_wait(&e);
	end_close(&e);
	server_start(&own);
	server_use(&own);
	server_stop(&own);
}

/* ---- parts ---- */

/** Forks one after another, at any moment of the threads. */
static void locks(void)
{
	begin();
	for (unsigned i = 0; i < FORKS; i++) {
		const pid_t child = fork();

		if (child == 0)
			_exit(0);
		wait_for(child);
	}
	finish();
}

static void destroy(void)
{
	begin();
	for (unsigned i = 0; i < DESTROYERS; i++) {
		const pid_t child = fork();

		if (child == 0) {
			if (i % 2)
				use_refused();
			destroy_inherited();
			if (i % 5 == 0)
				use_own();
			_exit(0);
		}
		wait_for(child);
	}
	finish();
}

/** A server that becomes a daemon when all is set up: its parent is gone at once. */
static void become_daemon(void)
{
	int fds[2];
	char done = 0;
	pid_t child;

	CHECK(!pipe(fds));
	child = fork();
	if (child == 0) {
		end_open(&a);
		end_open(&b);
		end_connect(&a, &b);
		end_connect(&b, &a);
		server_start(&server);
		server_use(&server);
		CHECK(end_post(&a, &b, 8) == 0);
		end_wait(&a);
		CHECK(!daemon(1, 1));
		use_refused();
		destroy_inherited();
		use_own();
		CHECK(write(fds[1], "y", 1) == 1);
		_exit(0);
	}
	close(fds[1]);
	wait_for(child);
	CHECK(read(fds[0], &done, 1) == 1 && done == 'y');
}

/** posix_spawn(), system() and vfork() run no fork handlers. */
static void spawn(void)
{
	char name[] = "true", *argv[] = {name, NULL};

	begin();
	for (unsigned i = 0; i < SPAWNS; i++) {
		pid_t child;

		CHECK(!posix_spawnp(&child, name, NULL, NULL, argv, environ));
		wait_for(child);
		CHECK(system("true") == 0);
		child = vfork();
		if (child == 0) {
			execvp(name, argv);
			_exit(1);
		}
		wait_for(child);
	}
	finish();
}

/* ---- a channel made for the child ---- */

static void channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct pollfd fds = {.events = POLLIN};
	int posted[2], looked[2];
	pid_t child;
	char byte = 0;

	CHECK(ch && !pipe(posted) && !pipe(looked));
	fds.fd = ch->fd;
	child = fork();
	if (child == 0) {
		close(looked[1]);
		CHECK(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000));
		CHECK(poll(&fds, 1, -1) == 1);
		CHECK(write(posted[1], &byte, 1) == 1 && read(looked[0], &byte, 1) == 1);
		CHECK(!rdma_get_cm_event(ch, &ev) && ev->id == id);
		CHECK(!rdma_ack_cm_event(ev) && !rdma_destroy_id(id));
		rdma_destroy_event_channel(ch);
		_exit(0);
	}
	close(posted[1]);
	CHECK(read(posted[0], &byte, 1) == 1);
	CHECK(poll(&fds, 1, 0) == 0); /* the child's event is the child's */
	CHECK(write(looked[1], &byte, 1) == 1);
	wait_for(child);
	rdma_destroy_event_channel(ch);
}

/* ---- rsockets ---- */

static int listen_at(struct sockaddr_in *at)
{
	const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(fd >= 0 && !rbind(fd, (struct sockaddr *)at, sizeof(*at)) && !rlisten(fd, 8));
	CHECK(!rgetsockname(fd, (struct sockaddr *)at, &len));
	return fd;
}

static void *echo(void *arg)
{
	const int listener = *(int *)arg, fd = raccept(listener, NULL, NULL);
	char byte;

	CHECK(fd >= 0);
	while (rrecv(fd, &byte, 1, 0) == 1)
		CHECK(rsend(fd, &byte, 1, 0) == 1);
	CHECK(!rclose(fd));
	return arg;
}

/** Connect, send and receive until stopped (or once). */
static void converse(struct sockaddr_in *at, int *socket, const atomic_bool *until)
{
	char byte = 7;

	*socket = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(*socket >= 0 && !rconnect(*socket, (struct sockaddr *)at, sizeof(*at)));
	do {
		CHECK(rsend(*socket, &byte, 1, 0) == 1 && rrecv(*socket, &byte, 1, 0) == 1);
		written++;
	} while (until && !*until);
	CHECK(!rclose(*socket));
}

struct talk {
	int listener, socket;
	struct sockaddr_in at;
};

static void *talk(void *arg)
{
	struct talk *t = arg;

	converse(&t->at, &t->socket, &stop);
	return NULL;
}

static void one_stream(void)
{
	struct talk t;
	pthread_t thread;

	t.listener = listen_at(&t.at);
	CHECK(!pthread_create(&thread, NULL, echo, &t.listener));
	converse(&t.at, &t.socket, NULL);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rclose(t.listener));
}

static void streams(void)
{
	pthread_t server_thread, client_thread;
	struct talk t;

	t.listener = listen_at(&t.at);
	CHECK(!pthread_create(&server_thread, NULL, echo, &t.listener));
	CHECK(!pthread_create(&client_thread, NULL, talk, &t));
	while (written == 0)
		usleep(100);
	for (unsigned i = 0; i < DESTROYERS; i++) {
		const pid_t child = fork();

		if (child == 0) {
			struct pollfd fds = {.fd = t.socket, .events = POLLIN};
			char byte = 1;

			CHECK(rsend(t.socket, &byte, 1, 0) == -1 && errno == ENODEV);
			CHECK(rrecv(t.socket, &byte, 1, 0) == -1 && errno == ENODEV);
			CHECK(raccept(t.listener, NULL, NULL) == -1 && errno == ENODEV);
			CHECK(rpoll(&fds, 1, -1) == 1 && fds.revents == POLLERR);
			CHECK(!rclose(t.socket) && !rclose(t.listener));
			if (i % 5 == 0)
				one_stream();
			_exit(0);
		}
		wait_for(child);
	}
	stop = true;
	CHECK(!pthread_join(client_thread, NULL));
	CHECK(!pthread_join(server_thread, NULL));
	CHECK(!rclose(t.listener));
}

int run_fork(const char *what)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"locks", locks}, {"destroy", destroy}, {"daemon", become_daemon},
		     {"spawn", spawn}, {"channel", channel}, {"streams", streams}};

	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(what, parts[i].name) != 0)
			continue;
		parts[i].run();
		return 0;
	}
	return 2;
}

void run_closed(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	CHECK(ch && !rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&at) && !rdma_listen(id, 0));
	for (int fd = 3; fd < (int)sysconf(_SC_OPEN_MAX) && fd < 1 << 16; fd++)
		close(fd);
	printf("closed\n");
	for (;;)
		pause();
}
