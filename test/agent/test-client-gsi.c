/* SPDX-License-Identifier: BSD-2-Clause */
/* What survives whom: exit MADs of processes that end, clients of an agent that dies, forks. */
#include "agent/client-gsi.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gsi-peer.h"
#include "peer.h"
#include "test.h"

#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

enum {
	NOBODY = 65534,
	FAST = 12, /* CM timeout: 17 ms */
	SLOW = 31, /* as long as can be */
};

static struct rocemu_gid at, far;
static int wire;

static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}};

static void enter(void)
{
	at = gid_v4(127, 0, 0, 1);
	far = gid_v4(127, 0, 0, 9);
	env_enter();
	wire = wire_open(&far);
}

static void leave(void)
{
	close(wire);
	env_leave();
}

static struct gsi_peer start(void)
{
	struct gsi_peer p = gsi_peer_start();

	if (gsi_peer_open(&p, &at))
		fail_msg("cannot open QP 1: %s", p.text);
	return p;
}

static struct gsi_mail dreq(uint32_t ours, uint32_t theirs)
{
	return mail_ids(&at, &far, ROCEMU_CM_DREQ, ours, theirs);
}

/* All that the agent has been told so far it has taken: it answers in order. */
static void fence(struct gsi_peer *p)
{
	struct gsi_mail m = mail_req(&at, &at, agent_comm_id(p->number, 0x3fffff), 0x1234567), got;

	assert_int_equal(gsi_peer_send(p, &m), 0);
	assert_int_equal(gsi_peer_recv(p, &got), 1);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
}

TEST(client_cm, killed__its_wills_are_sent_and_repeated_until_answered)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = start();
	b = start();
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_will(&a, id, &m, FAST, 15), 0);
	fence(&a);
	gsi_peer_kill(&a);
	for (unsigned i = 0; i < 3; i++) {
		wire_recv(wire, &far, &got);
		assert_int_equal(got.m.attr_id, ROCEMU_CM_DREQ);
		assert_int_equal(got.m.dreq.local_comm_id, id);
		assert_int_equal(got.m.dreq.remote_comm_id, 77);
	}
	m = mail_ids(&far, &at, ROCEMU_CM_DREP, 77, id);
	wire_send(wire, &m);
	gsi_wait_counter(AGENT_GSI_COUNT_exit_answered, 1);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_given_up), 0);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_unanswered), 0);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, killed_and_never_answered__given_up_after_the_retries)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = start();
	b = start();
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_will(&a, id, &m, FAST, 2), 0);
	/* A REJ is sent once. */
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id + 1, 78);
	assert_int_equal(gsi_peer_will(&a, id + 1, &m, FAST, 15), 0);
	fence(&a);
	gsi_peer_kill(&a);
	gsi_wait_counter(AGENT_GSI_COUNT_exit_given_up, 1);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_sent), 4);
	for (unsigned i = 0, rejs = 0; i < 4; i++) {
		wire_recv(wire, &far, &got);
		rejs += got.m.attr_id == ROCEMU_CM_REJ;
		assert_true(i < 3 || rejs == 1);
	}
	wire_assert_silent(wire);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, killed__its_peer_in_another_process_hears_of_it)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t ida, idb;

	enter();
	a = start();
	b = start();
	ida = agent_comm_id(a.number, 5);
	idb = agent_comm_id(b.number, 6);
	m = mail_ids(&at, &at, ROCEMU_CM_DREQ, ida, idb);
	assert_int_equal(gsi_peer_will(&a, ida, &m, SLOW, 15), 0);
	fence(&a);
	gsi_peer_kill(&a);
	assert_int_equal(gsi_peer_recv(&b, &got), 1);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREQ);
	assert_int_equal(got.m.dreq.remote_comm_id, idb);
	m = mail_ids(&at, &at, ROCEMU_CM_DREP, idb, ida);
	assert_int_equal(gsi_peer_send(&b, &m), 0);
	gsi_wait_counter(AGENT_GSI_COUNT_exit_answered, 1);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, will_replaced_and_taken_back__only_what_is_left_is_sent)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = start();
	b = start();
	id = agent_comm_id(a.number, 5);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_will(&a, id, &m, SLOW, 0), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 2);
	assert_int_equal(gsi_peer_will(&a, id, &m, SLOW, 0), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id + 1, 3);
	assert_int_equal(gsi_peer_will(&a, id + 1, &m, SLOW, 0), 0);
	assert_int_equal(gsi_peer_will_clear(&a, id + 1), 0);
	assert_int_equal(gsi_peer_will_clear(&a, id + 2), 0);
	/* Not its own. */
	assert_int_equal(gsi_peer_will(&a, agent_comm_id(b.number, 1), &m, SLOW, 0), -EINVAL);
	/* No REJ or DREQ: the agent does not keep it. */
	m = mail_ids(&at, &far, ROCEMU_CM_RTU, id + 3, 4);
	assert_int_equal(gsi_peer_will(&a, id + 3, &m, SLOW, 0), 0);
	fence(&a);
	gsi_peer_kill(&a);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.rej.remote_comm_id, 2);
	fence(&b);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_sent), 1);
	wire_assert_silent(wire);
	gsi_peer_leave(&b);
	leave();
}

