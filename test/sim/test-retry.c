/* SPDX-License-Identifier: BSD-2-Clause */
/* RC's timers and counters: ACK timeout, retries used up, RNR NAKs, and when they happen in
 * virtual time. */
#include <string.h>

#include "duo.h"

static const rocemu_ns_t TIMEOUT_8 = 4096 * 256; /* 4.096 us * 2^8 */

TEST(rc_retry, peer_is_gone__gives_up_after_retry_cnt_and_flushes)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	rocemu_ns_t start;

	o.retry_cnt = 2;
	d = duo_new("peer-gone", &o);
	d.s->node[1].gone = true;
	start = d.s->now;
	sim_send(d.a, d.ma, 0, 100);
	sim_write(d.a, d.ma, 0, 100, d.mb, 0);
	sim_recv(d.a, d.ma, 1024, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send RETRY_EXC; send FLUSH; recv FLUSH");
	assert_int_equal(rocemu_qp_state(d.a->qp), IBV_QPS_ERR);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 3);
	/* C9-141: no earlier than the timeout, no later than four times as long. */
	assert_true(d.s->now - start >= 3 * TIMEOUT_8);
	assert_true(d.s->now - start <= 12 * TIMEOUT_8);
	sim_end(d.s);
}

TEST(rc_retry, timeout_0__probes_and_never_gives_up)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.timeout = 0;
	d = duo_new("timeout-0", &o);
	d.s->node[1].gone = true;
	sim_write(d.a, d.ma, 0, 100, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_run_for(d.s, 10 * SIM_S);
	assert_string_equal(sim_done(d.a), "");
	assert_int_equal(duo_stats(&d, 0)->timeouts, 0);
	/* The delay doubles five times: 10 ms first, as no round trip was measured. */
	assert_in_range(duo_stats(&d, 0)->probes, 20, 40);
	d.s->node[1].gone = false;
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	sim_end(d.s);
}

TEST(rc_retry, lost_packet__resent_after_the_timeout)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("lost-one", &o);
	rocemu_ns_t start = d.s->now;

	d.s->link[0][1].c.loss_mask = 1;
	sim_write(d.a, d.ma, 0, 100, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "A WRITE_ONLY 100 lost; A WRITE_ONLY 100; B ACK 100");
	assert_true(d.s->now - start >= TIMEOUT_8);
	sim_end(d.s);
}

TEST(rc_retry, gap__one_sequence_nak_and_no_timeout)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("gap", &o);

	d.s->link[0][1].c.loss_mask = 2;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN;
	sim_write(d.a, d.ma, 0, 4 * 256, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 4 * 256);
	sim_run(d.s);
	assert_int_equal(duo_stats(&d, 1)->naks_sent, 1);
	assert_int_equal(duo_stats(&d, 0)->naks_rcvd, 1);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 0);
	assert_string_equal(sim_done(d.a), "send OK");
	sim_end(d.s);
}

TEST(rc_retry, lost_ack__duplicate_acked_and_not_executed_again)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("lost-ack", &o);

	d.s->link[1][0].c.loss_mask = 1;
	sim_faa(d.a, d.ma, 0, d.mb, 0, 5);
	sim_want_u64(d.ma, 0, sim_mem_u64(d.mb, 0));
	sim_want_u64(d.mb, 0, sim_mem_u64(d.mb, 0) + 5);
	sim_run(d.s);
	assert_string_equal(
		sim_effects(d.s),
		"A FETCH_ADD 100; B ATOMIC_ACK 100 lost; A FETCH_ADD 100; B ATOMIC_ACK 100");
	assert_int_equal(duo_stats(&d, 1)->duplicates, 1);
	sim_end(d.s);
}

TEST(rc_retry, retry_count__fresh_after_progress)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.retry_cnt = 1;
	d = duo_new("retry-fresh", &o);
	/* Every other packet: each operation needs its one retry, and has it. */
	d.s->link[0][1].c.loss_mask = 0x5555;
	for (unsigned i = 0; i < 6; i++) {
		sim_write(d.a, d.ma, i * 256, 10, d.mb, i * 256);
		sim_want_copy(d.mb, i * 256, d.ma, i * 256, 10);
		sim_run(d.s);
	}
	assert_int_equal(d.a->sq.good, 6);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 6);
	sim_end(d.s);
}

