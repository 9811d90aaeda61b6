/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management of several users who share a system-wide agent. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "agent/gsi-client.h"
#include "agent/link.h"
#include "agent/quota.h"
#include "gsi-scene.h"
#include "test.h"
#include "user.h"
#include "users.h"

#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

static struct gsi_peer start_as(uid_t uid)
{
	struct gsi_peer p;
	int r;

	p = gsi_peer_start_as(uid, &r);
	assert_int_equal(r, 0);
	assert_int_equal(gsi_peer_open(&p, &at), 0);
	return p;
}

/* Send each message that has a QPN of its sender. */
static void name_qpn(struct gsi_peer *p, uint32_t qpn)
{
	struct gsi_mail m = mail_req(&at, &far, agent_comm_id(p->number, 1), SERVICE);

	m.m.req.local_qpn = qpn;
	assert_int_equal(gsi_peer_send(p, &m), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REP, agent_comm_id(p->number, 1), 77);
	m.m.rep.local_qpn = qpn;
	assert_int_equal(gsi_peer_send(p, &m), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_SIDR_REP, 0, 0);
	m.m.sidr_rep = (struct rocemu_cm_sidr_rep){.request_id = 77, .qpn = qpn};
	assert_int_equal(gsi_peer_send(p, &m), 0);
}

static void expect_sent(uint32_t qpn)
{
	struct gsi_mail got;

	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REQ);
	assert_int_equal(got.m.req.local_qpn, qpn);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.rep.local_qpn, qpn);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.sidr_rep.qpn, qpn);
}

/* Its peer would take the connection with that QP for stale. */
TEST(users_gsi, qpn_of_another_users_slot__not_sent)
{
	struct gsi_peer ann, bob, root;
	struct agent_msg welcome[2];
	int lane[2];

	start_system();
	wire_up();
	/* Before the slots, so that these processes have no copies of tokens. */
	ann = start_as(ANN);
	bob = start_as(BOB);
	root = start_as(0);
	for (unsigned i = 0; i < 2; i++) {
		lane[i] = connect_as(i ? BOB : ANN, true);
		assert_int_equal(hello(lane[i], AGENT_LANE, &welcome[i]), 0);
		assert_int_equal(welcome[i].u.welcome.place, i + 1);
	}
	name_qpn(&bob, QPN(1, 5));
	/* The connection has ended, the token has not. */
	close(lane[0]);
	name_qpn(&bob, QPN(1, 6));
	name_qpn(&bob, QPN(2, 5));
	expect_sent(QPN(2, 5));
	name_qpn(&ann, QPN(1, 5));
	expect_sent(QPN(1, 5));
	name_qpn(&root, QPN(1, 5));
	expect_sent(QPN(1, 5));
	/* Of no user. */
	name_qpn(&bob, QPN(9, 5));
	expect_sent(QPN(9, 5));
	agent_msg_close_fds(&welcome[0]);
	name_qpn(&bob, QPN(1, 7));
	expect_sent(QPN(1, 7));
	wire_assert_silent(wire);
	agent_msg_close_fds(&welcome[1]);
	close(lane[1]);
	gsi_peer_leave(&ann);
	gsi_peer_leave(&bob);
	gsi_peer_leave(&root);
	close(wire);
	stop_system();
}

/* The more specific listener would get the requests of the other's clients. */
TEST(users_gsi, port_of_another_user__not_shared)
{
	const struct rocemu_gid any4 = {.raw = {[10] = 0xff, [11] = 0xff}};
	struct agent_gsi_bind wide = {SERVICE, any4, 0, AGENT_GSI_REUSEADDR}, narrow = wide;
	struct gsi_peer ann, bob;
	uint32_t key[2], bobs;

	start_system();
	ann = start_as(ANN);
	bob = start_as(BOB);
	narrow.addr = at;
	assert_int_equal(gsi_peer_bind(&ann, &wide, &key[0]), 0);
	assert_int_equal(gsi_peer_bind(&bob, &narrow, &bobs), -EADDRINUSE);
	assert_int_equal(gsi_peer_bind(&ann, &narrow, &key[1]), 0);
	assert_int_equal(gsi_peer_unbind(&ann, key[0]), 0);
	assert_int_equal(gsi_peer_bind(&bob, &narrow, &bobs), -EADDRINUSE);
	assert_int_equal(gsi_peer_unbind(&ann, key[1]), 0);
	assert_int_equal(gsi_peer_bind(&bob, &narrow, &bobs), 0);
	gsi_peer_leave(&ann);
	gsi_peer_leave(&bob);
	stop_system();
}

/* ---- what one user is shown ---- */

