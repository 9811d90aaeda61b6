/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands of cases about conformance: which rule a case is about, and what it records. */
#include <ctype.h>
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"

static const struct name levels[] = {
#define X(NAME, word) {#word, SCENARIO_##NAME},
	SCENARIO_LEVELS(X)
#undef X
};
static const struct name peers[] = {
#define X(NAME, word) {#word, SCENARIO_PEER_##NAME},
	SCENARIO_PEERS(X)
#undef X
};

void print_measure_words(FILE *f)
{
	PRINT(f, "levels", levels, text);
	PRINT(f, "peers", peers, text);
}

/* ---- conform ---- */

static bool need_clause(struct round *r, char *to, size_t size)
{
	const char *w = need_word(r, "a clause such as 9.7.5.2");

	if (!w)
		return false;
	for (const char *p = w; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-,", *p))
			return refuse(r, "'%s' is not a clause such as 9.7.5.2 or C9-105,CA17-24",
				      w);
	snprintf(to, size, "%s", w);
	return true;
}

/** "LEVEL CLAUSE PEER [or PEER] [may_break]" */
static bool read_conform(struct round *r, struct scenario_conform *c)
{
	unsigned level, peer, or_peer = SCENARIO_PEER_NONE;

	if (!NEED_NAME(r, levels, "a level", &level) ||
	    !need_clause(r, c->clause, sizeof(c->clause)) || !NEED_NAME(r, peers, "a peer", &peer))
		return false;
	if (take_word(r, "or") && !NEED_NAME(r, peers, "a peer", &or_peer))
		return false;
	c->or_peer = (enum scenario_peer_program)or_peer;
	c->level = (enum scenario_level)level;
	c->peer = (enum scenario_peer_program)peer;
	c->may_break = take_word(r, "may_break");
	return end_of_line(r);
}

bool run_conform(struct round *r)
{
	struct scenario_conform c;

	return read_conform(r, &c);
}

int scenario_conform(const struct scenario *s, unsigned number, struct scenario_conform *c,
		     struct scenario_error *e)
{
	const struct scenario_case *k = &s->cases[number];
	struct scenario_result result = {0};
	struct round r = {.s = s, .r = &result};

	for (unsigned i = k->first; i < k->first + k->lines; i++) {
		r.line = &s->line[i];
		r.next = 0;
		r.nwords = words_split(r.line, r.word, &result.error);
		if (!take_word(&r, "conform"))
			continue;
		if (read_conform(&r, c))
			return 1;
		*e = result.error;
		e->file = s->file;
		return -1;
	}
	return 0;
}

/* ---- what is recorded ---- */

/** A name for what is recorded: the next word. */
static const char *need_measure_name(struct round *r)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	const char *name = need_word(r, "a name");

	if (name && (name[strspn(name, known)] ||
		     strlen(name) >= sizeof(((struct scenario_measure *)0)->name))) {
		refuse(r, "'%s' is not a name of up to 31 small letters, digits and '_'", name);
		return NULL;
	}
	return name;
}

/** A trait's word, or a number. */
static bool record(struct round *r, enum scenario_measure_kind kind, const char *name,
		   const char *word, uint64_t number)
{
	struct scenario_measure *m = &r->r->measure[r->r->measures];

	if (r->r->measures == SCENARIO_MEASURES)
		return refuse(r, "more than %d measures", SCENARIO_MEASURES);
	r->r->measures++;
	*m = (struct scenario_measure){.kind = kind, .number = number};
	snprintf(m->name, sizeof(m->name), "%s", name);
	snprintf(m->word, sizeof(m->word), "%.31s", word);
	return true;
}

/** Each alternative begins with its word, which goes to word[]. */
static bool take_trait_words(struct round *r, struct alternatives *a, char *word[ALTERNATIVES])
{
	for (unsigned i = 0; i < a->n; i++) {
		char *blank = strchr(a->text[i], ' ');

		if (!blank || blank == a->text[i])
			return refuse(r, "'WORD PATTERN' is expected, not '%s'", a->text[i]);
		*blank = 0;
		word[i] = a->text[i];
		a->text[i] = blank + 1;
	}
	return true;
}

/** "NAME WORD PATTERN or WORD PATTERN" */
bool run_trait(struct round *r)
{
	char want[2 * SCENARIO_LINE_MAX], *word[ALTERNATIVES];
	const char *name = need_measure_name(r);
	struct alternatives a;
	int which;

	if (!name || !expected_text(r, want, sizeof(want)) || !split_alternatives(r, want, &a) ||
	    !take_trait_words(r, &a, word))
		return false;
	which = await_one(r, &a);
	return which < 0 ? fail_alternatives(r, &a)
			 : record(r, SCENARIO_TRAIT, name, word[which], 0);
}

/** "NAME NUMBER" */
bool run_note(struct round *r)
{
	const char *name = need_measure_name(r);
	uint64_t v;

	return name && need_number(r, "a number", UINT64_MAX, &v) && end_of_line(r) &&
	       record(r, SCENARIO_NUMBER, name, "", v);
}

/** "NAME [at_least TIME] [at_most TIME]" */
static bool measure(struct round *r, bool (*call)(void *world, uint64_t *ns), const char *none)
{
	const char *name = need_measure_name(r);
	uint64_t least = 0, most = UINT64_MAX, ns;

	if (!name || (take_word(r, "at_least") && !need_time(r, &least)) ||
	    (take_word(r, "at_most") && !need_time(r, &most)) || !end_of_line(r))
		return false;
	if (!call(r->world, &ns))
		return fail(r, "%s", none);
	if (r->log)
		fprintf(r->log, "      > %llu ns\n", (unsigned long long)ns);
	if (!record(r, SCENARIO_TIME, name, "", ns))
		return false;
	if (ns < least)
		return fail(r, "%s is %llu ns, less than %llu", name, (unsigned long long)ns,
			    (unsigned long long)least);
	return ns <= most || fail(r, "%s is %llu ns, more than %llu", name, (unsigned long long)ns,
				  (unsigned long long)most);
}

bool run_latency(struct round *r)
{
	return measure(r, r->b->latency, "no packet came behind the last one that was sent");
}

bool run_interval(struct round *r)
{
	return measure(r, r->b->interval, "fewer than two packets came");
}

/** "[repeats]" */
bool run_answer(struct round *r)
{
	const bool repeats = take_word(r, "repeats");

	return end_of_line(r) && expect_result(r, r->b->answer(r->world, repeats), 0);
}
