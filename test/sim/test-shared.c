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
