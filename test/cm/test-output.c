/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests output: its order, and the fields of messages that do not affect the peer's answer. */
#include "bench.h"

#include <string.h>

#include "cm/cm-internal.h"

static void req_to_nobody(struct bench *b, uint32_t id)
{
	struct rocemu_cm_msg m;

	bench_message(b, NULL, ROCEMU_CM_REQ, &m);
	m.req.service_id = BENCH_SERVICE + 1;
	m.req.local_comm_id = id;
	assert_int_equal(bench_in(b, &m), CM_DROP_NO_SERVICE);
}

/* The REJ of the i-th. */
static void expect_rej(const struct cm_mad *mad, uint32_t id)
{
	struct rocemu_cm_msg m;

	assert_int_equal(rocemu_cm_decode(&m, mad->data, sizeof(mad->data)), ROCEMU_MAD_OK);
	assert_int_equal(m.attr_id, ROCEMU_CM_REJ);
	assert_int_equal(m.rej.remote_comm_id, id);
}

TEST(output, answers_without_connection_and_a_request__in_turn_each_once)
{
	struct rocemu_cm_msg m;
	struct cm_mad out[8];
	struct bench b;

	bench_start(&b);
	bench_connect(&b, false);
	for (uint32_t i = 0; i < 3; i++)
		req_to_nobody(&b, 100 + i);
	assert_int_equal(cm_output(b.cm, b.now, out, 2), 2);
	expect_rej(&out[0], 100);
	expect_rej(&out[1], 101);
	req_to_nobody(&b, 103);
	memset(out, 0, sizeof(out));
	assert_int_equal(cm_output(b.cm, b.now, out, 8), 3);
	expect_rej(&out[0], 102);
	expect_rej(&out[1], 103);
	assert_int_equal(rocemu_cm_decode(&m, out[2].data, sizeof(out[2].data)), ROCEMU_MAD_OK);
	assert_int_equal(m.attr_id, ROCEMU_CM_REQ);
	assert_int_equal(cm_output(b.cm, b.now, out, 8), 0);
	assert_int_equal(cm_get_stats(b.cm)->sent[ROCEMU_CM_REJ - ROCEMU_CM_REQ], 4);
	assert_int_equal(cm_get_stats(b.cm)->rejects, 4);
	bench_end(&b);
}

/* The received hop limit is not used for the answer. */
TEST(output, answer__goes_back_with_the_usual_hop_limit)
{
	struct cm_addr from = {.src = bench_peer, .dst = bench_own, .tclass = 0x20, .hop_limit = 3};
	uint8_t mad[ROCEMU_MAD_LEN];
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
	m.req.service_id = BENCH_SERVICE + 1;
	assert_int_equal(rocemu_cm_encode(&m, mad), ROCEMU_MAD_LEN);
	cm_input(b.cm, b.now, mad, sizeof(mad), &from);
	assert_string_equal(bench_sends(&b), "REJ 8");
	assert_memory_equal(&b.sent_addr.src, &bench_own, sizeof(bench_own));
	assert_memory_equal(&b.sent_addr.dst, &bench_peer, sizeof(bench_peer));
	assert_int_equal(b.sent_addr.tclass, 0x20);
	assert_int_equal(b.sent_addr.hop_limit, 0);
	bench_end(&b);
}

TEST(output, rej__says_which_message_it_is_for)
{
	static const struct {
		enum cm_state state;
		uint8_t answered;
	} rows[] = {
		{CM_REQ_RCVD, ROCEMU_CM_TO_REQ},   {CM_MRA_REQ_SENT, ROCEMU_CM_TO_REQ},
		{CM_REP_RCVD, ROCEMU_CM_TO_REP},   {CM_MRA_REP_SENT, ROCEMU_CM_TO_REP},
		{CM_REQ_SENT, ROCEMU_CM_TO_OTHER}, {CM_MRA_REQ_RCVD, ROCEMU_CM_TO_OTHER},
		{CM_REP_SENT, ROCEMU_CM_TO_OTHER},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		c = bench_conn(&b, rows[i].state);
		assert_int_equal(cm_reject(c, b.now, ROCEMU_CM_REJ_CONSUMER, NULL, 0, NULL, 0), 0);
		assert_string_equal(bench_sends(&b), "REJ 28");
		assert_int_equal(b.sent.rej.answered, rows[i].answered);
		/* The GUID, for a peer that we have no ID of. */
		assert_int_equal(
			b.sent.rej.ari_len,
			rows[i].state == CM_REQ_SENT || rows[i].state == CM_MRA_REQ_RCVD ? 8 : 0);
		bench_end(&b);
	}
}

