/* SPDX-License-Identifier: BSD-2-Clause */
/* When messages are sent again, when that ends, and how long a connection that is over is kept. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "cm/cm-internal.h"

/* The usual ones of bench.c: 4.096 us * 2^20, and 2^19 for a packet there and back. */
static const rocemu_ns_t response = 4096ull << 20, life = 4096ull << 19;

/** A message that gets no answer: so often, so far apart. */
static void expect_tries(struct bench *b, const char *name)
{
	for (unsigned i = 0; i < BENCH_RETRIES; i++) {
		rocemu_ns_t before = b->now;

		assert_int_equal(cm_deadline(b->cm) - before, response + life);
		bench_expire(b);
		assert_string_equal(bench_sends(b), name);
		assert_string_equal(bench_events(b), "-");
	}
	bench_expire(b);
}

TEST(retry, time_scale__divides_every_wait)
{
	static const double scales[] = {1, 100, 0.01};

	for (unsigned i = 0; i < ARRAY_LEN(scales); i++) {
		const struct cm_config config = {.seed = 1,
						 .ca_guid = BENCH_OWN_GUID,
						 .id_prefix = 9,
						 .time_scale = scales[i]};
		rocemu_ns_t before, wait;
		struct cm_conn *c;
		struct bench b;

		bench_start_config(&b, &config);
		c = bench_connect(&b, false);
		for (unsigned try = 0; try <= BENCH_RETRIES; try++) {
			before = b.now;
			wait = cm_deadline(b.cm) - before;
			assert_true((double)wait * scales[i] > 0.999 * (double)(response + life));
			assert_true((double)wait * scales[i] < 1.001 * (double)(response + life));
			bench_expire(&b);
		}
		assert_int_equal(cm_conn_state(c), CM_IDLE);
		cm_conn_destroy(c, b.now);
		bench_end(&b);
	}
}

TEST(retry, req__rej_timeout_with_own_guid_then_idle)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_SENT);
	expect_tries(&b, "REQ");
	assert_string_equal(bench_sends(&b), "REJ 4");
	assert_int_equal(b.sent.rej.answered, ROCEMU_CM_TO_OTHER);
	assert_int_equal(b.sent.rej.ari_len, 8);
	assert_int_equal(b.sent.rej.ari[7], BENCH_OWN_GUID);
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_REQ);
	assert_int_equal(cm_conn_state(c), CM_IDLE);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	assert_int_equal(cm_get_stats(b.cm)->retries, BENCH_RETRIES);
	assert_int_equal(cm_get_stats(b.cm)->timeouts, 1);
	bench_end(&b);
}

TEST(unreachable, req__given_up_at_once_and_nothing_sent)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_SENT);
	assert_false(cm_unreachable(b.cm, cm_conn_local_id(c) + 1, ECONNREFUSED));
	assert_true(cm_unreachable(b.cm, cm_conn_local_id(c), ECONNREFUSED));
	assert_string_equal(bench_sends(&b), "-");
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_REQ);
	assert_int_equal(b.event.error, ECONNREFUSED);
	assert_int_equal(cm_conn_state(c), CM_IDLE);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	assert_int_equal(cm_get_stats(b.cm)->timeouts, 1);
	/* Reported again, for its repetition. */
	assert_false(cm_unreachable(b.cm, cm_conn_local_id(c), ECONNREFUSED));
	bench_end(&b);
}

/* Who has answered is there. */
TEST(unreachable, in_other_states__does_not_change_it)
{
	for (enum cm_state state = CM_MRA_REQ_RCVD; state < CM_STATE_COUNT; state++) {
		struct cm_conn *c;
		struct bench b;

		bench_start(&b);
		c = bench_conn(&b, state);
		assert_false(cm_unreachable(b.cm, cm_conn_local_id(c), EHOSTUNREACH));
		assert_int_equal(cm_conn_state(c), state);
		assert_string_equal(bench_events(&b), "-");
		bench_end(&b);
	}
}

TEST(unreachable, peer_to_peer__goes_on)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, true);
	assert_false(cm_unreachable(b.cm, cm_conn_local_id(c), ECONNREFUSED));
	assert_int_equal(cm_conn_state(c), CM_REQ_SENT);
	bench_end(&b);
}

TEST(retry, rep__rej_timeout_then_timewait)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REP_SENT);
	expect_tries(&b, "REP");
	assert_string_equal(bench_sends(&b), "REJ 4");
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_REP);
	assert_int_equal(cm_conn_state(c), CM_TIMEWAIT);
	/* The peer may still wait for the REP. */
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_sends(&b), "REJ 4");
	bench_end(&b);
}

