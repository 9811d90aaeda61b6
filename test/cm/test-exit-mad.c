/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests exit MADs: sent for a connection when its process dies, and reported at each change. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

/** The exit MADs that have changed: "REQ's REJ 4", "DREQ", "forget". */
static const char *exit_mads(struct bench *b)
{
	static char text[128];
	struct rocemu_cm_msg m;
	struct cm_exit_mad w;

	text[0] = 0;
	while (cm_next_exit_mad(b->cm, &w)) {
		size_t len = strlen(text);

		if (!w.present) {
			snprintf(text + len, sizeof(text) - len, "%sforget", len ? " " : "");
			continue;
		}
		assert_int_equal(rocemu_cm_decode(&m, w.mad.data, sizeof(w.mad.data)),
				 ROCEMU_MAD_OK);
		assert_memory_equal(&w.mad.addr.dst, &bench_peer, sizeof(bench_peer));
		snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "",
			 rocemu_cm_name(m.attr_id));
	}
	return text[0] ? text : "-";
}

TEST(exit_mad, life_of_an_active_connection__rej_dreq_forget)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, false);
	assert_string_equal(exit_mads(&b), "REJ");
	assert_string_equal(exit_mads(&b), "-");
	bench_says(&b, c, ROCEMU_CM_REP);
	assert_string_equal(exit_mads(&b), "REJ"); /* with the peer's ID now */
	cm_rtu(c, b.now, NULL, 0);
	assert_string_equal(exit_mads(&b), "DREQ");
	cm_disconnect(c, b.now, NULL, 0);
	bench_says(&b, c, ROCEMU_CM_DREP);
	assert_string_equal(exit_mads(&b), "forget");
	bench_expire(&b);
	assert_string_equal(exit_mads(&b), "-");
	cm_conn_destroy(c, b.now);
	assert_string_equal(exit_mads(&b), "-");
	bench_end(&b);
}

TEST(exit_mad, forgotten_request__forget)
{
	struct bench b;

	bench_start(&b);
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	assert_string_equal(bench_events(&b), "REQ");
	assert_string_equal(exit_mads(&b), "REJ");
	cm_conn_forget(b.event.conn);
	assert_string_equal(exit_mads(&b), "forget");
	assert_int_equal(cm_get_stats(b.cm)->conns, 0);
	bench_end(&b);
}

TEST(exit_mad, life_of_a_passive_connection__rej_dreq_drep_forget)
{
	const struct rocemu_cm_rep rep = {.local_qpn = BENCH_OWN_QPN};
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	bench_says(&b, NULL, ROCEMU_CM_REQ);
	bench_events(&b);
	c = b.event.conn;
	assert_string_equal(exit_mads(&b), "REJ");
	cm_accept(c, b.now, &rep, NULL, 0);
	bench_says(&b, c, ROCEMU_CM_RTU);
	assert_string_equal(exit_mads(&b), "DREQ");
	bench_says(&b, c, ROCEMU_CM_DREQ);
	assert_string_equal(exit_mads(&b), "DREP");
	cm_drep(c, b.now, NULL, 0);
	assert_string_equal(exit_mads(&b), "forget");
	bench_end(&b);
}

TEST(exit_mad, never_reported__nothing_to_forget)
{
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_connect(&b, false);
	cm_conn_destroy(c, b.now);
	assert_string_equal(exit_mads(&b), "-");
	assert_string_equal(bench_sends(&b), "REJ 4"); /* the REQ has not left */
	bench_end(&b);
}

TEST(exit_mad, destroyed_connection__dreq_until_it_is_answered)
{
	struct rocemu_cm_msg m;
	struct cm_conn *c;
	struct bench b;

	bench_start(&b);
	c = bench_conn(&b, CM_ESTABLISHED);
	bench_message(&b, c, ROCEMU_CM_DREP, &m);
	cm_conn_destroy(c, b.now);
	assert_string_equal(exit_mads(&b), "DREQ");
	bench_in(&b, &m);
	assert_string_equal(exit_mads(&b), "forget");
	bench_sends(&b);
	bench_expire(&b);
	assert_int_equal(cm_get_stats(b.cm)->conns, 0);
	bench_end(&b);
}

TEST(exit_mad, not_configured__none_is_kept)
{
	const struct cm_config config = {.ca_guid = BENCH_OWN_GUID};
	struct cm_mad mad;
	struct cm_conn *c;
	struct bench b;

	bench_start_config(&b, &config);
	c = bench_connect(&b, false);
	assert_string_equal(exit_mads(&b), "-");
	assert_true(cm_conn_exit_mad(c, &mad));
	bench_end(&b);
}
