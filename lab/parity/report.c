/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user gets: a table with the transcripts of differences, or JSON. */
#include <string.h>

#include "base/json.h"
#include "parity.h"

const char *const verdict_names[VERDICTS] = {
	[SAME] = "same",	 [DIFFERS] = "differs",		  [KNOWN] = "known difference",
	[UNSTABLE] = "unstable", [UNSUPPORTED] = "not supported", [FAILED] = "failed",
};
static const char *const outcomes[] = {
	[OUT_SKIPPED] = "skipped",     [OUT_OK] = "ok",	    [OUT_UNSUPPORTED] = "not supported",
	[OUT_BROKEN] = "broken",       [OUT_HANG] = "hang", [OUT_CRASH] = "crash",
	[OUT_NO_DEVICE] = "no device",
};

void count_verdicts(const struct result *r, unsigned n, unsigned counts[VERDICTS])
{
	memset(counts, 0, VERDICTS * sizeof(*counts));
	for (unsigned i = 0; i < n; i++)
		counts[r[i].verdict]++;
}

/* ---- text ---- */

static void first_line(const char *text)
{
	printf("%.*s", (int)strcspn(text, "\n"), text);
}

static void print_unsupported(const struct result *r)
{
	printf(" by %s: ", r->not_a && r->not_b ? "A and B" : r->not_a ? "A" : "B");
	first_line(r->run[r->not_a ? RUN_A : RUN_B].text);
}

static void print_which(const struct result *r)
{
	const char *sep = ": ";

	for (unsigned i = RUN_B; i < RUNS; i++)
		if (r->differs & 1u << i) {
			printf("%s%s", sep, run_names[i]);
			sep = ", ";
		}
	printf(" from A");
	for (unsigned i = 0; r->verdict == KNOWN && i < r->nwhy; i++)
		printf("%s%s", i ? "; " : " (", r->why[i]);
	if (r->verdict == KNOWN)
		putchar(')');
}

static void print_row(const struct result *r)
{
	printf("%-48s %s", r->scenario->name, verdict_names[r->verdict]);
	if (r->verdict == UNSUPPORTED)
		print_unsupported(r);
	else if (r->verdict == DIFFERS || r->verdict == KNOWN || r->verdict == UNSTABLE)
		print_which(r);
	putchar('\n');
}

static void print_diff_line(void *arg, char mark, const char *text)
{
	(void)arg;
	printf("    %c %s\n", mark, text);
}

static void print_indented(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		printf("      %.*s\n", (int)n, text);
		text += n + (text[n] != 0);
	}
}

const char *against(const struct result *r)
{
	unsigned from = packets_from(r);

	return from == RUN_B ? "A (packets: B)" : "A";
}

static void print_transcripts(const struct result *r)
{
	if (r->verdict == DIFFERS || r->verdict == UNSTABLE)
		for (unsigned i = RUN_B; i < RUNS; i++) {
			if (!(r->differs & 1u << i))
				continue;
			printf("\n%s: - %s, + %s\n", r->scenario->name, against(r), run_names[i]);
			diff_run(r, i, print_diff_line, NULL);
		}
	if (r->verdict == FAILED)
		for (unsigned i = 0; i < RUNS; i++) {
			if (r->run[i].outcome <= OUT_UNSUPPORTED)
				continue;
			printf("\n%s, %s: %s\n", r->scenario->name, run_names[i],
			       outcomes[r->run[i].outcome]);
			print_indented(r->run[i].text);
		}
}

void report_table(const struct result *results, unsigned n, const struct target t[2],
		  const char *across)
{
	unsigned counts[VERDICTS];

	count_verdicts(results, n, counts);
	printf("A is %s, B is %s; across: %s\n\n", t[0].name, t[1].name,
	       across ? across : "both directions");
	for (unsigned i = 0; i < n; i++)
		print_row(&results[i]);
	for (unsigned i = 0; i < n; i++)
		print_transcripts(&results[i]);
	printf("\n%u scenarios:", n);
	for (unsigned i = 0; i < VERDICTS; i++)
		printf("%s %u %s", i ? "," : "", counts[i], verdict_names[i]);
	putchar('\n');
}

/* ---- JSON ---- */

static void lines_json(struct json *j, const char *key, const char *text)
{
	json_open(j, key, '[');
	while (*text) {
		size_t n = strcspn(text, "\n");

		json_text_n(j, NULL, text, n);
		text += n + (text[n] != 0);
	}
	json_close(j, ']');
}

static void run_json(struct json *j, const struct result *r, unsigned run)
{
	const struct transcript *t = &r->run[run];

	json_line(j);
	json_open(j, run_names[run], '{');
	json_text(j, "outcome", outcomes[t->outcome]);
	json_bool(j, "same_as_A", !strcmp(t->text, r->run[RUN_A].text));
	lines_json(j, "transcript", t->text);
	if (t->packets)
		lines_json(j, "packets", t->packets);
	json_close(j, '}');
}

static void result_json(struct json *j, const struct result *r)
{
	json_line(j);
	json_open(j, NULL, '{');
	json_text(j, "name", r->scenario->name);
	json_text(j, "verdict", verdict_names[r->verdict]);
	if (r->verdict == KNOWN) {
		json_open(j, "why", '[');
		for (unsigned i = 0; i < r->nwhy; i++)
			json_text(j, NULL, r->why[i]);
		json_close(j, ']');
	}
	json_open(j, "runs", '{');
	for (unsigned i = 0; i < RUNS; i++)
		if (r->run[i].outcome != OUT_SKIPPED)
			run_json(j, r, i);
	json_close(j, '}');
	json_close(j, '}');
}

void report_json(const struct result *results, unsigned n, const struct target t[2],
		 const char *across)
{
	struct json j = {.f = stdout};
	unsigned counts[VERDICTS];

	count_verdicts(results, n, counts);
	json_open(&j, NULL, '{');
	json_text(&j, "A", t[0].name);
	json_text(&j, "B", t[1].name);
	json_text(&j, "across", across ? across : "both directions");
	json_line(&j);
	json_open(&j, "summary", '{');
	for (unsigned i = 0; i < VERDICTS; i++)
		json_u64(&j, verdict_names[i], counts[i]);
	json_close(&j, '}');
	json_line(&j);
	json_open(&j, "scenarios", '[');
	for (unsigned i = 0; i < n; i++)
		result_json(&j, &results[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	putchar('\n');
}
