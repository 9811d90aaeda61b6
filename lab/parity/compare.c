/* SPDX-License-Identifier: BSD-2-Clause */
/* From transcripts to verdicts. */
#include <stdlib.h>
#include <string.h>

#include "parity.h"

enum { LINES_MAX = 500 };

struct lines {
	char *copy; /* owned; NUL where the newlines were */
	const char *line[LINES_MAX];
	unsigned n;
};

static void split(struct lines *l, const char *text)
{
	char *save = NULL;

	l->n = 0;
	l->copy = strdup(text ? text : "");
	if (!l->copy)
		abort();
	for (char *s = strtok_r(l->copy, "\n", &save); s && l->n < LINES_MAX;
	     s = strtok_r(NULL, "\n", &save))
		l->line[l->n++] = s;
}

/** Longest common subsequence: transcripts are short. */
void diff(const char *a, const char *b, void (*line)(void *arg, char mark, const char *text),
	  void *arg)
{
	static uint16_t len[LINES_MAX + 1][LINES_MAX + 1];
	struct lines la, lb;
	unsigned i = 0, j = 0;

	split(&la, a);
	split(&lb, b);
	for (unsigned x = 0; x <= la.n; x++)
		len[x][lb.n] = 0;
	for (unsigned y = 0; y <= lb.n; y++)
		len[la.n][y] = 0;
	for (unsigned x = la.n; x-- > 0;)
		for (unsigned y = lb.n; y-- > 0;)
			len[x][y] = !strcmp(la.line[x], lb.line[y])
					    ? (uint16_t)(len[x + 1][y + 1] + 1)
				    : len[x + 1][y] > len[x][y + 1] ? len[x + 1][y]
								    : len[x][y + 1];
	while (i < la.n || j < lb.n) {
		if (i < la.n && j < lb.n && !strcmp(la.line[i], lb.line[j])) {
			line(arg, ' ', la.line[i]);
			i++;
			j++;
		} else if (j >= lb.n || (i < la.n && len[i + 1][j] >= len[i][j + 1])) {
			line(arg, '-', la.line[i++]);
		} else {
			line(arg, '+', lb.line[j++]);
		}
	}
	free(la.copy);
	free(lb.copy);
}

struct explain {
	const struct known_list *known;
	struct result *result;
	bool all;
};

static void add_why(struct result *r, const char *why)
{
	for (unsigned i = 0; i < r->nwhy; i++)
		if (!strcmp(r->why[i], why))
			return;
	if (r->nwhy < WHYS)
		r->why[r->nwhy++] = why;
}

static void explain_line(void *arg, char mark, const char *text)
{
	struct explain *e = arg;
	const char *why;

	if (mark == ' ')
		return;
	why = known_find(e->known, e->result->scenario->name, text);
	if (why)
		add_why(e->result, why);
	else
		e->all = false;
}

unsigned packets_from(const struct result *r)
{
	unsigned i = 0;

	while (i < RUNS && !r->run[i].packets)
		i++;
	return i;
}

static bool other_packets(const struct result *r, unsigned run)
{
	const char *mine = r->run[run].packets;

	return mine && strcmp(mine, r->run[packets_from(r)].packets) != 0;
}

void diff_run(const struct result *r, unsigned run,
	      void (*line)(void *arg, char mark, const char *text), void *arg)
{
	diff(r->run[RUN_A].text, r->run[run].text, line, arg);
	if (other_packets(r, run))
		diff(r->run[packets_from(r)].packets, r->run[run].packets, line, arg);
}

static bool bad(enum outcome o)
{
	return o == OUT_BROKEN || o == OUT_HANG || o == OUT_CRASH || o == OUT_NO_DEVICE;
}

void compare(struct result *r, const struct known_list *k)
{
	struct explain e = {.known = k, .result = r, .all = true};
	bool any_bad = false;

	for (unsigned i = 0; i < RUNS; i++)
		any_bad = any_bad || bad(r->run[i].outcome);
	r->not_a = r->run[RUN_A].outcome == OUT_UNSUPPORTED;
	r->not_b = r->run[RUN_B].outcome == OUT_UNSUPPORTED;
	r->verdict = any_bad ? FAILED : r->not_a || r->not_b ? UNSUPPORTED : SAME;
	if (r->verdict != SAME)
		return;
	for (unsigned i = RUN_B; i < RUNS; i++) {
		if (r->run[i].outcome == OUT_SKIPPED ||
		    (!strcmp(r->run[i].text, r->run[RUN_A].text) && !other_packets(r, i)))
			continue;
		r->differs |= 1u << i;
		diff_run(r, i, explain_line, &e);
	}
	if (!r->differs)
		return;
	r->verdict = e.all ? KNOWN : DIFFERS;
}
