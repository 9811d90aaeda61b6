/* SPDX-License-Identifier: BSD-2-Clause */
/* Which instruction of a copy accesses which bytes of the memory that others see. */
#include <stdbool.h>
#include <string.h>

#include "base/words.h"
#include "steps.h"
#include "test.h"

enum { MARGIN = 64, MOST = 256, ALL = MARGIN + MOST + MARGIN };

/* Shared with the child. */
struct memory {
	_Alignas(64) uint8_t watched[ALL];
	uint8_t other[MOST]; /* the other side of the copy */
};

/* The copy of len bytes at off of watched. */
struct run {
	struct memory *m;
	size_t off, len;
	unsigned step;
	unsigned access[ALL]; /* the step at which a byte was accessed */
	size_t next;	      /* behind the last store */
	size_t last;	      /* its length */
};

static const size_t LENGTHS[] = {0,  1,	 2,   3,   4,	5,   6,	  7,   8,   9,	 10,  11,
				 12, 13, 14,  15,  16,	17,  20,  24,  28,  31,	 32,  33,
				 40, 47, 48,  49,  60,	63,  64,  65,  72,  79,	 80,  81,
				 96, 99, 100, 127, 128, 129, 136, 191, 192, 200, MOST};

static void each_copy(void (*check)(struct run *r))
{
	struct memory *m = steps_memory(sizeof(*m));

	for (size_t off = MARGIN; off < MARGIN + 16; off++) {
		for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(LENGTHS[0]); i++) {
			struct run r = {.m = m, .off = off, .len = LENGTHS[i]};

			check(&r);
		}
	}
}

static void assert_words_whole(const struct run *r)
{
	for (size_t word = 2; word <= 8; word *= 2) {
		for (size_t at = (r->off + word - 1) / word * word; at + word <= r->off + r->len;
		     at += word) {
			for (size_t i = 1; i < word; i++) {
				if (r->access[at + i] != r->access[at])
					fail_msg("of %zu bytes at %zu, the word of %zu at %zu is "
						 "accessed in parts",
						 r->len, r->off, word, at);
			}
		}
	}
}

static void store(void *arg)
{
	const struct run *r = arg;

	words_store(r->m->watched + r->off, r->m->other, r->len);
}

/* What was stored is cleared, so that a second store shows. */
static void store_seen(void *arg)
{
	struct run *r = arg;
	size_t stored = 0;

	r->step++;
	for (size_t i = 0; i < ALL; i++) {
		if (!r->m->watched[i])
			continue;
		if (i < r->next || i >= r->off + r->len)
			fail_msg("of %zu bytes at %zu, that at %zu is stored again, or should not "
				 "be",
				 r->len, r->off, i);
		assert_int_equal(r->m->watched[i], r->m->other[i - r->off]);
		r->m->watched[i] = 0;
		r->access[i] = r->step;
		r->next = i + 1;
		r->last = ++stored;
	}
}

static void check_store(struct run *r)
{
	r->next = r->off;
	for (size_t i = 0; i < MOST; i++)
		r->m->other[i] = (uint8_t)(i % 255 + 1);
	steps_run(store, store_seen, r);
	assert_int_equal(r->next, r->len ? r->off + r->len : r->off);
	for (size_t i = r->off; i < r->off + r->len; i++)
		assert_true(r->access[i]);
	assert_words_whole(r);
	assert_true(r->last <= 8);
}

TEST(words_store, each_range__bytes_once_upwards_words_whole_last_ones_last)
{
	each_copy(check_store);
}

static void load(void *arg)
{
	const struct run *r = arg;

	words_load(r->m->other, r->m->watched + r->off, r->len);
}

/* Each instruction finds other bytes. */
static void load_seen(void *arg)
{
	struct run *r = arg;

	memset(r->m->watched, (int)(++r->step % 255 + 1), ALL);
}

static void check_load(struct run *r)
{
	memset(r->m->other, 0, MOST);
	memset(r->m->watched, 1, ALL);
	steps_run(load, load_seen, r);
	for (size_t i = 0; i < MOST; i++) {
		assert_int_equal(r->m->other[i] != 0, i < r->len);
		r->access[r->off + i] = r->m->other[i];
	}
	assert_words_whole(r);
}

TEST(words_load, each_range__words_whole)
{
	each_copy(check_load);
}
