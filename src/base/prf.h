/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers that others cannot predict: SipHash-2-4 (Aumasson, Bernstein, 2012) of a counter under a
 * secret key of 128 bits. Knowledge of some of the numbers does not help to compute others. The
 * same key gives the same numbers everywhere. Also a hash for tables whose keys a peer chooses.
 */
#ifndef BASE_PRF_H
#define BASE_PRF_H

#include <stddef.h>
#include <stdint.h>

struct prf {
	uint64_t key[2]; /* secret */
	uint64_t next;	 /* counter */
};

static inline uint64_t prf_rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void prf_rounds(uint64_t v[4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = prf_rotate(v[1], 13) ^ v[0];
		v[3] = prf_rotate(v[3], 16) ^ v[2];
		v[0] = prf_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = prf_rotate(v[1], 17) ^ v[2];
		v[3] = prf_rotate(v[3], 21) ^ v[0];
		v[2] = prf_rotate(v[2], 32);
	}
}

/** SipHash-2-4 of n words (each as 8 little-endian bytes). */
static inline uint64_t prf_hash(const struct prf *p, const uint64_t *words, size_t n)
{
	uint64_t v[4] = {
		p->key[0] ^ 0x736f6d6570736575u,
		p->key[1] ^ 0x646f72616e646f6du,
		p->key[0] ^ 0x6c7967656e657261u,
		p->key[1] ^ 0x7465646279746573u,
	};
	const uint64_t last = (uint64_t)(n * 8) << 56;

	for (size_t i = 0; i <= n; i++) {
		const uint64_t word = i < n ? words[i] : last;

		v[3] ^= word;
		prf_rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	prf_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static inline uint64_t prf_u64(struct prf *p)
{
	const uint64_t n = p->next++;

	return prf_hash(p, &n, 1);
}

/** Another one: numbers of the first do not help to compute its numbers. */
static inline struct prf prf_derive(struct prf *p)
{
	return (struct prf){.key = {prf_u64(p), prf_u64(p)}};
}

/** The upper half of one. */
static inline uint32_t prf_u32(struct prf *p)
{
	return (uint32_t)(prf_u64(p) >> 32);
}

/** 0 <= result < n; n > 0. */
static inline uint32_t prf_below(struct prf *p, uint32_t n)
{
	return (uint32_t)((uint64_t)prf_u32(p) * n >> 32);
}

#endif
