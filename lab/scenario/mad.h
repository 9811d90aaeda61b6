/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of communication management, of the language and its peer among themselves. */
#ifndef SCENARIO_MAD_H
#define SCENARIO_MAD_H

#include <rocemu/cm.h>

#include "scenario/internal.h"

/* ---- mad.c ---- */

/** A message as the line has it: m, to which the values that the line gives are written. */
void mad_set_values(const struct scenario_mad *given, struct rocemu_cm_msg *m);
/** The values that the line gives for the MAD's header. */
void mad_set_header(const struct scenario_mad *given, uint8_t mad[ROCEMU_MAD_LEN]);
/** Does the line give the member of this name? */
bool mad_gives(const struct scenario_mad *given, const char *name, uint64_t *number);

void print_mad_words(FILE *f);
/** "MESSAGE [FIELD VALUE]..." behind "mad". */
bool read_mad(struct round *r, struct scenario_packet *p);
/** "FIELD VALUE ..." of a message that came: up to a word that is no member of it. */
bool expect_mad_values(struct round *r, const uint8_t *mad, size_t len);

#endif
