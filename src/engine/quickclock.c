/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/quickclock.h"

#include "base/clock.h"
#include "base/util.h"

#ifdef __x86_64__

enum {
	PAIR_TICKS = 2000,	 /* a reading that took longer was interrupted */
	RATE_LEAST_NS = 1000000, /* the rate is measured over this time at least */
	RATE_BITS = 32,
	RATE_MAX_NS =
		1000000000, /* and at most, so that it follows the counter, and fits 64 bits */
};

static void set_rate(struct quickclock *c, uint64_t ticks, uint64_t ns)
{
	const uint64_t passed = ticks - c->first_ticks, took = ns - c->first_ns;

	if (!c->first_ns || took > RATE_MAX_NS || passed > INT64_MAX) {
		c->first_ticks = ticks;
		c->first_ns = ns;
		return;
	}
	if (took < RATE_LEAST_NS || !passed)
		return;
	c->rate = (took << RATE_BITS) / passed;
	c->limit = c->rate ? ((uint64_t)QUICKCLOCK_NS << RATE_BITS) / c->rate : 0;
}

/** The last time that quickclock_now() may have returned. */
static uint64_t last_ns(const struct quickclock *c, uint64_t ticks)
{
	return c->ns + (MIN(ticks - c->ticks, c->limit) * c->rate >> RATE_BITS);
}

uint64_t quickclock_read(struct quickclock *c, uint64_t ticks)
{
	const uint64_t ns = monotonic_ns(), last = last_ns(c, ticks);

	if (__rdtsc() - ticks > PAIR_TICKS) {
		/* The counter and the clock are of different times: read it again next time. */
		c->ticks = ticks - c->limit;
		c->ns = ns;
		return ns;
	}
	set_rate(c, ticks, ns);
	c->ticks = ticks;
	/* Never back, nor ahead of the clock by more than what a slightly wrong rate makes. */
	c->ns = last > ns && last - ns < QUICKCLOCK_NS / 16 ? last : ns;
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
