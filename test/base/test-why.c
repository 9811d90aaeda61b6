/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "test.h"

#include "base/why.h"

#define S UINT64_C(1000000000)

static bool passes(struct why_site *site, uint64_t object, uint64_t now_s, uint32_t *held)
{
	*held = 0;
	return why_pass(site, object, now_s * S, held);
}

TEST(why, the_same_again__held_back_and_counted)
{
	static struct why_site site;
	uint32_t held;

	assert_true(passes(&site, 1, 1000, &held));
	assert_int_equal(held, 0);
	for (unsigned i = 0; i < 5; i++)
		assert_false(passes(&site, 1, 1000 + i, &held));
	assert_false(passes(&site, 1, 1000 + WHY_INTERVAL_S - 1, &held));
	assert_true(passes(&site, 1, 1000 + WHY_INTERVAL_S, &held));
	assert_int_equal(held, 6);
	assert_false(passes(&site, 1, 1000 + WHY_INTERVAL_S + 1, &held));
	assert_true(passes(&site, 1, 1000 + 2 * WHY_INTERVAL_S, &held));
	assert_int_equal(held, 1);
}

TEST(why, another_object_or_another_reason__printed)
{
	static struct why_site one, other;
	uint32_t held;

	assert_true(passes(&one, 1, 1000, &held));
	assert_true(passes(&one, 2, 1000, &held));
	assert_true(passes(&other, 1, 1000, &held));
	assert_true(passes(&other, 0, 1000, &held));
	assert_false(passes(&one, 1, 1000, &held));
	assert_false(passes(&other, 0, 1000, &held));
}

TEST(why, many_objects__so_many_lines_of_a_reason)
{
	static struct why_site site, other;
	unsigned lines = 0;
	uint32_t held;

	for (uint64_t object = 1; object <= 10000; object++)
		lines += passes(&site, object, 1000, &held);
	assert_int_equal(lines, WHY_OBJECTS);
	/* Another reason is not held back by them, and this one goes on in the next interval. */
	assert_true(passes(&other, 1, 1001, &held));
	assert_true(passes(&site, 20000, 1000 + WHY_INTERVAL_S, &held));
}

TEST(why, the_same_again__its_values_are_not_made)
{
	unsigned made = 0;

	setenv("ROCEMU_LOG", "why", 1);
	for (unsigned i = 0; i < 3; i++)
		why_say(1, "number %u", ++made);
	assert_int_equal(made, 1);
}
