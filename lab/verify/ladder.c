/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of a ladder diagram, and the diagram as characters. */
#include "ladder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

enum { LONG_STEP = 8, HEAD = 3, LABEL_MAX = 160, LEFT = 21 };

/* The middle of a long message is not drawn. */
static bool hidden(const struct lesson *l, uint32_t at, uint32_t *in_step)
{
	const struct step *s;

	if (l->step_of[at] == LESSON_HIDDEN)
		return true;
	s = &l->steps[l->step_of[at]];
	in_step[l->step_of[at]]++;
	return s->n > LONG_STEP && in_step[l->step_of[at]] > HEAD && at != s->last &&
	       lesson_packet(l, at)->missing == 0 && !lesson_packet(l, at)->late;
}

static void add_row(struct ladder *d, enum row_kind kind, const struct logged *e, uint64_t n)
{
	d->rows[d->row_n++] = (struct row){.kind = kind, .e = e, .n = n};
}

static void add_packet(struct ladder *d, uint32_t at)
{
	const struct logged *e = lesson_packet(d->lesson, at);
	const struct logged *before = at != 0 ? lesson_packet(d->lesson, at - 1) : e;

	if (e->missing != 0)
		add_row(d, ROW_MISSING, e, e->missing);
	add_row(d, ROW_PACKET, e, 1);
	d->rows[d->row_n - 1].ago_ns = e->ts_ns > before->ts_ns ? e->ts_ns - before->ts_ns : 0;
}

bool ladder_init(struct ladder *d, const struct lesson *l, unsigned limit)
{
	uint32_t n = l->session->n, more = 0;
	uint32_t *in_step = calloc((size_t)l->step_n + 1, sizeof(*in_step));

	/* Each packet makes two rows at most, itself and what is missing before it. */
	*d = (struct ladder){.lesson = l, .rows = calloc(2 * (size_t)n + 1, sizeof(*d->rows))};
	if (d->rows == NULL || in_step == NULL) {
		free(in_step);
		return false;
	}
	for (uint32_t at = 0; at < n; at++) {
		const struct logged *e = lesson_packet(l, at);

		if (d->row_n >= limit || hidden(l, at, in_step)) {
			if (more++ == 0)
				add_row(d, ROW_MORE, e, 0);
			d->rows[d->row_n - 1].n = more;
			d->rows[d->row_n - 1].e = e;
			continue;
		}
		more = 0;
		add_packet(d, at);
	}
	free(in_step);
	return true;
}

void ladder_fini(struct ladder *d)
{
	free(d->rows);
}

void row_time(const struct row *r, struct text *t)
{
	double us = (double)r->ago_ns / 1e3;

	if (us < 1e3)
		text_add(t, "+%.1f us", us);
	else if (us < 1e6)
		text_add(t, "+%.2f ms", us / 1e3);
	else
		text_add(t, "+%.3f s", us / 1e6);
}

static void packet_label(const struct logged *e, struct text *t)
{
	uint32_t hdrs = e->hdrs;

	name_packet(t, e);
	if (e->mad == NULL && e->bth)
		text_add(t, ", PSN %" PRId32, e->psn);
	if ((hdrs & ROCEMU_HDR_RETH) != 0 && e->payload_len == 0)
		text_add(t, ", for %" PRIu32 " bytes", e->h.reth.length);
	else if (e->mad == NULL && e->payload_len != 0 && !e->hides)
		text_add(t, ", %" PRIu32 " byte%s", e->payload_len, e->payload_len == 1 ? "" : "s");
	if ((hdrs & ROCEMU_HDR_AETH) != 0)
		text_add(t, ", MSN %" PRIu32, e->h.aeth.msn);
	if (!e->decoded)
		text_add(t, e->cut ? " (cut)" : " (invalid)");
	else if (e->hides)
		text_add(t, " (cut, perhaps several)");
	else if (e->again)
		text_add(t, " (again)");
	else if (e->late)
		text_add(t, " (late)");
	else if (e->hint)
		text_add(t, " (hint: missing)");
}

void row_label(const struct row *r, struct text *t)
{
	switch (r->kind) {
	case ROW_PACKET:
		packet_label(r->e, t);
		return;
	case ROW_MISSING:
		if (r->n == 1)
			text_add(t, "PSN %" PRId32 " is missing", r->e->psn - 1);
		else
			text_add(t, "PSN %" PRId64 "-%" PRId32 " are missing",
				 r->e->psn - (int64_t)r->n, r->e->psn - 1);
		return;
	case ROW_MORE:
		text_add(t, "%" PRIu64 " more packet%s", r->n, r->n == 1 ? "" : "s");
		return;
	}
}

/* ---- as characters ---- */

static void fill(char *line, unsigned from, unsigned to, char with)
{
	for (unsigned i = from; i < to; i++)
		line[i] = with;
}

/* The label in the middle of [from, to), cut to what fits. */
static void put(char *line, unsigned from, unsigned to, const char *label)
{
	size_t len = strlen(label);
	unsigned room = to - from;

	if (len > room)
		len = room;
	memcpy(line + from + (room - len) / 2, label, len);
}

static void arrow(char *line, unsigned width, const struct row *r)
{
	bool back = r->e->back;
	char shaft = r->kind == ROW_MISSING ? ' ' : '-';
	char text[LABEL_MAX], label[LABEL_MAX + 2];
	struct text t = text_start(text, sizeof(text));

	row_label(r, &t);
	snprintf(label, sizeof(label), " %s ", text);
	fill(line, 0, width, r->kind == ROW_MORE ? ' ' : shaft);
	if (r->kind == ROW_MISSING) { /* it was sent by the same side, and never arrived here */
		unsigned half = width / 2, len = (unsigned)strlen(label);
		unsigned reach = len + 4 < half ? (half - len) / 2 + 2 : 4;

		for (unsigned i = 1; i < reach; i += 2)
			line[back ? width - 1 - i : i] = '-';
		line[back ? width - 1 - reach : reach] = 'x';
		put(line, back ? 1 : reach + 1, back ? width - 1 - reach : width - 1, label);
		return;
	}
	if (r->kind == ROW_PACKET)
		line[back ? 0 : width - 1] = back ? '<' : '>';
	put(line, 2, width - 2, label);
}

void ladder_text(const struct ladder *d, FILE *f, unsigned width)
{
	unsigned inner = width > LEFT + 42 ? width - LEFT - 2 : 40;
	char *line = calloc(1, inner + 1);

	if (line == NULL)
		return;
	fprintf(f, "  packet        time  A%*sB\n", (int)inner, "");
	for (unsigned i = 0; i < d->row_n; i++) {
		const struct row *r = &d->rows[i];
		char time[32] = "";
		struct text t = text_start(time, sizeof(time));

		arrow(line, inner, r);
		if (r->kind == ROW_PACKET) {
			row_time(r, &t);
			fprintf(f, "%8" PRIu64 "  %10s  |%s|\n", r->e->number, time, line);
		} else {
			fprintf(f, "%8s  %10s  |%s|\n", r->kind == ROW_MORE ? ":" : "", "", line);
		}
	}
	free(line);
}