/* An MRA is part of the transaction of what it answers. */
TEST(output, mra__transaction_of_the_message_that_waits)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_RCVD);
	assert_int_equal(cm_mra(c, b.now, 20, NULL, 0), 0);
	assert_string_equal(bench_sends(&b), "MRA");
	assert_int_equal(b.sent.tid, BENCH_TID);
	bench_end(&b);

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, c, ROCEMU_CM_LAP, &m);
	m.tid = BENCH_TID + 9;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(cm_mra(c, b.now, 20, NULL, 0), 0);
	assert_string_equal(bench_sends(&b), "MRA");
	assert_int_equal(b.sent.tid, BENCH_TID + 9);
	bench_end(&b);
}

TEST(output, lap__the_path_that_was_given)
{
	const struct rocemu_cm_path path = {.local_lid = 0xffff,
					    .remote_lid = 0xffff,
					    .local_gid = bench_own,
					    .remote_gid = bench_other,
					    .sl = 3,
					    .hop_limit = 9,
					    .ack_timeout = 17};
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), 0);
	assert_string_equal(bench_sends(&b), "LAP");
	assert_memory_equal(&b.sent.lap.alternate.remote_gid, &bench_other, sizeof(bench_other));
	assert_int_equal(b.sent.lap.alternate.sl, 3);
	assert_int_equal(b.sent.lap.alternate.hop_limit, 9);
	assert_int_equal(b.sent.lap.alternate.ack_timeout, 17);
	bench_end(&b);
}

/** What is over before it was sent is gone as soon as it is. */
TEST(output, last_word_of_a_destroyed_connection__sent_then_nothing_is_left)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_SENT);
	cm_conn_destroy(c, b.now);
	assert_int_equal(cm_get_stats(b.cm)->conns, 1);
	assert_int_equal(strncmp(bench_sends(&b), "REJ", 3), 0);
	assert_int_equal(cm_get_stats(b.cm)->conns, 0);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	bench_end(&b);
}

/** The answer to a question is kept for as long as the question may come again. */
TEST(output, sidr_rep__kept_for_all_tries)
{
	struct bench b;

	bench_start(&b);
	bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ);
	bench_events(&b);
	assert_int_equal(
		cm_sidr_reply(b.event.sidr, b.now, ROCEMU_CM_SIDR_VALID, 1, 2, NULL, 0, NULL, 0),
		0);
	assert_int_equal(cm_deadline(b.cm) - b.now,
			 (CM_DEFAULT_RETRIES + 1) * (UINT64_C(4096) << CM_DEFAULT_TIMEOUT));
	cm_sidr_destroy(b.event.sidr, b.now);
	bench_end(&b);
}

/* QPs 0 and 1 connect nothing, so two REQs with them are not of one connection. */
TEST(stale, same_qp_0_or_1__connections_of_their_own)
{
	static const enum cm_drop second[] = {CM_DROP_NONE, CM_DROP_NONE, CM_DROP_STALE};

	for (uint32_t qpn = 0; qpn < 3; qpn++) {
		struct rocemu_cm_msg m;
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		bench_message(&b, NULL, ROCEMU_CM_REQ, &m);
		m.req.local_qpn = qpn;
		assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
		assert_string_equal(bench_events(&b), "REQ");
		c = b.event.conn;
		assert_non_null(c);
		m.req.local_comm_id += 7;
		assert_int_equal(bench_in(&b, &m), second[qpn]);
		bench_end(&b);
	}
}

TEST(stats, what_the_manager_says_by_itself__counted)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_SIDR_REQ, &m);
	m.sidr_req.service_id = BENCH_SERVICE + 1;
	bench_in(&b, &m);
	assert_int_equal(cm_get_stats(b.cm)->rejects, 1);
	/* A listener ends, and with it an unseen request. */
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	cm_unlisten(b.listener, b.now);
	assert_int_equal(cm_get_stats(b.cm)->rejects, 2);
	bench_end(&b);

	bench_start(&b);
	bench_conn(&b, CM_REP_SENT);
	assert_int_equal(cm_get_stats(b.cm)->answers, 0);
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_sends(&b), "REP");
	assert_int_equal(cm_get_stats(b.cm)->answers, 1);
	bench_end(&b);
}

/* ---- what a forged request makes its alleged sender get ---- */

enum { FORGED = 1000, FORGED_RETRIES = 15 };

