/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers that nobody else can predict, from a seed that nobody else has: SipHash-2-4 (Aumasson and
 * Bernstein, 2012) of a counter. What a peer has seen of them tells it nothing of the others, which
 * base/rng.h does not promise. The same seed gives the same numbers everywhere.
 */
#ifndef TRANSPORT_SECRET_H
#define TRANSPORT_SECRET_H

#include <stdint.h>

struct secret {
	uint64_t key[2];
	uint64_t count;
};

void secret_init(struct secret *s, uint64_t seed);
uint64_t secret_u64(struct secret *s);

/** The upper half of one. */
static inline uint32_t secret_u32(struct secret *s)
{
	return (uint32_t)(secret_u64(s) >> 32);
}

/** 0 <= result < n; n > 0. */
static inline uint32_t secret_below(struct secret *s, uint32_t n)
{
	return (uint32_t)((uint64_t)secret_u32(s) * n >> 32);
}

/** SipHash-2-4 of the 8 bytes of a number, lowest first. */
uint64_t secret_hash(const uint64_t key[2], uint64_t value);

#endif
