/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients of connection management whose agent dies or is stopped, forks, users. */
#include "agent/client-gsi.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/group.h"
#include "base/clock.h"
#include "gsi-scene.h"
#include "test.h"
#include "user.h"

#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

enum {
	NOBODY = 65534,
	FAST = 12, /* CM timeout: 17 ms */
	SLOW = 31, /* as long as can be */
};

static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}};

TEST(client_cm, agent_dies__number_listeners_and_exit_mads_are_kept)
{
	struct agent_gsi_bind bind = {.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, 0)};
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id, key;
	pid_t before;

	enter();
	bind.addr = any_v4;
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	before = agent_pid();
	id = agent_comm_id(a.number, 5);
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	assert_int_equal(gsi_peer_bind(&a, &bind, &key), 0);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, FAST, 15), 0);
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
	/* The request, to which it did not react, and its exit MAD. */
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
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
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
	a = gsi_peer_start_at(&at);
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
	a = gsi_peer_start_at(&at);
	bind.addr = any_v4;
	kill_agent();
	assert_int_equal(gsi_peer_bind(&a, &bind, &key), 0);
	assert_int_equal(gsi_peer_listen(&a, key), 0);
	kill_agent();
	assert_int_equal(gsi_peer_unbind(&a, key), 0);
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	/* A datagram without a receiver is lost, as on any network. */
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
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	kill_agent();
	assert_int_equal(gsi_peer_bind(&b, &bind, &key), 0);
	assert_int_equal(gsi_peer_recv_now(&a, &got), GSI_PEER_LOST_PORT);
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
	a = gsi_peer_start_at(&at);
	assert_int_equal(gsi_peer_fork_and_call(&a), -ECHILD);
	fence(&a);
	/* A child that has closed its copies does not keep its parent alive for the agent. */
	assert_true(gsi_peer_fork_and_forget(&a) > 0);
	id = agent_comm_id(a.number, 5);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, SLOW, 0), 0);
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
	assert_int_equal(agent_gsi_new(&c, text), -EOPNOTSUPP);
	assert_non_null(strstr(text, "ROCEMU_AGENT"));
	unsetenv("ROCEMU_AGENT");
}

TEST(client_cm, address_of_nobody__refused_with_reason)
{
	struct rocemu_gid none = gid_v4(192, 0, 2, 1);
	struct gsi_peer a;

	enter();
	a = gsi_peer_start_at(&at);
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
	int before = -1, agent_before = -1;

	enter();
	for (unsigned i = 0; i < 20; i++) {
		struct agent_gsi_bind b = {.service_id = SERVICE, .addr = any_v4};
		uint32_t key;

		assert_int_equal(agent_gsi_new(&c, text), 0);
		assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
		while (agent_gsi_bind(c, &b, &key, text))
			; /* the last one's end may not have come through yet */
		assert_int_equal(agent_gsi_listen(c, key, text), 0);
		agent_gsi_free(c);
		if (i == 0) {
			before = count_fds(getpid());
			agent_before = count_fds(agent_pid());
		}
	}
	assert_int_equal(count_fds(getpid()), before);
	/* It may not have seen the last one's end yet. */
	assert_true(count_fds(agent_pid()) < agent_before + 10);
	leave();
}

/* How many addresses the agent's only client has open. */
static unsigned opened(void)
{
	struct agent_status *st;
	char text[400];
	unsigned n;

	assert_int_equal(agent_client_status(false, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.ngsi_clients, 1);
	n = st->gsi_clients[0].addrs;
	agent_status_free(st);
	return n;
}

TEST(client_cm, address_closed__requests_to_it_have_no_listener_until_it_is_opened_again)
{
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = any_v4};
	struct agent_gsi *c;
	struct gsi_frame f;
	struct gsi_mail m, got;
	char text[400];
	uint32_t key;

	enter();
	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
	assert_int_equal(agent_gsi_bind(c, &b, &key, text), 0);
	assert_int_equal(agent_gsi_listen(c, key, text), 0);
	assert_int_equal(opened(), 1);
	agent_gsi_close(c, &at, 0);
	agent_gsi_close(c, &at, 0);
	assert_int_equal(opened(), 0);
	m = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &m);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
	assert_int_equal(opened(), 1);
	m = mail_req(&far, &at, 6, SERVICE);
	wire_send(wire, &m);
	assert_int_equal(
		poll(&(struct pollfd){.fd = agent_gsi_fd(c), .events = POLLIN}, 1, PATIENCE_MS), 1);
	assert_int_equal(agent_gsi_recv(c, &f), 1);
	/* The next agent does not get what is closed. */
	agent_gsi_close(c, &at, 0);
	kill_agent();
	while (agent_gsi_recv(c, &f) != -ENOTCONN)
		assert_int_equal(poll(&(struct pollfd){.fd = agent_gsi_fd(c), .events = POLLIN}, 1,
				      PATIENCE_MS),
				 1);
	while (agent_gsi_join(c, text) < 0)
		;
	assert_int_equal(opened(), 0);
	agent_gsi_free(c);
	leave();
}

