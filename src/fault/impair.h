/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses and applies rates of injected faults: to packets, to receives (simulated RNR) and to the
 * port's state. Rates are parsed (impair-parse.c) and their dice are rolled (impair.c); rules by
 * packet are in fault.h. The lane acts on both (lane-impair.c), and the endpoint on rnr.
 *
 * The text (parse.h has its grammar) is rates, rules, or both. Rates are a comma-separated list of
 * key=value:
 *
 *   loss, dup, reorder,
 *   corrupt      a chance per packet sent, as a percentage ("1.5%") or fraction ("0.015")
 *   delay        a time ("10us") or a range ("10us..2ms"), drawn uniformly; ns us ms s. Packets of
 *                a QP stay in order except by reorder
 *   rate, queue  "1Gbit": packets leave at this rate, behind a queue of so many bytes ("64k");
 *                packets beyond it are lost. "64k/mark=16k": packets behind 16k or more get CE
 *   rnr          a chance per message that takes a receive: it gets an RNR NAK (RC, XRC)
 *   flap         "UP/DOWN", two times or ranges: how long the port is up, then down, and again
 *   seed         a number; 0 or absent: a random one, logged at level info
 */
#ifndef FAULT_IMPAIR_H
#define FAULT_IMPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "fault/fault.h"
#include "fault/verb.h"

#define IMPAIR_MAX_DELAY_NS  10000000000u   /* 10 s */
#define IMPAIR_MIN_FLAP_NS   10000000u	    /* 10 ms: each flap makes two events for the program */
#define IMPAIR_MAX_FLAP_NS   3600000000000u /* 1 h */
#define IMPAIR_MAX_RATE	     1000000000000u /* bits per second */
#define IMPAIR_MIN_QUEUE     8192u	    /* bytes: a packet has room in it */
#define IMPAIR_MAX_QUEUE     (64u << 20)    /* bytes */
#define IMPAIR_DEFAULT_QUEUE (256u << 10)   /* bytes, where rate is given alone */

struct impair {
	bool on;
	double loss, dup, reorder, corrupt, rnr; /* chances, 0..1 */
	struct fault_range delay;		 /* 0, 0: none */
	struct fault_range flap_up, flap_down;	 /* 0, 0: the port stays up */
	uint64_t rate_bps;			 /* 0: no limit */
	uint32_t queue_bytes;
	uint32_t mark_bytes; /* 0: nothing is marked */
	uint64_t seed;
	struct rng rng;	     /* of impair_roll() */
	struct rng bits_rng; /* of impair_corrupt() */
	unsigned nrules;
	struct fault_rule rule[FAULT_RULES];
	struct fault_verbs verbs; /* faults of other objects than packets */
};

/** The faults of one packet, by chance. A lost packet has no other fault. */
struct impair_action {
	bool lost;
	bool dup;	      /* goes out twice */
	uint8_t overtakers;   /* 0, or by how many packets it is to be overtaken: 1..3 */
	uint8_t corrupt_bits; /* 0, or 1..3 bits to flip */
	uint64_t delay_ns;
};

/**
 * Parse a text, or the file that "@FILE" names; NULL or "" is "off". *im is set only on success.
 * @return 0, or -EINVAL (or what reading the file gave) with one line in errbuf: the position, the
 * text there and what was expected.
 */
int impair_parse(struct impair *im, const char *spec, char *errbuf, size_t errlen);

/*
 * The same step by step, for texts from several places that are one in the end: init, add each,
 * finish. After an error *im is of no use.
 */
void impair_init(struct impair *im);
/** source: a file's name for messages, or NULL. @return 0 or -EINVAL with *e. */
int impair_add(struct impair *im, const char *text, const char *source, struct fault_error *e);
/** Check the combination of all parts, and choose the seed. @return 0 or -EINVAL with e->text. */
int impair_finish(struct impair *im, struct fault_error *e);
/** A file's text, to be freed; FAULT_TEXT_MAX bytes at most. NULL: e->text. */
char *impair_read_file(const char *path, struct fault_error *e);

/** Roll the dice for the next packet. The same seed gives the same sequence. */
struct impair_action impair_roll(struct impair *im);

/**
 * Faults by time: the port's state by flap and by rules, and other effects of rules by time. Flaps
 * have their own dice, so that packets do not shift the sequence.
 */
struct impair_link {
	struct rng rng;
	bool down;
	bool fatal;	  /* the device has failed */
	uint64_t gids;	  /* bits: GID table indices without their address */
	uint64_t rules;	  /* bits: rules of impair.verbs that are on */
	uint64_t next_ns; /* when any of these changes; UINT64_MAX: never */
	bool flap_down;
	uint64_t flap_ns;  /* when that changes */
	uint64_t start_ns; /* of the process */
};

/**
 * Starts the sequence at the start of the process, so that all its ports go down together and a run
 * can be repeated. now: CLOCK_MONOTONIC. Includes the first impair_link_step().
 */
bool impair_link_start(struct impair_link *link, const struct impair *im, uint64_t now);

/** Bring link up to date: call it when next_ns has come. @return true: something has changed. Of
 * several changes that are due the last one counts. */
bool impair_link_step(struct impair_link *link, const struct impair *im, uint64_t now);

/** The seed of the endpoint's dice (rocemu_ep_config::rnr_seed). */
uint64_t impair_rnr_seed(const struct impair *im);

/** Flip bits of buf[0..len), len > 0, each chosen by dice of their own; at least one bit changes.
 */
void impair_corrupt(struct impair *im, uint8_t *buf, size_t len, unsigned bits);

#endif
