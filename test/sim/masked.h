/* SPDX-License-Identifier: BSD-2-Clause */
/* Two nodes between which the first packets are lost by the bits of a mask, for tests that try
 * every pattern. */
#ifndef TEST_SIM_MASKED_H
#define TEST_SIM_MASKED_H

#include "sim.h"

/** Whose packets: of the first node, of the second, or both together as they come. */
enum direction { FORWARD, REVERSE, BOTH };

static inline struct sim *masked_new(const char *name, enum direction dir, unsigned mask)
{
	struct sim_config cfg = {
		.name = name,
		.seed = mask,
		.ipv6 = mask & 1,
		.link = {.delay_ns = 5 * SIM_US},
		.loss_mask = dir == BOTH ? mask : 0,
	};
	struct sim *s = sim_new(&cfg);

	if (dir == FORWARD)
		s->link[0][1].c.loss_mask = mask;
	if (dir == REVERSE)
		s->link[1][0].c.loss_mask = mask;
	s->allowed_drops |= 1ull << ROCEMU_DROP_PSN | 1ull << ROCEMU_DROP_GHOST;
	return s;
}

#endif
