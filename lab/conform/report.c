/* SPDX-License-Identifier: BSD-2-Clause */
/* The results as text: a line for each case, what differs below it. */
#include "conform/report.h"

#include <stdlib.h>

struct conform_report {
	FILE *f;
	unsigned count[CONFORM_VERDICT_COUNT];
};

struct conform_report *conform_report_begin(FILE *f, const struct conform_options *o)
{
	struct conform_report *p = calloc(1, sizeof(*p));

	(void)o;
	if (!p)
		abort();
	p->f = f;
	return p;
}

void conform_report_add(struct conform_report *p, struct conform_result *r)
{
	p->count[r->verdict]++;
	fprintf(p->f, "%-12s %-22s %s\n", conform_verdict_text[r->verdict], r->c->id,
		r->c->sentence);
	if (r->text)
		fprintf(p->f, "             %s\n", r->text);
	for (unsigned i = 0; i < r->measures; i++) {
		const struct scenario_measure *m = &r->measure[i];

		if (m->kind == SCENARIO_TRAIT)
			fprintf(p->f, "             %s %s\n", m->name, m->word);
		else
			fprintf(p->f, "             %s %llu%s\n", m->name,
				(unsigned long long)m->number,
				m->kind == SCENARIO_TIME ? " ns" : "");
	}
	fflush(p->f);
	conform_result_free(r);
}

unsigned conform_report_end(struct conform_report *p)
{
	const unsigned failed = p->count[CONFORM_FAIL];
	const char *comma = "";

	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++) {
		if (!p->count[i])
			continue;
		fprintf(p->f, "%s%u %s", comma, p->count[i], conform_verdict_text[i]);
		comma = ", ";
	}
	putc('\n', p->f);
	free(p);
	return failed;
}

void conform_report_case(FILE *f, const struct conform_case *c, bool all)
{
	const struct scenario_case *from = &c->s->cases[c->number];

	fprintf(f, "%-22s %-7s %-14s %s\n", c->id, conform_level_text[c->about.level],
		c->about.clause, c->sentence);
	for (unsigned i = 0; all && i < from->lines; i++)
		fprintf(f, "    %s\n", c->s->line[from->first + i].text);
}
