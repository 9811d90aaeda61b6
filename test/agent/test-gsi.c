/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the agent sends MADs of connection management: real agent, real processes, real sockets. */
#include "agent/gsi.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/gsi-mad.h"
#include "agent/launch.h"
#include "base/bytes.h"
#include "gsi-peer.h"
#include "peer.h"
#include "test.h"

#define SERVICE	      rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)
#define OTHER_SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7472)

static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}}, any_v6;

static void expect(struct gsi_peer *p, enum rocemu_cm_attr attr, uint32_t sender_id,
		   struct gsi_mail *mail)
{
	assert_int_equal(gsi_peer_recv(p, mail), 1);
	assert_int_equal(mail->m.attr_id, attr);
	assert_int_equal(gsi_mad_sender_id(&mail->m), sender_id);
}

TEST(cm, three_processes__each_gets_its_own)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct gsi_peer a, b, c;
	struct gsi_mail req, rep, got;
	uint32_t ida, idb;

	env_enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	c = gsi_peer_start_at(&at);
	assert_int_not_equal(a.number, b.number);
	assert_int_not_equal(b.number, c.number);
	ida = agent_comm_id(a.number, 1);
	idb = agent_comm_id(b.number, 99);
	gsi_peer_listen_on(&b, SERVICE, &any_v4);
	gsi_peer_listen_on(&c, OTHER_SERVICE, &at);

	req = mail_req(&at, &at, ida, SERVICE);
	req.tclass = 0x68;
	assert_int_equal(gsi_peer_send(&a, &req), 0);
	expect(&b, ROCEMU_CM_REQ, ida, &got);
	assert_int_equal(got.m.req.service_id, SERVICE);
	assert_memory_equal(got.src.raw, at.raw, 16);
	assert_memory_equal(got.dst.raw, at.raw, 16);
	assert_int_equal(got.tclass, 0x68);
	assert_int_equal(got.hop_limit, 64);

	rep = mail_ids(&at, &at, ROCEMU_CM_REP, idb, ida);
	assert_int_equal(gsi_peer_send(&b, &rep), 0);
	expect(&a, ROCEMU_CM_REP, idb, &got);
	rep = mail_ids(&at, &at, ROCEMU_CM_RTU, ida, idb);
	assert_int_equal(gsi_peer_send(&a, &rep), 0);
	expect(&b, ROCEMU_CM_RTU, ida, &got);

	req = mail_sidr_req(&at, &at, ida, OTHER_SERVICE);
	assert_int_equal(gsi_peer_send(&a, &req), 0);
	expect(&c, ROCEMU_CM_SIDR_REQ, ida, &got);
	/* A's third message: nothing went where it does not belong. */
	assert_int_equal(gsi_peer_recv_now(&a, &got), 0);
	assert_int_equal(gsi_peer_recv_now(&b, &got), 0);
	assert_int_equal(gsi_peer_recv_now(&c, &got), 0);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	gsi_peer_leave(&c);
	env_leave();
}

TEST(cm, ipv6__routed_and_answered)
{
	struct rocemu_gid at = gid_v6_loopback();
	struct gsi_peer a, b;
	struct gsi_mail req, got;
	uint32_t ida;

	env_enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	ida = agent_comm_id(a.number, 1);
	gsi_peer_listen_on(&b, SERVICE, &any_v6);
	req = mail_req(&at, &at, ida, SERVICE);
	req.tclass = 0x20;
	assert_int_equal(gsi_peer_send(&a, &req), 0);
	expect(&b, ROCEMU_CM_REQ, ida, &got);
	assert_memory_equal(got.src.raw, at.raw, 16);
	assert_int_equal(got.tclass, 0x20);
	/* There is no listener. */
	req = mail_req(&at, &at, ida + 1, OTHER_SERVICE);
	assert_int_equal(gsi_peer_send(&a, &req), 0);
	expect(&a, ROCEMU_CM_REJ, 0, &got);
	assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_SERVICE_ID);
	assert_int_equal(got.m.rej.remote_comm_id, ida + 1);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	env_leave();
}

