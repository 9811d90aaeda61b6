/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs in a case, as lines of text: for several outputs. */
#include <string.h>

#include "conform/ladder.h"
#include "conform/report.h"

void conform_indented(FILE *f, const char *text, unsigned indent)
{
	while (*text) {
		const size_t len = strcspn(text, "\n");

		fprintf(f, "%*s%.*s\n", (int)indent, "", (int)len, text);
		text += len + (text[len] != 0);
	}
}

void conform_measures(FILE *f, const struct conform_result *r, unsigned indent)
{
	struct conform_series s;
	char text[512];

	for (unsigned at = 0; conform_series_next(r, &at, &s);) {
		conform_series_text(&s, text, sizeof(text));
		fprintf(f, "%*s%s\n", (int)indent, "", text);
	}
}

void conform_details(FILE *f, const struct conform_report *p, const struct conform_result *r,
		     unsigned indent, unsigned width)
{
	const char *line = conform_line_text(r->c, r->line);

	fprintf(f, "%*s%s, IBTA %s\n", (int)indent, "", conform_level_text[r->c->about.level],
		r->c->about.clause);
	if (r->known)
		fprintf(f, "%*sknown: %s\n", (int)indent, "", r->known);
	if (*line)
		fprintf(f, "%*s%s:%u: %s\n", (int)indent, "", r->c->s->file, r->line, line);
	conform_indented(f, r->text ? r->text : "", indent);
	conform_measures(f, r, indent);
	conform_ladder(f, r, indent, width);
	fprintf(f, "%*sAgain: ", (int)indent, "");
	conform_again(f, p, r->c);
	fputc('\n', f);
}
