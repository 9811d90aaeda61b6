/* SPDX-License-Identifier: BSD-2-Clause */
/* Service ID resolution from both sides, and alternate paths. */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "cm/cm-internal.h"

static struct cm_sidr *ask(struct bench *b)
{
	const struct cm_sidr_param p = {
		.service_id = BENCH_SERVICE,
		.pkey = ROCEMU_PKEY_DEFAULT,
		.timeout = 10,
		.retries = 2,
		.addr = {.src = bench_own, .dst = bench_peer},
		.private_data = "who",
		.private_data_len = 3,
		.user = b,
	};
	struct cm_sidr *s;

	assert_int_equal(cm_sidr_request(b->cm, b->now, &p, &s), 0);
	return s;
}

static enum cm_drop answered(struct bench *b, const struct cm_sidr *s)
{
	struct rocemu_cm_msg m;

	bench_message(b, NULL, ROCEMU_CM_SIDR_REP, &m);
	m.sidr_rep.request_id = cm_sidr_id(s);
	m.tid = s->tid;
	return bench_in(b, &m);
}

TEST(sidr, answered__one_event_and_no_more_tries)
{
	struct cm_sidr *s;
	struct bench b;

	bench_start(&b);
	s = ask(&b);
	assert_string_equal(bench_sends(&b), "SIDR_REQ");
	assert_int_equal(b.sent.sidr_req.request_id >> CM_ID_PREFIX_SHIFT, 9);
	assert_int_equal(b.sent.tid, s->tid);
	assert_memory_equal(b.sent.sidr_req.private_data, "who", 3);
	assert_int_equal(answered(&b, s), CM_DROP_NONE);
	assert_int_equal(answered(&b, s), CM_DROP_DUPLICATE);
	assert_string_equal(bench_events(&b), "SIDR_REP");
	assert_int_equal(b.event.msg.sidr_rep.qpn, BENCH_PEER_QPN);
	assert_ptr_equal(b.event.user, &b);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	cm_sidr_destroy(s, b.now);
	bench_end(&b);
}

TEST(sidr, not_answered__timeout_after_all_tries)
{
	struct cm_sidr *s;
	struct bench b;

	bench_start(&b);
	s = ask(&b);
	bench_sends(&b);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(cm_deadline(b.cm), b.now + (4096 << 10));
		bench_expire(&b);
		assert_string_equal(bench_sends(&b), "SIDR_REQ");
	}
	bench_expire(&b);
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_SIDR_REQ);
	assert_ptr_equal(b.event.sidr, s);
	assert_null(b.event.conn);
	assert_int_equal(answered(&b, s), CM_DROP_DUPLICATE);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	bench_end(&b);
}

TEST(sidr, unreachable__timeout_at_once)
{
	struct cm_sidr *s;
	struct bench b;

	bench_start(&b);
	s = ask(&b);
	bench_sends(&b);
	assert_true(cm_unreachable(b.cm, cm_sidr_id(s), EHOSTUNREACH));
	assert_string_equal(bench_events(&b), "TIMEOUT");
	assert_int_equal(b.event.msg.attr_id, ROCEMU_CM_SIDR_REQ);
	assert_int_equal(b.event.error, EHOSTUNREACH);
	assert_true(cm_deadline(b.cm) == ROCEMU_NEVER);
	assert_false(cm_unreachable(b.cm, cm_sidr_id(s), EHOSTUNREACH));
	bench_end(&b);
}

TEST(sidr, destroyed__answer_is_for_nobody)
{
	struct cm_sidr *s;
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	s = ask(&b);
	bench_message(&b, NULL, ROCEMU_CM_SIDR_REP, &m);
	m.sidr_rep.request_id = cm_sidr_id(s);
	m.tid = s->tid;
	assert_int_equal(bench_in_from(&b, &m, &bench_other), CM_DROP_ADDRESS);
	cm_sidr_destroy(s, b.now);
	assert_string_equal(bench_sends(&b), "-");
	assert_int_equal(bench_in(&b, &m), CM_DROP_UNKNOWN_ID);
	bench_end(&b);
}

