/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose: what happens to each packet that a process sends, by seeded chance. Here the
 * SPEC is parsed and the dice are rolled; the lane acts on it (lane-impair.c).
 *
 * SPEC is a comma-separated list of key=value:
 *   loss, dup, reorder, corrupt   a chance per packet, as a percentage ("1.5%") or a fraction
 * ("0.015") delay                         a time ("10us") or a range ("10us..2ms") drawn from
 * uniformly; ns us ms s seed                          a number; 0 or absent: a random one, logged
 * at level info
 */
#ifndef ENGINE_IMPAIR_H
#define ENGINE_IMPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

#define IMPAIR_MAX_DELAY_NS 10000000000u /* 10 s */

struct impair {
	bool on;
	double loss, dup, reorder, corrupt;  /* chances, 0..1 */
	uint64_t delay_min_ns, delay_max_ns; /* 0, 0: none */
	uint64_t seed;
	struct rng rng;
};

/** What becomes of one packet. Lost packets suffer nothing else. */
struct impair_fate {
	bool lost;
	bool dup;	      /* goes out twice */
	bool reorder;	      /* overtaken by the ones after it */
	uint8_t corrupt_bits; /* 0, or 1..3 bits to flip */
	uint64_t delay_ns;
};

/**
 * Parse a SPEC; NULL or "" is "off". *im is set only on success.
 * @return 0, or -EINVAL with one line in errbuf that names the bad part and what was expected.
 */
int impair_parse(struct impair *im, const char *spec, char *errbuf, size_t errlen);

/** Roll the dice for the next packet. The same seed gives the same sequence. */
struct impair_fate impair_roll(struct impair *im);

/** Flip bits of buf[0..len), len > 0, each chosen from the same dice; at least one bit changes. */
void impair_corrupt(struct impair *im, uint8_t *buf, size_t len, unsigned bits);

#endif
