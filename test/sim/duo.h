/* SPDX-License-Identifier: BSD-2-Clause */
/* What most tests begin with: two nodes on a 5 us link, one connected pair, a region on each
 * node. */
#ifndef TEST_SIM_DUO_H
#define TEST_SIM_DUO_H

#include "sim.h"
#include "test.h"

enum { DUO_MEM = 65536 };

struct duo {
	struct sim *s;
	struct sim_qp *a, *b;
	struct sim_mem *ma, *mb; /* DUO_MEM bytes, all access */
};

static inline struct duo duo_of(const struct sim_config *cfg, const struct sim_qp_opts *o)
{
	struct duo d = {.s = sim_new(cfg)};
	struct sim_pair p = sim_connect(d.s, 0, 1, o);

	d.a = p.a;
	d.b = p.b;
	d.ma = sim_mem_new(d.s, 0, DUO_MEM, SIM_ACCESS_ALL);
	d.mb = sim_mem_new(d.s, 1, DUO_MEM, SIM_ACCESS_ALL);
	return d;
}

static inline struct duo duo_new(const char *name, const struct sim_qp_opts *o)
{
	struct sim_config cfg = {.name = name, .seed = 1, .link = {.delay_ns = 5 * SIM_US}};

	return duo_of(&cfg, o);
}

static inline const struct rocemu_ep_stats *duo_stats(const struct duo *d, unsigned node)
{
	return rocemu_ep_get_stats(d->s->node[node].ep);
}

#endif