/** Requests for all that a REQ can have: the most repetitions, the shortest time between. */
static void accept_forged(struct bench *b, unsigned first, unsigned n,
			  const struct rocemu_gid *source)
{
	const struct rocemu_cm_rep rep = {.local_qpn = BENCH_OWN_QPN};
	struct rocemu_cm_msg m;

	for (unsigned i = first; i < first + n; i++) {
		bench_message(b, NULL, ROCEMU_CM_REQ, &m);
		m.tid += i;
		m.req.local_comm_id += i;
		m.req.local_qpn += i;
		m.req.max_cm_retries = FORGED_RETRIES;
		m.req.local_cm_timeout = 0;
		m.req.primary.ack_timeout = 0;
		assert_int_equal(bench_in_from(b, &m, source), CM_DROP_NONE);
		assert_string_equal(bench_events(b), "REQ");
		assert_int_equal(cm_accept(b->event.conn, b->now, &rep, NULL, 0), 0);
	}
}

/** Until nothing is left to do. @return how many messages left. */
static unsigned sent_in_the_end(struct bench *b)
{
	unsigned n = 0;
	struct cm_event ev;
	struct cm_mad mad;

	for (;;) {
		while (cm_output(b->cm, b->now, &mad, 1))
			n++;
		while (cm_next_event(b->cm, &ev))
			if (ev.type == CM_EV_TIMEOUT)
				cm_conn_destroy(ev.conn, b->now);
		if (cm_deadline(b->cm) == ROCEMU_NEVER)
			return n;
		bench_expire(b);
	}
}

TEST(forged_req, one__as_often_as_the_req_says)
{
	struct bench b;

	bench_start(&b);
	accept_forged(&b, 0, 1, &bench_other);
	assert_int_equal(sent_in_the_end(&b), 1 + FORGED_RETRIES + 1);
	bench_end(&b);
}

TEST(forged_req, many_at_once__answered_once_each_and_a_few_more)
{
	struct bench b;

	bench_start(&b);
	accept_forged(&b, 0, FORGED, &bench_other);
	assert_int_equal(sent_in_the_end(&b), FORGED + CM_UNASKED);
	assert_true(cm_get_stats(b.cm)->withheld >= (FORGED - 1) * FORGED_RETRIES);
	/* A second later there are as many again. */
	b.now += CM_UNASKED_PERIOD_NS;
	accept_forged(&b, FORGED, FORGED, &bench_other);
	assert_int_equal(sent_in_the_end(&b), FORGED + CM_UNASKED);
	bench_end(&b);
}

TEST(forged_req, flood_of_one_address__others_are_repeated_to)
{
	struct bench b;

	bench_start(&b);
	accept_forged(&b, 0, FORGED, &bench_other);
	sent_in_the_end(&b);
	accept_forged(&b, FORGED, 1, &bench_peer);
	assert_int_equal(sent_in_the_end(&b), 1 + FORGED_RETRIES + 1);
	bench_end(&b);
}

/* As in a burst of connections over a network that loses many RTUs. */
TEST(forged_req, other_connections_of_the_source_complete__repeated_to_more)
{
	enum { COMPLETE = 100 };
	struct cm_conn *c[COMPLETE];
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	for (unsigned i = 0; i < COMPLETE; i++) {
		accept_forged(&b, i, 1, &bench_other);
		c[i] = b.event.conn;
		bench_message(&b, c[i], ROCEMU_CM_RTU, &m);
		m.rtu.local_comm_id += i;
		assert_int_equal(bench_in_from(&b, &m, &bench_other), CM_DROP_NONE);
		assert_string_equal(bench_events(&b), "RTU");
	}
	accept_forged(&b, COMPLETE, FORGED, &bench_other);
	assert_int_equal(sent_in_the_end(&b), FORGED + CM_UNASKED + COMPLETE * CM_EARNED);
	for (unsigned i = 0; i < COMPLETE; i++)
		cm_conn_destroy(c[i], b.now);
	bench_end(&b);
}

/* Its address is not forged. */
TEST(forged_req, peer_answers_by_mra__repeated_to)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	accept_forged(&b, FORGED, FORGED, &bench_peer);
	sent_in_the_end(&b);
	c = bench_conn(&b, CM_MRA_REP_RCVD);
	for (unsigned i = 0; i < BENCH_RETRIES; i++) {
		bench_expire(&b);
		assert_string_equal(bench_sends(&b), "REP");
	}
	cm_conn_destroy(c, b.now);
	bench_end(&b);
}
