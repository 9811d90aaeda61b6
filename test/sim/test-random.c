/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random networks, random operations: one run a seed, everything about it drawn from the seed.
 * Normally some thousand seeds; `test-random --seeds N --start S` runs any number, and prints its
 * progress; with --seeds 1 it repeats a failed run.
 *
 * The links' faults come in storms with a calm after each: seven retries then always suffice, so
 * that every run must end with every operation done exactly once. A run that gives up has found
 * something.
 */
#include "op.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { MAX_PAIRS = 8, DEFAULT_SEEDS = TEST_SANITIZED ? 300 : 2000 };

static unsigned long long first_seed = 1, seeds = DEFAULT_SEEDS;
static bool progress;

/** Over all seeds: shows that the faults reach what they are for. */
static struct rocemu_ep_stats total;
static uint64_t operations;

/** One direction of one pair and what it still has to post. */
struct load {
	struct op_way way;
	struct op *ops;
	unsigned n, next;
};

static uint32_t random_size(struct rng *r, uint32_t mtu)
{
	switch (rng_below(r, 12)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return mtu - 1;
	case 3:
		return mtu;
	case 4:
		return mtu + 1;
	case 5:
	case 6:
		return rng_below(r, 16 * mtu);
	case 7:
		return rng_below(r, 8) == 0 ? 1u << 20 : rng_below(r, 65536);
	default:
		return rng_below(r, 2 * mtu);
	}
}

static struct op random_op(struct rng *r, uint32_t mtu)
{
	struct op o = {
		.kind = (enum op_kind)rng_below(r, OP_COUNT),
		.len = random_size(r, mtu),
		.nsge = rng_chance(r, 0.7) ? 1 : 1 + rng_below(r, ROCEMU_MAX_SGE),
	};

	if (o.kind == OP_SEND_INLINE || o.kind == OP_WRITE_INLINE)
		o.len = rng_below(r, ROCEMU_MAX_INLINE + 1);
	if (rng_chance(r, 0.6))
		o.flags |= IBV_SEND_SIGNALED;
	if (rng_chance(r, 0.1))
		o.flags |= IBV_SEND_FENCE;
	if (rng_chance(r, 0.1))
		o.flags |= IBV_SEND_SOLICITED;
	return o;
}

static void load_init(struct load *l, struct sim_qp *from, struct sim_qp *to, uint32_t mtu)
{
	struct rng *r = &from->sim->rng;
	uint32_t bytes = 64;

	*l = (struct load){.n = 1 + rng_below(r, 30)};
	l->ops = calloc(l->n, sizeof(*l->ops));
	assert_non_null(l->ops);
	for (unsigned i = 0; i < l->n; i++) {
		l->ops[i] = random_op(r, mtu);
		bytes += l->ops[i].len + 128;
	}
	l->ops[l->n - 1].flags |= IBV_SEND_SIGNALED;
	op_way_init(&l->way, from, to, bytes);
}

static void load_post(struct load *l, unsigned max)
{
	while (max-- && l->next < l->n && op_post(&l->way, &l->ops[l->next]))
		l->next++;
}

static struct sim_link_config random_link(struct rng *r)
{
	struct sim_link_config c = {
		.delay_ns = 500 + rng_below(r, 20000),
		.storm_ns = 1 * SIM_MS + SIM_MS / 2,
		.calm_ns = 3 * SIM_MS,
	};

	if (rng_chance(r, 0.6))
		c.loss = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.4))
		c.dup = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.4))
		c.reorder = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.3))
		c.corrupt = rng_below(r, 50) / 1000.0;
	if (rng_chance(r, 0.3))
		c.ns_per_kib = 80 + rng_below(r, 1000);
	if (c.ns_per_kib && rng_chance(r, 0.3))
		c.queue_bytes = 100000 + rng_below(r, 200000);
	return c;
}

static struct sim_qp_opts random_opts(struct rng *r)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.mtu = (enum ibv_mtu)(IBV_MTU_256 + rng_below(r, 5));
	/* Most runs wrap around. */
	o.psn = rng_chance(r, 0.7) ? 0xffffff - rng_below(r, 100) : rng_u32(r) & ROCEMU_PSN_MASK;
	o.peer_psn =
		rng_chance(r, 0.7) ? 0xffffff - rng_below(r, 100) : rng_u32(r) & ROCEMU_PSN_MASK;
	o.rd_atomic = (uint8_t)(1 + rng_below(r, ROCEMU_MAX_RD_ATOMIC));
	o.dest_rd_atomic = o.rd_atomic;
	o.depth = 4 + rng_below(r, 60);
	o.sig_all = rng_chance(r, 0.2);
	o.type = rng_chance(r, 0.25) ? IBV_QPT_XRC_SEND : IBV_QPT_RC;
	return o;
}

/**
 * Post a little, run a little, until all is posted. Receives lag behind: some requests meet an RNR
 * NAK.
 */
