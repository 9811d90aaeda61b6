/* SPDX-License-Identifier: BSD-2-Clause */
/* What several queue pairs have in common: an SRQ, an initiator's peers, an endpoint, a path. */
#include <errno.h>
#include <string.h>

#include "sim.h"
#include "test.h"

enum { GRH = 40 };

/** A network without delay between some nodes, each with a region of 8192 bytes. */
static struct sim *net(const char *name, unsigned nodes, struct sim_mem **m)
{
	struct sim *s = sim_new(&(struct sim_config){.name = name, .seed = 1, .nodes = nodes});

	for (unsigned i = 0; i < nodes; i++)
		m[i] = sim_mem_new(s, i, 8192, SIM_ACCESS_ALL);
	return s;
}

TEST(srq, two_qps__receives_taken_in_order_of_posting)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem *m[2];
	struct sim *s = net("srq-two", 2, m);
	struct sim_pair p[2];

	o.srq = sim_srq_new(s, 1, 16);
	for (unsigned i = 0; i < 2; i++)
		p[i] = sim_connect(s, 0, 1, &o);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(sim_srq_post(o.srq, m[1], i * 1024, 1024), 0);
	for (uint32_t i = 0; i < 4; i++) {
		sim_send(p[i & 1].a, m[0], i * 1024, 700);
		sim_want_copy(m[1], i * 1024, m[0], i * 1024, 700);
		sim_run(s);
	}
	assert_int_equal(o.srq->rq.good, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(o.srq->rq.e[i].cqe.qpn, rocemu_qp_num(p[i & 1].b->qp));
	sim_end(s);
}

TEST(xrc, two_initiators_one_srq__receives_shared)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem *m[2];
	struct sim *s = net("xrc-shared", 2, m);
	struct sim_pair p[2];

	o.type = IBV_QPT_XRC_SEND;
	for (unsigned i = 0; i < 2; i++) {
		p[i] = sim_connect(s, 0, 1, &o);
		o.srq = p[0].b->srq;
	}
	for (uint32_t i = 0; i < 4; i++)
		sim_srq_post(o.srq, m[1], i * 256, 256);
	for (unsigned i = 0; i < 4; i++)
		sim_send(p[i & 1].a, m[0], 0, 0);
	sim_run(s);
	assert_int_equal(o.srq->rq.good, 4);
	sim_end(s);
}

TEST(ud_send, to_two_peers_in_turn__each_gets_its_own)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem *m[3];
	struct sim *s = net("ud-two", 3, m);
	struct sim_pair p[2];

	o.type = IBV_QPT_UD;
	for (unsigned i = 0; i < 2; i++)
		p[i] = sim_connect(s, 0, 1 + i, &o);
	for (unsigned i = 0; i < 6; i++) {
		struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

		sim_recv(p[i & 1].b, m[1 + (i & 1)], i * 256, GRH + 100);
		sim_wr_local(&w, m[0], i * 256, 100);
		w.ud_path = &p[i & 1].a->ud_path;
		w.wr.wr.ud.remote_qpn = rocemu_qp_num(p[i & 1].b->qp);
		assert_int_equal(sim_post(p[0].a, &w), 0);
	}
	sim_run(s);
	for (unsigned i = 0; i < 6; i++) {
		sim_want_any(m[1 + (i & 1)], i * 256, GRH);
		sim_want_copy(m[1 + (i & 1)], i * 256 + GRH, m[0], i * 256, 100);
	}
	assert_int_equal(p[0].b->rq.good + p[1].b->rq.good, 6);
	sim_end(s);
}

TEST(rc_qp, to_itself__works)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct sim_mem *m;
	struct sim *s = net("loopback", 1, &m);
	struct sim_qp *q;

	o.peer_psn = o.psn;
	q = sim_qp_new(s, 0, &o);
	sim_qp_init(q, &o);
	sim_qp_rtr(q, q, &o);
	sim_qp_rts(q, &o);
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
