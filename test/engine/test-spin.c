/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "engine/spin.h"

enum { NEED = 4 };

static const uint64_t brief = SPIN_WAIT_NS - 1;

/* Short waits without looking, until it pays. */
static unsigned waits_until_it_pays(struct spin *s)
{
	unsigned n = 0;

	for (; !spin_pays(s); n++)
		spin_waited(s, brief, false);
	return n;
}

TEST(spin, short_waits_in_a_row__pays)
{
	struct spin s;

	spin_init(&s, NEED);
	assert_false(spin_pays(&s));
	assert_int_equal(waits_until_it_pays(&s), NEED);
	spin_waited(&s, brief, true);
	assert_true(spin_pays(&s));
}

TEST(spin, one_long_wait__short_ones_counted_anew)
{
	struct spin s;

	spin_init(&s, NEED);
	waits_until_it_pays(&s);
	spin_waited(&s, SPIN_WAIT_NS, false);
	assert_false(spin_pays(&s));
	assert_int_equal(waits_until_it_pays(&s), NEED);
}

TEST(spin, in_vain__needs_twice_as_many_and_forgives)
{
	struct spin s;

	spin_init(&s, NEED);
	waits_until_it_pays(&s);
	spin_waited(&s, SPIN_NEVER, true);
	assert_int_equal(waits_until_it_pays(&s), 2 * NEED);
	spin_waited(&s, SPIN_NEVER, true);
	assert_int_equal(waits_until_it_pays(&s), 4 * NEED);
	for (unsigned i = 0; i < 4 * NEED + 2 * NEED; i++)
		spin_waited(&s, brief, true);
	spin_waited(&s, SPIN_WAIT_NS, false);
	assert_int_equal(waits_until_it_pays(&s), NEED);
}

TEST(spin, one_in_vain_after_several_that_were_not__goes_on)
{
	enum { ENOUGH = 4 };
	struct spin s;

	spin_init(&s, NEED);
	waits_until_it_pays(&s);
	for (unsigned i = 0; i < 10 * ENOUGH; i++) {
		assert_true(spin_pays(&s));
		spin_waited(&s, i % (ENOUGH + 1) == ENOUGH ? SPIN_NEVER : brief, true);
	}
	spin_waited(&s, SPIN_NEVER, true);
	spin_waited(&s, SPIN_NEVER, true);
	assert_false(spin_pays(&s));
}

/* Waits of just about the time that is looked cost most: they are soon slept through. */
TEST(spin, in_vain_for_ever__seldom_tried)
{
	enum { WAITS = 10000 };
	struct spin s;
	unsigned tried = 0;

	spin_init(&s, NEED);
	for (unsigned i = 0; i < WAITS; i++) {
		if (spin_pays(&s)) {
			tried++;
			spin_waited(&s, SPIN_NEVER, true);
		} else {
			spin_waited(&s, brief, false);
		}
	}
	assert_in_range(tried, 1, WAITS / SPIN_NEED_MAX + 10);
	assert_in_range(waits_until_it_pays(&s), 0, SPIN_NEED_MAX);
}

TEST(spin, short_and_long_waits_by_turns__never_looks)
{
	struct spin s;

	spin_init(&s, NEED);
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(spin_pays(&s));
		spin_waited(&s, i % NEED ? brief : SPIN_WAIT_NS, false);
	}
}
