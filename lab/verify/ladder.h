/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session as a ladder diagram: two lines downwards, an arrow for each packet. What repeats, and
 * the middle of long messages, is one row.
 */
#ifndef VERIFY_LADDER_H
#define VERIFY_LADDER_H

#include <stdio.h>

#include "lesson.h"

enum row_kind { ROW_PACKET, ROW_MISSING, ROW_MORE };

struct row {
	enum row_kind kind;
	const struct logged *e; /* MORE: the last of those that are not drawn */
	uint64_t n;		/* MISSING: PSNs; MORE: packets */
	uint64_t ago_ns;	/* PACKET: since the packet before it in the session */
};

struct ladder {
	const struct lesson *lesson; /* borrowed */
	struct row *rows;	     /* owned */
	unsigned row_n;
};

/** At most limit rows; what is behind them is one more row. @return false: no memory. */
bool ladder_init(struct ladder *d, const struct lesson *l, unsigned limit);
void ladder_fini(struct ladder *d);

/** What stands at a row's arrow: "RC Send Only, PSN 3, 64 bytes (again)". */
void row_label(const struct row *r, struct text *t);
/** "+12.3 us" */
void row_time(const struct row *r, struct text *t);

/** As characters, width columns wide. */
void ladder_text(const struct ladder *d, FILE *f, unsigned width);

/** A diagram as an SVG document, light or dark as the reader has it. */
void svg_write(const struct ladder *ladders, unsigned n, FILE *f, const char *name);

#endif
