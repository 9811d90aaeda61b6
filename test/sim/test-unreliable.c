/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD on random bad networks, one run a seed. Messages may be lost, come twice or in another
 * order; what completes as good must be one of those sent, whole and unchanged.
 */
#include <string.h>

#include "duo.h"

enum { MESSAGES = 60, RECVS = 2 * MESSAGES, SLOT = 2048, GRH = 40, SEEDS = 400 };

struct message {
	uint32_t off, len;
};

/** Messages begin with their number, so that a receiver can identify them. */
static void fill(struct sim *s, struct sim_mem *m, struct message *msg, uint32_t max)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		msg[i].len = 4 + rng_below(&s->rng, max - 3);
		msg[i].off = sim_mem_take(m, msg[i].len);
		memcpy(m->buf + msg[i].off, &i, sizeof(i));
		memcpy(m->want + msg[i].off, &i, sizeof(i));
	}
}

static void check_received(struct sim *s, const struct sim_done *e, const uint8_t *slot,
			   const struct sim_mem *m, const struct message *msg, uint32_t grh)
{
	uint32_t i;

	sim_assert(s, e->cqe.status == IBV_WC_SUCCESS);
	sim_assert(s, e->cqe.byte_len >= grh + sizeof(i));
	memcpy(&i, slot + grh, sizeof(i));
	sim_assert(s, i < MESSAGES);
	sim_assert(s, e->cqe.byte_len == grh + msg[i].len);
	if (memcmp(slot + grh, m->buf + msg[i].off, msg[i].len) != 0)
		sim_fail(s, "message %u was not received as it was sent", i);
}

static uint64_t run_seed(enum ibv_qp_type type, uint64_t seed)
{
	struct sim_config cfg = {.name = type == IBV_QPT_UC ? "uc-random" : "ud-random",
				 .seed = seed};
	uint32_t grh = type == IBV_QPT_UD ? GRH : 0;
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct message msg[MESSAGES];
	struct sim_mem *ma, *mb;
	struct sim_pair p;
	uint64_t got;
	struct sim *s;

	cfg.ipv6 = seed & 1;
	cfg.link = (struct sim_link_config){.delay_ns = 1000 + seed % 7 * 3000,
					    .ns_per_kib = (uint32_t)(seed % 3) * 200,
					    .loss = (double)(seed % 4) * 0.05,
					    .dup = (double)(seed % 5) * 0.05,
					    .reorder = (double)(seed % 6) * 0.05,
					    .corrupt = (double)(seed % 3) * 0.05};
	s = sim_new(&cfg);
	s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_SEQUENCE;
	o.type = type;
	o.psn = 0xffffff - (uint32_t)seed % 90;
	p = sim_connect(s, 0, 1, &o);
	ma = sim_mem_new(s, 0, MESSAGES * SLOT, SIM_ACCESS_ALL);
	mb = sim_mem_new(s, 1, RECVS * SLOT, SIM_ACCESS_ALL);
	fill(s, ma, msg, type == IBV_QPT_UD ? 256 : 1900);
	for (uint32_t i = 0; i < RECVS; i++)
		sim_recv(p.b, mb, i * SLOT, SLOT);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		sim_send(p.a, ma, msg[i].off, msg[i].len);
		sim_run_for(s, rng_below(&s->rng, 3000));
	}
	sim_run(s);
	got = p.b->rq.good;
	for (uint32_t i = 0; i < got; i++)
		check_received(s, &p.b->rq.e[i], mb->buf + i * SLOT, ma, msg, grh);
	sim_assert(s, p.b->rq.bad == 0 && p.a->sq.good == MESSAGES);
	sim_want_any(mb, 0, mb->len);
	sim_end(s);
	return got;
}

static void run_seeds(enum ibv_qp_type type)
{
	uint64_t got = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		got += run_seed(type, seed);
	/* On links as bad as these a good part arrives all the same. */
	assert_true(got > SEEDS * MESSAGES / 3);
}

TEST(uc_send, random_bad_networks__nothing_but_whole_messages)
{
	run_seeds(IBV_QPT_UC);
}

TEST(ud_send, random_bad_networks__nothing_but_whole_messages)
{
	run_seeds(IBV_QPT_UD);
}