TEST(cm, wildcard_and_specific__the_more_specific_gets_it)
{
	struct rocemu_gid one = gid_v4(127, 0, 0, 1), two = gid_v4(127, 0, 0, 2);
	struct agent_gsi_bind any = {SERVICE, any_v4, 0, AGENT_GSI_REUSEADDR};
	struct agent_gsi_bind specific = {SERVICE, two, 0, AGENT_GSI_REUSEADDR};
	struct gsi_peer a, b, c;
	struct gsi_mail req, got;
	uint32_t key;

	env_enter();
	a = gsi_peer_start_at(&one);
	b = gsi_peer_start_at(&two);
	c = gsi_peer_start_at(&one);
	assert_int_equal(gsi_peer_open(&a, &two), 0);
	assert_int_equal(gsi_peer_bind(&a, &any, &key), 0);
	assert_int_equal(gsi_peer_listen(&a, key), 0);
	assert_int_equal(gsi_peer_bind(&b, &specific, &key), 0);
	assert_int_equal(gsi_peer_listen(&b, key), 0);

	req = mail_req(&one, &two, agent_comm_id(c.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&c, &req), 0);
	expect(&b, ROCEMU_CM_REQ, agent_comm_id(c.number, 1), &got);
	req = mail_req(&one, &one, agent_comm_id(c.number, 2), SERVICE);
	assert_int_equal(gsi_peer_send(&c, &req), 0);
	expect(&a, ROCEMU_CM_REQ, agent_comm_id(c.number, 2), &got);
	/* Without the specific one it is the wildcard's. */
	assert_int_equal(gsi_peer_unbind(&b, key), 0);
	req = mail_req(&one, &two, agent_comm_id(c.number, 3), SERVICE);
	assert_int_equal(gsi_peer_send(&c, &req), 0);
	expect(&a, ROCEMU_CM_REQ, agent_comm_id(c.number, 3), &got);
	assert_int_equal(gsi_peer_recv_now(&b, &got), 0);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	gsi_peer_leave(&c);
	env_leave();
}

TEST(cm, wildcard__hears_only_of_addresses_it_opened)
{
	struct rocemu_gid one = gid_v4(127, 0, 0, 1), two = gid_v4(127, 0, 0, 2);
	struct gsi_peer a, b;
	struct gsi_mail req, got;

	env_enter();
	a = gsi_peer_start_at(&one);
	b = gsi_peer_start_at(&two);
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	req = mail_req(&two, &two, agent_comm_id(b.number, 1), SERVICE);
	assert_int_equal(gsi_peer_send(&b, &req), 0);
	expect(&b, ROCEMU_CM_REJ, 0, &got);
	assert_int_equal(gsi_peer_open(&a, &two), 0);
	assert_int_equal(gsi_peer_send(&b, &req), 0);
	expect(&a, ROCEMU_CM_REQ, agent_comm_id(b.number, 1), &got);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	env_leave();
}

TEST(cm, same_service_of_two__address_in_use_until_freed)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = at};
	struct gsi_peer a, other;
	uint32_t key, mine;

	env_enter();
	a = gsi_peer_start_at(&at);
	other = gsi_peer_start_at(&at);
	mine = gsi_peer_listen_on(&a, SERVICE, &at);
	assert_int_equal(gsi_peer_bind(&other, &b, &key), -EADDRINUSE);
	assert_non_null(strstr(other.text, "in use"));
	/* In another port space it is another port. */
	b.service_id = rocemu_cm_service_id(ROCEMU_PS_UDP, 7471);
	assert_int_equal(gsi_peer_bind(&other, &b, &key), 0);
	b.service_id = SERVICE;
	assert_int_equal(gsi_peer_unbind(&a, mine), 0);
	assert_int_equal(gsi_peer_unbind(&a, mine), -ENOENT);
	assert_int_equal(gsi_peer_bind(&other, &b, &key), 0);
	/* Death frees it, too. */
	gsi_peer_kill(&other);
	for (unsigned tries = 0; tries < 10000 && gsi_peer_bind(&a, &b, &key); tries++)
		;
	assert_int_equal(gsi_peer_listen(&a, key), 0);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, port_0__ports_that_nobody_has)
{
	enum { N = 300 };
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct gsi_peer p[2];
	uint64_t got[N];

	env_enter();
	p[0] = gsi_peer_start_at(&at);
	p[1] = gsi_peer_start_at(&at);
	for (unsigned i = 0; i < N; i++) {
		struct agent_gsi_bind b = {.service_id = rocemu_cm_service_id(ROCEMU_PS_TCP, 0),
					   .addr = at};
		uint32_t key;

		assert_int_equal(gsi_peer_bind(&p[i % 2], &b, &key), 0);
		assert_int_equal(b.service_id >> 16, ROCEMU_PS_TCP);
		assert_in_range(b.service_id & 0xffff, 1024, 65535);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(got[k], b.service_id);
		got[i] = b.service_id;
	}
	gsi_peer_leave(&p[0]);
	gsi_peer_leave(&p[1]);
	env_leave();
}

