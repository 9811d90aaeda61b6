/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash by its authors' vectors, and shares of a greedy source. */
#include "base/prf.h"
#include "base/share.h"
#include "test.h"

/** The vectors of the SipHash paper's implementation: key 00 01 .. 0f, input 00 01 .. of 0, 8 and
 * 16 bytes. */
TEST(prf, authors_vectors__same)
{
	const struct prf p = {.key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
	const uint64_t words[] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

	assert_true(prf_hash(&p, words, 0) == 0x726fdb47dd0e0e31u);
	assert_true(prf_hash(&p, words, 1) == 0x93f5f5799a932462u);
	assert_true(prf_hash(&p, words, 2) == 0x3f2acc7f57c29bdbu);
}

TEST(prf, numbers__differ_by_key_and_in_turn)
{
	struct prf a = {.key = {1, 2}}, b = {.key = {1, 3}}, again = {.key = {1, 2}};
	uint64_t first = prf_u64(&a), second = prf_u64(&a);

	assert_true(first != second);
	assert_true(first != prf_u64(&b));
	assert_true(first == prf_u64(&again));
}

TEST(prf, derived__differs_each_time_and_repeats_by_key)
{
	struct prf a = {.key = {1, 2}}, again = {.key = {1, 2}};
	struct prf of_a = prf_derive(&a), other = prf_derive(&a), of_again = prf_derive(&again);
	uint64_t first = prf_u64(&of_a);

	assert_true(first != prf_u64(&other));
	assert_true(first == prf_u64(&of_again));
	assert_true(first != prf_u64(&(struct prf){.key = {1, 2}}));
}

static unsigned fill(struct share *s, unsigned cell, uint32_t limit)
{
	unsigned n = 0;

	for (; share_has_room(s, cell, limit); n++)
		share_take(s, cell);
	return n;
}

TEST(share, one_source__limit_and_the_other_half_is_left)
{
	struct share s = {0};

	assert_int_equal(fill(&s, 3, 100), 100);
	assert_int_equal(fill(&s, 4, 100), 50);
	assert_int_equal(share_greediest(&s), 3);
	share_give(&s, 3);
	assert_int_equal(s.used, 149);
	assert_true(share_has_room(&s, 200, 100));
}

TEST(share, greedy_sources__room_for_another_one)
{
	struct share s = {0};

	for (unsigned cell = 0; cell < 12; cell++)
		assert_true(fill(&s, cell, 4096) > 0);
	assert_true(fill(&s, 12, 4096) > 0);
}

/** Freed parts go to sources that have little, though the greedy ones request first. */
TEST(share, full_and_some_is_given_back__not_for_the_greedy)
{
	struct share s = {0};

	while (s.used < 2 * 4096)
		for (unsigned cell = 0; cell < SHARE_CELLS - 1; cell++)
			fill(&s, cell, 4096);
	for (unsigned i = 0; i < 2048; i++) {
		share_give(&s, 0);
		assert_false(share_has_room(&s, 0, 4096));
		assert_false(share_has_room(&s, 1, 4096));
		assert_true(share_has_room(&s, SHARE_CELLS - 1, 4096));
	}
}

TEST(share, limit_of_one__one_each_for_two)
{
	struct share s = {0};

	assert_int_equal(fill(&s, 0, 1), 1);
	assert_int_equal(fill(&s, 1, 1), 1);
	assert_int_equal(fill(&s, 2, 1), 0);
}
