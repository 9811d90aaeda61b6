/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/identify.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "conform/personality.h"

enum { PERSONALITIES_MAX = 32 };

/* ---- cases ---- */

static bool has_trait(const struct personality *p, const char *name)
{
	for (unsigned i = 0; i < p->traits; i++)
		if (strcmp(p->trait[i].name, name) == 0)
			return true;
	return false;
}

static bool any_has(const char *name)
{
	struct personality p;

	for (unsigned i = 0; personality_built_in(&p, i); i++)
		if (has_trait(&p, name))
			return true;
	return false;
}

bool conform_identify_wants(const struct conform_case *c)
{
	const struct scenario_case *from = &c->s->cases[c->number];
	char word[32], name[32];

	for (unsigned i = 0; i < from->lines; i++) {
		if (sscanf(c->s->line[from->first + i].text, "%31s %31s", word, name) != 2)
			continue;
		if ((!strcmp(word, "trait") || !strcmp(word, "latency") ||
		     !strcmp(word, "interval") || !strcmp(word, "note")) &&
		    any_has(name))
			return true;
	}
	return false;
}

/* ---- comparison ---- */

/** What was measured of a trait, in all cases that record it. */
struct measured {
	char text[64]; /* empty: nothing */
	bool fits;
};

static bool number_fits(const struct like_trait *t, enum scenario_measure_kind kind, uint64_t n)
{
	return t->kind == (kind == SCENARIO_TIME ? LIKE_TIME : LIKE_NUMBER) && n >= t->range.min &&
	       n <= t->range.max;
}

/** A word may be a number or a range of numbers, which have to overlap. */
static bool word_fits(const struct like_trait *t, const char *word)
{
	struct like_trait w;

	if (t->kind == LIKE_WORD)
		return strcmp(t->value, word) == 0;
	return like_value(&w, word) && w.kind == t->kind && w.range.min <= t->range.max &&
	       w.range.max >= t->range.min;
}

static void take_series(struct measured *m, const struct like_trait *t,
			const struct conform_series *s)
{
	const bool first = !*m->text;
	bool fits = true;

	if (s->kind == SCENARIO_TRAIT) {
		snprintf(m->text, sizeof(m->text), "%s", s->of[0]->word);
		for (unsigned i = 0; i < s->n; i++)
			fits &= word_fits(t, s->of[i]->word);
	} else {
		if (s->kind == SCENARIO_TIME)
			conform_time_text(s->median, m->text, sizeof(m->text));
		else
			snprintf(m->text, sizeof(m->text), "%" PRIu64, s->median);
		fits = number_fits(t, s->kind, s->median);
	}
	m->fits = fits && (first || m->fits);
}

/** @return false: it was not measured. */
static bool measure(const struct conform_report *p, const struct like_trait *t, struct measured *m)
{
	struct conform_series s;

	*m = (struct measured){0};
	for (unsigned i = 0; i < p->results; i++) {
		const struct conform_result *r = &p->result[i];

		if (r->verdict == CONFORM_INCONCLUSIVE)
			continue;
		for (unsigned at = 0; conform_series_next(r, &at, &s);)
			if (strcmp(s.name, t->name) == 0)
				take_series(m, t, &s);
	}
	return *m->text;
}

struct fit {
	unsigned number; /* of the personality */
	unsigned same, measured;
	int score; /* a difference counts more than what is the same */
};

static struct fit compare(const struct conform_report *p, const struct personality *with,
			  unsigned number)
{
	struct fit f = {.number = number};
	struct measured m;

	for (unsigned i = 0; i < with->traits; i++) {
		if (!measure(p, &with->trait[i], &m))
			continue;
		f.measured++;
		f.same += m.fits;
	}
	f.score = (int)f.same - 2 * (int)(f.measured - f.same);
	return f;
}

/** All, the best first. @return how many. */
static unsigned compare_all(const struct conform_report *p, struct fit fit[PERSONALITIES_MAX])
{
	struct personality with;
	unsigned n = 0;

	for (; n < PERSONALITIES_MAX && personality_built_in(&with, n); n++) {
		const struct fit f = compare(p, &with, n);
		unsigned at = n;

		for (; at && fit[at - 1].score < f.score; at--)
			fit[at] = fit[at - 1];
		fit[at] = f;
	}
	return n;
}

