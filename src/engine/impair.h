/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose, by seeded chance: what happens to each packet that a process sends, when a receive
 * that is there is not found, and when the port is down. Here the SPEC is parsed and the dice are
 * rolled; the lane acts on it (lane-impair.c), and the endpoint (RNR).
 *
 * SPEC is a comma-separated list of key=value:
 *
 *   loss, dup, reorder, corrupt   a chance per packet sent, as a percentage ("1.5%") or fraction ("0.015")
 *   delay                         a time ("10us") or a range ("10us..2ms") drawn from uniformly; ns us ms s
 *   rnr                           a chance per message that takes a receive: RNR NAK all the same (RC, XRC)
 *   flap                          "UP/DOWN", two times or ranges: the port is up so long, then down, and again
 *   seed                          a number; 0 or absent: a random one, logged at level info
 */
#ifndef ENGINE_IMPAIR_H
#define ENGINE_IMPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

#define IMPAIR_MAX_DELAY_NS 10000000000u   /* 10 s */
#define IMPAIR_MIN_FLAP_NS  10000000u	   /* 10 ms: each flap is two events for the program */
#define IMPAIR_MAX_FLAP_NS  3600000000000u /* 1 h */

/** A time, or what one is drawn from, ends included. */
struct impair_span {
	uint64_t min_ns, max_ns;
};

struct impair {
	bool on;
	double loss, dup, reorder, corrupt, rnr; /* chances, 0..1 */
	struct impair_span delay;		 /* 0, 0: none */
	struct impair_span flap_up, flap_down;	 /* 0, 0: the port stays up */
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

/** The port's ups and downs. It has dice of its own: packets do not shift the sequence. */
struct impair_link {
	struct rng rng;
	bool down;
	uint64_t next_ns; /* when that changes; UINT64_MAX: never */
};

/**
 * The sequence from its beginning, which is the start of the process, so that all its ports go down
 * together and a run can be repeated. now: CLOCK_MONOTONIC, as in impair_link_step(), which this is as well.
 */
bool impair_link_start(struct impair_link *link, const struct impair *im, uint64_t now);

/** Bring link up to date: call it when next_ns has come. @return true: link->down has changed. Of
 * several changes that are due the last one counts. */
bool impair_link_step(struct impair_link *link, const struct impair *im, uint64_t now);

/** The seed of the endpoint's dice (rocemu_ep_config::rnr_seed). */
uint64_t impair_rnr_seed(const struct impair *im);

/** Flip bits of buf[0..len), len > 0, each chosen from the same dice; at least one bit changes. */
void impair_corrupt(struct impair *im, uint8_t *buf, size_t len, unsigned bits);

#endif
