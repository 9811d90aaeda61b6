/* SPDX-License-Identifier: BSD-2-Clause */
/* A run as the Test Anything Protocol, version 14. */
#include <stdlib.h>
#include <string.h>

#include "conform/ladder.h"
#include "conform/report.h"

enum { INDENT = 4, WIDTH = 100 };

/** In a line: what would begin a directive is escaped, a newline is a blank. */
static void put_line(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '#' || *text == '\\')
			fputc('\\', f);
		fputc(*text == '\n' ? ' ' : *text, f);
	}
}

static void put_directive(FILE *f, const struct conform_result *r)
{
	switch (r->verdict) {
	case CONFORM_SKIP:
	case CONFORM_UNSUPPORTED:
	case CONFORM_INCONCLUSIVE:
		fprintf(f, " # SKIP %s: ", conform_verdict_text[r->verdict]);
		put_line(f, r->text ? r->text : "");
		break;
	case CONFORM_KNOWN:
	case CONFORM_WARN:
		fprintf(f, " # TODO %s: ", conform_verdict_text[r->verdict]);
		put_line(f, r->known ? r->known : "a SHOULD");
		break;
	default:
		break;
	}
}

/** Text of several lines as YAML's. */
static void put_yaml(FILE *f, const struct conform_report *p, const struct conform_result *r)
{
	fprintf(f, "  ---\n  severity: %s\n  clause: \"%s\"\n  details: |2\n",
		conform_verdict_text[r->verdict], r->c->about.clause);
	conform_details(f, p, r, INDENT, WIDTH);
	fputs("  ...\n", f);
}

static void put_case(FILE *f, const struct conform_report *p, unsigned i)
{
	const struct conform_result *r = &p->result[i];
	const bool differs = r->verdict == CONFORM_FAIL || r->verdict == CONFORM_WARN ||
			     r->verdict == CONFORM_KNOWN;

	fprintf(f, "%sok %u - %s: ", differs ? "not " : "", i + 1, r->c->id);
	put_line(f, r->c->sentence);
	put_directive(f, r);
	fputc('\n', f);
	if (differs || r->measures)
		put_yaml(f, p, r);
}

void conform_tap(FILE *f, const struct conform_report *p)
{
	fprintf(f, "TAP version 14\n1..%u\n", p->results);
	for (unsigned i = 0; i < p->results; i++)
		put_case(f, p, i);
}
