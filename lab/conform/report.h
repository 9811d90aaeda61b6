/* SPDX-License-Identifier: BSD-2-Clause */
/* What a run came to, for people and for programs. */
#ifndef CONFORM_REPORT_H
#define CONFORM_REPORT_H

#include "conform/conform.h"

struct conform_report;

/** f is borrowed. The program ends if there is no memory. */
struct conform_report *conform_report_begin(FILE *f, const struct conform_options *o);
/** A case was carried out. r is taken. */
void conform_report_add(struct conform_report *p, struct conform_result *r);
/** Print what remains, and free it. @return how many cases are FAIL. */
unsigned conform_report_end(struct conform_report *p);

/** A case in a line: ID, level, clause, peer, sentence; with, all: its text. */
void conform_report_case(FILE *f, const struct conform_case *c, bool all);

#endif
