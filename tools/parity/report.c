/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user gets: a table with the transcripts of differences, or JSON. */
#include <string.h>

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

static void json_string(const char *s, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void json_text(const char *s)
{
	json_string(s, strlen(s));
}

static void json_lines(const char *text)
{
	const char *sep = "";

	putchar('[');
	while (*text) {
		size_t n = strcspn(text, "\n");

		fputs(sep, stdout);
		json_string(text, n);
		text += n + (text[n] != 0);
		sep = ", ";
	}
	putchar(']');
}

static void json_result(const struct result *r)
{
	const char *sep = "";

	printf("  {\"name\": ");
	json_text(r->scenario->name);
	printf(", \"verdict\": ");
	json_text(verdict_names[r->verdict]);
	if (r->verdict == KNOWN) {
		printf(", \"why\": [");
		for (unsigned i = 0; i < r->nwhy; i++) {
			printf("%s", i ? ", " : "");
			json_text(r->why[i]);
		}
		putchar(']');
	}
	printf(", \"runs\": {");
	for (unsigned i = 0; i < RUNS; i++) {
		if (r->run[i].outcome == OUT_SKIPPED)
			continue;
		printf("%s\n    \"%s\": {\"outcome\": \"%s\", \"same_as_A\": %s, \"transcript\": ",
		       sep, run_names[i], outcomes[r->run[i].outcome],
		       strcmp(r->run[i].text, r->run[RUN_A].text) ? "false" : "true");
		json_lines(r->run[i].text);
		if (r->run[i].packets) {
			printf(", \"packets\": ");
			json_lines(r->run[i].packets);
		}
		putchar('}');
		sep = ",";
	}
	printf("}}");
}

void report_json(const struct result *results, unsigned n, const struct target t[2],
		 const char *across)
{
	unsigned counts[VERDICTS];

	count_verdicts(results, n, counts);
	printf("{\"A\": ");
	json_text(t[0].name);
	printf(", \"B\": ");
	json_text(t[1].name);
	printf(", \"across\": ");
	json_text(across ? across : "both directions");
	printf(",\n \"summary\": {");
	for (unsigned i = 0; i < VERDICTS; i++)
		printf("%s\"%s\": %u", i ? ", " : "", verdict_names[i], counts[i]);
	printf("},\n \"scenarios\": [\n");
	for (unsigned i = 0; i < n; i++) {
		json_result(&results[i]);
		puts(i + 1 < n ? "," : "");
	}
	puts("]}");
}
