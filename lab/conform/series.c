/* SPDX-License-Identifier: BSD-2-Clause */
/* What a case measured, by names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/report.h"

static bool named_before(const struct conform_result *r, unsigned at)
{
	for (unsigned i = 0; i < at; i++)
		if (strcmp(r->measure[i].name, r->measure[at].name) == 0)
			return true;
	return false;
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void conform_series_median(struct conform_series *s)
{
	uint64_t number[SCENARIO_MEASURES];

	for (unsigned i = 0; i < s->n; i++)
		number[i] = s->of[i]->number;
	qsort(number, s->n, sizeof(*number), compare_numbers);
	s->min = number[0];
	s->median = number[s->n / 2];
	s->max = number[s->n - 1];
}

bool conform_series_next(const struct conform_result *r, unsigned *at, struct conform_series *s)
{
	while (*at < r->measures && named_before(r, *at))
		++*at;
	if (*at == r->measures)
		return false;
	s->name = r->measure[*at].name;
	s->kind = r->measure[*at].kind;
	s->n = 0;
	for (unsigned i = *at; i < r->measures; i++)
		if (strcmp(r->measure[i].name, s->name) == 0)
			s->of[s->n++] = &r->measure[i];
	conform_series_median(s);
	++*at;
	return true;
}

void conform_time_text(uint64_t ns, char *to, size_t size)
{
	if (ns < NS_PER_MS)
		snprintf(to, size, "%.1f us", (double)ns / 1e3);
	else if (ns < NS_PER_S)
		snprintf(to, size, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(to, size, "%.3f s", (double)ns / 1e9);
}

static void number_text(enum scenario_measure_kind kind, uint64_t n, char *to, size_t size)
{
	if (kind == SCENARIO_TIME)
		conform_time_text(n, to, size);
	else
		snprintf(to, size, "%" PRIu64, n);
}

/** The words, each once. */
static void words_text(const struct conform_series *s, char *to, size_t size)
{
	size_t n = (size_t)snprintf(to, size, "%s", s->name);

	for (unsigned i = 0; i < s->n && n < size; i++) {
		bool before = false;

		for (unsigned k = 0; k < i; k++)
			before |= strcmp(s->of[k]->word, s->of[i]->word) == 0;
		if (!before)
			n += (size_t)snprintf(to + n, size - n, "%s%s", i ? ", " : " ",
					      s->of[i]->word);
	}
}

void conform_series_text(const struct conform_series *s, char *to, size_t size)
{
	char min[32], median[32], max[32];

	if (s->kind == SCENARIO_TRAIT) {
		words_text(s, to, size);
		return;
	}
	number_text(s->kind, s->min, min, sizeof(min));
	number_text(s->kind, s->median, median, sizeof(median));
	number_text(s->kind, s->max, max, sizeof(max));
	if (s->n == 1)
		snprintf(to, size, "%s %s", s->name, median);
	else
		snprintf(to, size, "%s %s (%s to %s, %u times)", s->name, median, min, max, s->n);
}