TEST(rnr, receive_posted_late__delivered_after_the_timer)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	rocemu_ns_t start;

	o.min_rnr_timer = 12; /* 0.64 ms */
	d = duo_new("rnr-late", &o);
	start = d.s->now;
	sim_send(d.a, d.ma, 0, 300);
	sim_run_for(d.s, 100 * SIM_US);
	assert_non_null(strstr(sim_effects(d.s), "B RNR 0c 100"));
	sim_recv(d.b, d.mb, 0, 300);
	sim_want_copy(d.mb, 0, d.ma, 0, 300);
	sim_run(d.s);
	assert_true(d.s->now - start >= rocemu_rnr_timer_ns(12));
	assert_true(d.s->now - start < 2 * rocemu_rnr_timer_ns(12));
	assert_int_equal(duo_stats(&d, 1)->rnr_naks_sent, 1);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 0);
	assert_string_equal(sim_done(d.b), "recv OK");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

TEST(rnr, rnr_retry_2__gives_up_after_three_sends)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.rnr_retry = 2;
	d = duo_new("rnr-exhausted", &o);
	sim_send(d.a, d.ma, 0, 100);
	sim_send(d.a, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send RNR_RETRY_EXC; send FLUSH");
	assert_int_equal(duo_stats(&d, 1)->rnr_naks_sent, 3);
	assert_int_equal(rocemu_qp_state(d.a->qp), IBV_QPS_ERR);
	assert_int_equal(rocemu_qp_state(d.b->qp), IBV_QPS_RTS);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

/** A pair whose receives are never found, or by chance. */
static struct duo unready(const char *name, double chance, const struct sim_qp_opts *o)
{
	struct sim_config cfg = {.name = name,
				 .seed = 1,
				 .link = {.delay_ns = 5 * SIM_US},
				 .ep = {.rnr_chance = chance, .rnr_seed = 7}};
	struct duo d = duo_of(&cfg, o);

	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN;
	return d;
}

TEST(rnr, on_purpose_by_chance__later_is_soon_enough)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = unready("rnr-on-purpose", 0.5, &o);
	uint64_t refused;

	for (unsigned i = 0; i < 10; i++) {
		sim_recv(d.b, d.mb, i * 512, 300);
		sim_send(d.a, d.ma, i * 512, 300);
		sim_want_copy(d.mb, i * 512, d.ma, i * 512, 300);
	}
	sim_run(d.s);
	assert_true(sim_all_good(d.a) && sim_all_good(d.b));
	refused = duo_stats(&d, 1)->rnr_on_purpose;
	assert_in_range(refused, 1, 60);
	assert_int_equal(duo_stats(&d, 1)->rnr_naks_sent, refused);
	assert_int_equal(duo_stats(&d, 0)->rnr_naks_rcvd, refused);
	/* What takes no receive is not concerned. */
	sim_write(d.a, d.ma, 0, 300, d.mb, 8192);
	sim_want_copy(d.mb, 8192, d.ma, 0, 300);
	sim_run(d.s);
	assert_int_equal(duo_stats(&d, 1)->rnr_on_purpose, refused);
	sim_end(d.s);
}

TEST(rnr, always_on_purpose__retries_used_up_though_a_receive_is_there)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.rnr_retry = 3;
	d = unready("rnr-always", 1, &o);
	sim_recv(d.b, d.mb, 0, 300);
	sim_send(d.a, d.ma, 0, 300);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send RNR_RETRY_EXC");
	assert_int_equal(duo_stats(&d, 1)->rnr_on_purpose, 4);
	assert_string_equal(sim_done(d.b), "");
	sim_qp_state(d.b, IBV_QPS_ERR); /* gives back the receive that was there */
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv FLUSH");
	sim_end(d.s);
}

TEST(rnr, rnr_retry_7__for_ever)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("rnr-for-ever", &o);

	sim_send(d.a, d.ma, 0, 100);
	sim_run_for(d.s, 2 * SIM_MS);
	assert_string_equal(sim_done(d.a), "");
	assert_true(duo_stats(&d, 1)->rnr_naks_sent > 20);
	sim_recv(d.b, d.mb, 0, 100);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN;
	sim_end(d.s);
}

TEST(rnr, rnr_retry_0__one_send)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.rnr_retry = 0;
	d = duo_new("rnr-0", &o);
	sim_send(d.a, d.ma, 0, 100);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "A SEND_ONLY 100; B RNR 01 100");
	assert_string_equal(sim_done(d.a), "send RNR_RETRY_EXC");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV;
	sim_end(d.s);
}

TEST(rnr, min_rnr_timer_0__the_longest_wait)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	rocemu_ns_t start;

	o.min_rnr_timer = 0; /* 655.36 ms (table 46) */
	d = duo_new("rnr-timer-0", &o);
	start = d.s->now;
	sim_send(d.a, d.ma, 0, 100);
	sim_run_for(d.s, SIM_MS);
	sim_recv(d.b, d.mb, 0, 100);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_run(d.s);
	assert_true(d.s->now - start >= 655360 * SIM_US);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV;
	sim_end(d.s);
}
