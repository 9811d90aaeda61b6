/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of places: slots or numbers. */
#ifndef AGENT_SEAT_SET_H
#define AGENT_SEAT_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"

struct seat_set {
	uint32_t bits[AGENT_SEATS / 32];
};

static inline bool seat_set_has(const struct seat_set *s, unsigned place)
{
	return s->bits[place / 32] >> place % 32 & 1;
}

static inline void seat_set_add(struct seat_set *s, unsigned place)
{
	s->bits[place / 32] |= 1u << place % 32;
}

static inline void seat_set_remove(struct seat_set *s, unsigned place)
{
	s->bits[place / 32] &= ~(1u << place % 32);
}

static inline unsigned seat_set_count(const struct seat_set *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < AGENT_SEATS / 32; i++)
		n += (unsigned)__builtin_popcount(s->bits[i]);
	return n;
}

#endif