TEST(retry, dreq__timewait)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_DREQ_SENT);
	expect_tries(&b, "DREQ");
	assert_string_equal(bench_sends(&b), "-");
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_DREQ);
	assert_int_equal(cm_conn_state(c), CM_TIMEWAIT);
	/* A peer that did not get the end is notified now. */
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_sends(&b), "REJ 10");
	bench_end(&b);
}

TEST(retry, lap__still_established)
{
	const struct rocemu_cm_path path = {.sl = 1};
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), 0);
	bench_sends(&b);
	expect_tries(&b, "LAP");
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_LAP);
	assert_int_equal(cm_conn_state(c), CM_ESTABLISHED);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), 0);
	bench_end(&b);
}

TEST(retry, without_retries__one_try)
{
	struct cm_connect_param p = {.addr = {.src = bench_own, .dst = bench_peer}};
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	cm_req_init(&p.req);
	p.req.max_cm_retries = 0;
	p.req.remote_cm_timeout = 0;
	p.req.primary.ack_timeout = 0;
	assert_int_equal(cm_connect(b.cm, b.now, &p, &c), 0);
	assert_string_equal(bench_sends(&b), "REQ");
	assert_int_equal(cm_deadline(b.cm), b.now + 4096);
	bench_expire(&b);
	assert_string_equal(bench_events(&b), "TIMEOUT");
	bench_end(&b);
}

/** What is answered, or over, is not sent again. */
TEST(retry, message_answered__no_timer)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, false);
	bench_says(&b, c, ROCEMU_CM_REJ);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	assert_string_equal(bench_sends(&b), "-"); /* it had not even left */
	assert_string_equal(bench_events(&b), "REJ");
	c = bench_conn(&b, CM_REP_SENT);
	assert_true(cm_deadline(b.cm) != ROCEMU_NEVER);
	bench_says(&b, c, ROCEMU_CM_DREQ);
	assert_int_equal(cm_conn_state(c), CM_DREQ_RCVD);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	bench_end(&b);
}

TEST(mra, to_a_req__waits_for_its_service_timeout_then_tries_on)
{
	struct rocemu_cm_msg m;
	struct bench b;
	struct cm_conn *c;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_SENT);
	bench_message(&b, c, ROCEMU_CM_MRA, &m);
	m.mra.service_timeout = 25;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "MRA");
	assert_int_equal(cm_deadline(b.cm), b.now + (4096ull << 25) + life);
	/* Repeated: it counts from now. A shorter one does not shorten it. */
	b.now += 1000;
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	m.mra.service_timeout = 1;
	bench_in(&b, &m);
	assert_int_equal(cm_deadline(b.cm), b.now + (4096ull << 25) + life);
	assert_string_equal(bench_events(&b), "-");
	bench_expire(&b);
	assert_string_equal(bench_sends(&b), "REQ");
	assert_int_equal(cm_deadline(b.cm), b.now + response + life);
	bench_end(&b);
}

TEST(mra, to_a_lap__waits_and_says_so_once)
{
	const struct rocemu_cm_path path = {.sl = 1};
	struct rocemu_cm_msg m;
	struct bench b;
	struct cm_conn *c;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	cm_lap(c, b.now, &path, 20, NULL, 0);
	bench_message(&b, c, ROCEMU_CM_MRA, &m);
	m.tid = c->lap_tid;
	m.mra.answered = ROCEMU_CM_TO_OTHER;
	m.mra.service_timeout = 25;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_events(&b), "MRA");
	assert_int_equal(cm_deadline(b.cm), b.now + (4096ull << 25) + life);
	bench_end(&b);
}

TEST(mra, later__sent_when_the_message_comes_again)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_RCVD);
	assert_int_equal(cm_mra(c, b.now, 32 | CM_MRA_LATER, NULL, 0), -EINVAL);
	assert_int_equal(cm_mra(c, b.now, 31 | CM_MRA_LATER, NULL, 0), 0);
	assert_int_equal(cm_conn_state(c), CM_MRA_REQ_SENT);
	assert_string_equal(bench_sends(&b), "-");
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_sends(&b), "MRA");
	assert_int_equal(b.sent.mra.service_timeout, 31);
	bench_end(&b);

	bench_start(&b);
	c = bench_conn(&b, CM_REP_RCVD);
	assert_int_equal(cm_mra(c, b.now, 24 | CM_MRA_LATER, NULL, 0), 0);
	assert_string_equal(bench_sends(&b), "-");
	bench_says(&b, c, ROCEMU_CM_REP);
	assert_string_equal(bench_sends(&b), "MRA");
	bench_end(&b);
}

