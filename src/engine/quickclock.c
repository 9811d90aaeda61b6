/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/quickclock.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/util.h"

#ifdef __x86_64__

enum {
	PAIR_TICKS = 2000,	    /* a reading that took longer was interrupted */
	MEASURE_LEAST_NS = 1000000, /* the rate is measured over this time at least */
	MEASURE_MOST_NS =
		1000000000, /* and at most, so that it follows the counter, and fits 64 bits */
	RATE_BITS = 32,
};
/* Counters have 0.5 to 10 GHz. */
#define RATE_MOST  (2ull << RATE_BITS)
#define RATE_LEAST ((1ull << RATE_BITS) / 10)

static void measure_from(struct quickclock *c, uint64_t ticks, uint64_t ns)
{
	c->first_ticks = ticks;
	c->first_ns = ns;
}

/**
 * Is it one of a counter that ran all the time? In a suspended machine the counter may go on while
 * the clock stands still, and it jumps where a virtual machine moves.
 */
static bool is_plausible(const struct quickclock *c, uint64_t rate)
{
	const uint64_t off = rate > c->rate ? rate - c->rate : c->rate - rate;

	return rate >= RATE_LEAST && rate <= RATE_MOST && (!c->rate || off < c->rate / 8);
}

static void set_rate(struct quickclock *c, uint64_t ticks, uint64_t ns)
{
	const uint64_t passed = ticks - c->first_ticks, took = ns - c->first_ns;
	uint64_t rate;

	if (!c->first_ns || took > MEASURE_MOST_NS) {
		measure_from(c, ticks, ns);
		return;
	}
	if (took < MEASURE_LEAST_NS || !passed)
		return;
	rate = (took << RATE_BITS) / passed;
	if (!is_plausible(c, rate)) {
		measure_from(c, ticks, ns);
		c->rate = 0;
		return;
	}
	c->rate = rate;
}

/** The last time that quickclock_now() may have returned. */
static uint64_t last_ns(const struct quickclock *c, uint64_t ticks)
{
	return c->ns + (MIN(ticks - c->ticks, c->limit) * c->rate >> RATE_BITS);
}

HOT uint64_t quickclock_read(struct quickclock *c, uint64_t ticks)
{
	const uint64_t ns = monotonic_ns(), last = last_ns(c, ticks);
	/* Else the counter and the clock are of different times. */
	const bool whole = __rdtsc() - ticks <= PAIR_TICKS;

	if (whole)
		set_rate(c, ticks, ns);
	c->limit = whole && c->rate ? ((uint64_t)QUICKCLOCK_NS << RATE_BITS) / c->rate : 0;
	c->ticks = ticks;
	/* Never back, nor ahead of the clock by more than what a plausible rate makes. */
	c->ns = last > ns && last - ns < QUICKCLOCK_NS / 8 ? last : ns;
	return c->ns;
}

#else

uint64_t quickclock_read(struct quickclock *c, uint64_t ticks)
{
	(void)c;
	(void)ticks;
	return monotonic_ns();
}

#endif
