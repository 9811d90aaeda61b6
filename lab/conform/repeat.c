/* SPDX-License-Identifier: BSD-2-Clause */
/* A case several times: what differs now and then decides nothing. */
#include <stdlib.h>

#include "base/util.h"
#include "conform/conform.h"

/** The higher, the more a reader has to see it. */
static unsigned rank(enum conform_verdict v)
{
	switch (v) {
	case CONFORM_FAIL:
		return 3;
	case CONFORM_WARN:
		return 2;
	case CONFORM_INCONCLUSIVE:
		return 1;
	default:
		return 0;
	}
}

static void swap(struct conform_result *a, struct conform_result *b)
{
	const struct conform_result c = *a;

	*a = *b;
	*b = c;
}

static void add(struct conform_result *to, const struct conform_result *from)
{
	for (unsigned i = 0; i < from->measures && to->measures < SCENARIO_MEASURES; i++)
		to->measure[to->measures++] = from->measure[i];
	to->tries += from->tries;
	to->ns += from->ns;
}

/** More than one verdict: inconclusive, and the text has how often each was. */
static void tell_counts(struct conform_result *r, const unsigned *count, unsigned times)
{
	char *text = NULL, *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);
	const char *comma = "";

	if (!f)
		return;
	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++) {
		if (!count[i])
			continue;
		fprintf(f, "%s%u of %u times %s", comma, count[i], times, conform_verdict_text[i]);
		comma = ", ";
	}
	if (r->text)
		fprintf(f, "; %s", r->text);
	if (fclose(f) == 0)
		text = all;
	free(r->text);
	r->text = text;
	r->verdict = CONFORM_INCONCLUSIVE;
}

void conform_repeat(struct conform_session *s, const struct conform_case *c, unsigned times,
		    struct conform_result *r)
{
	unsigned count[CONFORM_VERDICT_COUNT] = {0};

	conform_run(s, c, r);
	count[r->verdict]++;
	for (unsigned i = 1; i < times && r->verdict != CONFORM_SKIP; i++) {
		struct conform_result next;

		conform_run(s, c, &next);
		count[next.verdict]++;
		if (rank(next.verdict) > rank(r->verdict))
			swap(r, &next);
		add(r, &next);
		conform_result_free(&next);
	}
	for (unsigned i = 0, kinds = 0; i < CONFORM_VERDICT_COUNT; i++) {
		kinds += count[i] != 0;
		if (kinds == 2) {
			tell_counts(r, count, times);
			break;
		}
	}
}