TEST(cm, repeated_request__to_whom_it_came_first)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	struct gsi_mail req, rej, got;
	struct gsi_peer a, b;
	uint32_t key;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	key = gsi_peer_listen_on(&a, SERVICE, &any_v4);
	req = mail_req(&far, &at, 5, SERVICE);
	wire_send(fd, &req);
	expect(&a, ROCEMU_CM_REQ, 5, &got);
	/* Another one listens now: it is still a's connection. */
	assert_int_equal(gsi_peer_unbind(&a, key), 0);
	gsi_peer_listen_on(&b, SERVICE, &any_v4);
	wire_send(fd, &req);
	expect(&a, ROCEMU_CM_REQ, 5, &got);
	/* The requester gives up without having received the responder's ID. */
	rej = mail_ids(&far, &at, ROCEMU_CM_REJ, 5, 0);
	rej.m.tid = req.m.tid;
	rej.m.rej.reason = ROCEMU_CM_REJ_TIMEOUT;
	wire_send(fd, &rej);
	expect(&a, ROCEMU_CM_REJ, 5, &got);
	/* A new one is b's. */
	req = mail_req(&far, &at, 6, SERVICE);
	wire_send(fd, &req);
	expect(&b, ROCEMU_CM_REQ, 6, &got);
	close(fd);
	gsi_peer_leave(&a);
	gsi_peer_leave(&b);
	env_leave();
}

/* A program that sends its client the port before it listens there. */
TEST(cm, bound_and_not_listening_yet__request_waits_for_a_moment)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	struct agent_gsi_bind b = {.service_id = SERVICE, .addr = any_v4};
	struct gsi_mail req, got;
	struct gsi_peer a;
	uint32_t key;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	assert_int_equal(gsi_peer_bind(&a, &b, &key), 0);
	for (uint32_t i = 0; i <= GSI_EARLY_MAX; i++) {
		req = mail_req(&far, &at, 5 + i, SERVICE);
		wire_send(fd, &req);
	}
	/* One is too many; its answer shows that the others are there. */
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.rej.remote_comm_id, 5 + GSI_EARLY_MAX);
	assert_int_equal(gsi_peer_listen(&a, key), 0);
	for (uint32_t i = 0; i < GSI_EARLY_MAX; i++)
		expect(&a, ROCEMU_CM_REQ, 5 + i, &got);
	/* It never listens. */
	assert_int_equal(gsi_peer_unbind(&a, key), 0);
	assert_int_equal(gsi_peer_bind(&a, &b, &key), 0);
	req = mail_req(&far, &at, 4, SERVICE);
	wire_send(fd, &req);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.rej.remote_comm_id, 4);
	assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_SERVICE_ID);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

