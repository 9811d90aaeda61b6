/* SPDX-License-Identifier: BSD-2-Clause */
/* Explains a capture in words and ladder diagrams, session by session. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "ladder.h"
#include "packetlog.h"
#include "report.h"

/* Is it selected? Packets without a connection have no lesson. */
static bool wanted(const struct session *s, const struct explain *x)
{
	return x->connection == 0 ? s->kind != SESSION_OTHER : s->connection == x->connection;
}

enum { INDENT = 15 };

/* At blanks, so that lines end before width. */
static void wrapped(FILE *f, const char *text, unsigned width)
{
	unsigned room = width > 2 * INDENT ? width - INDENT : INDENT, used = 0;

	while (*text != 0) {
		unsigned len = (unsigned)strcspn(text, " ");

		if (used != 0 && used + 1 + len > room) {
			fprintf(f, "\n%*s", INDENT, "");
			used = 0;
		}
		fprintf(f, "%s%.*s", used != 0 ? " " : "", (int)len, text);
		used += len + (used != 0);
		text += len;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

/* Each step with the time when it begins. */
static void steps(const struct lesson *l, FILE *f, const struct explain *x)
{
	unsigned limit = x->limit;
	uint64_t start = lesson_packet(l, 0)->ts_ns;

	for (unsigned i = 0; i < l->step_n && i < limit; i++) {
		const struct logged *e = lesson_packet(l, l->steps[i].first);
		char text[STEP_TEXT];
		struct text t = text_start(text, sizeof(text));

		lesson_text(l, &l->steps[i], &t);
		fprintf(f, "%10.3f ms  ", (double)(e->ts_ns > start ? e->ts_ns - start : 0) / 1e6);
		wrapped(f, text, x->width);
	}
	if (l->step_n > limit)
		fprintf(f, "  ... and %u more steps (--limit)\n", l->step_n - limit);
}

static void title(const struct session *s, FILE *f)
{
	char text[256];
	struct text t = text_start(text, sizeof(text));

	lesson_title(s, &t);
	if (s->connection != 0)
		fprintf(f, "Connection %u: ", s->connection);
	fprintf(f, "%s.\n", text);
	if (s->kind == SESSION_CONNECTION) {
		fprintf(f, "%s", service_name(s->svc));
		if (s->mtu != 0)
			fprintf(f, ", path MTU %" PRIu32, s->mtu);
		fputs(".", f);
		for (unsigned i = 0; i < 2; i++) {
			if (s->side[i].psn_known)
				fprintf(f, " PSN 0 of %s's requests is %" PRIu32 ".",
					i == 0 ? "A" : "B", s->side[i].psn);
		}
		fputc('\n', f);
	}
	fputc('\n', f);
}

/* Of best and the flow's the first error or warning behind a packet. */
static const struct finding *next_finding(const struct flow *f, const struct finding *best,
					  uint64_t at)
{
	for (uint32_t i = 0; f != NULL && i < f->findings.n; i++) {
		const struct finding *n = &f->findings.kept[i];

		if (rules[n->rule].severity != SEV_NOTE && n->number > at &&
		    (best == NULL || n->number < best->number))
			best = n;
	}
	return best;
}

/* Packets with errors and warnings, in order; of each the first. */
static void findings(const struct session *s, FILE *f)
{
	const struct finding *n = NULL;
	uint64_t at = 0;

	while ((n = next_finding(s->flow->peer, next_finding(s->flow, NULL, at), at)) != NULL) {
		if (at == 0)
			fputs("\n  What to look at (\"rocemu verify --explain ID\" has the "
			      "rules):\n",
			      f);
		at = n->number;
		fprintf(f, "  packet %s, %s: %s\n", packet_name(at), rules[n->rule].id, n->text);
	}
}

static bool one(const struct verify *v, const struct session *s, FILE *f, const struct explain *x)
{
	struct ladder d = {0};
	struct lesson lesson;
	bool ok = lesson_init(&lesson, v->log, s) && ladder_init(&d, &lesson, x->limit);

	if (ok) {
		title(s, f);
		steps(&lesson, f, x);
		if (s->kind == SESSION_CONNECTION)
			findings(s, f);
		fputc('\n', f);
		ladder_text(&d, f, x->width);
	}
	ladder_fini(&d);
	lesson_fini(&lesson);
	return ok;
}

bool explain_text(struct verify *v, FILE *f, const struct explain *x)
{
	bool ok = v->log->sessions != NULL || sessions_make(v), any = false;

	for (unsigned i = 0; ok && i < v->log->session_n; i++) {
		if (!wanted(&v->log->sessions[i], x))
			continue;
		if (any)
			fputc('\n', f);
		any = true;
		ok = one(v, &v->log->sessions[i], f, x);
	}
	if (v->log->left_out != 0)
		fprintf(f, "\nThe capture has %" PRIu64 " more packets, which are not explained.\n",
			v->log->left_out);
	return ok;
}

bool explain_svg(struct verify *v, FILE *f, const char *name, const struct explain *x)
{
	bool ok = v->log->sessions != NULL || sessions_make(v);
	unsigned n = 0, rows = 0, room = ok ? v->log->session_n : 0;
	struct lesson *lessons = calloc((size_t)room + 1, sizeof(*lessons));
	struct ladder *ladders = calloc((size_t)room + 1, sizeof(*ladders));

	ok = ok && lessons != NULL && ladders != NULL;
	for (unsigned i = 0; ok && i < room && rows < x->limit; i++) {
		if (!wanted(&v->log->sessions[i], x))
			continue;
		ok = lesson_init(&lessons[n], v->log, &v->log->sessions[i]) &&
		     ladder_init(&ladders[n], &lessons[n], x->limit - rows);
		rows += ladders[n].row_n;
		n++;
	}
	if (ok)
		svg_write(ladders, n, f, name);
	for (unsigned i = 0; i < n; i++) {
		lesson_fini(&lessons[i]);
		ladder_fini(&ladders[i]);
	}
	free(lessons);
	free(ladders);
	return ok;
}
