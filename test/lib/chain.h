/* SPDX-License-Identifier: BSD-2-Clause */
/* The longest chain of a hash table, and keys that would make one long without a secret key. */
#ifndef TEST_CHAIN_H
#define TEST_CHAIN_H

#include "base/hash.h"

/** No chain of entries with keys at random is longer, but for one run in 10^9. */
enum { CHAIN_MOST = 16 };

static inline unsigned chain_longest(const struct hash *h)
{
	unsigned longest = 0;

	for (size_t i = 0; i < h->buckets; i++) {
		unsigned n = 0;

		for (const struct hash_node *e = h->bucket[i]; e; e = e->next)
			n++;
		longest = MAX(longest, n);
	}
	return longest;
}

/** The next number after one that has the same bucket as 0, if the number itself is the key. */
static inline uint64_t chain_next(uint64_t number)
{
	const struct hash plain = {.buckets = 1 << 12};

	do
		number++;
	while (hash_place(&plain, number) != hash_place(&plain, 0));
	return number;
}

#endif
