/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks a capture: feed it the packets, then report. */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rules.h"
#include "capture/capture-read.h"

struct verify;

/**
 * @param keep     findings of each rule that are kept per connection and direction; the rest is
 *                 only counted
 * @param packets  packets to keep for verify_html(); 0: none
 * @return NULL: no memory.
 */
struct verify *verify_new(unsigned keep, unsigned packets);
void verify_free(struct verify *v);

/**
 * Findings that are not made, but counted; before any input. Without ICRC_WRONG packets are judged
 * whatever their ICRC is.
 */
void verify_ignore(struct verify *v, const bool ignored[RULE_COUNT]);

/** UDP ports of RoCEv2 in place of 4791; 1 <= n <= ENCAP_PORTS. */
void verify_ports(struct verify *v, const uint16_t *ports, unsigned n);

/**
 * For long runs: print findings to f (borrowed) as they are made, and drop the longest idle
 * connections when there are more than `most` directions.
 */
void verify_follow(struct verify *v, FILE *f, bool json, unsigned most);

/** *stop not 0: end as if the capture ended; borrowed. As capture_reader_stop_at(). */
void verify_stop_at(struct verify *v, const volatile sig_atomic_t *stop);

/** Judge the next packet of the capture. */
void verify_input(struct verify *v, const struct capture_rec *rec);

/**
 * All packets of the file at path ("-": standard input), then verify_finish().
 * @return 0, or -1: not a capture, without RoCEv2, or damaged; err has one line for the user.
 */
int verify_file(struct verify *v, const char *path, char *err, size_t errlen);

/** As verify_file(), of what passes at a network interface until *stop. */
int verify_live(struct verify *v, const char *interface, char *err, size_t errlen);

/** Nothing came for a while, now_ns: findings that wait for the next packet are made. */
void verify_idle(struct verify *v, uint64_t now_ns);

/** The capture is over. */
void verify_finish(struct verify *v);

/** Findings of each severity. */
uint64_t verify_errors(const struct verify *v);
uint64_t verify_warnings(const struct verify *v);
uint64_t verify_notes(const struct verify *v);

/** Reports, after verify_finish(). colour: escape sequences for a terminal. */
void verify_text(const struct verify *v, FILE *f, const char *name, bool colour);
void verify_json(const struct verify *v, FILE *f, const char *name);
/** Of a verify that keeps packets. @return false: no memory. */
bool verify_html(struct verify *v, FILE *f, const char *name);

/** JUnit's XML: begin, a suite for each capture, end. Findings of severity `least` and worse fail.
 */
void verify_junit_begin(FILE *f);
void verify_junit(const struct verify *v, FILE *f, const char *name, enum severity least);
void verify_junit_unusable(FILE *f, const char *name, const char *why);
void verify_junit_end(FILE *f);

/** What is new, gone or changed in b. */
void verify_diff(const struct verify *a, const struct verify *b, const char *name_a,
		 const char *name_b, bool json, FILE *f);
/** b has more findings of a rule of severity `least` or worse. */
bool verify_worse(const struct verify *a, const struct verify *b, enum severity least);

/** Findings to keep for verify_annotate() beside those that are reported; before any input. */
void verify_keep(struct verify *v, unsigned keep);
/**
 * Copy the capture at `in`, which v has judged, to a pcapng file with the findings as comments.
 * @return 0, or -1: err has one line for the user.
 */
int verify_annotate(struct verify *v, const char *in, const char *out, char *err, size_t errlen);

#endif