/* It has left no will for what it does not know of. */
TEST(client_cm, killed_with_requests_unread__they_are_refused)
{
	struct gsi_mail req, sidr, got, will;
	struct gsi_peer a, b;

	enter();
	a = start();
	b = start();
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	/* One that it knows of: its will is all that is said. */
	req = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &req);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	will = mail_ids(&at, &far, ROCEMU_CM_REJ, agent_comm_id(a.number, 1), 5);
	will.m.tid = req.m.tid;
	will.m.rej.reason = ROCEMU_CM_REJ_CONSUMER;
	assert_int_equal(gsi_peer_will(&a, agent_comm_id(a.number, 1), &will, FAST, 0), 0);
	/* And two that it does not. */
	req = mail_req(&far, &at, 6, SERVICE);
	sidr = mail_sidr_req(&far, &at, 7, SERVICE);
	wire_send(wire, &req);
	wire_send(wire, &sidr);
	gsi_wait_counter(AGENT_GSI_COUNT_delivered, 3);
	gsi_peer_kill(&a);
	for (unsigned i = 0; i < 3; i++) {
		wire_recv(wire, &far, &got);
		if (got.m.attr_id == ROCEMU_CM_SIDR_REP) {
			assert_int_equal(got.m.sidr_rep.request_id, 7);
			assert_int_equal(got.m.sidr_rep.status, ROCEMU_CM_SIDR_SERVICE_ID);
			assert_int_equal(got.m.sidr_rep.service_id, SERVICE);
			assert_int_equal(got.m.tid, sidr.m.tid);
			continue;
		}
		assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
		if (got.m.rej.remote_comm_id == 5) {
			assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_CONSUMER);
			continue;
		}
		assert_int_equal(got.m.rej.remote_comm_id, 6);
		assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_SERVICE_ID);
		assert_int_equal(got.m.tid, req.m.tid);
	}
	wire_assert_silent(wire);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, leaves_without_wills__nothing_is_sent)
{
	struct gsi_peer a, b;
	struct gsi_mail m;
	uint32_t id;

	enter();
	a = start();
	b = start();
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_will(&a, id, &m, FAST, 15), 0);
	assert_int_equal(gsi_peer_will_clear(&a, id), 0);
	gsi_peer_leave(&a);
	fence(&b);
	fence(&b);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_sent), 0);
	wire_assert_silent(wire);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, agent_dies__number_listeners_and_wills_live_on)
{
	struct agent_gsi_bind bind = {.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, 0)};
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id, key;
	pid_t before;

	enter();
	bind.addr = any_v4;
	a = start();
	b = start();
	before = agent_pid();
	id = agent_comm_id(a.number, 5);
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	assert_int_equal(gsi_peer_bind(&a, &bind, &key), 0);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_will(&a, id, &m, FAST, 15), 0);
	kill_agent();
	/* Each notices by itself and finds the next one. */
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	assert_int_equal(gsi_peer_recv_now(&b, &got), 0);
	assert_int_not_equal(agent_pid(), before);
	m = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &m);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	assert_int_equal(got.m.req.local_comm_id, 5);
	m = mail_ids(&far, &at, ROCEMU_CM_DREP, 1, agent_comm_id(b.number, 1));
	wire_send(wire, &m);
	assert_int_equal(gsi_peer_recv(&b, &got), 1);
	assert_int_equal(gsi_peer_bind(&b, &bind, &key), -EADDRINUSE);
	bind.service_id = SERVICE;
	assert_int_equal(gsi_peer_bind(&b, &bind, &key), -EADDRINUSE);
	gsi_peer_kill(&a);
	/* The request, of which it has said nothing, and its will. */
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.rej.remote_comm_id, 5);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREQ);
	assert_int_equal(got.m.dreq.local_comm_id, id);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, agent_dies__requests_wait_for_a_listener_that_is_not_back_yet)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;

	enter();
	a = start();
	b = start();
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	kill_agent();
	/* The sockets are the next agent's, but only this client has found it. */
	assert_int_equal(gsi_peer_recv_now(&b, &got), 0);
	m = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &m);
	/* The answer to what came behind the request shows that the agent has seen it. */
	m = mail_ids(&far, &at, ROCEMU_CM_DREQ, 9, 0);
	wire_send(wire, &m);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREP);
	assert_int_equal(got.m.drep.remote_comm_id, 9);
	gsi_peer_send_recv_now(&a);
	assert_int_equal(gsi_peer_reply(&a, &got), 0);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REQ);
	assert_int_equal(got.m.req.local_comm_id, 5);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, agent_dies_while_lanes_hold_its_sockets__waits_for_them)
{
	struct agent_client *lane;
	struct gsi_peer a;
	struct gsi_mail m, got;
	char text[400];
	int fd;

	enter();
	assert_int_equal(agent_client_new(&lane, text, sizeof(text)), 0);
	fd = agent_client_socket(lane, &at, 0, text, sizeof(text));
	assert_true(fd >= 0);
	a = start();
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	kill_agent();
	/* It finds the next agent, which has no sockets until the lane hands them over. */
	gsi_peer_send_recv_now(&a);
	assert_int_equal(agent_client_service(lane), 0);
	assert_int_equal(gsi_peer_reply(&a, &got), 0);
	m = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &m);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	send_to_qpn(&at, (uint32_t)agent_client_slot(lane) << 14 | 1);
	assert_int_equal(recv(fd, text, sizeof(text), 0), 16);
	close(fd);
	agent_client_free(lane);
	gsi_peer_leave(&a);
	leave();
}

