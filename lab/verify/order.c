/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings in the order of packets, whatever connection they are of. */
#include <stdlib.h>

#include "report.h"

struct placed {
	const struct flow *f;
	const struct finding *n;
};

static int compare(const void *pa, const void *pb)
{
	const struct finding *a = ((const struct placed *)pa)->n,
			     *b = ((const struct placed *)pb)->n;
	enum severity x = rules[a->rule].severity, y = rules[b->rule].severity;

	/* 0 is the end of the capture, and stands there */
	if (a->number != b->number)
		return a->number - 1 < b->number - 1 ? -1 : 1;
	if (x != y)
		return x > y ? -1 : 1;
	return a->rule < b->rule ? -1 : a->rule > b->rule;
}

static size_t place(struct placed *at, const struct flow *f, const struct findings *fs, bool all)
{
	size_t n = 0;

	for (uint32_t i = 0; i < fs->n; i++) {
		if (all || !fs->kept[i].beyond)
			at[n++] = (struct placed){f, &fs->kept[i]};
	}
	return n;
}

static void each(const struct verify *v, finding_fn fn, void *user, bool all)
{
	size_t most = v->findings.n, n;
	struct placed *at;

	for (const struct flow *f = v->flows; f != NULL; f = f->all_next)
		most += f->findings.n;
	at = calloc(most + 1, sizeof(*at));
	if (at == NULL)
		return;
	n = place(at, NULL, &v->findings, all);
	for (const struct flow *f = v->flows; f != NULL; f = f->all_next)
		n += place(at + n, f, &f->findings, all);
	qsort(at, n, sizeof(*at), compare);
	for (size_t i = 0; i < n; i++)
		fn(v, at[i].f, at[i].n, user);
	free(at);
}

void for_each_finding(const struct verify *v, finding_fn fn, void *user)
{
	each(v, fn, user, false);
}

void for_each_kept(const struct verify *v, finding_fn fn, void *user)
{
	each(v, fn, user, true);
}

/* A finding that is worse than those before it: the earliest of the highest severity. */
static void worse(const struct verify *v, const struct flow *f, const struct finding *n, void *user)
{
	struct worst *w = user;

	(void)v;
	if (rules[n->rule].severity > SEV_NOTE &&
	    (w->n == NULL || rules[n->rule].severity > rules[w->n->rule].severity))
		*w = (struct worst){f, n};
}

struct worst worst_finding(const struct verify *v)
{
	struct worst w = {0};

	for_each_kept(v, worse, &w);
	return w;
}

const char *verdict_name(const struct verify *v)
{
	return v->by_severity[SEV_ERROR] != 0  ? "fail"
	       : v->by_severity[SEV_WARN] != 0 ? "warn"
					       : "pass";
}