/* There is no agent either, and the port is closed. */
static void refused(struct rocemu_gid at, struct rocemu_gid far)
{
	struct gsi_mail m, got;
	struct gsi_peer a;

	a = gsi_peer_start_at(&at);
	m = mail_req(&at, &far, agent_comm_id(a.number, 7), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	assert_int_equal(gsi_peer_recv(&a, &got), GSI_PEER_UNREACHABLE + ECONNREFUSED);
	/* Other packets that follow are not held up by it. */
	m = mail_sidr_req(&at, &far, agent_comm_id(a.number, 8), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	assert_int_equal(gsi_peer_recv(&a, &got), GSI_PEER_UNREACHABLE + ECONNREFUSED);
	/* Other messages than requests are not kept. */
	m = mail_ids(&at, &far, ROCEMU_CM_DREQ, agent_comm_id(a.number, 7), 5);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	m = mail_req(&at, &at, agent_comm_id(a.number, 9), SERVICE);
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	gsi_peer_leave(&a);
}

TEST(cm, request_to_a_closed_port__its_sender_is_told)
{
	env_enter();
	refused(gid_v4(127, 0, 0, 1), gid_v4(127, 0, 0, 9));
	env_leave();
}

TEST(cm, nobody_there__answered_as_the_standard_says)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	struct gsi_mail m, got;
	struct gsi_peer a;
	uint32_t nobody;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	nobody = agent_comm_id((uint16_t)(a.number % 1023 + 1), 7);
	fd = wire_open(&far);

	m = mail_req(&far, &at, 5, SERVICE);
	wire_send(fd, &m);
	wire_recv(fd, &far, &got);
	assert_memory_equal(got.src.raw, at.raw, 16);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.tid, m.m.tid);
	assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_SERVICE_ID);
	assert_int_equal(got.m.rej.answered, ROCEMU_CM_TO_REQ);
	assert_int_equal(got.m.rej.remote_comm_id, 5);

	m = mail_sidr_req(&far, &at, 6, SERVICE);
	wire_send(fd, &m);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_SIDR_REP);
	assert_int_equal(got.m.sidr_rep.status, ROCEMU_CM_SIDR_SERVICE_ID);
	assert_int_equal(got.m.sidr_rep.request_id, 6);

	/* None of these is answered, so the next answer is the REP's. */
	for (unsigned i = 0; i < 2; i++) {
		uint32_t id = i ? nobody : 0;

		m = mail_ids(&far, &at, ROCEMU_CM_RTU, 8, id);
		wire_send(fd, &m);
		m = mail_ids(&far, &at, ROCEMU_CM_MRA, 8, id);
		wire_send(fd, &m);
		m = mail_ids(&far, &at, ROCEMU_CM_REJ, 8, id);
		wire_send(fd, &m);
		m = mail_ids(&far, &at, ROCEMU_CM_DREP, 8, id);
		wire_send(fd, &m);
		m = mail_ids(&far, &at, ROCEMU_CM_APR, 8, id);
		wire_send(fd, &m);
	}
	m = mail_ids(&far, &at, ROCEMU_CM_REP, 9, nobody);
	wire_send(fd, &m);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(got.m.rej.reason, ROCEMU_CM_REJ_COMM_ID);
	assert_int_equal(got.m.rej.answered, ROCEMU_CM_TO_REP);
	assert_int_equal(got.m.rej.local_comm_id, nobody);
	assert_int_equal(got.m.rej.remote_comm_id, 9);

	m = mail_ids(&far, &at, ROCEMU_CM_DREQ, 10, nobody);
	wire_send(fd, &m);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREP);
	assert_int_equal(got.m.drep.local_comm_id, nobody);
	assert_int_equal(got.m.drep.remote_comm_id, 10);

	m = mail_ids(&far, &at, ROCEMU_CM_LAP, 11, nobody);
	wire_send(fd, &m);
	wire_recv(fd, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_APR);
	assert_int_equal(got.m.apr.status, ROCEMU_CM_APR_COMM_ID);
	wire_assert_silent(fd);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_no_listener), 2);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_unknown_id), 3);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_unanswered), 10);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, two_processes_of_one_address__its_psns_are_consecutive)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	struct gsi_mail m, got;
	struct gsi_peer p[2];
	uint32_t psn = 0;
	int fd;

	env_enter();
	p[0] = gsi_peer_start_at(&at);
	p[1] = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	for (unsigned i = 0; i < 6; i++) {
		m = mail_req(&at, &far, agent_comm_id(p[i % 2].number, i), SERVICE);
		assert_int_equal(gsi_peer_send(&p[i % 2], &m), 0);
		wire_recv(fd, &far, &got);
		if (i)
			assert_int_equal(get_be24(got.mad.hdr + 9), (psn + 1) & 0xffffff);
		psn = get_be24(got.mad.hdr + 9);
	}
	close(fd);
	gsi_peer_leave(&p[0]);
	gsi_peer_leave(&p[1]);
	env_leave();
}