TEST(client_cm, agent_dies_during_a_request__asked_again)
{
	struct agent_gsi_bind bind = {.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, 0)};
	struct gsi_peer a;
	struct gsi_mail m, got;
	uint32_t key;

	enter();
	a = start();
	bind.addr = any_v4;
	kill_agent();
	assert_int_equal(gsi_peer_bind(&a, &bind, &key), 0);
	assert_int_equal(gsi_peer_listen(&a, key), 0);
	kill_agent();
	assert_int_equal(gsi_peer_unbind(&a, key), 0);
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	/* A datagram to nobody is lost, as on any network. */
	kill_agent();
	m = mail_req(&at, &far, agent_comm_id(a.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), -ENOTCONN);
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	wire_recv(wire, &far, &got);
	gsi_peer_leave(&a);
	leave();
}

TEST(client_cm, port_taken_while_no_agent_was_there__client_is_told)
{
	struct gsi_peer a, b;
	struct gsi_mail got;
	struct agent_gsi_bind bind = {.service_id = SERVICE};
	uint32_t key;

	enter();
	bind.addr = any_v4;
	a = start();
	b = start();
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	kill_agent();
	assert_int_equal(gsi_peer_bind(&b, &bind, &key), 0);
	assert_int_equal(gsi_peer_recv_now(&a, &got), -EADDRINUSE);
	assert_non_null(strstr(a.text, "0x0000000001061d2f"));
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	fence(&a);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, fork__the_child_has_no_part_in_it)
{
	struct gsi_peer a;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = start();
	assert_int_equal(gsi_peer_fork_and_call(&a), -ECHILD);
	fence(&a);
	/* A child that has let go does not keep its parent alive for the agent. */
	assert_true(gsi_peer_fork_and_forget(&a) > 0);
	id = agent_comm_id(a.number, 5);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_will(&a, id, &m, SLOW, 0), 0);
	fence(&a);
	kill(a.process.pid, SIGKILL);
	assert_int_equal(waitpid(a.process.pid, NULL, 0), a.process.pid);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	close(a.process.ctl);
	leave();
}

