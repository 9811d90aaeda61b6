/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An agent that does not answer a request: the call that made it waits, and nothing else does.
 * Linked with --wrap=agent_msg_send, so that a test holds a request back until it releases it. A
 * test whose threads wait for each other ends by the test runner's limit.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/protocol.h"
#include "bench.h"
#include "test.h"

int __real_agent_msg_send(int sock, const struct agent_msg *m, int flags);
int __wrap_agent_msg_send(int sock, const struct agent_msg *m, int flags);

static atomic_uint held; /* the type of request that is held back once; 0: none */
static sem_t there, go_on;

int __wrap_agent_msg_send(int sock, const struct agent_msg *m, int flags)
{
	unsigned type = m->type;

	if (atomic_compare_exchange_strong(&held, &type, 0)) {
		sem_post(&there);
		sem_wait(&go_on);
	}
	return __real_agent_msg_send(sock, m, flags);
}

static void hold(enum agent_msg_type type)
{
	sem_init(&there, 0, 0);
	sem_init(&go_on, 0, 0);
	atomic_store(&held, type);
}

static void wait_held(void)
{
	while (sem_wait(&there))
		assert_int_equal(errno, EINTR);
}

/* ---- what is done meanwhile, by this thread and by the library's ---- */

/* A connection to a listener that is there, from its ID to its end. */
static void connect_and_leave(struct bench *b)
{
	/* A QPN may be in one connection only. */
	static uint32_t qpn = 0x1000;
	struct rdma_conn_param param = {.qp_num = qpn++};
	struct rdma_cm_id *client = bench_client(b->cch, "127.0.0.1", b->listener), *server;
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_connect(client, &param), 0);
	ev = bench_event(b->sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	server = ev->id;
	rdma_ack_cm_event(ev);
	param.qp_num = qpn++;
	assert_int_equal(rdma_accept(server, &param), 0);
	assert_int_equal(bench_expect(b->cch, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
	assert_int_equal(rdma_establish(client), 0);
	assert_int_equal(bench_expect(b->sch, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(rdma_disconnect(client), 0);
	assert_int_equal(bench_expect(b->sch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_disconnect(server), 0);
	assert_int_equal(bench_expect(b->cch, RDMA_CM_EVENT_DISCONNECTED), 0);
	assert_int_equal(rdma_destroy_id(client), 0);
	assert_int_equal(rdma_destroy_id(server), 0);
}

/* ---- the call that waits ---- */

struct call {
	int (*make)(struct rdma_cm_id *id);
	struct rdma_cm_id *id;
	pthread_t thread;
	int ret, err;
};

static void *make(void *arg)
{
	struct call *c = arg;

	c->ret = c->make(c->id);
	c->err = errno;
	return NULL;
}

static void begin(struct call *c)
{
	assert_int_equal(pthread_create(&c->thread, NULL, make, c), 0);
}

static void end(struct call *c)
{
	assert_int_equal(pthread_join(c->thread, NULL), 0);
	assert_int_equal(c->ret, 0);
}

static void assert_waits(struct call *c)
{
	assert_int_equal(pthread_tryjoin_np(c->thread, NULL), EBUSY);
}

static int bind_v4(struct rdma_cm_id *id)
{
	return rdma_bind_addr(id, bench_addr("127.0.0.1", 0));
}

static int bind_v6(struct rdma_cm_id *id)
{
	return rdma_bind_addr(id, bench_addr("::1", 0));
}

static int listen_on(struct rdma_cm_id *id)
{
	return rdma_listen(id, 0);
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

/* Hold one request of the call, and connect meanwhile. */
static void connect_while_held(enum agent_msg_type type, struct bench *b, struct call *c)
{
	hold(type);
	begin(c);
	wait_held();
	connect_and_leave(b);
	assert_waits(c);
	sem_post(&go_on);
	end(c);
}

/* ---- tests: the first one starts connection management ---- */

TEST(stalled, first_start__ids_come_and_go_and_another_call_waits_for_it)
{
	struct rdma_event_channel *ch = bench_channel();
	struct call first = {.make = bind_v4, .id = new_id(ch)};
	struct call second = {.make = bind_v4, .id = new_id(ch)};

	hold(AGENT_HELLO);
	begin(&first);
	wait_held();
	begin(&second);
	assert_int_equal(rdma_destroy_id(new_id(ch)), 0);
	assert_waits(&first);
	assert_waits(&second);
	sem_post(&go_on);
	end(&first);
	end(&second);
	assert_int_equal(rdma_destroy_id(first.id), 0);
	assert_int_equal(rdma_destroy_id(second.id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(stalled, port_taken_listened_on_and_given_back__connections_come_about_meanwhile)
{
	struct rdma_cm_id *first;
	struct bench b;
	struct call c = {.make = bind_v6};

	bench_connect(&b, "127.0.0.1");
	first = c.id = new_id(b.cch);
	connect_while_held(AGENT_GSI_BIND, &b, &c);
	c.make = listen_on;
	connect_while_held(AGENT_GSI_OPEN, &b, &c);
	c.id = new_id(b.cch);
	c.make = bind_v6;
	begin(&c);
	end(&c);
	c.make = listen_on;
	connect_while_held(AGENT_GSI_LISTEN, &b, &c);
	c.make = rdma_destroy_id;
	connect_while_held(AGENT_GSI_UNBIND, &b, &c);
	assert_int_equal(rdma_destroy_id(first), 0);
	bench_end(&b);
}

TEST(stalled, id_destroyed_by_another_thread__after_the_call)
{
	struct bench b;
	struct call c = {.make = bind_v4}, d = {.make = rdma_destroy_id};

	bench_connect(&b, "127.0.0.1");
	c.id = d.id = new_id(b.cch);
	hold(AGENT_GSI_BIND);
	begin(&c);
	wait_held();
	begin(&d);
	connect_and_leave(&b);
	assert_waits(&d);
	sem_post(&go_on);
	end(&c);
	end(&d);
	bench_end(&b);
}

TEST(stalled, thread_cancelled__the_call_ends_first)
{
	struct bench b;
	struct call c = {.make = bind_v4, .ret = -1};

	bench_connect(&b, "127.0.0.1");
	c.id = new_id(b.cch);
	hold(AGENT_GSI_BIND);
	begin(&c);
	wait_held();
	assert_int_equal(pthread_cancel(c.thread), 0);
	connect_and_leave(&b);
	assert_waits(&c);
	sem_post(&go_on);
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	/* However the thread ended, it holds no lock. */
	connect_and_leave(&b);
	assert_int_equal(rdma_destroy_id(c.id), 0);
	bench_end(&b);
}

TEST(stalled, fork__the_child_has_calls_of_its_own_and_frees_the_id)
{
	struct bench b;
	struct call c = {.make = bind_v4};
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	print_message("skipped: ThreadSanitizer lets no forked child start threads\n");
	skip();
#endif
	bench_connect(&b, "127.0.0.1");
	c.id = new_id(b.cch);
	hold(AGENT_GSI_BIND);
	begin(&c);
	wait_held();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		struct rdma_cm_id *id;

		if (!ch || rdma_destroy_id(c.id) || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
			_exit(1);
		_exit(bind_v4(id) || listen_on(id) || rdma_destroy_id(id) ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	connect_and_leave(&b);
	assert_waits(&c);
	sem_post(&go_on);
	end(&c);
	assert_int_equal(rdma_destroy_id(c.id), 0);
	bench_end(&b);
}

/* The agent answers for an ID that has nothing to listen with any more. */
TEST(stalled, device_removed_during_the_call__enodev)
{
	struct rdma_event_channel *ch = bench_channel();
	struct call c = {.make = listen_on};

	bench_veth();
	c.id = new_id(ch);
	assert_int_equal(rdma_bind_addr(c.id, bench_addr("10.1.1.1", 0)), 0);
	hold(AGENT_GSI_LISTEN);
	begin(&c);
	wait_held();
	bench_ip("link delete p0");
	assert_int_equal(bench_expect(ch, RDMA_CM_EVENT_DEVICE_REMOVAL), 0);
	assert_waits(&c);
	sem_post(&go_on);
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	assert_int_equal(c.ret, -1);
	assert_int_equal(c.err, ENODEV);
	assert_int_equal(rdma_destroy_id(c.id), 0);
	rdma_destroy_event_channel(ch);
}

static void kill_agent(void)
{
	char text[AGENT_TEXT_MAX];
	struct agent_status *st;
	pid_t pid;

	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	pid = (pid_t)st->agent.pid;
	agent_status_free(st);
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (kill(pid, 0) == 0)
		sched_yield();
}

TEST(stalled, agent_dies_during_the_call__the_next_one_answers)
{
	struct bench b;
	struct call c = {.make = bind_v4};

	bench_connect(&b, "127.0.0.1");
	c.id = new_id(b.cch);
	hold(AGENT_GSI_BIND);
	begin(&c);
	wait_held();
	kill_agent();
	assert_waits(&c);
	sem_post(&go_on);
	end(&c);
	connect_and_leave(&b);
	assert_int_equal(rdma_destroy_id(c.id), 0);
	bench_end(&b);
}

TEST(stalled, next_agent_does_not_answer__calls_go_on_without_it)
{
	struct rdma_cm_id *id;
	struct bench b;

	bench_connect(&b, "127.0.0.1");
	hold(AGENT_REJOIN);
	kill_agent();
	wait_held();
	id = bench_client(b.cch, "127.0.0.1", b.listener);
	assert_int_equal(rdma_destroy_id(id), 0);
	sem_post(&go_on);
	/* A request finds the agent that the library has found by then. */
	id = bench_listener(b.cch, "127.0.0.1", RDMA_PS_TCP, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	connect_and_leave(&b);
	bench_end(&b);
}