/* A lane, a client of connection management and its listeners. */
struct user {
	int lane, gsi;
	struct agent_msg lane_welcome, gsi_welcome;
};

static struct user user_of(uid_t uid, uint32_t listeners)
{
	struct user u = {.lane = connect_as(uid, true), .gsi = connect_as(uid, true)};
	struct agent_msg m = {.type = AGENT_GSI_BIND}, answer;

	assert_int_equal(hello(u.lane, AGENT_LANE, &u.lane_welcome), 0);
	assert_int_equal(hello(u.gsi, AGENT_GSI, &u.gsi_welcome), 0);
	for (uint32_t i = 0; i < listeners; i++) {
		m.type = AGENT_GSI_BIND;
		m.u.gsi_bind.key = i;
		m.u.gsi_bind.bind =
			(struct agent_gsi_bind){.service_id = (uint64_t)uid << 32 | (i + 1)};
		assert_int_equal(ask(u.gsi, &m, &answer), 0);
		m.type = AGENT_GSI_LISTEN;
		assert_int_equal(ask(u.gsi, &m, &answer), 0);
	}
	return u;
}

static void user_leave(struct user *u)
{
	agent_msg_close_fds(&u->lane_welcome);
	agent_msg_close_fds(&u->gsi_welcome);
	close(u->lane);
	close(u->gsi);
}

static struct agent_status *status_of(uid_t uid)
{
	struct agent_status *st;
	char text[400];
	int r;

	user_act_as(uid);
	r = agent_client_status(true, &st, text, sizeof(text));
	user_return();
	assert_int_equal(r, 0);
	return st;
}

TEST(users_gsi, status__a_user_sees_the_own_processes_and_how_many_there_are)
{
	enum { ANNS = 29, BOBS = 53 };
	struct user ann, bob, more;
	struct agent_status *st;

	start_system();
	bob = user_of(BOB, BOBS);
	ann = user_of(ANN, ANNS);
	more = user_of(BOB, 0);
	st = status_of(ANN);
	assert_int_equal(st->agent.nclients, 1);
	assert_int_equal(st->clients[0].uid, ANN);
	assert_int_equal(st->agent.other_clients, 2);
	assert_int_equal(st->agent.ngsi_clients, 1);
	assert_int_equal(st->gsi_clients[0].uid, ANN);
	assert_int_equal(st->agent.other_gsi_clients, 2);
	assert_int_equal(st->agent.nlisteners, ANNS);
	for (size_t i = 0; i < ANNS; i++)
		assert_int_equal(st->listeners[i].bind.service_id >> 32, ANN);
	assert_int_equal(st->agent.other_listeners, BOBS);
	agent_status_free(st);
	st = status_of(0);
	assert_int_equal(st->agent.nclients, 3);
	assert_int_equal(st->agent.ngsi_clients, 3);
	assert_int_equal(st->agent.nlisteners, ANNS + BOBS);
	assert_int_equal(st->agent.other_clients + st->agent.other_gsi_clients +
				 st->agent.other_listeners,
			 0);
	agent_status_free(st);
	user_leave(&ann);
	user_leave(&bob);
	user_leave(&more);
	stop_system();
}

/* ---- queues ---- */

/* A client that listens and never reads. */
struct deaf {
	int fd;
	struct agent_msg welcome;
	uint64_t service;
};

static struct deaf deaf_of(uid_t uid, unsigned i)
{
	struct deaf d = {.fd = connect_as(uid, true),
			 .service = rocemu_cm_service_id(ROCEMU_PS_TCP, (uint16_t)(8000 + i))};
	struct agent_msg m = {.type = AGENT_GSI_OPEN, .u.socket.addr = at}, answer;

	assert_int_equal(hello(d.fd, AGENT_GSI, &d.welcome), 0);
	assert_int_equal(ask(d.fd, &m, &answer), 0);
	m = (struct agent_msg){.type = AGENT_GSI_BIND};
	m.u.gsi_bind.bind = (struct agent_gsi_bind){d.service, at, 0, 0};
	assert_int_equal(ask(d.fd, &m, &answer), 0);
	m.type = AGENT_GSI_LISTEN;
	assert_int_equal(ask(d.fd, &m, &answer), 0);
	return d;
}

static void deaf_leave(struct deaf *d)
{
	agent_msg_close_fds(&d->welcome);
	close(d->fd);
}

