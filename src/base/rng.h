/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small seeded generator (splitmix64): the same seed gives the same numbers on every host. Not
 * for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline void rng_init(struct rng *r, uint64_t seed)
{
	r->state = seed;
}

static inline uint64_t rng_u64(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint32_t rng_u32(struct rng *r)
{
	return (uint32_t)(rng_u64(r) >> 32);
}

/** 0 <= result < n; n > 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)((uint64_t)rng_u32(r) * n >> 32);
}

/** True with probability p (0..1). */
static inline bool rng_chance(struct rng *r, double p)
{
	return (double)(rng_u64(r) >> 11) * 0x1.0p-53 < p;
}

#endif
