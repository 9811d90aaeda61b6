/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that state what has to come of it: effects, completions, states, timers, headers. */
#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>

#include "scenario/mad.h"
#include "scenario/peer.h"

#include "base/util.h"

bool expected_text(struct round *r, char *to, size_t size)
{
	size_t n = 0;
	const char *w;

	*to = 0;
	while ((w = next_word(r))) {
		if (n && n < size)
			to[n++] = ' ';
		for (; *w; w++) {
			char sum[SCENARIO_WORD_LEN];
			size_t len = strcspn(w, "}");
			uint64_t v;

			if (n + 24 > size)
				return refuse(r, "the line with its values has more than %zu bytes",
					      size - 24);
			if (*w != '{') {
				to[n++] = *w;
				continue;
			}
			memcpy(sum, w + 1, len);
			sum[len ? len - 1 : 0] = 0;
			if (!w[len])
				return refuse(r, "'}' is missing in '%s'", w);
			if (!number_of(r, sum, UINT64_MAX, &v))
				return false;
			n += (size_t)snprintf(to + n, size - n, "%llu", (unsigned long long)v);
			w += len;
		}
		to[n] = 0;
	}
	return n || refuse(r, "what has to come is missing; or 'nothing'");
}

bool compare(struct round *r, const char *want, const char *got)
{
	if (!*got)
		got = "nothing";
	if (r->log)
		fprintf(r->log, "      > %s\n", got);
	return fnmatch(want, got, FNM_NOESCAPE) == 0 ||
	       fail(r, "what came is not what is expected\n  expected: %s\n  came:     %.7000s",
		    want, got);
}

static bool ends_in_or(const char *text)
{
	const size_t len = strlen(text);

	return len >= 3 && strcmp(text + len - 3, " or") == 0;
}

bool split_alternatives(struct round *r, char *text, struct alternatives *a)
{
	static const char between[] = " or ";

	a->n = 0;
	for (char *next; text; text = next) {
		if (a->n == ALTERNATIVES)
			return refuse(r, "more than %d alternatives", ALTERNATIVES);
		next = strstr(text, between);
		if (next) {
			*next = 0;
			next += strlen(between);
		}
		if (strcmp(text, "or") == 0 || strncmp(text, "or ", 3) == 0 || ends_in_or(text))
			return refuse(r, "a pattern is missing beside 'or'");
		a->text[a->n++] = text;
	}
	return true;
}

static int find_alternative(const struct alternatives *a)
{
	for (unsigned i = 0; i < a->n; i++)
		if (fnmatch(a->text[i], *a->came ? a->came : "nothing", FNM_NOESCAPE) == 0)
			return (int)i;
	return -1;
}

/** The smallest of the numbers that is at least that; UINT_MAX: none. */
static unsigned next_count(const unsigned *count, unsigned n, unsigned least)
{
	unsigned next = UINT_MAX;

	for (unsigned i = 0; i < n; i++)
		if (count[i] >= least)
			next = MIN(next, count[i]);
	return next;
}

/** Wait for more effects, which are put behind all those that came. @return how many are there. */
static unsigned add_effects(struct round *r, struct alternatives *a, char *all, unsigned more)
{
	const char *got = with_kept(r, r->b->effects(r->world, r->end, more));

	if (*got)
		list_append(all, SCENARIO_EFFECTS_MAX, got, strlen(got));
	memcpy(a->came, all, SCENARIO_EFFECTS_MAX);
	in_real_time(a->came);
	return *all ? list_items(all) : 0;
}

/** What comes now may make it one of them: of an ACK at its end nothing is left behind a later
 * one, and '*' stands for any number of effects. */
static bool may_match_later(const struct alternatives *a, const unsigned *count)
{
	const char *last = strrchr(a->came, ';');
	const unsigned n = *a->came ? list_items(a->came) : 0;

	last = last ? last + 2 : a->came;
	for (unsigned i = 0; i < a->n; i++)
		if (strchr(a->text[i], '*') ||
		    (n <= count[i] && strncmp(last, "ack ", strlen("ack ")) == 0))
			return true;
	return false;
}

