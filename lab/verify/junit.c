/* SPDX-License-Identifier: BSD-2-Clause */
/* The findings as JUnit's XML: a suite for each capture, a test for each rule. */
#include <inttypes.h>

#include "base/xml.h"
#include "report.h"
#include "verify.h"

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
	xml_text(o->f, n->text);
	fputc('\n', o->f);
}

static void test_of_rule(const struct verify *v, FILE *f, const char *name, enum rule_id rule,
			 enum severity least)
{
	const char *kind = rules[rule].severity >= least ? "failure" : "system-out";
	struct one_rule o = {f, rule};

	fputs("<testcase classname=\"", f);
	xml_text(f, name);
	fprintf(f, "\" name=\"%s\"", rules[rule].id);
	if (v->by_rule[rule] == 0) {
		fputs(v->ignored[rule] ? "><skipped/></testcase>\n" : "/>\n", f);
		return;
	}
	fprintf(f, ">\n<%s", kind);
	if (rules[rule].severity >= least) {
		fprintf(f, " type=\"%s\" message=\"%" PRIu64 " times: ",
			severity_names[rules[rule].severity], v->by_rule[rule]);
		xml_text(f, rules[rule].line);
		fputc('"', f);
	}
	fputc('>', f);
	for_each_finding(v, place, &o);
	xml_text(f, rules[rule].text);
	fputs("\nWhat to do: ", f);
	xml_text(f, advices[rule].remedy);
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
	xml_text(f, name);
	fprintf(f, "\" tests=\"%u\" failures=\"%u\" skipped=\"%u\" errors=\"0\">\n",
		(unsigned)RULE_COUNT, failures, skipped);
	for (unsigned i = 0; i < RULE_COUNT; i++)
		test_of_rule(v, f, name, i, least);
	fputs("</testsuite>\n", f);
}

void verify_junit_unusable(FILE *f, const char *name, const char *why)
{
	fputs("<testsuite name=\"", f);
	xml_text(f, name);
	fputs("\" tests=\"1\" failures=\"0\" errors=\"1\">\n<testcase classname=\"", f);
	xml_text(f, name);
	fputs("\" name=\"readable\"><error message=\"", f);
	xml_text(f, why);
	fputs("\"/></testcase>\n</testsuite>\n", f);
}

void verify_junit_end(FILE *f)
{
	fputs("</testsuites>\n", f);
}
