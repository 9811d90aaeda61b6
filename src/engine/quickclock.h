/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The monotonic clock between two readings of it, by the processor's time stamp counter: half the
 * cost of a reading, which is a tenth of a small message by shared memory. The counter is trusted
 * for QUICKCLOCK_NS after a reading only, and not while its rate is not as before. So if it jumps,
 * the time is at most that much wrong.
 *
 * Not thread-safe: guarded by the owner's lock. Where there is no such counter, each call reads the
 * clock.
 */
#ifndef ENGINE_QUICKCLOCK_H
#define ENGINE_QUICKCLOCK_H

#include <stdint.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

enum { QUICKCLOCK_NS = 50000 };

struct quickclock {
	uint64_t ticks, ns;		/* the counter and the clock at the last reading */
	uint64_t limit;			/* ticks for which it holds; 0: it is to be read */
	uint64_t rate;			/* ns per tick, 32 bits of them behind the point */
	uint64_t first_ticks, first_ns; /* at the reading that the rate is measured from */
};

/** Read the clock. ticks: the counter just before. @return ns of CLOCK_MONOTONIC. */
uint64_t quickclock_read(struct quickclock *c, uint64_t ticks);

/** @return ns of CLOCK_MONOTONIC. A zeroed struct is valid. */
static inline uint64_t quickclock_now(struct quickclock *c)
{
#ifdef __x86_64__
	const uint64_t ticks = __rdtsc(), passed = ticks - c->ticks;

	if (passed < c->limit)
		return c->ns + (passed * c->rate >> 32);
	return quickclock_read(c, ticks);
#else
	return quickclock_read(c, 0);
#endif
}

#endif