/** Alternatives may have different numbers of effects: the shortest ones are tried first. */
static int await_in_real_time(struct round *r, struct alternatives *a)
{
	char all[SCENARIO_EFFECTS_MAX] = "";
	unsigned count[ALTERNATIVES], have = 0, want;
	int which = -1;

	for (unsigned i = 0; i < a->n; i++)
		count[i] = in_real_time(a->text[i]);
	for (want = next_count(count, a->n, 0); want != UINT_MAX && which < 0;
	     want = next_count(count, a->n, want + 1)) {
		have = add_effects(r, a, all, want > have ? want - have : 0);
		which = find_alternative(a);
		if (have < want)
			return which; /* no more will come */
	}
	while (which < 0 && may_match_later(a, count)) {
		const unsigned before = have;

		have = add_effects(r, a, all, 1);
		if (have == before)
			break;
		which = find_alternative(a);
	}
	return which;
}

int await_one(struct round *r, struct alternatives *a)
{
	int which;

	if (r->b->settle) {
		which = await_in_real_time(r, a);
	} else {
		const char *got = with_kept(r, r->b->effects(r->world, r->end, 0));

		snprintf(a->came, sizeof(a->came), "%s", got);
		which = find_alternative(a);
	}
	if (!*a->came)
		strcpy(a->came, "nothing");
	if (r->log)
		fprintf(r->log, "      > %s\n", a->came);
	return which;
}

bool fail_alternatives(struct round *r, const struct alternatives *a)
{
	char want[2 * SCENARIO_LINE_MAX] = "";
	size_t n = 0;

	for (unsigned i = 0; i < a->n && n < sizeof(want); i++)
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%s", i ? " or " : "",
				      a->text[i]);
	return fail(r, "what came is not what is expected\n  expected: %s\n  came:     %.7000s",
		    want, a->came);
}

bool run_expect(struct round *r)
{
	char want[2 * SCENARIO_LINE_MAX];
	struct alternatives a;

	return expected_text(r, want, sizeof(want)) && split_alternatives(r, want, &a) &&
	       (await_one(r, &a) >= 0 || fail_alternatives(r, &a));
}

bool run_completions(struct round *r)
{
	char want[2 * SCENARIO_LINE_MAX];
	uint64_t n = 0;
	bool given = r->next < r->nwords && isdigit((unsigned char)*r->word[r->next].text);

	if (given && !need_number(r, "a number", UINT32_MAX, &n))
		return false;
	if (!expected_text(r, want, sizeof(want)))
		return false;
	for (const char *p = want; !given && p; p = strchr(p + 1, ';'))
		n++;
	if (strcmp(want, "nothing") == 0)
		n = 0;
	return compare(r, want, with_kept(r, r->b->completions(r->world, r->end, (unsigned)n)));
}

bool run_ignore(struct round *r)
{
	const bool repeats = take_word(r, "repeats");

	if (repeats || take_word(r, "none")) {
		if (!r->b->ignore_repeats)
			return cannot(r, "ignore repeats");
		r->b->ignore_repeats(r->world, repeats);
		return end_of_line(r);
	}
	r->ignored[r->end] |= take_word(r, "rest");
	if (!end_of_line(r))
		return false;
	with_kept(r, r->b->effects(r->world, r->end, 0));
	return true;
}

bool run_state(struct round *r)
{
	enum ibv_qp_state want, got;

	if (!need_state(r, &want) || !end_of_line(r))
		return false;
	got = r->b->state(r->world, r->end);
	return got == want || fail(r, "the state is %s, not %s", state_text(got), state_text(want));
}

bool run_last(struct round *r)
{
	const struct rocemu_packet *got = r->b->last(r->world, r->end);

	if (!got)
		return fail(r, "no packet was sent");
	if (scenario_is_mad(&got->h) &&
	    !expect_mad_values(r, r->b->memory(r->world, r->end, SCENARIO_LAST), got->payload_len))
		return false;
	return read_fields_of(r, got);
}

bool run_deadline(struct round *r)
{
	uint64_t want, got;
	bool runs = r->b->deadline(r->world, &got);

	if (take_word(r, "never"))
		return end_of_line(r) &&
		       (!runs || fail(r, "a timer runs out in %llu ns", (unsigned long long)got));
	if (!need_time(r, &want) || !end_of_line(r))
		return false;
	if (!runs)
		return fail(r, "no timer runs");
	return got == want || fail(r, "the next timer runs out in %llu ns, not %llu",
				   (unsigned long long)got, (unsigned long long)want);
}
