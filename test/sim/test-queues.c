/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues, CQ arming and overrun, asynchronous events. */
#include <errno.h>
#include <string.h>

#include "duo.h"

TEST(srq, two_qps__receives_taken_in_order_of_posting)
{
	struct sim_config cfg = {.name = "srq-two", .seed = 1, .link = {.delay_ns = 5 * SIM_US}};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_pair p, q;
	struct sim_mem *ma, *mb;

	o.srq = sim_srq_new(s, 1, 16);
	p = sim_connect(s, 0, 1, &o);
	q = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, 8192, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, 8192, SIM_ACCESS_ALL);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(sim_srq_post(o.srq, mb, i * 1024, 1024), 0);
	for (uint32_t i = 0; i < 4; i++) {
		sim_send(i & 1 ? q.a : p.a, ma, i * 1024, 700);
		sim_want_copy(mb, i * 1024, ma, i * 1024, 700);
		sim_run(s);
	}
	assert_int_equal(o.srq->rq.good, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(o.srq->rq.e[i].cqe.qpn, rocemu_qp_num((i & 1 ? q.b : p.b)->qp));
	sim_end(s);
}

TEST(srq, below_its_limit__one_event)
{
	struct sim_config cfg = {.name = "srq-limit", .seed = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct ibv_srq_attr limit = {.srq_limit = 3};
	struct sim_pair p;
	struct sim_mem *ma, *mb;

	o.srq = sim_srq_new(s, 1, 16);
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, 4096, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(sim_srq_post(o.srq, mb, i * 256, 256), 0);
	assert_int_equal(rocemu_srq_modify(o.srq->srq, &limit, IBV_SRQ_LIMIT), 0);
	for (uint32_t i = 0; i < 5; i++) {
		sim_send(p.a, ma, i * 256, 10);
		sim_want_copy(mb, i * 256, ma, i * 256, 10);
		sim_run(s);
		/* It fires once, when the third is taken and two are left; then it is disarmed
		 * (11.2.4.4). */
		assert_int_equal(
			sim_count_events(s, 1, ROCEMU_EVENT_SRQ, IBV_EVENT_SRQ_LIMIT_REACHED),
			i >= 2);
	}
	rocemu_srq_query(o.srq->srq, &limit);
	assert_int_equal(limit.srq_limit, 0);
	sim_end(s);
}

TEST(srq, empty__rnr)
{
	struct sim_config cfg = {.name = "srq-empty", .seed = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_pair p;
	struct sim_mem *ma, *mb;

	o.srq = sim_srq_new(s, 1, 16);
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, 4096, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);
	sim_send(p.a, ma, 0, 10);
	sim_run_for(s, 5 * SIM_US);
	assert_int_equal(sim_srq_post(o.srq, mb, 0, 256), 0);
	sim_want_copy(mb, 0, ma, 0, 10);
	sim_run(s);
	assert_true(rocemu_ep_get_stats(s->node[1].ep)->rnr_naks_sent >= 1);
	s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV;
	sim_end(s);
}

/* C10-42: a QP on an SRQ that goes to error takes no more receives and reports it. */
TEST(srq, its_qp_fails__last_wqe_reached_and_receives_stay)
{
	struct sim_config cfg = {.name = "srq-last", .seed = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_pair p;
	struct sim_mem *mb;

	o.srq = sim_srq_new(s, 1, 16);
	p = sim_connect(s, 0, 1, &o);
	mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);
	assert_int_equal(sim_srq_post(o.srq, mb, 0, 256), 0);
	sim_qp_state(p.b, IBV_QPS_ERR);
	sim_run(s);
	assert_int_equal(sim_count_events(s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	assert_int_equal(o.srq->rq.good + o.srq->rq.bad, 0);
	sim_end(s);
}

static void send_one(struct duo *d, uint32_t slot, unsigned flags)
{
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED | flags);

	sim_recv(d->b, d->mb, slot * 256, 256);
	sim_wr_local(&w, d->ma, slot * 256, 10);
	assert_int_equal(sim_post(d->a, &w), 0);
	sim_want_copy(d->mb, slot * 256, d->ma, slot * 256, 10);
	sim_run(d->s);
}

TEST(cq, armed__one_event_for_many_completions)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("cq-armed", &o);

	send_one(&d, 0, 0);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 0);
	rocemu_cq_arm(d.b->rcq, d.s->now, false);
	send_one(&d, 1, 0);
	send_one(&d, 2, 0);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 1);
	assert_ptr_equal(d.s->node[1].events[d.s->node[1].nevents - 1].u.cq, d.b->rcq);
	rocemu_cq_arm(d.b->rcq, d.s->now, false);
	send_one(&d, 3, 0);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 2);
	sim_end(d.s);
}

TEST(cq, armed_for_solicited__event_only_for_those)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("cq-solicited", &o);

	rocemu_cq_arm(d.b->rcq, d.s->now, true);
	send_one(&d, 0, 0);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 0);
	send_one(&d, 1, IBV_SEND_SOLICITED);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 1);
	sim_end(d.s);
}

