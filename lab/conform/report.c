/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of a run, and the parts of them that several outputs have. */
#include "conform/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "wire/print.h"

/* ---- results ---- */

void conform_report_begin(struct conform_report *p, const struct conform_options *o,
			  const struct rocemu_gid *from)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	p->started_ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
	print_gid(p->target, sizeof(p->target), &o->target);
	print_gid(p->from, sizeof(p->from), from);
}

const struct conform_result *conform_report_add(struct conform_report *p,
						const struct conform_result *r)
{
	if (p->results == p->room) {
		const unsigned room = p->room ? 2 * p->room : 64;
		struct conform_result *more = realloc(p->result, room * sizeof(*more));

		if (!more)
			return NULL;
		p->result = more;
		p->room = room;
	}
	p->result[p->results] = *r;
	p->count[r->verdict]++;
	p->ns += r->ns;
	return &p->result[p->results++];
}

void conform_report_free(struct conform_report *p)
{
	for (unsigned i = 0; i < p->results; i++)
		conform_result_free(&p->result[i]);
	free(p->result);
}

/* ---- parts of a result ---- */

char conform_letter(enum conform_verdict v)
{
	static const char letter[CONFORM_VERDICT_COUNT] = {
		[CONFORM_PASS] = '.',  [CONFORM_FAIL] = 'F',	     [CONFORM_WARN] = 'w',
		[CONFORM_KNOWN] = 'k', [CONFORM_MEASURED] = 'm',     [CONFORM_UNSUPPORTED] = 'u',
		[CONFORM_SKIP] = 's',  [CONFORM_INCONCLUSIVE] = '?',
	};

	return letter[v];
}

int conform_family_len(const char *id)
{
	return (int)strcspn(id, "/");
}

bool conform_same_family(const struct conform_case *a, const struct conform_case *b)
{
	const int len = conform_family_len(a->id);

	return len == conform_family_len(b->id) && memcmp(a->id, b->id, (size_t)len) == 0;
}

void conform_difference(const struct conform_result *r, struct conform_difference *d)
{
	static const char expected[] = "\n  expected: ", came[] = "\n  came:     ";
	const char *text = r->text ? r->text : "";
	const char *a = strstr(text, expected), *b = a ? strstr(a, came) : NULL;

	*d = (struct conform_difference){.what = {text, (int)strlen(text)}, .expected = {"", 0}};
	d->came = d->expected;
	if (!b)
		return;
	d->what.len = (int)(a - text);
	a += strlen(expected);
	d->expected = (struct conform_part){a, (int)(b - a)};
	b += strlen(came);
	d->came = (struct conform_part){b, (int)strlen(b)};
}

const struct scenario_line *conform_line(const struct conform_result *r)
{
	const struct scenario *s = r->c->s;

	for (unsigned i = 0; r->line && i < s->lines; i++)
		if (s->line[i].number == r->line)
			return &s->line[i];
	return NULL;
}

/* ---- measures ---- */

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

static void find_median(struct conform_series *s)
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
	find_median(s);
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

/* ---- cases ---- */

void conform_again(FILE *f, const struct conform_report *p, const struct conform_case *c)
{
	fprintf(f, "rocemu conform%s --only %s --verbose %s", p->words, c->id, p->target);
}

void conform_report_case(FILE *f, const struct conform_case *c, bool all)
{
	const struct scenario_case *from = &c->s->cases[c->number];

	fprintf(f, "%-22s %-7s %-14s %-12s %s\n", c->id, conform_level_text[c->about.level],
		c->about.clause, conform_peer_text[c->about.peer], c->sentence);
	for (unsigned i = 0; all && i < from->lines; i++)
		fprintf(f, "    %s\n", c->s->line[from->first + i].text);
}
