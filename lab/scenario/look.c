/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that look at values by their names: counters, a queue pair's report, reasons. */
#include <ctype.h>
#include <string.h>

#include "scenario/internal.h"

/** "FIRST..LAST" */
bool range_of(struct round *r, const char *text, uint64_t max, uint64_t *first, uint64_t *last)
{
	const char *dots = strstr(text, "..");
	char front[SCENARIO_WORD_LEN];

	if (!dots)
		return refuse(r, "'%s' is not of the form FIRST..LAST", text);
	snprintf(front, sizeof(front), "%.*s", (int)(dots - text), text);
	if (!number_of(r, front, max, first) || !number_of(r, dots + 2, max, last))
		return false;
	return *first <= *last || refuse(r, "'%s' ends before it begins", text);
}

/** "NUMBER", "FIRST..LAST", or a place, which stands for its address. */
static bool need_range(struct round *r, uint64_t *first, uint64_t *last)
{
	const char *w = need_word(r, "a value");
	struct scenario_place p;

	if (!w)
		return false;
	if (strstr(w, ".."))
		return range_of(r, w, UINT64_MAX, first, last);
	r->next--;
	if (!need_place(r, &p))
		return false;
	*first = *last = p.area == SCENARIO_NOWHERE ? p.offset : r->b->address(r->world, &p);
	return true;
}

/** "NAME NUMBER" or "NAME FIRST..LAST" */
bool run_counter(struct round *r)
{
	const char *name = need_word(r, "a counter");
	uint64_t first, last, got;

	if (!name || !need_range(r, &first, &last) || !end_of_line(r))
		return false;
	if (!r->b->counter(r->world, r->end, name, &got)) {
		r->next--; /* to the name */
		return refuse(r, "'%s' is not a counter", name);
	}
	return (first <= got && got <= last) ||
	       fail(r, "%s is %llu, not %s", name, (unsigned long long)got,
		    r->word[r->nwords - 1].text);
}

/** The value is a word, or a number within a range. */
static bool expect_value(struct round *r, const char *name, const char *got)
{
	const char *want = need_word(r, "a value");
	uint64_t first, last, number;

	if (!want)
		return false;
	if (strcmp(want, got) == 0)
		return true;
	if (!isdigit((unsigned char)*got) || !number_of(r, got, UINT64_MAX, &number))
		return fail(r, "%s is %s, not %s", name, got, want);
	r->next--;
	if (!need_range(r, &first, &last))
		return false;
	return (first <= number && number <= last) || fail(r, "%s is %s, not %s", name, got, want);
}

typedef bool look_fn(void *world, unsigned end, const char *name, char *text, size_t size);

/** "NAME VALUE ..." up to the line's end. */
static bool expect_values(struct round *r, look_fn *look)
{
	char got[SCENARIO_WORD_LEN];
	const char *name;

	while ((name = next_word(r))) {
		if (!look(r->world, r->end, name, got, sizeof(got)))
			return refuse(r, "'%s' is not a value here", name);
		if (!expect_value(r, name, got))
			return false;
	}
	return true;
}

bool run_report(struct round *r)
{
	return expect_values(r, r->b->report);
}

/** "CODE NAME VALUE ..." of the next reason; or "nothing": there is none. */
bool run_why(struct round *r)
{
	char got[SCENARIO_WORD_LEN] = "nothing";
	const char *want = need_word(r, "a reason, or 'nothing'");

	if (!want)
		return false;
	if (r->b->next_why(r->world, r->end))
		r->b->why(r->world, r->end, "code", got, sizeof(got));
	if (strcmp(got, want) != 0)
		return fail(r, "the reason is %s, not %s", got, want);
	return strcmp(got, "nothing") == 0 ? end_of_line(r) : expect_values(r, r->b->why);
}

/** "NUMBER" or "FIRST..LAST". Back ends whose devices are of others pass over it. */
bool run_vendor_err(struct round *r)
{
	uint64_t first, last;
	uint32_t got;

	if (!need_range(r, &first, &last) || !end_of_line(r))
		return false;
	if (!r->b->vendor_err || !r->b->vendor_err(r->world, r->end, &got))
		return true;
	return (first <= got && got <= last) ||
	       fail(r, "vendor_err is 0x%x, not %s", got, r->word[r->nwords - 1].text);
}
