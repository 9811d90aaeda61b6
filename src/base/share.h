/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shares of something bounded, by source. One source may have `limit`, all of them together twice
 * as many; and a source gets more only while it has less than remains free. So a greedy source
 * takes half at most, and freed parts go to sources that have little: k greedy sources end with one
 * part in k + 1 each, and one part stays free. Sources are counted in cells, by a hash that only
 * the owner can compute: memory is bounded, and sources that share a cell share its part.
 */
#ifndef BASE_SHARE_H
#define BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum { SHARE_CELLS = 256 };

struct share {
	uint32_t used;
	uint32_t of[SHARE_CELLS];
};

static inline bool share_has_room(const struct share *s, unsigned cell, uint32_t limit)
{
	return s->of[cell] < limit && (uint64_t)s->used + s->of[cell] < 2 * (uint64_t)limit;
}

static inline void share_take(struct share *s, unsigned cell)
{
	s->used++;
	s->of[cell]++;
}

static inline void share_give(struct share *s, unsigned cell)
{
	s->used--;
	s->of[cell]--;
}

/** The cell that has the most. */
static inline unsigned share_greediest(const struct share *s)
{
	unsigned most = 0;

	for (unsigned i = 1; i < SHARE_CELLS; i++)
		if (s->of[i] > s->of[most])
			most = i;
	return most;
}

#endif
