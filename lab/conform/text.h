/* SPDX-License-Identifier: BSD-2-Clause */
/* A run as text, while it goes on. */
#ifndef CONFORM_TEXT_H
#define CONFORM_TEXT_H

#include "conform/report.h"

struct conform_text {
	FILE *f;    /* borrowed; NULL: no text */
	FILE *also; /* borrowed: where the case at hand is shown if it takes long; or NULL */
	bool live;  /* f is a terminal: a line for each family, which is written again */
	bool colour;
	unsigned width; /* columns */
	unsigned begun; /* cases */
	uint64_t begin_ns;
	unsigned first; /* result of the family at hand */
	unsigned row;	/* first result of the terminal's line at hand */
	bool shown;	/* there is something on also */
};

void conform_text_begin(struct conform_text *t, const struct conform_report *p);
/** A case will be carried out. */
void conform_text_case(struct conform_text *t, const struct conform_report *p,
		       const struct conform_case *c);
/** It was, and its result is the last one of p. */
void conform_text_result(struct conform_text *t, const struct conform_report *p);
/** What is to be carried out. All is borrowed. */
struct conform_plan {
	const struct conform_case **cases;
	unsigned n, repeat;
	struct conform_known *known;
};

/**
 * all.c: carry them out. It ends before if a signal comes, or the device does not answer:
 * p->stopped
 * @return false: no memory.
 */
bool conform_all(struct conform_session *s, const struct conform_plan *plan,
		 struct conform_report *p, struct conform_text *t);

void conform_text_end(struct conform_text *t, const struct conform_report *p);

#endif
