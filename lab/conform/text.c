/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run as text. On a terminal each family is a line with a letter for each case, and what differs
 * follows when the family is done. Elsewhere each case is a line, with what differs below it.
 */
#include "conform/text.h"

#include <string.h>
#include <time.h>

#include "base/util.h"
#include "conform/ladder.h"
#include "conform/session.h"

enum {
	INDENT = 13,
	LONG_NS = 1000000000,
	ID_WIDTH = 22,
	NAME_WIDTH = 10,   /* of a family */
	COUNTS_WIDTH = 16, /* " 100 of 200", and blanks */
	LETTERS_LEAST = 20,
};

/* clang-format off */
static const char *const colour[CONFORM_VERDICT_COUNT] = {
	[CONFORM_PASS] = "\033[32m",
	[CONFORM_FAIL] = "\033[1;31m",
	[CONFORM_WARN] = "\033[33m",
	[CONFORM_KNOWN] = "\033[36m",
	[CONFORM_MEASURED] = "\033[34m",
	[CONFORM_UNSUPPORTED] = "\033[2m",
	[CONFORM_SKIP] = "\033[2m",
	[CONFORM_INCONCLUSIVE] = "\033[35m",
};
/* clang-format on */

static const char *on(const struct conform_text *t, enum conform_verdict v)
{
	return t->colour ? colour[v] : "";
}

static const char *off(const struct conform_text *t)
{
	return t->colour ? "\033[0m" : "";
}

/* ---- a result ---- */

static void put_result(const struct conform_text *t, const struct conform_report *p,
		       const struct conform_result *r)
{
	fprintf(t->f, "%s%-12s%s %-*s %s\n", on(t, r->verdict), conform_verdict_text[r->verdict],
		off(t), ID_WIDTH, r->c->id, r->c->sentence);
	if (r->known)
		fprintf(t->f, "%*sknown: %s\n", INDENT, "", r->known);
	if (r->verdict == CONFORM_FAIL || r->verdict == CONFORM_WARN) {
		conform_details(t->f, p, r, INDENT, t->width);
		fputc('\n', t->f);
		return;
	}
	conform_indented(t->f, r->text ? r->text : "", INDENT);
	conform_measures(t->f, r, INDENT);
}

/* ---- a family on a terminal ---- */

/** From the line's begin on: the family, a letter for each case, the case at hand. */
static void put_row(const struct conform_text *t, const struct conform_report *p,
		    const struct conform_case *family, const struct conform_case *at)
{
	const int letters = (int)(p->results - t->row);
	const int room = (int)t->width - NAME_WIDTH - letters - COUNTS_WIDTH;

	fprintf(t->f, "\r\033[K%-*.*s ", NAME_WIDTH,
		t->row == t->first ? conform_family_len(family->id) : 0, family->id);
	for (unsigned i = t->row; i < p->results; i++) {
		const enum conform_verdict v = p->result[i].verdict;

		fprintf(t->f, "%s%c%s", on(t, v), conform_letter(v), off(t));
	}
	if (at && room > 0)
		fprintf(t->f, " %.*s %u of %u", room, at->id, t->begun, p->chosen);
	fflush(t->f);
}

/** A family that is too long for a line goes on in the next one. */
static void break_row(struct conform_text *t, const struct conform_report *p)
{
	const unsigned used = NAME_WIDTH + COUNTS_WIDTH + ID_WIDTH;

	if (p->results - t->row <
	    (t->width > used + LETTERS_LEAST ? t->width - used : LETTERS_LEAST))
		return;
	put_row(t, p, p->result[t->first].c, NULL);
	fputc('\n', t->f);
	t->row = p->results;
}

static void end_family(struct conform_text *t, const struct conform_report *p)
{
	if (t->first == p->results)
		return;
	put_row(t, p, p->result[t->first].c, NULL);
	fputc('\n', t->f);
	for (; t->first < p->results; t->first++) {
		const struct conform_result *r = &p->result[t->first];

		if (r->verdict != CONFORM_PASS && r->verdict != CONFORM_SKIP)
			put_result(t, p, r);
	}
	t->row = t->first;
}

/* ---- what is at hand, elsewhere ---- */

static void put_also(struct conform_text *t, const struct conform_report *p,
		     const struct conform_case *c)
{
	if (!t->also || conform_now() - t->begin_ns < LONG_NS)
		return;
	fprintf(t->also, "\r\033[K%u of %u: %s", t->begun, p->chosen, c->id);
	fflush(t->also);
	t->shown = true;
}

/* ---- all ---- */