/* Send it requests until one is dropped. @return the number that the agent holds for it. */
static unsigned fill(const struct deaf *d)
{
	static uint32_t id = 1;
	unsigned queued = 0;
	bool dropped = false;

	while (!dropped) {
		struct agent_status *st;

		for (unsigned i = 0; i < 100; i++) {
			struct gsi_mail req = mail_req(&far, &at, id++, d->service);

			wire_send(wire, &req);
		}
		st = status_of(0);
		for (unsigned i = 0; i < st->agent.ngsi_clients; i++) {
			if (st->gsi_clients[i].number != d->welcome.u.welcome.place)
				continue;
			queued = st->gsi_clients[i].queued;
			dropped = st->gsi_clients[i].dropped > 0;
		}
		agent_status_free(st);
		assert_true(id < 1000000);
	}
	return queued;
}

TEST(users_gsi, clients_that_do_not_read__as_many_frames_as_one_user_may_have)
{
	enum { EACH = GSI_QUEUE_MAX / 2, FULL = QUOTA_QUEUED_MAX / EACH };
	struct deaf ann[FULL + 1], bob;

	start_system();
	wire_up();
	for (unsigned i = 0; i <= FULL; i++) {
		ann[i] = deaf_of(ANN, i);
		assert_int_equal(fill(&ann[i]), i < FULL ? EACH : 0);
	}
	bob = deaf_of(BOB, FULL + 1);
	assert_int_equal(fill(&bob), EACH);
	/* One goes, and there is room for as many. */
	deaf_leave(&ann[0]);
	ann[0] = deaf_of(ANN, 0);
	assert_int_equal(fill(&ann[0]), EACH);
	for (unsigned i = 0; i <= FULL; i++)
		deaf_leave(&ann[i]);
	deaf_leave(&bob);
	close(wire);
	stop_system();
}

/* ---- floods ---- */

TEST(users_gsi, packets_for_many_addresses__clients_are_served_in_between)
{
	enum { ADDRESSES = 400, EACH = 60, ALL = ADDRESSES * EACH };
	const uint8_t packet[GSI_PACKET_LEN] = {[7] = ROCEMU_GSI_QPN};
	struct agent_msg welcome, m = {.type = AGENT_GSI_OPEN}, answer;
	struct rocemu_gid to[ADDRESSES];
	struct agent_status *st;
	uint64_t n;
	int ann;
	pid_t pid;

	start_system();
	wire_up();
	ann = connect_as(ANN, true);
	assert_int_equal(hello(ann, AGENT_GSI, &welcome), 0);
	for (unsigned i = 0; i < ADDRESSES; i++) {
		to[i] = gid_v4(127, 3, (uint8_t)(i / 200), (uint8_t)(i % 200 + 1));
		m.u.socket.addr = to[i];
		assert_int_equal(ask(ann, &m, &answer), 0);
	}
	st = status_of(0);
	pid = (pid_t)st->agent.pid;
	agent_status_free(st);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (unsigned i = 0; i < ALL; i++)
		wire_send_bytes(wire, &to[i % ADDRESSES], packet, sizeof(packet));
	assert_int_equal(kill(pid, SIGCONT), 0);
	st = status_of(BOB);
	assert_in_range(st->agent.counters[AGENT_GSI_COUNT_rx], 0, ALL / 2);
	agent_status_free(st);
	/* And all are read. */
	do {
		st = status_of(0);
		n = st->agent.counters[AGENT_GSI_COUNT_rx];
		agent_status_free(st);
	} while (n < ALL);
	agent_msg_close_fds(&welcome);
	close(ann);
	close(wire);
	stop_system();
}

/* ---- ended processes ---- */

static void wait_addresses(unsigned n, unsigned lingering)
{
	uint64_t end = link_now_ms() + PATIENCE_MS;

	for (;;) {
		struct agent_status *st = status_of(0);
		bool there = st->agent.naddrs == n && st->agent.lingering == lingering;

		agent_status_free(st);
		if (there)
			return;
		assert_true(link_now_ms() < end);
		poll(NULL, 0, 20);
	}
}

/* Its MADs keep the address that they are sent from, and no other. */
TEST(users_gsi, exit_mad_of_an_ended_process__other_addresses_are_given_up)
{
	const struct rocemu_gid other = gid_v4(127, 0, 0, 77);
	struct gsi_peer ann;
	struct gsi_mail m;
	uint32_t id;

	start_system();
	wire_up();
	ann = start_as(ANN);
	assert_int_equal(gsi_peer_open(&ann, &other), 0);
	id = agent_comm_id(ann.number, 1);
	m = mail_ids(&at, &far, ROCEMU_CM_DREQ, id, 7);
	assert_int_equal(gsi_peer_set_exit(&ann, id, &m, 23 /* 34 s */, 15), 0);
	gsi_peer_leave(&ann);
	wait_addresses(1, 1);
	close(wire);
	stop_system();
}