TEST(sidr, asked_again__same_answer_without_the_consumer)
{
	struct cm_sidr *s;
	struct bench b;

	bench_start(&b);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ), CM_DROP_NONE);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "-");
	assert_string_equal(bench_events(&b), "SIDR_REQ");
	s = b.event.sidr;
	assert_ptr_equal(b.event.listener, b.listener);
	assert_int_equal(
		cm_sidr_reply(s, b.now, ROCEMU_CM_SIDR_VALID, 0x77, 0x88, "i", 1, "private", 7), 0);
	assert_int_equal(cm_sidr_reply(s, b.now, ROCEMU_CM_SIDR_VALID, 0, 0, NULL, 0, NULL, 0),
			 -EINVAL);
	cm_sidr_destroy(s, b.now);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(b.sent.sidr_rep.qpn, 0x77);
	assert_int_equal(b.sent.sidr_rep.qkey, 0x88);
	assert_int_equal(b.sent.sidr_rep.info_len, 1);
	assert_memory_equal(b.sent.sidr_rep.private_data, "private", 7);
	assert_int_equal(b.sent.sidr_rep.service_id, BENCH_SERVICE);
	assert_int_equal(b.sent.tid, BENCH_TID);
	bench_expire(&b);
	assert_int_equal(bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ), CM_DROP_NONE);
	bench_end(&b);
}

TEST(sidr, nobody_listens__status_1)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	bench_message(&b, NULL, ROCEMU_CM_SIDR_REQ, &m);
	m.sidr_req.service_id++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NO_SERVICE);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(b.sent.sidr_rep.status, ROCEMU_CM_SIDR_SERVICE_ID);
	assert_int_equal(b.sent.sidr_rep.request_id, BENCH_PEER_ID);
	bench_end(&b);
}

TEST(sidr, backlog_full__status_3)
{
	struct rocemu_cm_msg m;
	struct bench b;

	bench_start(&b);
	cm_listener_set_backlog(b.listener, 1);
	bench_message(&b, NULL, ROCEMU_CM_SIDR_REQ, &m);
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	m.sidr_req.request_id++;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NO_RESOURCES);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(b.sent.sidr_rep.status, ROCEMU_CM_SIDR_NO_QP);
	bench_events(&b);
	cm_sidr_destroy(b.event.sidr, b.now);
	assert_string_equal(bench_sends(&b), "SIDR_REP");
	assert_int_equal(b.sent.sidr_rep.status, ROCEMU_CM_SIDR_REJECTED);
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	bench_end(&b);
}

TEST(sidr, bad_arguments__refused)
{
	struct cm_sidr_param p = {.timeout = 32};
	static const uint8_t data[256];
	struct cm_sidr *s;
	struct bench b;

	bench_start(&b);
	assert_int_equal(cm_sidr_request(b.cm, 0, &p, &s), -EINVAL);
	p.timeout = 20;
	p.private_data = data;
	p.private_data_len = ROCEMU_CM_SIDR_REQ_PRIVATE_LEN + 1;
	assert_int_equal(cm_sidr_request(b.cm, 0, &p, &s), -EMSGSIZE);
	s = ask(&b);
	assert_int_equal(cm_sidr_reply(s, 0, 0, 0, 0, NULL, 0, NULL, 0), -EINVAL);
	bench_says(&b, NULL, ROCEMU_CM_SIDR_REQ);
	bench_events(&b);
	assert_int_equal(cm_sidr_reply(b.event.sidr, 0, 0, 0, 0, data, 73, NULL, 0), -EMSGSIZE);
	assert_int_equal(cm_sidr_reply(b.event.sidr, 0, 0, 0, 0, NULL, 0, data,
				       ROCEMU_CM_SIDR_REP_PRIVATE_LEN + 1),
			 -EMSGSIZE);
	assert_int_equal(cm_sidr_reply(b.event.sidr, 0, 0, 0, 0, data, 72, NULL, 0), 0);
	bench_end(&b);
}

/* ---- alternate paths ---- */

