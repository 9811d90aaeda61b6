/* SPDX-License-Identifier: BSD-2-Clause */
/* Judging a capture: feed it its packets, then report. */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/capture.h"

struct verify;

/**
 * @param keep     findings of each rule that are kept per connection and direction; the rest is
 *                 only counted
 * @param packets  packets to keep for verify_html(); 0: none
 * @return NULL: no memory.
 */
struct verify *verify_new(unsigned keep, unsigned packets);
void verify_free(struct verify *v);

/** Judge the next packet of the capture. */
void verify_input(struct verify *v, const struct capture_rec *rec);

/**
 * All packets of the file at path ("-": standard input), then verify_finish().
 * @return 0, or -1: not a capture, without RoCEv2, or damaged; err has one line for the user.
 */
int verify_file(struct verify *v, const char *path, char *err, size_t errlen);

/** The capture is over. */
void verify_finish(struct verify *v);

/** Findings of severity error. */
uint64_t verify_errors(const struct verify *v);

/** Reports, after verify_finish(). colour: escape sequences for a terminal. */
void verify_text(const struct verify *v, FILE *f, const char *name, bool colour);
void verify_json(const struct verify *v, FILE *f, const char *name);
/** Of a verify that keeps packets. @return false: no memory. */
bool verify_html(struct verify *v, FILE *f, const char *name);

#endif