/* A socket each, and no more before something is sent or a lane has one. */
TEST(client_cm, as_many_addresses_as_the_agent_serves__a_descriptor_each_and_one_more_refused)
{
	enum { OTHERS = 64 };
	struct agent_gsi *c;
	struct rlimit limit;
	char text[400];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < GROUPS_MAX + OTHERS) {
		print_message("skipped: the hard limit of open files is %lu\n",
			      (unsigned long)limit.rlim_max);
		skip();
	}
	env_enter();
	assert_int_equal(agent_gsi_new(&c, text), 0);
	for (unsigned i = 0; i <= GROUPS_MAX; i++) {
		const struct rocemu_gid addr =
			gid_v4(127, 1, (uint8_t)(i / 250), (uint8_t)(i % 250 + 1));
		const int r = agent_gsi_open(c, &addr, 0, text);

		if (r != (i < GROUPS_MAX ? 0 : -ENOSPC))
			fail_msg("address %u: %d: %s", i, r, text);
	}
	assert_non_null(strstr(text, "serves 4096 addresses"));
	assert_int_equal(opened(), GROUPS_MAX);
	assert_in_range(count_fds(agent_pid()), GROUPS_MAX, GROUPS_MAX + OTHERS);
	assert_in_range(count_fds(agent_holder()), GROUPS_MAX, GROUPS_MAX + OTHERS);
	agent_gsi_free(c);
	env_leave();
}

static void send_requests(struct agent_gsi *c, unsigned n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct gsi_mail m =
			mail_req(&at, &at, agent_comm_id(agent_gsi_number(c), i), SERVICE);

		mail_seal(&m);
		assert_int_equal(agent_gsi_send(c, &m.mad, false), 0);
	}
}

TEST(client_cm, agent_stopped__sends_do_not_wait_and_arrive_later)
{
	enum { N = 3000 };
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = at};
	struct agent_gsi *c;
	struct gsi_frame f;
	char text[400];
	uint32_t key, n = 0;
	pid_t agent;

	enter();
	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
	assert_int_equal(agent_gsi_bind(c, &b, &key, text), 0);
	assert_int_equal(agent_gsi_listen(c, key, text), 0);
	agent = agent_pid();
	kill(agent, SIGSTOP);
	/* Far more than the socket holds. */
	send_requests(c, N);
	assert_true(agent_gsi_waits(c));
	assert_false(agent_gsi_flush(c));
	kill(agent, SIGCONT);
	while (n < N) {
		struct pollfd p = {.fd = agent_gsi_fd(c), .events = POLLIN};

		agent_gsi_flush(c);
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		while (agent_gsi_recv(c, &f) == 1)
			n++;
	}
	assert_false(agent_gsi_waits(c));
	agent_gsi_free(c);
	leave();
}

static uint64_t drain_ms(struct agent_gsi *c)
{
	const uint64_t begin = monotonic_ms();

	agent_gsi_drain(c);
	return monotonic_ms() - begin;
}

TEST(client_cm, drain__waits_once_for_a_stopped_agent_and_always_for_a_running_one)
{
	enum { N = 3000, CALLS = 10 };
	uint64_t later = 0;
	struct agent_gsi *c;
	char text[400];
	pid_t agent;

	enter();
	assert_int_equal(agent_gsi_new(&c, text), 0);
	assert_int_equal(agent_gsi_open(c, &at, 0, text), 0);
	agent = agent_pid();
	kill(agent, SIGSTOP);
	send_requests(c, N);
	assert_true(drain_ms(c) >= AGENT_GSI_DRAIN_MS);
	assert_true(agent_gsi_waits(c));
	for (unsigned i = 0; i < CALLS; i++)
		later += drain_ms(c);
	assert_true(later < (uint64_t)CALLS * AGENT_GSI_DRAIN_MS);
	kill(agent, SIGCONT);
	while (!agent_gsi_flush(c)) {
		struct pollfd p = {.fd = agent_gsi_fd(c), .events = POLLIN};

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	}
	for (unsigned i = 0; i < 10; i++) {
		send_requests(c, N);
		agent_gsi_drain(c);
		assert_false(agent_gsi_waits(c));
	}
	agent_gsi_free(c);
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

	user_need(NOBODY, NULL);
	enter();
	bind.addr = any_v4;
	assert_int_equal(system(AGENT_BIN " --system --idle-timeout 5"), 0);
	root = gsi_peer_start_at(&at);
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
	/* But no client can send for another one. */
	m = mail_req(&at, &far, agent_comm_id(root.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&user, &m), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_set_exit(&user, id, &m, SLOW, 0), 0);
	gsi_peer_kill(&user);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(agent_client_status(true, &st, text, sizeof(text)), 0);
	assert_int_equal(st->agent.ngsi_clients, 1);
	assert_int_equal(st->agent.nlisteners, 1);
	assert_int_equal(st->agent.counters[AGENT_GSI_COUNT_tx_refused], 1);
	r = (int)st->agent.pid;
	agent_status_free(st);
	gsi_peer_leave(&root);
	kill(r, SIGTERM);
	wait_gone(r);
	leave();
}