TEST(client_cm, agent_off__says_what_it_needs)
{
	struct agent_gsi *c;
	char text[400];

	env_enter();
	setenv("ROCEMU_AGENT", "off", 1);
	assert_int_equal(agent_gsi_new(&c, text, sizeof(text)), -EOPNOTSUPP);
	assert_non_null(strstr(text, "ROCEMU_AGENT"));
	unsetenv("ROCEMU_AGENT");
}

TEST(client_cm, address_of_nobody__refused_with_reason)
{
	struct rocemu_gid none = gid_v4(192, 0, 2, 1);
	struct gsi_peer a;

	enter();
	a = start();
	assert_int_equal(gsi_peer_open(&a, &none), -EADDRNOTAVAIL);
	assert_non_null(strstr(a.text, "192.0.2.1"));
	/* The wire sits there. */
	assert_int_equal(gsi_peer_open(&a, &far), -EADDRINUSE);
	fence(&a);
	gsi_peer_leave(&a);
	leave();
}

TEST(client_cm, joined_and_left__nothing_leaks)
{
	struct agent_gsi *c;
	char text[400];
	int before = -1;

	enter();
	for (unsigned i = 0; i < 20; i++) {
		struct agent_gsi_bind b = {.service_id = SERVICE, .addr = any_v4};
		uint32_t key;

		assert_int_equal(agent_gsi_new(&c, text, sizeof(text)), 0);
		assert_int_equal(agent_gsi_open(c, &at, 0), 0);
		while (agent_gsi_bind(c, &b, &key))
			; /* the last one's end may not have come through yet */
		assert_int_equal(agent_gsi_listen(c, key), 0);
		agent_gsi_free(c);
		if (i == 0)
			before = count_fds(getpid());
	}
	assert_int_equal(count_fds(getpid()), before);
	leave();
}

TEST(client_cm, agent_stopped__sends_do_not_wait_and_arrive_later)
{
	enum { N = 3000 };
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = at};
	struct agent_gsi *c;
	struct gsi_frame f;
	struct gsi_mail m;
	char text[400];
	uint32_t key, n = 0;
	pid_t agent;

	enter();
	assert_int_equal(agent_gsi_new(&c, text, sizeof(text)), 0);
	assert_int_equal(agent_gsi_open(c, &at, 0), 0);
	assert_int_equal(agent_gsi_bind(c, &b, &key), 0);
	assert_int_equal(agent_gsi_listen(c, key), 0);
	agent = agent_pid();
	kill(agent, SIGSTOP);
	/* Far more than the socket holds. */
	for (uint32_t i = 0; i < N; i++) {
		m = mail_req(&at, &at, agent_comm_id(agent_gsi_number(c), i), SERVICE);
		mail_seal(&m);
		assert_int_equal(agent_gsi_send(c, &m.mad, false), 0);
	}
	assert_true(agent_gsi_waits(c));
	assert_false(agent_gsi_flush(c));
	kill(agent, SIGCONT);
	while (n < N) {
		struct pollfd p = {.fd = agent_gsi_fd(c), .events = POLLIN};

		if (!agent_gsi_flush(c))
			p.events |= POLLOUT;
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		while (agent_gsi_recv(c, &f) == 1)
			n++;
	}
	assert_false(agent_gsi_waits(c));
	agent_gsi_free(c);
	leave();
}

