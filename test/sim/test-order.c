/* SPDX-License-Identifier: BSD-2-Clause */
/* Order and limits among requests of one QP: READs and atomics in flight, fences, signaling,
 * SQD, PSN wrap. */
#include <string.h>

#include "duo.h"

/** A filter that counts READ requests and atomics in flight of node A. */
struct in_flight {
	unsigned now, most;
};

static enum sim_verdict count_in_flight(struct sim *s, struct sim_packet *p,
					const struct rocemu_packet *d)
{
	struct in_flight *f = s->filter_arg;
	uint32_t ops = rocemu_opcode_ops(d->h.opcode);

	if (p->from == 0 && (ops & (ROCEMU_OP_READ_REQ | ROCEMU_OP_ATOMIC)))
		f->now++;
	if (f->now > f->most)
		f->most = f->now;
	if (p->from == 1 && (ops & (ROCEMU_OP_READ_RESP | ROCEMU_OP_ATOMIC_ACK)) &&
	    (ops & ROCEMU_OP_LAST))
		f->now--;
	return SIM_PASS;
}

TEST(rc_requester, many_reads__never_more_in_flight_than_max_rd_atomic)
{
	for (uint8_t limit = 1; limit <= 4; limit++) {
		struct in_flight f = {0};
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d;

		o.rd_atomic = o.dest_rd_atomic = limit;
		d = duo_new("rd-atomic", &o);
		d.s->filter = count_in_flight;
		d.s->filter_arg = &f;
		for (uint32_t i = 0; i < 12; i++) {
			sim_read(d.a, d.ma, i * 1024, 600, d.mb, i * 1024);
			sim_want_copy(d.ma, i * 1024, d.mb, i * 1024, 600);
		}
		sim_run(d.s);
		assert_int_equal(f.most, limit);
		assert_int_equal(d.a->sq.good, 12);
		sim_end(d.s);
	}
}

/* C9-8x, table 61: more requests than the responder has resources for are invalid. */
TEST(rc_responder, more_reads_than_max_dest_rd_atomic__refused)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.rd_atomic = 8;
	o.dest_rd_atomic = 1;
	d = duo_new("dest-rd-atomic", &o);
	for (uint32_t i = 0; i < 8; i++)
		sim_read(d.a, d.ma, i * 1024, 1024, d.mb, i * 1024);
	sim_run(d.s);
	/* Refused, or served one after the other: never a crash, and never a wrong byte. */
	for (uint32_t i = 0; i < d.a->sq.good; i++)
		sim_want_copy(d.ma, i * 1024, d.mb, i * 1024, 1024);
	if (d.a->sq.bad) {
		assert_int_equal(d.a->sq.e[d.a->sq.good].cqe.status, IBV_WC_REM_INV_REQ_ERR);
		sim_want_any(d.ma, (uint32_t)d.a->sq.good * 1024, 1024);
	}
	d.s->allowed_drops = UINT64_MAX;
	sim_end(d.s);
}

TEST(rc_requester, fence__waits_for_the_reads_before_it)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("fence", &o);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE);

	/* The fenced WRITE sends what the READ brings. */
	sim_read(d.a, d.ma, 0, 600, d.mb, 0);
	sim_want_copy(d.ma, 0, d.mb, 0, 600);
	sim_wr_local(&w, d.ma, 0, 600);
	sim_wr_remote(&w, d.mb, 4096);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_want_copy(d.mb, 4096, d.mb, 0, 600);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s),
			    "A READ_REQUEST 100; B READ_RESP_FIRST 100; B READ_RESP_MIDDLE 101; B "
			    "READ_RESP_LAST 102; "
			    "A WRITE_FIRST 103; A WRITE_MIDDLE 104; A WRITE_LAST 105; B ACK 105");
	sim_end(d.s);
}

TEST(rc_requester, no_fence__write_goes_on_beside_the_read)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("no-fence", &o);

	sim_read(d.a, d.ma, 0, 100, d.mb, 0);
	sim_want_copy(d.ma, 0, d.mb, 0, 100);
	sim_write(d.a, d.ma, 1024, 100, d.mb, 1024);
	sim_want_copy(d.mb, 1024, d.ma, 1024, 100);
	sim_run(d.s);
	assert_string_equal(
		sim_effects(d.s),
		"A READ_REQUEST 100; A WRITE_ONLY 101; B READ_RESP_ONLY 100; B ACK 101");
	sim_end(d.s);
}

TEST(rc_requester, unsignaled__no_completions_but_the_last)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("unsignaled", &o);

	for (uint32_t i = 0; i < 20; i++) {
		struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, i == 19 ? IBV_SEND_SIGNALED : 0);

		sim_wr_local(&w, d.ma, i * 64, 64);
		sim_wr_remote(&w, d.mb, i * 64);
		assert_int_equal(sim_post(d.a, &w), 0);
		sim_want_copy(d.mb, i * 64, d.ma, i * 64, 64);
	}
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	assert_true(d.a->sq.e[19].done);
	sim_end(d.s);
}