/* C11-21: a completion with an error counts as solicited. */
TEST(cq, armed_for_solicited__event_for_a_failed_one)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("cq-solicited-error", &o);

	rocemu_cq_arm(d.b->rcq, d.s->now, true);
	sim_recv(d.b, d.mb, 0, 10);
	sim_qp_state(d.b, IBV_QPS_ERR);
	sim_run(d.s);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 1);
	sim_end(d.s);
}

TEST(cq, armed_for_any_then_for_solicited__stays_armed_for_any)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("cq-arm-twice", &o);

	/* 11.4.2.2: a request for the next completion is not weakened by a later one. */
	rocemu_cq_arm(d.b->rcq, d.s->now, false);
	rocemu_cq_arm(d.b->rcq, d.s->now, true);
	send_one(&d, 0, 0);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_CQ, 0), 1);
	sim_end(d.s);
}

TEST(cq, more_completions_than_it_holds__overrun_and_event)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d;
	struct rocemu_cqe c[64];
	unsigned n, depth;

	o.depth = 16;
	d = duo_new("cq-overrun", &o);
	d.a->no_poll = true;
	depth = rocemu_cq_depth(d.a->scq);
	for (unsigned i = 0; i < depth + 4; i++) {
		sim_write(d.a, d.ma, 0, 16, d.mb, 0);
		sim_run(d.s);
	}
	sim_want_copy(d.mb, 0, d.ma, 0, 16);
	assert_true(rocemu_cq_overrun(d.a->scq));
	assert_int_equal(sim_count_events(d.s, 0, ROCEMU_EVENT_CQ_ERR, IBV_EVENT_CQ_ERR), 1);
	n = rocemu_cq_poll(d.a->scq, c, 64);
	assert_int_equal(n, depth);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(c[i].wr_id, c[0].wr_id + i);
	sim_free(d.s);
}

TEST(cq, resized_with_completions_in_it__none_lost)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("cq-resize", &o);
	struct rocemu_cqe c[16];

	d.a->no_poll = true;
	for (uint32_t i = 0; i < 10; i++)
		sim_write(d.a, d.ma, 0, 16, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 16);
	sim_run(d.s);
	assert_int_equal(rocemu_cq_count(d.a->scq), 10);
	assert_int_equal(rocemu_cq_resize(d.a->scq, 9), -EINVAL);
	assert_int_equal(rocemu_cq_resize(d.a->scq, 4096), 0);
	assert_int_equal(rocemu_cq_count(d.a->scq), 10);
	assert_int_equal(rocemu_cq_poll(d.a->scq, c, 16), 10);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(c[i].wr_id, c[0].wr_id + i);
	sim_free(d.s);
}

TEST(event, first_packet_in_rtr__comm_est)
{
	struct sim_config cfg = {.name = "comm-est", .seed = 1};
	struct sim *s = sim_new(&cfg);
	struct sim_qp_opts o = SIM_QP_OPTS, ob = SIM_QP_OPTS;
	struct sim_mem *ma = sim_mem_new(s, 0, 4096, SIM_ACCESS_ALL),
		       *mb = sim_mem_new(s, 1, 4096, SIM_ACCESS_ALL);
	struct sim_qp *a = sim_qp_new(s, 0, &o), *b = sim_qp_new(s, 1, &ob);

	ob.psn = o.peer_psn;
	ob.peer_psn = o.psn;
	sim_qp_init(a, &o);
	sim_qp_init(b, &ob);
	sim_qp_rtr(a, b, &o);
	sim_qp_rtr(b, a, &ob);
	sim_qp_rts(a, &o);
	sim_write(a, ma, 0, 600, mb, 0);
	sim_want_copy(mb, 0, ma, 0, 600);
	sim_run(s);
	assert_int_equal(sim_count_events(s, 1, ROCEMU_EVENT_QP, IBV_EVENT_COMM_EST), 1);
	sim_end(s);
}

/* Table 61: access and request errors at the responder are affiliated asynchronous errors of its
 * QP. */
TEST(event, remote_access_error__event_at_the_responder)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("access-event", &o);
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);

	sim_wr_local(&w, d.ma, 0, 8);
	sim_wr_remote(&w, d.mb, 0);
	w.wr.wr.rdma.rkey ^= 0x55500;
	assert_int_equal(sim_post(d.a, &w), 0);
	sim_run(d.s);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_ACCESS_ERR), 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS;
	sim_end(d.s);
}

TEST(destroy, with_requests_and_packets_under_way__quiet)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = duo_new("destroy", &o);

	d.s->link[1][0].c.loss_mask = 0xff;
	sim_write(d.a, d.ma, 0, 4096, d.mb, 0);
	sim_read(d.a, d.ma, 8192, 4096, d.mb, 8192);
	sim_recv(d.a, d.ma, 0, 16);
	sim_run_for(d.s, 7 * SIM_US);
	sim_free(d.s);
}
