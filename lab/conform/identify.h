/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of the program's personalities a device is like, by the traits that cases recorded. */
#ifndef CONFORM_IDENTIFY_H
#define CONFORM_IDENTIFY_H

#include "conform/report.h"

/** Does the case record a trait that a personality has? */
bool conform_identify_wants(const struct conform_case *c);
/** As text, and as JSON. */
void conform_identify(FILE *f, const struct conform_report *p);
void conform_identify_json(FILE *f, const struct conform_report *p);
/** Was any trait measured? */
bool conform_identified(const struct conform_report *p);

#endif