TEST(rc_requester, sq_sig_all__every_request_completes)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;

	o.sig_all = true;
	d = duo_new("sig-all", &o);
	for (uint32_t i = 0; i < 3; i++) {
		struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, 0);

		sim_wr_local(&w, d.ma, i * 64, 64);
		sim_wr_remote(&w, d.mb, i * 64);
		assert_int_equal(sim_post(d.a, &w), 0);
		sim_want_copy(d.mb, i * 64, d.ma, i * 64, 64);
	}
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK; send OK; send OK");
	sim_end(d.s);
}

TEST(rc_requester, send_queue_full__enomem_and_room_again_after_acks)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_wr w;
	struct duo d;
	int posted = 0;

	o.depth = 16;
	d = duo_new("sq-full", &o);
	w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	sim_wr_local(&w, d.ma, 0, 64);
	sim_wr_remote(&w, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 64);
	for (w.wr.wr_id = 0; sim_post(d.a, &w) == 0; w.wr.wr_id = 0)
		assert_true(++posted < 1000);
	assert_true(posted >= 16);
	sim_run(d.s);
	w.wr.wr_id = 0;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	sim_end(d.s);
}

TEST(rc_requester, inline_data__copied_at_post)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("inline", &o);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE);

	sim_wr_local(&w, d.ma, 0, ROCEMU_MAX_INLINE);
	sim_wr_remote(&w, d.mb, 0);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_want_copy(d.mb, 0, d.ma, 0, ROCEMU_MAX_INLINE);
	memset(d.ma->buf, 0, ROCEMU_MAX_INLINE);
	memset(d.ma->want, 0, ROCEMU_MAX_INLINE);
	sim_run(d.s);
	sim_end(d.s);
}

