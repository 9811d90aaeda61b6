/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands that state what has to come of it: effects, completions, states, timers, headers. */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

#include "scenario/internal.h"

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

bool run_expect(struct round *r)
{
	char want[2 * SCENARIO_LINE_MAX], got[SCENARIO_EFFECTS_MAX];
	unsigned n;

	if (!expected_text(r, want, sizeof(want)))
		return false;
	if (!r->b->settle)
		return compare(r, want, with_kept(r, r->b->effects(r->world, r->end, 0)));
	n = in_real_time(want);
	snprintf(got, sizeof(got), "%s", with_kept(r, r->b->effects(r->world, r->end, n)));
	in_real_time(got);
	return compare(r, want, got);
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

	return got ? read_fields_of(r, got) : fail(r, "no packet was sent");
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
