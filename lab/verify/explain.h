/* SPDX-License-Identifier: BSD-2-Clause */
/* Explains a capture in words and ladder diagrams. */
#ifndef VERIFY_EXPLAIN_H
#define VERIFY_EXPLAIN_H

#include "verify.h"

struct explain {
	unsigned connection; /* 0: all */
	unsigned limit;	     /* steps and rows of each diagram */
	unsigned width;	     /* columns */
};

/** After verify_finish(), of a verify that keeps packets. @return false: no memory. */
bool explain_text(struct verify *v, FILE *f, const struct explain *x);
/** All diagrams as one SVG document, limit rows in all. @return as explain_text(). */
bool explain_svg(struct verify *v, FILE *f, const char *name, const struct explain *x);

#endif
