/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>

#include "base/clock.h"
#include "engine/quickclock.h"

enum { READINGS = 2000000, MOST_WRONG = QUICKCLOCK_NS };

/* Between two readings of the clock, and no more wrong than it may be. */
static uint64_t check_now(struct quickclock *c)
{
	const uint64_t before = monotonic_ns(), now = quickclock_now(c), after = monotonic_ns();

	assert_true(now + MOST_WRONG >= before);
	assert_true(now <= after + MOST_WRONG);
	return now;
}

static void learn_rate(struct quickclock *c)
{
	const uint64_t begin = monotonic_ns();
	uint64_t took = 0;

	/* A test without a processor for a while takes longer. */
	while (took < 5 * (uint64_t)NS_PER_MS || (!c->limit && took < NS_PER_S)) {
		quickclock_now(c);
		took = monotonic_ns() - begin;
	}
}

TEST(quickclock, many_readings__as_the_clock_and_never_back)
{
	struct quickclock c = {0};
	uint64_t last = 0;

	for (unsigned i = 0; i < READINGS; i++) {
		const uint64_t now = i % 64 ? quickclock_now(&c) : check_now(&c);

		assert_true(now >= last);
		last = now;
	}
}

TEST(quickclock, rate_known__clock_is_read_seldom)
{
	struct quickclock c = {0};
	unsigned readings = 0;
	uint64_t begin;

	learn_rate(&c);
	if (!c.limit)
		skip(); /* no counter */
	begin = monotonic_ns();
	for (unsigned i = 0; i < READINGS; i++) {
		const uint64_t at = c.ticks;

		quickclock_now(&c);
		readings += c.ticks != at;
	}
	assert_true(readings <= (monotonic_ns() - begin) / (QUICKCLOCK_NS / 2) + 1);
}

TEST(quickclock, counter_jumps__time_stays_right)
{
	static const int64_t jumps[] = {-1000000000000, -100000, -1, 1, 100000, 1000000000000};

	for (unsigned i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		struct quickclock c = {0};

		learn_rate(&c);
		c.ticks += (uint64_t)jumps[i];
		for (unsigned n = 0; n < 1000; n++)
			check_now(&c);
	}
}

/* As in a suspended machine: the rate that is measured over the jump is none. */
TEST(quickclock, counter_jumps_while_the_rate_is_measured__clock_goes_on)
{
	static const int64_t jumps[] = {-1000000000000, -50000000, 50000000, 1000000000000,
					INT64_MAX};

	for (unsigned i = 0; i < sizeof(jumps) / sizeof(*jumps); i++) {
		struct quickclock c = {0};
		uint64_t begin;

		learn_rate(&c);
		c.ticks -= (uint64_t)jumps[i];
		c.first_ticks -= (uint64_t)jumps[i];
		begin = monotonic_ns();
		while (monotonic_ns() - begin < 10 * (uint64_t)NS_PER_MS)
			check_now(&c);
	}
}

TEST(quickclock, wrong_rate__time_stays_right)
{
	struct quickclock c = {0};

	learn_rate(&c);
	c.rate += c.rate / 2;
	for (unsigned n = 0; n < 10000; n++)
		check_now(&c);
}
