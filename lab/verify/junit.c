/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings as JUnit's XML: a suite for each capture, a test for each rule. */
#include <inttypes.h>

#include "report.h"
#include "verify.h"

static void escaped(FILE *f, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '&' || *p == '<' || *p == '>' || *p == '"' || *p >= 0x7f)
			fprintf(f, "&#%u;", *p);
		else
			fputc(*p >= 0x20 || *p == '\n' ? *p : ' ', f);
	}
}

struct one_rule {
	FILE *f;
	enum rule_id rule;
};

static void place(const struct verify *v, const struct flow *f, const struct finding *n, void *user)
{
	const struct one_rule *o = user;

	(void)v;
	if (n->rule != o->rule)
		return;
	if (n->number != 0)
		fprintf(o->f, "packet %s", packet_name(n->number));
	else
		fputs("end", o->f);
	if (f != NULL && f->index != 0)
		fprintf(o->f, ", connection %u", f->index);
	fputs(": ", o->f);
	escaped(o->f, n->text);
	fputc('\n', o->f);
}

static void test_of_rule(const struct verify *v, FILE *f, const char *name, enum rule_id rule,
			 enum severity least)
{
	const char *kind = rules[rule].severity >= least ? "failure" : "system-out";
	struct one_rule o = {f, rule};

	fputs("<testcase classname=\"", f);
	escaped(f, name);
	fprintf(f, "\" name=\"%s\"", rules[rule].id);
	if (v->by_rule[rule] == 0) {
		fputs(v->ignored[rule] ? "><skipped/></testcase>\n" : "/>\n", f);
		return;
	}
	fprintf(f, ">\n<%s", kind);
	if (rules[rule].severity >= least) {
		fprintf(f, " type=\"%s\" message=\"%" PRIu64 " times: ",
			severity_names[rules[rule].severity], v->by_rule[rule]);
		escaped(f, rules[rule].line);
		fputc('"', f);
	}
	fputc('>', f);
	for_each_finding(v, place, &o);
	escaped(f, rules[rule].text);
	fputs("\nWhat to do: ", f);
	escaped(f, advices[rule].remedy);
	fprintf(f, "</%s>\n</testcase>\n", kind);
}

void verify_junit_begin(FILE *f)
{
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"rocemu verify\">\n",
	      f);
}

void verify_junit(const struct verify *v, FILE *f, const char *name, enum severity least)
{
	unsigned failures = 0, skipped = 0;

	for (unsigned i = 0; i < RULE_COUNT; i++) {
		failures += v->by_rule[i] != 0 && rules[i].severity >= least;
		skipped += v->ignored[i];
	}
	fputs("<testsuite name=\"", f);
	escaped(f, name);
	fprintf(f, "\" tests=\"%u\" failures=\"%u\" skipped=\"%u\" errors=\"0\">\n",
		(unsigned)RULE_COUNT, failures, skipped);
	for (unsigned i = 0; i < RULE_COUNT; i++)
		test_of_rule(v, f, name, i, least);
	fputs("</testsuite>\n", f);
}

void verify_junit_unusable(FILE *f, const char *name, const char *why)
{
	fputs("<testsuite name=\"", f);
	escaped(f, name);
	fputs("\" tests=\"1\" failures=\"0\" errors=\"1\">\n<testcase classname=\"", f);
	escaped(f, name);
	fputs("\" name=\"readable\"><error message=\"", f);
	escaped(f, why);
	fputs("\"/></testcase>\n</testsuite>\n", f);
}

void verify_junit_end(FILE *f)
{
	fputs("</testsuites>\n", f);
}
