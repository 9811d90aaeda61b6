/* SPDX-License-Identifier: BSD-2-Clause */
/* Exit MADs: what is sent for processes that end. */
#include "agent/client-gsi.h"

#include <errno.h>
#include <stdlib.h>

#include "gsi-scene.h"
#include "test.h"

#define SERVICE rocemu_cm_service_id(ROCEMU_PS_TCP, 7471)

enum {
	FAST = 12, /* CM timeout: 17 ms */
	SLOW = 31, /* as long as can be */
};

static const struct rocemu_gid any_v4 = {.raw = {[10] = 0xff, [11] = 0xff}};

TEST(client_cm, killed__its_exit_mads_are_sent_and_repeated_until_answered)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, FAST, 15), 0);
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
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, FAST, 2), 0);
	/* A REJ is sent once. */
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id + 1, 78);
	assert_int_equal(gsi_peer_set_exit(&a, id + 1, &m, FAST, 15), 0);
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
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	ida = agent_comm_id(a.number, 5);
	idb = agent_comm_id(b.number, 6);
	m = mail_ids(&at, &at, ROCEMU_CM_DREQ, ida, idb);
	assert_int_equal(gsi_peer_set_exit(&a, ida, &m, SLOW, 15), 0);
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

TEST(client_cm, exit_mad_replaced_and_taken_back__only_what_is_left_is_sent)
{
	struct gsi_peer a, b;
	struct gsi_mail m, got;
	uint32_t id;

	enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	id = agent_comm_id(a.number, 5);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 1);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, SLOW, 0), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id, 2);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, SLOW, 0), 0);
	m = mail_ids(&at, &far, ROCEMU_CM_REJ, id + 1, 3);
	assert_int_equal(gsi_peer_set_exit(&a, id + 1, &m, SLOW, 0), 0);
	assert_int_equal(gsi_peer_clear_exit(&a, id + 1), 0);
	assert_int_equal(gsi_peer_clear_exit(&a, id + 2), 0);
	/* Not its own. */
	assert_int_equal(gsi_peer_set_exit(&a, agent_comm_id(b.number, 1), &m, SLOW, 0), -EINVAL);
	/* No REJ or DREQ: the agent does not keep it. */
	m = mail_ids(&at, &far, ROCEMU_CM_RTU, id + 3, 4);
	assert_int_equal(gsi_peer_set_exit(&a, id + 3, &m, SLOW, 0), 0);
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

/* It has set no exit MADs for requests that it has not read. */
TEST(client_cm, killed_with_requests_unread__they_are_refused)
{
	struct gsi_mail req, sidr, got, will;
	struct gsi_peer a, b;

	enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	gsi_peer_listen_on(&a, SERVICE, &any_v4);
	/* A request that it has read: only its exit MAD is sent. */
	req = mail_req(&far, &at, 5, SERVICE);
	wire_send(wire, &req);
	assert_int_equal(gsi_peer_recv(&a, &got), 1);
	will = mail_ids(&at, &far, ROCEMU_CM_REJ, agent_comm_id(a.number, 1), 5);
	will.m.tid = req.m.tid;
	will.m.rej.reason = ROCEMU_CM_REJ_CONSUMER;
	assert_int_equal(gsi_peer_set_exit(&a, agent_comm_id(a.number, 1), &will, FAST, 0), 0);
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

TEST(client_cm, leaves_without_exit_mads__nothing_is_sent)
{
	struct gsi_peer a, b;
	struct gsi_mail m;
	uint32_t id;

	enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, FAST, 15), 0);
	assert_int_equal(gsi_peer_clear_exit(&a, id), 0);
	gsi_peer_leave(&a);
	fence(&b);
	fence(&b);
	assert_int_equal(gsi_counter(AGENT_GSI_COUNT_exit_sent), 0);
	wire_assert_silent(wire);
	gsi_peer_leave(&b);
	leave();
}

TEST(client_cm, killed_with_1000_connections__each_peer_hears_of_it_at_once)
{
	enum { N = 1000 };
	static bool heard[N];
	struct gsi_peer a, b;
	struct gsi_mail m, got;

	enter();
	a = gsi_peer_start_at(&at);
	b = gsi_peer_start_at(&at);
	for (uint32_t i = 0; i < N; i++) {
		m = mail_ids(&at, &at, ROCEMU_CM_DREQ, agent_comm_id(a.number, i),
			     agent_comm_id(b.number, i));
		assert_int_equal(gsi_peer_set_exit(&a, agent_comm_id(a.number, i), &m, SLOW, 1), 0);
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

TEST(client_cm, last_process_killed__the_agent_stays_until_its_exit_mad_is_done)
{
	struct gsi_peer a;
	struct gsi_mail m, got;
	uint32_t id;
	pid_t agent;

	enter();
	/* On a machine so slow that it leaves at once, another one comes in its place and the test
	 * shows less. */
	assert_int_equal(system(AGENT_BIN " --idle-timeout 0.2"), 0);
	a = gsi_peer_start_at(&at);
	agent = agent_pid();
	id = agent_comm_id(a.number, 5);
	m = dreq(id, 77);
	/* After 1.07 s once more: longer than the agent would stay. */
	assert_int_equal(gsi_peer_set_exit(&a, id, &m, 18, 1), 0);
	fence(&a);
	gsi_peer_kill(&a);
	wire_recv(wire, &far, &got);
	wire_recv(wire, &far, &got);
	assert_int_equal(agent_pid(), agent);
	/* The peer's DREQ crosses the exit MAD: it is answered, and ends the repetition. */
	m = mail_ids(&far, &at, ROCEMU_CM_DREQ, 77, id);
	wire_send(wire, &m);
	wire_recv(wire, &far, &got);
	assert_int_equal(got.m.attr_id, ROCEMU_CM_DREP);
	wait_gone(agent);
	leave();
}