static void drive(struct sim *s, struct load *loads, unsigned n)
{
	bool left = true;

	while (left) {
		left = false;
		for (unsigned i = 0; i < n; i++) {
			load_post(&loads[i], 1 + rng_below(&s->rng, 8));
			op_post_recvs(&loads[i].way, rng_below(&s->rng, 10));
			left |= loads[i].next < loads[i].n;
			left |= loads[i].way.todo_next < loads[i].way.todo_len;
		}
		sim_run_for(s, rng_below(&s->rng, 300000));
		if (s->now > s->cfg.max_ns)
			sim_fail(s, "posted requests do not make progress");
	}
}

static void add_up(struct sim *s, const struct load *loads, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		operations += loads[i].n;
	for (unsigned i = 0; i < s->nodes; i++) {
		const struct rocemu_ep_stats *st = rocemu_ep_get_stats(s->node[i].ep);

#define X(name, text) total.name += st->name;
		ROCEMU_STATS(X)
#undef X
		for (unsigned d = 0; d < ROCEMU_DROP_COUNT; d++)
			total.drops[d] += st->drops[d];
	}
}

static void print_totals(void)
{
	fprintf(stderr, "%12llu operations\n", (unsigned long long)operations);
#define X(name, text) fprintf(stderr, "%12llu %s\n", (unsigned long long)total.name, text);
	ROCEMU_STATS(X)
#undef X
	for (unsigned d = 1; d < ROCEMU_DROP_COUNT; d++)
		if (total.drops[d])
			fprintf(stderr, "%12llu dropped: %s\n", (unsigned long long)total.drops[d],
				rocemu_drop_text((enum rocemu_drop)d));
}

static void run_seed(unsigned long long seed)
{
	struct rng r;
	struct sim_config cfg = {.name = "random", .seed = seed, .max_ns = 200 * SIM_S};
	struct load loads[2 * MAX_PAIRS];
	unsigned npairs;
	struct sim *s;

	rng_init(&r, seed);
	cfg.nodes = 2 + rng_below(&r, 2);
	cfg.ipv6 = rng_chance(&r, 0.5);
	cfg.link = random_link(&r);
	/* From one packet at a time to more than a link's queue holds. */
	if (rng_chance(&r, 0.5))
		cfg.ep.window_bytes = 1 + rng_below(&r, rng_chance(&r, 0.5) ? 300000 : 9000);
	if (seed % 4 == 0) {
		cfg.ep.rnr_chance = 0.3;
		cfg.ep.rnr_seed = seed;
	}
	s = sim_new(&cfg);
	s->now += rng_below(&r, (uint32_t)(cfg.link.storm_ns + cfg.link.calm_ns));
	npairs = 1 + rng_below(&r, MAX_PAIRS);
	for (unsigned i = 0; i < npairs; i++) {
		struct sim_qp_opts o = random_opts(&r);
		struct sim_pair p = sim_connect(s, 0, 1 + rng_below(&r, cfg.nodes - 1), &o);
		uint32_t mtu = 128u << o.mtu;

		load_init(&loads[2 * i], p.a, p.b, mtu);
		if (o.type == IBV_QPT_XRC_SEND) /* one-way */
			loads[2 * i + 1] = (struct load){.way.from = p.b};
		else
			load_init(&loads[2 * i + 1], p.b, p.a, mtu);
	}
	drive(s, loads, 2 * npairs);
	sim_run(s);
	add_up(s, loads, 2 * npairs);
	for (unsigned i = 0; i < 2 * npairs; i++) {
		const struct sim_qp *q = loads[i].way.from;

		sim_assert(s, sim_all_good(q));
		sim_assert(s, !q->srq || q->srq->rq.good == q->srq->rq.n);
		op_way_fini(&loads[i].way);
		free(loads[i].ops);
	}
	/* RNR NAKs are what late receives are for. */
	s->allowed_drops |=
		1ull << ROCEMU_DROP_NO_RECV | 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
	sim_end(s);
}

TEST(rc, random_operations_on_random_networks__each_exactly_once)
{
	for (unsigned long long i = 0; i < seeds; i++) {
		if (progress && i % 100 == 0)
			fprintf(stderr, "\rseed %llu (%llu of %llu) ", first_seed + i, i, seeds);
		run_seed(first_seed + i);
	}
	if (progress) {
		fprintf(stderr, "\r%llu seeds from %llu on: all good\n", seeds, first_seed);
		print_totals();
	}
	/* Nothing of what this is about may have stayed away. */
	assert_true(seeds < 100 || (total.retransmits && total.timeouts && total.naks_rcvd &&
				    total.rnr_naks_rcvd && total.rnr_on_purpose &&
				    total.duplicates && total.drops[ROCEMU_DROP_ICRC]));
}

static bool number(const char *text, unsigned long long *v)
{
	char *end;

	*v = text ? strtoull(text, &end, 0) : 0;
	return text && *text && !*end;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		bool ok = false;

		if (strcmp(argv[i], "--seeds") == 0)
			ok = number(argv[i + 1], &seeds);
		else if (strcmp(argv[i], "--start") == 0)
			ok = number(argv[i + 1], &first_seed);
		if (!ok) {
			fprintf(stderr, "usage: %s [--seeds N] [--start S]\n", argv[0]);
			return 2;
		}
		progress = true;
	}
	return test_run(argv[0], NULL, 0);
}
