/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables against a plain array, by random calls; and that a look-up stays short. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory;

static void *calloc_or_not(size_t n, size_t size)
{
	return no_memory ? NULL : calloc(n, size);
}

#define calloc calloc_or_not
#include "base/hash.h"
#undef calloc

#include "base/rng.h"
#include "chain.h"
#include "test.h"

enum { ENTRIES = 5000, KEYS = 1000 };

struct entry {
	struct hash_node node;
	uint64_t key;
	unsigned when; /* it was added */
	bool is_in;
};

/** How many have the key; the newest is found first. */
static unsigned count(const struct hash *h, uint64_t key)
{
	unsigned n = 0, when = UINT32_MAX;

	hash_for_each (e, struct entry, node, h, key) {
		assert_true(e->is_in && e->key == key);
		assert_true(e->when < when);
		when = e->when;
		n++;
	}
	return n;
}

/** Add and remove at random; with_memory: of 16 calls, the table may grow in so many. */
static void random_calls(unsigned calls, unsigned with_memory)
{
	static struct entry all[ENTRIES];
	unsigned in[KEYS] = {0}, n = 0;
	struct hash h = {0};
	struct rng rng;

	memset(all, 0, sizeof(all));
	rng_init(&rng, 1);
	for (unsigned i = 0; i < calls; i++) {
		struct entry *e = &all[rng_below(&rng, ENTRIES)];

		no_memory = i % 16 >= with_memory;
		if (e->is_in) {
			hash_remove(&h, &e->node);
			in[e->key]--;
			n--;
		} else {
			e->key = rng_below(&rng, KEYS);
			e->when = i;
			hash_add(&h, &e->node, e->key);
			in[e->key]++;
			n++;
		}
		e->is_in = !e->is_in;
		assert_int_equal(h.n, n);
		assert_int_equal(count(&h, e->key), in[e->key]);
	}
	no_memory = false;
	for (uint64_t key = 0; key < KEYS; key++)
		assert_int_equal(count(&h, key), in[key]);
	hash_fini(&h);
	assert_null(hash_find(&h, 1));
}

TEST(hash, random_calls__as_an_array)
{
	random_calls(40 * ENTRIES, 16);
}

TEST(hash, no_memory_to_grow__as_with_memory)
{
	random_calls(ENTRIES, 0);
	random_calls(8 * ENTRIES, 1);
}

TEST(hash, removing_what_is_in_no_table__nothing_changes)
{
	static struct entry all[ENTRIES], never;
	struct hash h = {0};

	hash_remove(&h, &never.node);
	for (unsigned n = 1; n <= ENTRIES; n *= 7) {
		for (unsigned i = 0; i < n; i++) {
			all[i] = (struct entry){.key = i % 3, .when = i, .is_in = true};
			hash_add(&h, &all[i].node, all[i].key);
		}
		/* From the middle on, so that there are newer and older ones of its key. */
		for (unsigned i = 0; i < n; i++) {
			struct entry *e = &all[(i + n / 2) % n];
			const unsigned of_key = count(&h, e->key);

			hash_remove(&h, &e->node);
			hash_remove(&h, &e->node);
			hash_remove(&h, &never.node);
			assert_int_equal(h.n, n - i - 1);
			e->is_in = false;
			assert_int_equal(count(&h, e->key), of_key - 1);
		}
	}
}

/** The longest chain of entries, their keys step apart. */
static unsigned longest(uint64_t step)
{
	static struct entry all[4096];
	struct hash h = {0};
	unsigned most;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		hash_add(&h, &all[i].node, i * step);
	most = chain_longest(&h);
	hash_fini(&h);
	return most;
}

/* Interface indices, pointers, addresses, multiples of a power of two. */
TEST(hash, keys_that_are_no_random_numbers__short_chains)
{
	static const uint64_t steps[] = {
		1, 2, 16, 3216, 4096, UINT64_C(1) << 20, UINT64_C(1) << 32, UINT64_C(1) << 48};

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		assert_in_range(longest(steps[i]), 1, 12);
}

TEST(hash, key_that_costs_time__computed_once_for_a_look_up)
{
	struct entry e[2] = {{.key = 7}, {.key = 8}};
	struct hash h = {0};
	unsigned computed = 0, found = 0;

	hash_add(&h, &e[0].node, 7);
	hash_add(&h, &e[1].node, 8);
	hash_for_each (it, struct entry, node, &h, (computed++, 7))
		found += it == &e[0];
	assert_int_equal(found, 1);
	assert_int_equal(computed, 1);
	hash_fini(&h);
}

TEST(hash, bytes__differ_by_each_bit)
{
	uint8_t a[16] = {0};
	const uint64_t first = hash_bytes(a, sizeof(a));

	for (unsigned bit = 0; bit < 128; bit++) {
		a[bit / 8] = (uint8_t)(1u << bit % 8);
		assert_true(hash_bytes(a, sizeof(a)) != first);
		a[bit / 8] = 0;
	}
	assert_true(hash_bytes(a, 15) != first);
}

TEST(hash, all_of_them_while_each_is_removed__each_once)
{
	static struct entry all[ENTRIES];
	struct hash h = {0};
	unsigned seen;

	for (unsigned n = 0; n <= ENTRIES; n = n ? 7 * n : 1) {
		for (unsigned i = 0; i < n; i++)
			hash_add(&h, &all[i].node, i / 3);
		seen = 0;
		hash_for_all (e, struct entry, node, &h) {
			hash_remove(&h, &e->node);
			seen++;
		}
		assert_int_equal(seen, n);
		assert_int_equal(h.n, 0);
	}
	hash_fini(&h);
}
