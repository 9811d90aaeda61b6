/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The result as it stands in a document: how many scenarios of each subject came to which verdict,
 * and each that is not the same, with the reason.
 */
#include <string.h>

#include "parity.h"

/** Length of a scenario's subject: "data/rc" of "data/rc/send/1", "query" of "query/port". */
static size_t subject_len(const char *name)
{
	const char *slash = strchr(name, '/');

	if (!slash)
		return strlen(name);
	if (!strncmp(slash, "/rc/", 4) || !strncmp(slash, "/uc/", 4) || !strncmp(slash, "/ud/", 4))
		return (size_t)(slash - name) + 3;
	return (size_t)(slash - name);
}

static bool same_subject(const char *a, const char *b)
{
	size_t n = subject_len(a);

	return n == subject_len(b) && !strncmp(a, b, n);
}

static void row(const char *subject, size_t len, const unsigned counts[VERDICTS])
{
	unsigned sum = 0;

	for (unsigned i = 0; i < VERDICTS; i++)
		sum += counts[i];
	printf("| %.*s | %u |", (int)len, subject, sum);
	for (unsigned i = 0; i < VERDICTS; i++)
		printf(counts[i] ? " %u |" : " |", counts[i]);
	putchar('\n');
}

/** A row of the subject of r[first], unless an earlier scenario has had it. */
static void subject_row(const struct result *r, unsigned n, unsigned first)
{
	const char *name = r[first].scenario->name;
	unsigned counts[VERDICTS] = {0};

	for (unsigned i = 0; i < first; i++)
		if (same_subject(r[i].scenario->name, name))
			return;
	for (unsigned i = first; i < n; i++)
		if (same_subject(r[i].scenario->name, name))
			counts[r[i].verdict]++;
	row(name, subject_len(name), counts);
}

static void escaped(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '|')
			putchar('\\');
		putchar(text[i]);
	}
}

/* ---- differences that are known: an explanation, and what it explains ---- */

static bool explains(const char *why, const struct result *r)
{
	for (unsigned i = 0; i < r->nwhy; i++)
		if (!strcmp(r->why[i], why))
			return r->verdict == KNOWN;
	return false;
}

static void known_row(const struct result *r, unsigned n, unsigned first, const char *why)
{
	const char *sep = "";

	for (unsigned i = 0; i < first; i++)
		if (explains(why, &r[i]))
			return;
	printf("| ");
	escaped(why, strlen(why));
	printf(" | ");
	for (unsigned i = first; i < n; i++) {
		if (!explains(why, &r[i]))
			continue;
		printf("%s`%s`", sep, r[i].scenario->name);
		sep = ", ";
	}
	puts(" |");
}

static void known_table(const struct result *r, unsigned n, unsigned count)
{
	if (!count)
		return;
	puts("\n| known difference | where |\n|---|---|");
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = 0; r[i].verdict == KNOWN && j < r[i].nwhy; j++)
			known_row(r, n, i, r[i].why[j]);
}

/* ---- the others ---- */

static void diff_line(void *arg, char mark, const char *text)
{
	(void)arg;
	printf("    %c %s\n", mark, text);
}

static const char *reason(const struct result *r)
{
	return r->run[r->not_a ? RUN_A : RUN_B].text;
}

static bool same_reason(const struct result *a, const struct result *b)
{
	size_t n = strcspn(reason(a), "\n");

	return a->verdict == UNSUPPORTED && b->verdict == UNSUPPORTED && a->not_a == b->not_a &&
	       a->not_b == b->not_b && n == strcspn(reason(b), "\n") &&
	       !strncmp(reason(a), reason(b), n);
}

static void unsupported_row(const struct result *r, unsigned n, unsigned first)
{
	const char *sep = "";

	for (unsigned i = 0; i < first; i++)
		if (same_reason(&r[i], &r[first]))
			return;
	printf("| by %s: ", r[first].not_a && r[first].not_b ? "both" : r[first].not_a ? "A" : "B");
	escaped(reason(&r[first]), strcspn(reason(&r[first]), "\n"));
	printf(" | ");
	for (unsigned i = first; i < n; i++) {
		if (!same_reason(&r[i], &r[first]))
			continue;
		printf("%s`%s`", sep, r[i].scenario->name);
		sep = ", ";
	}
	puts(" |");
}

static void unsupported_table(const struct result *r, unsigned n, unsigned count)
{
	if (!count)
		return;
	puts("\n| not supported | where |\n|---|---|");
	for (unsigned i = 0; i < n; i++)
		if (r[i].verdict == UNSUPPORTED)
			unsupported_row(r, n, i);
}

static void print_other(const struct result *r)
{
	if (r->verdict == FAILED)
		printf("\n`%s`: failed\n", r->scenario->name);
	if (r->verdict != DIFFERS && r->verdict != UNSTABLE)
		return;
	for (unsigned i = RUN_B; i < RUNS; i++) {
		if (!(r->differs & 1u << i))
			continue;
		printf("\n`%s`: %s; - %s, + %s\n\n", r->scenario->name, verdict_names[r->verdict],
		       against(r), run_names[i]);
		diff_run(r, i, diff_line, NULL);
	}
}

void report_markdown(const struct result *results, unsigned n, const struct target t[2],
		     const char *across)
{
	unsigned counts[VERDICTS];

	printf("A is %s, B is %s; across: %s.\n\n| scenarios | of them |", t[0].name, t[1].name,
	       across ? across : "both directions");
	for (unsigned i = 0; i < VERDICTS; i++)
		printf(" %s |", verdict_names[i]);
	printf("\n|---|---|");
	for (unsigned i = 0; i < VERDICTS; i++)
		printf("---|");
	putchar('\n');
	for (unsigned i = 0; i < n; i++)
		subject_row(results, n, i);
	count_verdicts(results, n, counts);
	row("all", 3, counts);
	known_table(results, n, counts[KNOWN]);
	unsupported_table(results, n, counts[UNSUPPORTED]);
	for (unsigned i = 0; i < n; i++)
		print_other(&results[i]);
}
