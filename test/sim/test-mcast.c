/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast in the simulator: one sender, several hosts, copies lost one by one. */
#include <string.h>

#include "sim.h"
#include "test.h"

enum { GRH = 40, HOSTS = 4, LEN = 200, ROOM = 1024 };

struct net {
	struct sim *s;
	struct sim_qp *qp[HOSTS];
	struct sim_mem *mem[HOSTS];
	struct rocemu_path path; /* from host 0 to the group */
};

static void net_end(struct net *n)
{
	for (unsigned i = 0; i < HOSTS; i++)
		assert_int_equal(rocemu_qp_detach_mcast(n->qp[i]->qp, &n->path.dgid), 0);
	sim_end(n->s);
}

static struct net net_new(const char *name, bool ipv6)
{
	struct sim_config cfg = {.name = name,
				 .seed = 1,
				 .nodes = HOSTS,
				 .ipv6 = ipv6,
				 .link = {.delay_ns = 5 * SIM_US}};
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct net n = {.s = sim_new(&cfg)};
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct rocemu_gid group = {{[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};

	if (ipv6)
		group = (struct rocemu_gid){{0xff, 0x15, [15] = 9}};
	memcpy(ah.grh.dgid.raw, group.raw, 16);
	o.type = IBV_QPT_UD;
	for (unsigned i = 0; i < HOSTS; i++) {
		n.mem[i] = sim_mem_new(n.s, i, 16 * ROOM, SIM_ACCESS_ALL);
		n.qp[i] = sim_connect(n.s, i, (i + 1) % HOSTS, &o).a;
		assert_int_equal(rocemu_qp_attach_mcast(n.qp[i]->qp, &group), 0);
		n.qp[i]->may_lose_receives = true;
	}
	assert_int_equal(rocemu_path_resolve(n.s->node[0].ep, &ah, &n.path), 0);
	return n;
}

static void send(struct net *n, uint32_t off)
{
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_wr_local(&w, n->mem[0], off, LEN);
	w.ud_path = &n->path;
	w.wr.wr.ud.remote_qpn = ROCEMU_MCAST_QPN;
	assert_int_equal(sim_post(n->qp[0], &w), 0);
}

static void want(struct net *n, unsigned host, uint32_t off, uint32_t from)
{
	sim_want_any(n->mem[host], off, GRH);
	sim_want_copy(n->mem[host], off + GRH, n->mem[0], from, LEN);
}

static void to_all(bool ipv6)
{
	struct net n = net_new(ipv6 ? "mcast6" : "mcast4", ipv6);

	for (unsigned i = 0; i < HOSTS; i++)
		sim_recv(n.qp[i], n.mem[i], ROOM, GRH + LEN);
	send(&n, 0);
	sim_run(n.s);
	for (unsigned i = 0; i < HOSTS; i++) {
		assert_int_equal(n.qp[i]->rq.good, 1);
		assert_int_equal(n.qp[i]->rq.e[0].cqe.src_qp, rocemu_qp_num(n.qp[0]->qp));
		want(&n, i, ROOM, 0);
	}
	assert_string_equal(sim_done(n.qp[0]), "send OK; recv OK");
	net_end(&n);
}

TEST(mcast_send, to_a_group__every_host_gets_it_the_sender_too)
{
	to_all(false);
	to_all(true);
}

/* Copies 0 to 7: two messages to four hosts, each copy lost or not on its own. */
static void lost_under_mask(unsigned mask)
{
	struct net n = net_new("mcast-loss", false);

	n.s->loss_mask = mask;
	for (unsigned i = 0; i < HOSTS; i++)
		for (unsigned k = 0; k < 2; k++)
			sim_recv(n.qp[i], n.mem[i], (1 + k) * ROOM, GRH + LEN);
	send(&n, 0);
	send(&n, ROOM / 2);
	sim_run(n.s);
	for (unsigned i = 0; i < HOSTS; i++) {
		unsigned got = 0;

		for (unsigned k = 0; k < 2; k++)
			if (!(mask >> (HOSTS * k + i) & 1))
				want(&n, i, (1 + got++) * ROOM, k * (ROOM / 2));
		sim_assert(n.s, n.qp[i]->rq.good == got);
	}
	net_end(&n);
}

TEST(mcast_send, copies_lost_in_any_pattern__each_host_gets_the_others)
{
	for (unsigned mask = 0; mask < 256; mask++)
		lost_under_mask(mask);
}