TEST(rc_requester, sqd__finishes_what_it_began_and_raises_drained)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("sqd", &o);
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	sim_write(d.a, d.ma, 0, 100, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_run_for(d.s, 1); /* sent, not acknowledged yet */
	assert_int_equal(rocemu_qp_modify(d.a->qp, d.s->now, &sqd,
					  IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	sim_write(d.a, d.ma, 1024, 100, d.mb, 1024);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK");
	assert_int_equal(sim_count_events(d.s, 0, ROCEMU_EVENT_QP, IBV_EVENT_SQ_DRAINED), 1);
	sim_qp_state(d.a, IBV_QPS_RTS);
	sim_want_copy(d.mb, 1024, d.ma, 1024, 100);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK; send OK");
	sim_end(d.s);
}

TEST(rc_qp, reset_and_connected_again__works_like_new)
{
	struct sim_qp_opts o = SIM_QP_OPTS, ob = SIM_QP_OPTS;
	struct duo d = duo_new("reset", &o);

	ob.psn = o.peer_psn;
	ob.peer_psn = o.psn;
	sim_write(d.a, d.ma, 0, 700, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 700);
	sim_run(d.s);
	for (int round = 0; round < 3; round++) {
		sim_qp_state(d.a, IBV_QPS_RESET);
		sim_qp_state(d.b, IBV_QPS_RESET);
		sim_qp_init(d.a, &o);
		sim_qp_init(d.b, &ob);
		sim_qp_rtr(d.a, d.b, &o);
		sim_qp_rtr(d.b, d.a, &ob);
		sim_qp_rts(d.a, &o);
		sim_qp_rts(d.b, &ob);
		sim_recv(d.b, d.mb, 4096, 700);
		sim_send(d.a, d.ma, 4096, 700);
		sim_want_copy(d.mb, 4096, d.ma, 4096, 700);
		sim_run(d.s);
	}
	assert_int_equal(d.b->rq.good, 3);
	sim_end(d.s);
}

TEST(rc_requester, psn_wraps_within_a_message__no_difference)
{
	for (uint32_t before = 0; before < 5; before++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct duo d;

		o.psn = 0xffffff - before;
		d = duo_new("psn-wrap", &o);
		sim_write(d.a, d.ma, 0, 700, d.mb, 0);
		sim_want_copy(d.mb, 0, d.ma, 0, 700);
		sim_read(d.a, d.ma, 4096, 700, d.mb, 4096);
		sim_want_copy(d.ma, 4096, d.mb, 4096, 700);
		sim_run(d.s);
		assert_int_equal(duo_stats(&d, 0)->retransmits, 0);
		sim_end(d.s);
	}
}

TEST(rc_qp, to_itself__works)
{
	struct sim_config cfg = {.name = "loopback", .seed = 1, .nodes = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_qp *q;
	struct sim_mem *m;

	o.peer_psn = o.psn;
	q = sim_qp_new(s, 0, &o);
	sim_qp_init(q, &o);
	sim_qp_rtr(q, q, &o);
	sim_qp_rts(q, &o);
	m = sim_mem_new(s, 0, 8192, SIM_ACCESS_ALL);
	sim_recv(q, m, 4096, 600);
	sim_send(q, m, 0, 600);
	sim_want_copy(m, 4096, m, 0, 600);
	sim_run(s);
	assert_string_equal(sim_done(q), "send OK; recv OK");
	sim_end(s);
}

TEST(rc_qp, incast_of_7_nodes_through_a_small_queue__all_done)
{
	struct sim_config cfg = {
		.name = "incast", .seed = 1, .nodes = 8, .link = {.delay_ns = 5 * SIM_US}};
	struct sim *s = sim_new(&cfg);
	struct sim_mem *mb = sim_mem_new(s, 0, 7 * 65536, SIM_ACCESS_ALL);

	for (unsigned i = 1; i < 8; i++) {
		struct sim_qp_opts o = SIM_QP_OPTS;
		struct sim_pair p;
		struct sim_mem *ma;

		o.mtu = IBV_MTU_1024;
		p = sim_connect(s, i, 0, &o);
		ma = sim_mem_new(s, i, 65536, SIM_ACCESS_ALL);
		s->link[i][0].c.ns_per_kib = 200;
		s->link[i][0].c.queue_bytes = 20000;
		sim_write(p.a, ma, 0, 65536, mb, (i - 1) * 65536);
		sim_want_copy(mb, (i - 1) * 65536, ma, 0, 65536);
	}
	s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
	sim_run(s);
	sim_end(s);
}

TEST(rc_requester, acks_keep_coming_for_longer_than_the_timeout__no_timeout)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("slow-progress", &o);

	/* 60 packets of 0.1 ms each, at a timeout of 1 ms: each ACK restarts the timer
	 * (9.7.6.1.3). */
	d.s->link[0][1].c.ns_per_kib = 400 * 1000;
	for (uint32_t i = 0; i < 60; i++) {
		sim_write(d.a, d.ma, i * 256, 256, d.mb, i * 256);
		sim_want_copy(d.mb, i * 256, d.ma, i * 256, 256);
	}
	sim_run(d.s);
	assert_int_equal(duo_stats(&d, 0)->timeouts, 0);
	assert_int_equal(duo_stats(&d, 0)->retransmits, 0);
	sim_end(d.s);
}

TEST(window, after_many_losses__opens_again)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	rocemu_ns_t start;

	o.mtu = IBV_MTU_1024;
	d = duo_new("window-leak", &o);
	for (unsigned i = 0; i < 50; i++) {
		d.s->node[1].gone = true;
		sim_write(d.a, d.ma, 0, DUO_MEM, d.mb, 0);
		sim_run_for(d.s, 2 * SIM_MS);
		d.s->node[1].gone = false;
		sim_run(d.s);
	}
	for (unsigned i = 0; i < 100; i++) {
		sim_write(d.a, d.ma, 0, DUO_MEM, d.mb, 0);
		sim_run(d.s);
	}
	start = d.s->now;
	sim_write(d.a, d.ma, 0, DUO_MEM, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, DUO_MEM);
	sim_run(d.s);
	/* 64 packets; one at a time would take 64 round trips of 10 us. */
	assert_true(d.s->now - start < 100 * SIM_US);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

static enum sim_verdict note_msn(struct sim *s, struct sim_packet *p, const struct rocemu_packet *d)
{
	uint32_t *msn = s->filter_arg;

	if (p->from == 1 && (rocemu_opcode_hdrs(d->h.opcode) & ROCEMU_HDR_AETH))
		*msn = d->h.aeth.msn;
	return SIM_PASS;
}

/* C9-146..: the MSN counts requests completed, READs and atomics when they are taken. */
TEST(rc_responder, msn__counts_messages_of_every_kind)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("msn", &o);
	uint32_t msn = 0;

	d.s->filter = note_msn;
	d.s->filter_arg = &msn;
	sim_write(d.a, d.ma, 0, 700, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 700);
	sim_run(d.s);
	assert_int_equal(msn, 1);
	sim_read(d.a, d.ma, 1024, 700, d.mb, 1024);
	sim_want_copy(d.ma, 1024, d.mb, 1024, 700);
	sim_run(d.s);
	assert_int_equal(msn, 2);
	sim_faa(d.a, d.ma, 2048, d.mb, 2048, 1);
	sim_want_copy(d.ma, 2048, d.mb, 2048, 8);
	sim_want_u64(d.mb, 2048, sim_mem_u64(d.mb, 2048) + 1);
	sim_run(d.s);
	assert_int_equal(msn, 3);
	sim_recv(d.b, d.mb, 4096, 16);
	sim_send(d.a, d.ma, 4096, 16);
	sim_want_copy(d.mb, 4096, d.ma, 4096, 16);
	sim_run(d.s);
	assert_int_equal(msn, 4);
	sim_end(d.s);
}
