/* SPDX-License-Identifier: BSD-2-Clause */
/* Two runs compared: a device before and after an update, or two devices. */
#include <string.h>

#include "conform/past.h"

struct sums {
	unsigned worse, better, changed, added, gone;
};

/** -1: nothing was decided. */
static int rank(enum conform_verdict v)
{
	switch (v) {
	case CONFORM_FAIL:
		return 2;
	case CONFORM_WARN:
		return 1;
	case CONFORM_PASS:
	case CONFORM_KNOWN:
	case CONFORM_MEASURED:
		return 0;
	default:
		return -1;
	}
}

static void diff_verdict(FILE *f, const struct conform_past_case *a,
			 const struct conform_past_case *b, struct sums *s)
{
	const int was = rank(a->verdict), is = rank(b->verdict);
	const bool decided = was >= 0 && is >= 0;
	const char *how = decided && is > was	? "worse"
			  : decided && is < was ? "better"
						: "changed";

	s->worse += decided && is > was;
	s->better += decided && is < was;
	s->changed += !decided || is == was;
	fprintf(f, "%-8s %-22s %s -> %s: %s\n", how, b->id, conform_verdict_text[a->verdict],
		conform_verdict_text[b->verdict], b->sentence);
	if (*b->expected)
		fprintf(f, "%9sexpected: %s\n%9scame:     %s\n", "", b->expected, "", b->came);
}

static const struct conform_past_trait *find_trait(const struct conform_past_case *c,
						   const char *name)
{
	for (unsigned i = 0; i < c->traits; i++)
		if (strcmp(c->trait[i].name, name) == 0)
			return &c->trait[i];
	return NULL;
}

/** Times are never the same: they are no difference. */
static void diff_traits(FILE *f, const struct conform_past_case *a,
			const struct conform_past_case *b, struct sums *s)
{
	for (unsigned i = 0; i < b->traits; i++) {
		const struct conform_past_trait *is = &b->trait[i];
		const struct conform_past_trait *was = find_trait(a, is->name);

		if (!was || is->time || strcmp(was->value, is->value) == 0)
			continue;
		fprintf(f, "%-8s %-22s %s: %s -> %s\n", "changed", b->id, is->name, was->value,
			is->value);
		s->changed++;
	}
}

static void put_run(FILE *f, const struct conform_past *p)
{
	fprintf(f, "%s: %s, %s, rocemu %s, %u cases\n", p->path, conform_past_name(p), p->started,
		p->version, p->ncases);
}

unsigned conform_diff(FILE *f, const struct conform_past *a, const struct conform_past *b)
{
	struct sums s = {0};

	put_run(f, a);
	put_run(f, b);
	for (unsigned i = 0; i < b->ncases; i++) {
		const struct conform_past_case *is = &b->cases[i];
		const struct conform_past_case *was = conform_past_find(a, is->id);

		if (!was) {
			fprintf(f, "%-8s %-22s %s: %s\n", "new", is->id,
				conform_verdict_text[is->verdict], is->sentence);
			s.added++;
			continue;
		}
		if (was->verdict != is->verdict)
			diff_verdict(f, was, is, &s);
		diff_traits(f, was, is, &s);
	}
	for (unsigned i = 0; i < a->ncases; i++) {
		if (conform_past_find(b, a->cases[i].id))
			continue;
		fprintf(f, "%-8s %-22s %s: %s\n", "gone", a->cases[i].id,
			conform_verdict_text[a->cases[i].verdict], a->cases[i].sentence);
		s.gone++;
	}
	fprintf(f, "%u worse, %u better, %u changed, %u new, %u gone\n", s.worse, s.better,
		s.changed, s.added, s.gone);
	return s.worse;
}
