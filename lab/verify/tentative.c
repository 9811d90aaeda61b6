/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holds tentative findings: faults that the network could have caused. Some rules compare packets
 * in time order; a missing, duplicate or reordered packet then looks like a fault. Findings of such
 * rules are held until many more packets of the connection have passed. If there was no sign of
 * such a network before and after (disorder()), they are reported, else they are "undecided".
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

enum {
	CALM = 4096, /* packets of the connection without disorder, on either side of a finding */
	MAX_TENTATIVE = 16,
};

struct tentative {
	struct finding found;
	uint64_t at; /* the flow's clock */
};

/* Settle the first n tentative findings. */
static void settle(struct verify *v, struct flow *f, unsigned n, bool decided)
{
	struct finding *d;

	for (unsigned i = 0; i < n; i++) {
		d = &f->tentative[i].found;
		found_unless(v, f, !decided, d->rule, d->number, d->ts_ns, "%s", d->text);
	}
	f->tentative_n -= n;
	for (unsigned i = 0; i < f->tentative_n; i++)
		f->tentative[i] = f->tentative[i + n];
}

static void disturb(struct verify *v, struct flow *f)
{
	f->disordered = true;
	f->disorder_at = f->clock;
	settle(v, f, f->tentative_n, false);
}

void disorder(struct verify *v, struct flow *f)
{
	disturb(v, f);
	if (f->peer != NULL)
		disturb(v, f->peer);
}

void tentative_at(struct verify *v, struct flow *f, enum rule_id rule, uint64_t number,
		  uint64_t ts_ns, const char *fmt, ...)
{
	struct tentative d = {
		.found = {.rule = rule, .number = number, .ts_ns = ts_ns},
		.at = f->clock,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d.found.text, sizeof(d.found.text), fmt, ap);
	va_end(ap);
	if ((f->disordered && f->clock - f->disorder_at < CALM) || veiled(v, f) ||
	    (f->peer != NULL && veiled(v, f->peer))) {
		found_unless(v, f, true, rule, number, ts_ns, "%s", d.found.text);
		return;
	}
	if (f->tentative == NULL)
		f->tentative = calloc(MAX_TENTATIVE, sizeof(*f->tentative));
	if (f->tentative == NULL) {
		v->out_of_memory = true;
		return;
	}
	if (f->tentative_n == MAX_TENTATIVE) /* that many, and no disorder: systematic */
		settle(v, f, 1, true);
	f->tentative[f->tentative_n++] = d;
	if (v->follow != NULL)
		follow_print(v, f, &d.found, true);
}

static void tick(struct verify *v, struct flow *f)
{
	unsigned n = 0;

	f->clock++;
	while (n < f->tentative_n && f->clock - f->tentative[n].at >= CALM)
		n++;
	if (n != 0)
		settle(v, f, n, true);
}

void tentative_tick(struct verify *v, struct flow *f)
{
	tick(v, f);
	if (f->peer != NULL)
		tick(v, f->peer);
}

void tentative_finish(struct verify *v, struct flow *f)
{
	settle(v, f, f->tentative_n, true);
}
