/* SPDX-License-Identifier: BSD-2-Clause */
/* What changes while packets are under way: keys that go, connections made anew, queues resized,
 * paths that die. */
#include <errno.h>
#include <string.h>

#include "duo.h"

static struct duo rc_duo(const char *name)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	return duo_new(name, &o);
}

static void dereg(struct sim_mem *m)
{
	assert_int_equal(rocemu_mr_dereg(m->mr), 0);
	m->mr = NULL;
}

TEST(rc_read, region_gone_at_the_responder__remote_access_error)
{
	struct duo d = rc_duo("read-region-gone");

	sim_read(d.a, d.ma, 0, 4096, d.mb, 0);
	sim_read(d.a, d.ma, 4096, 4096, d.mb, 4096);
	/* Both requests are taken, the responses not sent yet: the link is slow. */
	d.s->link[0][1].c.ns_per_kib = 100 * 1000;
	sim_run_for(d.s, 1);
	dereg(d.mb);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send REM_ACCESS; send FLUSH");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_STATE;
	sim_end(d.s);
}

TEST(rc_read, target_gone_at_the_requester__local_protection_error)
{
	struct duo d = rc_duo("read-target-gone");

	sim_read(d.a, d.ma, 0, 4096, d.mb, 0);
	sim_run_for(d.s, 1);
	dereg(d.ma);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send LOC_PROT");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_STATE;
	sim_end(d.s);
}

TEST(rc_write, source_gone_before_it_is_repeated__local_protection_error)
{
	struct duo d = rc_duo("write-source-gone");

	d.s->link[0][1].c.loss_mask = 0xff;
	sim_write(d.a, d.ma, 0, 1000, d.mb, 0);
	sim_run_for(d.s, 1);
	dereg(d.ma);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send LOC_PROT");
	sim_end(d.s);
}

static enum sim_verdict lose_read_responses(struct sim *s, struct sim_packet *p,
					    const struct rocemu_packet *d)
{
	(void)s;
	(void)p;
	return rocemu_opcode_ops(d->h.opcode) & ROCEMU_OP_READ_RESP ? SIM_LOSE : SIM_PASS;
}

TEST(rc_read, responses_never_come_but_acks_do__retries_used_up)
{
	struct duo d = rc_duo("read-never");

	d.s->filter = lose_read_responses;
	sim_read(d.a, d.ma, 0, 300, d.mb, 0);
	sim_write(d.a, d.ma, 1024, 300, d.mb, 1024);
	sim_want_copy(d.mb, 1024, d.ma, 1024, 300);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send RETRY_EXC; send FLUSH");
	d.s->allowed_drops |=
		1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_STATE;
	sim_end(d.s);
}

TEST(rc_read, response_of_a_wrong_size__fails_and_writes_nothing_beyond)
{
	static const uint8_t data[600];
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} bad[] = {
		{ROCEMU_RC_READ_RESP_ONLY, 101}, /* more than was requested */
		{ROCEMU_RC_READ_RESP_ONLY, 99},	  {ROCEMU_RC_READ_RESP_ONLY, 0},
		{ROCEMU_RC_READ_RESP_FIRST, 256}, /* one packet was expected */
		{ROCEMU_RC_ATOMIC_ACK, 0},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct duo d = rc_duo("read-response-size");
		struct rocemu_hdrs h = duo_response(&d, bad[i].opcode, 100, ROCEMU_AETH_NO_CREDITS);

		d.s->node[1].gone = true;
		sim_read(d.a, d.ma, 0, 100, d.mb, 0);
		sim_run_for(d.s, 1);
		sim_inject(d.s, 1, 0, NULL, &h, data, bad[i].len);
		sim_run(d.s);
		assert_int_equal(d.a->sq.bad, 1);
		assert_int_equal(rocemu_qp_state(d.a->qp), IBV_QPS_ERR);
		sim_end(d.s);
	}
}

TEST(uc_send, own_memory_bad__send_queue_error_and_recovery)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);
	struct duo d;

	o.type = IBV_QPT_UC;
	d = duo_new("uc-sqe", &o);
	sim_wr_local(&w, d.ma, 0, 16);
	w.sge[0].lkey ^= 0x55500;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_send(d.a, d.ma, 0, 16);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send LOC_PROT; send FLUSH");
	/* 10.3.1: only the send queue is in error, and software may set it going again. */
	assert_int_equal(rocemu_qp_state(d.a->qp), IBV_QPS_SQE);
	assert_int_equal(rocemu_qp_modify(d.a->qp, d.s->now, &rts, IBV_QP_STATE), 0);
	d.a->sq.bad = 0;
	sim_recv(d.b, d.mb, 0, 16);
	sim_send(d.a, d.ma, 0, 16);
	sim_want_copy(d.mb, 0, d.ma, 0, 16);
	sim_run(d.s);
	assert_string_equal(sim_done(d.b), "recv OK");
	sim_end(d.s);
}

