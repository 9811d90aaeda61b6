/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ROCEMU_TIME_SCALE: a factor by which protocol timers run faster. 100: a timeout of 2 s comes
 * after 20 ms; 0.01: after 200 s. It is a divisor of waits, never of the clock: round trips,
 * injected delays and time stamps do not change.
 */
#ifndef BASE_TIMESCALE_H
#define BASE_TIMESCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

#define TIMESCALE_MIN 0.0001
#define TIMESCALE_MAX 1000000.0

/**
 * Parse a scale; NULL and "" are 1. *out is set only on success.
 * @return false: not a number in the range, and errbuf has one line with the value and what was
 * expected.
 */
bool timescale_parse(const char *text, double *out, char *errbuf, size_t errlen);

/** The value of ROCEMU_TIME_SCALE; -EINVAL with a line in errbuf, as timescale_parse(). */
int timescale_get(double *out, char *errbuf, size_t errlen);

/** A protocol's wait divided by the scale (0 counts as 1); at least 1 ns unless it was 0. */
static inline uint64_t timescale_wait(double scale, uint64_t ns)
{
	double scaled;

	/* 0 and 1, exactly. */
	if (likely(!(scale < 1 || scale > 1)) || !(scale > 0))
		return ns;
	scaled = (double)ns / scale;
	return ns && scaled < 1 ? 1 : (uint64_t)scaled;
}

#endif