bool conform_identified(const struct conform_report *p)
{
	struct fit fit[PERSONALITIES_MAX];

	return compare_all(p, fit) && fit[0].measured;
}

/* ---- text ---- */

static void put_name(FILE *f, const struct personality *p)
{
	fprintf(f, "%s%s", p->name, p->published ? " (published, not run)" : "");
}

static void put_traits(FILE *f, const struct conform_report *p, const struct personality *with)
{
	struct measured m;

	fprintf(f, "\n  %-20s %-16s %s\n", "trait", "measured", with->name);
	for (unsigned i = 0; i < with->traits; i++) {
		const struct like_trait *t = &with->trait[i];

		if (!measure(p, t, &m))
			continue;
		fprintf(f, "  %-20s %-16s %s%s\n", t->name, m.text, t->value,
			m.fits ? "" : "   differs");
		if (!m.fits && *t->source)
			fprintf(f, "  %-20s %-16s (%s)\n", "", "", t->source);
	}
}

/** What has to run at the device for the rest. */
static void put_skipped(FILE *f, const struct conform_report *p)
{
	for (unsigned peer = 1; peer < CONFORM_PEER_COUNT; peer++) {
		unsigned n = 0;

		for (unsigned i = 0; i < p->results; i++)
			n += p->result[i].c->about.peer == peer &&
			     p->result[i].verdict == CONFORM_SKIP;
		if (n)
			fprintf(f, "%u of the cases need at the device: %s\n", n,
				conform_peer_command[peer]);
	}
}

void conform_identify(FILE *f, const struct conform_report *p)
{
	struct fit fit[PERSONALITIES_MAX];
	const unsigned n = compare_all(p, fit);
	struct personality with;

	if (!n || !fit[0].measured) {
		fprintf(f, "%s: no trait was measured\n", p->target);
		put_skipped(f, p);
		return;
	}
	personality_built_in(&with, fit[0].number);
	fprintf(f, "%s %s ", p->target,
		fit[0].same == fit[0].measured ? "behaves like" : "is nearest to");
	put_name(f, &with);
	fprintf(f, ": %u of %u traits that were measured\n", fit[0].same, fit[0].measured);
	put_traits(f, p, &with);
	fprintf(f, "\n");
	for (unsigned i = 1; i < n; i++) {
		personality_built_in(&with, fit[i].number);
		fprintf(f, "%s", i == 1 ? "others: " : ", ");
		put_name(f, &with);
		fprintf(f, " %u of %u", fit[i].same, fit[i].measured);
	}
	fprintf(f, "\n");
	put_skipped(f, p);
}

/* ---- JSON ---- */

static void put_json_traits(struct json *j, const struct conform_report *p,
			    const struct personality *with)
{
	struct measured m;

	json_open(j, "traits", '[');
	for (unsigned i = 0; i < with->traits; i++) {
		const struct like_trait *t = &with->trait[i];

		if (!measure(p, t, &m))
			continue;
		json_line(j);
		json_open(j, NULL, '{');
		json_text(j, "name", t->name);
		json_text(j, "measured", m.text);
		json_text(j, "expected", t->value);
		json_bool(j, "fits", m.fits);
		json_text(j, "source", t->source);
		json_close(j, '}');
	}
	json_close(j, ']');
}

void conform_identify_json(FILE *f, const struct conform_report *p)
{
	struct fit fit[PERSONALITIES_MAX];
	const unsigned n = compare_all(p, fit);
	struct json j = {.f = f};
	struct personality with;

	json_open(&j, NULL, '{');
	json_text(&j, "target", p->target);
	json_text(&j, "version", p->version);
	json_open(&j, "personalities", '[');
	for (unsigned i = 0; i < n; i++) {
		personality_built_in(&with, fit[i].number);
		json_line(&j);
		json_open(&j, NULL, '{');
		json_text(&j, "name", with.name);
		json_text(&j, "status", with.published ? "published, not run" : "measured");
		json_u64(&j, "fit", fit[i].same);
		json_u64(&j, "measured", fit[i].measured);
		put_json_traits(&j, p, &with);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	fprintf(f, "\n");
}
