/* SPDX-License-Identifier: BSD-2-Clause */
/* A run as JUnit's XML: a suite for each family, a test for each case. */
#include <stdlib.h>

#include "base/xml.h"
#include "conform/ladder.h"
#include "conform/report.h"

enum { WIDTH = 100 };

static bool is_failure(enum conform_verdict v)
{
	return v == CONFORM_FAIL;
}

static bool is_skipped(enum conform_verdict v)
{
	return v == CONFORM_SKIP || v == CONFORM_UNSUPPORTED || v == CONFORM_INCONCLUSIVE;
}

/** Clause, text, packets and the command, as text that is escaped. */
static void put_report(FILE *f, const struct conform_report *p, const struct conform_result *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *m = open_memstream(&text, &len);

	if (!m)
		return;
	conform_details(m, p, r, 0, WIDTH);
	if (fclose(m) == 0)
		xml_text_n(f, text, len);
	free(text);
}

static void put_attribute(FILE *f, const char *name, const char *text)
{
	fprintf(f, " %s=\"", name);
	xml_text(f, text);
	fputc('"', f);
}

static void put_case(FILE *f, const struct conform_report *p, const struct conform_result *r)
{
	fprintf(f, "<testcase classname=\"conform.%.*s\"", conform_family_len(r->c->id), r->c->id);
	put_attribute(f, "name", r->c->id);
	fprintf(f, " time=\"%.3f\">\n", (double)r->ns / 1e9);
	if (is_failure(r->verdict)) {
		fprintf(f, "<failure type=\"%s\"", conform_level_text[r->c->about.level]);
		put_attribute(f, "message", r->c->sentence);
		fputc('>', f);
		put_report(f, p, r);
		fputs("</failure>\n", f);
	} else if (is_skipped(r->verdict)) {
		fputs("<skipped", f);
		put_attribute(f, "message", r->text ? r->text : conform_verdict_text[r->verdict]);
		fputs("/>\n", f);
	} else if (r->verdict != CONFORM_PASS) {
		fprintf(f, "<system-out>%s\n", conform_verdict_text[r->verdict]);
		put_report(f, p, r);
		fputs("</system-out>\n", f);
	}
	fputs("</testcase>\n", f);
}

/** From result `from` on. @return the one behind the family. */
static unsigned put_suite(FILE *f, const struct conform_report *p, unsigned from)
{
	unsigned failures = 0, skipped = 0, to = from;
	uint64_t ns = 0;

	for (; to < p->results && conform_same_family(p->result[from].c, p->result[to].c); to++) {
		failures += is_failure(p->result[to].verdict);
		skipped += is_skipped(p->result[to].verdict);
		ns += p->result[to].ns;
	}
	fprintf(f, "<testsuite name=\"conform.%.*s\"", conform_family_len(p->result[from].c->id),
		p->result[from].c->id);
	put_attribute(f, "hostname", *p->name ? p->name : p->target);
	fprintf(f, " tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"%u\" time=\"%.3f\">\n",
		to - from, failures, skipped, (double)ns / 1e9);
	for (; from < to; from++)
		put_case(f, p, &p->result[from]);
	fputs("</testsuite>\n", f);
	return to;
}

void conform_junit(FILE *f, const struct conform_report *p)
{
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rocemu conform\">\n",
	      f);
	for (unsigned i = 0; i < p->results;)
		i = put_suite(f, p, i);
	fputs("</testsuites>\n", f);
}