TEST(client_cm, killed_with_1000_connections__each_peer_hears_of_it_at_once)
{
	enum { N = 1000 };
	static bool heard[N];
	struct gsi_peer a, b;
	struct gsi_mail m, got;

	enter();
	a = start();
	b = start();
	for (uint32_t i = 0; i < N; i++) {
		m = mail_ids(&at, &at, ROCEMU_CM_DREQ, agent_comm_id(a.number, i),
			     agent_comm_id(b.number, i));
		assert_int_equal(gsi_peer_will(&a, agent_comm_id(a.number, i), &m, SLOW, 1), 0);
	}
	fence(&a);
	gsi_peer_kill(&a);
	/* None comes twice within a minute, so each must come the first time. */
	for (uint32_t i = 0; i < N; i++) {
		uint32_t id;

		assert_int_equal(gsi_peer_recv(&b, &got), 1);
		assert_int_equal(got.m.attr_id, ROCEMU_CM_DREQ);
		id = got.m.dreq.remote_comm_id - agent_comm_id(b.number, 0);
		assert_in_range(id, 0, N - 1);
		assert_false(heard[id]);
		heard[id] = true;
	}
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_sent), N);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, last_process_killed__the_agent_stays_until_its_will_is_done)
{
	struct gsi_peer a;
	struct gsi_mail m, got;
	uint32_t id;
	pid_t agent;

	enter();
	/* On a machine so slow that it leaves at once, another one comes in its place and the test
	 * shows less. */
	assert_int_equal(system(AGENT_BIN " --idle-timeout 0.2"), 0);
	a = start();
	agent = agent_pid();
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	/* After 1.07 s once more: longer than the agent would stay. */
	assert_int_equal(gsi_peer_will(&a, id, &m, 18, 1), 0);
	fence(&a);
	gsi_peer_kill(&a);
	wire_recv(wire, &far, &got);
	wire_recv(wire, &far, &got);
	assert_int_equal(agent_pid(), agent);
	/* Theirs crosses ours: it is answered, and ends the will. */
	m = mail_ids(&far, &at, ROCEMU_CM_DREQ, 77, id);
	wire_send(wire, &m);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREP);
	wait_gone(agent);
	leave();
}

TEST(client_cm, system_wide_agent__serves_users_beside_each_other)
{
	struct agent_gsi_bind bind = {.service_id = SERVICE};
	struct agent_status *st;
	struct gsi_peer root, user;
	struct gsi_mail m, got;
	char text[AGENT_TEXT_MAX];
	uint32_t id, key;
	int r;

	if (geteuid() != 0)
		skip();
	enter();
	bind.addr = any_v4;
	assert_int_equal(system(AGENT_BIN " --system --idle-timeout 5"), 0);
	root = start();
	user = gsi_peer_start_as(NOBODY, &r);
	assert_int_equal(r, 0);
	assert_int_equal(gsi_peer_open(&user, &at), 0);
	gsi_peer_listen_on(&root, SERVICE, &any_v4);
	/* One host, one book of ports. */
	assert_int_equal(gsi_peer_bind(&user, &bind, &key), -EADDRINUSE);
	id = agent_comm_id(user.number, 1);
	m = mail_req(&at, &at, id, SERVICE);
	assert_int_equal(gsi_peer_send(&user, &m), 0);
	assert_int_equal(gsi_peer_recv(&root, &got), 1);
	assert_int_equal(got.m.req.local_comm_id, id);
	/* But nobody speaks for somebody else. */
	m = mail_req(&at, &far, agent_comm_id(root.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&user, &m), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_will(&user, id, &m, SLOW, 0), 0);
	gsi_peer_kill(&user);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	assert_int_equal(st->ncm_clients, 1);
	assert_int_equal(st->nlisteners, 1);
	assert_int_equal(st->cm.counters[AGENT_GSI_COUNT_tx_refused], 1);
	r = (int)st->agent.pid;
	agent_status_free(st);
	gsi_peer_leave(&root);
	kill(r, SIGTERM);
	wait_gone(r);
	leave();
}