TEST(lap, answered_then_again__apr_again_without_an_event)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, c, ROCEMU_CM_LAP, &m);
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "-");
	assert_int_equal(cm_mra(c, b.now, 20, NULL, 0), 0);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "MRA");
	assert_int_equal(cm_apr(c, b.now, ROCEMU_CM_APR_REJECTED, "xy", 2, "z", 1), 0);
	assert_int_equal(cm_apr(c, b.now, 0, NULL, 0, NULL, 0), -EINVAL);
	assert_string_equal(bench_sends(&b), "APR");
	assert_int_equal(b.sent.apr.status, ROCEMU_CM_APR_REJECTED);
	assert_int_equal(b.sent.apr.info_len, 2);
	assert_memory_equal(b.sent.apr.info, "xy", 2);
	assert_memory_equal(b.sent.apr.private_data, "z", 1);
	assert_int_equal(b.sent.tid, BENCH_TID);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_sends(&b), "APR");
	assert_string_equal(bench_events(&b), "LAP");
	m.lap.alternate.sl = 3;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_string_equal(bench_events(&b), "LAP");
	bench_end(&b);
}

TEST(lap, no_events_configured__apr_not_supported)
{
	const struct cm_config config = {.ca_guid = BENCH_OWN_GUID};
	struct cm_listen_param listen = {.service_id = BENCH_SERVICE, .any_addr = true};
	struct cm_conn *c;
	struct bench b;

	bench_start_config(&b, &config);
	assert_int_equal(cm_listen(b.cm, &listen, &b.listener), 0);
	c = bench_conn(&b, CM_ESTABLISHED);
	assert_int_equal(bench_says(&b, c, ROCEMU_CM_LAP), CM_DROP_NONE);
	assert_string_equal(bench_sends(&b), "APR");
	assert_int_equal(b.sent.apr.status, ROCEMU_CM_APR_UNSUPPORTED);
	assert_string_equal(bench_events(&b), "-");
	bench_end(&b);
}

TEST(lap, wrong_id_or_qpn__apr_says_so)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, c, ROCEMU_CM_LAP, &m);
	m.lap.remote_qpn++;
	bench_in(&b, &m);
	assert_string_equal(bench_sends(&b), "APR");
	assert_int_equal(b.sent.apr.status, ROCEMU_CM_APR_QPN_EECN);
	m.lap.remote_comm_id++;
	bench_in(&b, &m);
	assert_string_equal(bench_sends(&b), "APR");
	assert_int_equal(b.sent.apr.status, ROCEMU_CM_APR_COMM_ID);
	bench_end(&b);
}

TEST(lap, bad_arguments__refused)
{
	const struct rocemu_cm_path path = {.sl = 1};
	static const uint8_t data[256];
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	assert_int_equal(cm_lap(c, b.now, &path, 32, NULL, 0), -EINVAL);
	bench_says(&b, c, ROCEMU_CM_LAP);
	assert_int_equal(cm_apr(c, b.now, 0, data, ROCEMU_CM_INFO_LEN + 1, NULL, 0), -EMSGSIZE);
	assert_int_equal(cm_apr(c, b.now, 0, NULL, 0, data, ROCEMU_CM_APR_PRIVATE_LEN + 1),
			 -EMSGSIZE);
	assert_int_equal(
		cm_apr(c, b.now, 0, data, ROCEMU_CM_INFO_LEN, data, ROCEMU_CM_APR_PRIVATE_LEN), 0);
	assert_int_equal(cm_lap(c, b.now, &path, 31, NULL, 0), 0);
	bench_end(&b);
}

TEST(lap, answer_to_an_earlier_one__not_taken_for_this)
{
	const struct rocemu_cm_path path = {.sl = 1};
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), 0);
	bench_sends(&b);
	bench_message(&b, c, ROCEMU_CM_APR, &m);
	m.tid = b.sent.tid;
	assert_int_equal(bench_in(&b, &m), CM_DROP_NONE);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), 0);
	assert_int_equal(cm_lap(c, b.now, &path, 20, NULL, 0), -EINVAL);
	assert_int_equal(bench_in(&b, &m), CM_DROP_DUPLICATE);
	assert_string_equal(bench_events(&b), "APR");
	bench_end(&b);
}
