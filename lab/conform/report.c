/* SPDX-License-Identifier: BSD-2-Clause */
/* The results of a run, and the parts of them that several outputs have. */
#include "conform/report.h"

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

const char *conform_line_text(const struct conform_case *c, unsigned number)
{
	for (unsigned i = 0; number && i < c->s->lines; i++)
		if (c->s->line[i].number == number)
			return c->s->line[i].text + strspn(c->s->line[i].text, " \t");
	return "";
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