/** What times of less than that mean. */
static void put_noise(const struct conform_text *t, const struct conform_report *p)
{
	char min[32], median[32], max[32];

	if (!p->has_noise)
		return;
	conform_time_text(p->noise.min_ns, min, sizeof(min));
	conform_time_text(p->noise.median_ns, median, sizeof(median));
	conform_time_text(p->noise.max_ns, max, sizeof(max));
	fprintf(t->f, "QP 1 answers in %s (%s to %s)\n", median, min, max);
}

void conform_text_begin(struct conform_text *t, const struct conform_report *p)
{
	t->begin_ns = conform_now();
	if (!t->f)
		return;
	fprintf(t->f, "%s%s%s%s from %s, %u case%s\n", p->name, *p->name ? " (" : "", p->target,
		*p->name ? ")" : "", p->from, p->chosen, p->chosen == 1 ? "" : "s");
	put_noise(t, p);
	fflush(t->f);
}

void conform_text_case(struct conform_text *t, const struct conform_report *p,
		       const struct conform_case *c)
{
	t->begun++;
	put_also(t, p, c);
	if (!t->f || !t->live)
		return;
	if (t->first < p->results && !conform_same_family(p->result[t->first].c, c))
		end_family(t, p);
	break_row(t, p);
	put_row(t, p, c, c);
}

void conform_text_result(struct conform_text *t, const struct conform_report *p)
{
	const struct conform_result *r = &p->result[p->results - 1];

	if (!t->f || t->live || r->verdict == CONFORM_SKIP)
		return;
	put_result(t, p, r);
	fflush(t->f);
}

/** IDs in lines. */
static void put_ids(const struct conform_text *t, const struct conform_report *p, const char *why)
{
	unsigned used = 0;

	for (unsigned i = 0; i < p->results; i++) {
		const struct conform_result *r = &p->result[i];
		const unsigned len = (unsigned)strlen(r->c->id) + 1;

		if (r->verdict != CONFORM_SKIP || strcmp(r->text ? r->text : "", why) != 0)
			continue;
		if (used && used + len > t->width)
			fputc('\n', t->f);
		if (!used || used + len > t->width)
			used = (unsigned)fprintf(t->f, " ");
		used += (unsigned)fprintf(t->f, " %s", r->c->id);
	}
	fputc('\n', t->f);
}

/** Why cases were skipped; a command in a line of its own, to be copied. */
static void put_why(const struct conform_text *t, unsigned n, const char *why)
{
	static const char needs[] = "needs at the device: ";
	const char *command = strncmp(why, needs, strlen(needs)) == 0 ? why + strlen(needs) : NULL;
	const char *end = command ? strstr(command, " (") : NULL;

	fprintf(t->f, "\n%s%u skipped%s: ", on(t, CONFORM_SKIP), n, off(t));
	if (!end)
		fprintf(t->f, "%s\n", why);
	else
		fprintf(t->f, "start at the device%s\n    %.*s\n", end, (int)(end - command),
			command);
}

/** Skipped cases, by what they need. */
static void put_skipped(const struct conform_text *t, const struct conform_report *p)
{
	for (unsigned i = 0; i < p->results; i++) {
		const char *why = p->result[i].text ? p->result[i].text : "";
		bool before = p->result[i].verdict != CONFORM_SKIP;
		unsigned n = 0;

		for (unsigned k = 0; k < p->results; k++) {
			const struct conform_result *r = &p->result[k];
			const bool same = r->verdict == CONFORM_SKIP &&
					  strcmp(r->text ? r->text : "", why) == 0;

			n += same;
			before |= same && k < i;
		}
		if (before)
			continue;
		put_why(t, n, why);
		put_ids(t, p, why);
	}
}

/** Of --known: what does not differ any more. */
static void put_known(const struct conform_text *t, const struct conform_report *p)
{
	for (unsigned i = 0; p->known && i < p->known->entries; i++) {
		const struct conform_known_entry *e = &p->known->entry[i];

		if (e->met && !e->differed)
			fprintf(t->f, "\n--known has %s, which does not differ: %s\n", e->id,
				e->why);
	}
}

void conform_text_end(struct conform_text *t, const struct conform_report *p)
{
	const char *comma = "\n";

	if (t->shown)
		fputs("\r\033[K", t->also);
	if (!t->f)
		return;
	if (t->live)
		end_family(t, p);
	put_skipped(t, p);
	put_known(t, p);
	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++) {
		if (!p->count[i])
			continue;
		fprintf(t->f, "%s%s%u %s%s", comma, on(t, i), p->count[i], conform_verdict_text[i],
			off(t));
		comma = ", ";
	}
	fprintf(t->f, " in %.1f s\n", (double)p->ns / 1e9);
	if (p->stopped)
		fprintf(t->f, "%sStopped behind %s, %u of %u: %s%s\n", on(t, CONFORM_FAIL),
			p->results ? p->result[p->results - 1].c->id : "the begin", p->results,
			p->chosen, p->stopped, off(t));
}