TEST(timewait, over__idle_after_a_packets_life)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_TIMEWAIT);
	assert_int_equal(cm_deadline(b.cm), b.now + life);
	cm_expire(b.cm, b.now + life - 1);
	assert_int_equal(cm_conn_state(c), CM_TIMEWAIT);
	bench_expire(&b);
	assert_string_equal(bench_events(&b), "TIMEWAIT_EXIT");
	assert_int_equal(cm_conn_state(c), CM_IDLE);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	bench_end(&b);
}

/** An end that both sides have seen: late messages need no answer. */
TEST(timewait, late_req_or_rep_after_the_drep__nothing)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_DREQ_SENT);
	bench_says(&b, c, ROCEMU_CM_DREP);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REQ), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "-");
	bench_end(&b);

	bench_start(&b);
	c = bench_active_conn(&b, CM_DREQ_SENT);
	bench_says(&b, c, ROCEMU_CM_DREP);
	assert_int_equal(bench_says(&b, c, ROCEMU_CM_REP), CM_DROP_STALE);
	assert_string_equal(bench_sends(&b), "-");
	bench_end(&b);
}

TEST(timewait, rep_after_an_unanswered_dreq__rej_10)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_active_conn(&b, CM_DREQ_SENT);
	expect_tries(&b, "DREQ");
	assert_int_equal(cm_conn_state(c), CM_TIMEWAIT);
	assert_int_equal(bench_says(&b, c, ROCEMU_CM_REP), CM_DROP_STALE);
	assert_string_equal(bench_sends(&b), "REJ 10");
	bench_end(&b);
}

TEST(timewait, destroyed_in_it__gone_when_it_is_over)
{
	struct cm_exit_mad exit_mad;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_TIMEWAIT);
	while (cm_next_exit_mad(b.cm, &exit_mad))
		;
	cm_conn_destroy(c, b.now);
	assert_int_equal(cm_get_stats(b.cm)->conns, 1);
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	bench_expire(&b);
	assert_string_equal(bench_events(&b), "-");
	assert_int_equal(cm_get_stats(b.cm)->conns, 0);
	bench_end(&b);
}

/** Destruction does not stop the messages that the peer needs. */
TEST(destroy, established__dreq_repeated_without_a_consumer)
{
	struct cm_exit_mad exit_mad;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	cm_conn_destroy(c, b.now);
	assert_string_equal(bench_sends(&b), "DREQ");
	expect_tries(&b, "DREQ");
	bench_expire(&b);
	while (cm_next_exit_mad(b.cm, &exit_mad))
		;
	assert_string_equal(bench_events(&b), "-");
	assert_int_equal(cm_get_stats(b.cm)->conns, 0);
	bench_end(&b);
}

TEST(reject, req_again__same_rej_as_long_as_it_may_come)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_RCVD);
	assert_int_equal(cm_reject(c, b.now, 28, "ari", 3, "data", 4), 0);
	assert_string_equal(bench_sends(&b), "REJ 28");
	assert_int_equal(b.sent.rej.ari_len, 3);
	assert_memory_equal(b.sent.rej.private_data, "data", 4);
	cm_conn_destroy(c, b.now);
	assert_int_equal(cm_deadline(b.cm), b.now + (BENCH_RETRIES + 1) * (response + life));
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REQ), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "REJ 28");
	assert_int_equal(b.sent.rej.ari_len, 3);
	bench_expire(&b);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_REQ), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "REQ");
	bench_end(&b);
}

/** REJ TIMEOUT of a peer that never received the local ID: found by its own. */
TEST(reject, timeout_without_our_id__found_by_guid_and_theirs)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_REQ_RCVD);
	bench_message(&b, NULL, ROCEMU_CM_REJ, &m);
	m.rej.remote_comm_id = 0;
	m.rej.reason = ROCEMU_CM_REJ_TIMEOUT;
	m.rej.ari_len = 8;
	m.rej.ari[7] = 0xff;
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNKNOWN_ID);
	m.rej.ari[7] = BENCH_PEER_GUID;
	assert_int_equal(bench_in_from(&b, &m, &bench_other), CM_DROP_UNKNOWN_ID);
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "REJ");
	assert_int_equal(cm_conn_state(c), CM_IDLE);
	assert_int_equal(cm_get_stats(b.cm)->half_open, 0);
	bench_end(&b);
}