/* Only windows and fast-registered regions may be invalidated from afar (10.6.3.1), and there
 * are none. */
TEST(rc_send, invalidating_an_ordinary_region__no_answer_and_region_stays)
{
	struct duo d = rc_duo("send-inv");
	struct sim_wr w = sim_wr(IBV_WR_SEND_WITH_INV, IBV_SEND_SIGNALED);

	sim_recv(d.b, d.mb, 0, 256);
	sim_wr_local(&w, d.ma, 0, 16);
	w.wr.invalidate_rkey = rocemu_mr_rkey(d.mb->mr);
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send RETRY_EXC");
	assert_string_equal(sim_done(d.b), "recv MW_BIND");
	assert_null(strstr(sim_effects(d.s), "B NAK"));
	sim_want_any(d.mb, 0, 16);
	assert_int_equal(rocemu_mr_dereg(d.mb->mr), 0);
	d.mb->mr = NULL;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS | 1ull << ROCEMU_DROP_STATE;
	sim_end(d.s);
}

static void reconnect(struct duo *d, uint32_t psn)
{
	struct sim_qp_opts oa = SIM_QP_OPTS, ob = SIM_QP_OPTS;

	oa.psn = ob.peer_psn = psn;
	oa.peer_psn = ob.psn = psn + 1000;
	sim_ledger_forget(d->a);
	sim_ledger_forget(d->b);
	sim_qp_state(d->a, IBV_QPS_RESET);
	sim_qp_state(d->b, IBV_QPS_RESET);
	sim_qp_init(d->a, &oa);
	sim_qp_init(d->b, &ob);
	sim_qp_rtr(d->a, d->b, &oa);
	sim_qp_rtr(d->b, d->a, &ob);
	sim_qp_rts(d->a, &oa);
	sim_qp_rts(d->b, &ob);
}

TEST(rc_qp, connected_again_with_old_packets_under_way__they_have_no_effect)
{
	struct duo d = rc_duo("old-packets");

	d.s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST |
			      1ull << ROCEMU_DROP_STALE_READ;
	for (unsigned i = 0; i < 8; i++) {
		sim_write(d.a, d.ma, 0, 2000, d.mb, 0);
		sim_read(d.b, d.mb, 4096, 2000, d.ma, 4096);
		/* Somewhere between sent and acknowledged. */
		sim_run_for(d.s, 2 * SIM_US * i + 1);
		reconnect(&d, 0x400000 + i * 0x10000);
		sim_recv(d.b, d.mb, 8192, 700);
		sim_send(d.a, d.ma, 8192, 700);
		sim_want_copy(d.mb, 8192, d.ma, 8192, 700);
		sim_run(d.s);
		assert_true(sim_all_good(d.a) && sim_all_good(d.b));
	}
	sim_want_any(d.mb, 0, 2000);
	sim_want_any(d.mb, 4096, 2000);
	sim_end(d.s);
}

TEST(srq, resized_with_receives_in_it__none_lost)
{
	struct sim_config cfg = {.name = "srq-resize", .seed = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct ibv_srq_attr attr = {.max_wr = 64};
	struct sim_pair p;
	struct sim_mem *ma, *mb;

	o.srq = sim_srq_new(s, 1, 4);
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, 4096, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(sim_srq_post(o.srq, mb, i * 256, 256), 0);
	assert_int_equal(rocemu_srq_modify(o.srq->srq, &attr, IBV_SRQ_MAX_WR), 0);
	rocemu_srq_query(o.srq->srq, &attr);
	assert_true(attr.max_wr >= 64);
	for (uint32_t i = 4; i < 12; i++)
		assert_int_equal(sim_srq_post(o.srq, mb, i * 256, 256), 0);
	for (uint32_t i = 0; i < 12; i++) {
		sim_send(p.a, ma, i * 256, 200);
		sim_want_copy(mb, i * 256, ma, i * 256, 200);
	}
	sim_run(s);
	assert_int_equal(o.srq->rq.good, 12);
	sim_end(s);
}

/* The others are placed when they come. */
TEST(rc_read, middle_response_lost__it_alone_is_asked_for)
{
	struct duo d = rc_duo("read-restart");

	d.s->link[1][0].c.loss_mask = 1 << 2;
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST | 1ull << ROCEMU_DROP_PSN;
	sim_read(d.a, d.ma, 0, 5 * 256, d.mb, 0);
	sim_want_copy(d.ma, 0, d.mb, 0, 5 * 256);
	sim_run(d.s);
	assert_string_equal(
		sim_effects(d.s),
		"A READ_REQUEST 100; B READ_RESP_FIRST 100; B READ_RESP_MIDDLE 101; "
		"B READ_RESP_MIDDLE 102 lost; B READ_RESP_MIDDLE 103; B READ_RESP_LAST 104; "
		"A READ_REQUEST 102; B READ_RESP_ONLY 102");
	sim_end(d.s);
}