TEST(cm, echo__is_the_packet_that_was_sent)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9);
	uint8_t packet[GSI_PACKET_LEN];
	struct gsi_mail m, got, echo;
	struct gsi_peer a;
	int fd;

	env_enter();
	a = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	m = mail_req(&at, &far, agent_comm_id(a.number, 1), SERVICE);
	m.echo = true;
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	wire_recv(fd, &far, &got);
	assert_int_equal(gsi_peer_recv(&a, &echo), 1);
	gsi_packet_encode(&echo.mad, packet);
	assert_memory_equal(packet, got.bytes, sizeof(packet));
	/* Of a corrupted one, too: the receiver's check fails, and the echo shows why. */
	mail_seal(&m);
	m.mad.flips[m.mad.nflips++] = 1000;
	assert_int_equal(gsi_peer_send_mad(&a, &m), 0);
	assert_int_equal(gsi_peer_recv(&a, &echo), 1);
	gsi_packet_encode(&echo.mad, packet);
	wire_recv_bytes(fd, got.bytes);
	assert_memory_equal(packet, got.bytes, sizeof(packet));
	assert_int_equal(gsi_packet_decode(&echo.mad, packet, sizeof(packet)), GSI_ICRC);
	/* What is refused is not returned. */
	m = mail_req(&at, &far, agent_comm_id((uint16_t)(a.number ^ 1), 1), SERVICE);
	m.echo = true;
	assert_int_equal(gsi_peer_send(&a, &m), 0);
	gsi_wait_counter(AGENT_GSI_COUNT_tx_refused, 1);
	assert_int_equal(gsi_peer_recv_now(&a, &echo), 0);
	wire_assert_silent(fd);
	close(fd);
	gsi_peer_leave(&a);
	env_leave();
}

TEST(cm, stopped_client__its_queue_fills_and_nobody_waits)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1), far = gid_v4(127, 0, 0, 9),
			  elsewhere = gid_v4(127, 0, 0, 10);
	struct gsi_peer stopped, other;
	struct gsi_mail req, got;
	uint32_t id = 1, n = 0;
	int fd, fd2;

	env_enter();
	stopped = gsi_peer_start_at(&at);
	other = gsi_peer_start_at(&at);
	fd = wire_open(&far);
	fd2 = wire_open(&elsewhere);
	gsi_peer_listen_on(&stopped, SERVICE, &any_v4);
	gsi_peer_listen_on(&other, OTHER_SERVICE, &any_v4);
	kill(stopped.process.pid, SIGSTOP);
	while (gsi_counter(AGENT_GSI_COUNT_queue_full) == 0) {
		for (unsigned i = 0; i < 100; i++) {
			req = mail_req(&far, &at, id++, SERVICE);
			wire_send(fd, &req);
		}
		assert_true(id < 10000000);
	}
	assert_int_equal(gsi_queued(stopped.number), GSI_QUEUE_MAX / 2);
	/* Another host's is kept all the same. */
	req = mail_req(&elsewhere, &at, 0xfffffff0, SERVICE);
	wire_send(fd2, &req);
	req = mail_req(&far, &at, 0xfeed, OTHER_SERVICE);
	wire_send(fd, &req);
	expect(&other, ROCEMU_CM_REQ, 0xfeed, &got);
	assert_int_equal(gsi_queued(stopped.number), GSI_QUEUE_MAX / 2 + 1);
	kill(stopped.process.pid, SIGCONT);
	/* What was queued is there, in order; the agent sends on as there is room. */
	for (id = 0; id != 0xfffffff0; n++) {
		assert_int_equal(gsi_peer_recv(&stopped, &got), 1);
		assert_true(got.m.req.local_comm_id > id);
		id = got.m.req.local_comm_id;
	}
	assert_true(n > 100);
	assert_int_equal(gsi_peer_recv_now(&stopped, &got), 0);
	close(fd);
	close(fd2);
	gsi_peer_leave(&stopped);
	gsi_peer_leave(&other);
	env_leave();
}

TEST(cm, clients_leave__numbers_not_used_again_soon)
{
	struct rocemu_gid at = gid_v4(127, 0, 0, 1);
	struct gsi_peer keeper, p;
	uint16_t seen[20];

	env_enter();
	keeper = gsi_peer_start_at(&at);
	for (unsigned i = 0; i < 20; i++) {
		p = gsi_peer_start();
		seen[i] = p.number;
		assert_int_not_equal(p.number, 0);
		assert_int_not_equal(p.number, keeper.number);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(seen[k], p.number);
		gsi_peer_leave(&p);
	}
	gsi_peer_leave(&keeper);
	env_leave();
}
