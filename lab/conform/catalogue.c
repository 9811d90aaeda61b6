/* SPDX-License-Identifier: BSD-2-Clause */
/* The cases that files have, and what their lines "conform LEVEL CLAUSE PEER" state. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/cases.h"
#include "conform/conform.h"

static bool wrong(struct scenario_error *e, const struct scenario *s, unsigned line,
		  const char *text)
{
	*e = (struct scenario_error){.file = s->file, .line = line};
	snprintf(e->text, sizeof(e->text), "%s", text);
	return false;
}

/** No other case may have the ID: results are compared by it. */
static bool is_new(const struct conform_catalogue *c, const struct conform_case *k,
		   struct scenario_error *e)
{
	for (unsigned i = 0; i < c->ncases; i++)
		if (strcmp(c->cases[i].id, k->id) == 0)
			return wrong(e, k->s, k->s->cases[k->number].head.number,
				     "another case has this ID");
	return true;
}

/** A case's head is "ID: sentence". */
static bool read_case(const struct scenario *s, unsigned number, struct conform_case *c,
		      struct scenario_error *e)
{
	const struct scenario_case *from = &s->cases[number];
	const char *colon = strchr(from->head.text, ':');
	int about;

	*c = (struct conform_case){.s = s, .number = number};
	if (!colon || (size_t)(colon - from->head.text) >= sizeof(c->id))
		return wrong(e, s, from->head.number, "'case ID: SENTENCE' is expected");
	memcpy(c->id, from->head.text, (size_t)(colon - from->head.text));
	c->sentence = colon + 1 + strspn(colon + 1, " ");
	about = scenario_conform(s, number, &c->about, e);
	if (about == 0)
		wrong(e, s, from->head.number, "the case has no line 'conform LEVEL CLAUSE PEER'");
	return about > 0;
}

static void *grow(void *list, unsigned n, unsigned more, size_t size)
{
	return realloc(list, (n + more) * size);
}

bool conform_catalogue_add(struct conform_catalogue *c, const char *text, size_t len,
			   const char *file, struct scenario_error *e)
{
	struct scenario *s = scenario_read(text, len, file, e), **files;
	struct conform_case *cases;

	if (!s)
		return false;
	files = grow(c->file, c->files, 1, sizeof(*files));
	if (files)
		c->file = files;
	cases = grow(c->cases, c->ncases, s->ncases + 1, sizeof(*cases));
	if (cases)
		c->cases = cases;
	if (!files || !cases) {
		scenario_free(s);
		*e = (struct scenario_error){.file = file, .text = "no memory"};
		return false;
	}
	c->file[c->files++] = s;
	for (unsigned i = 0; i < s->ncases; i++, c->ncases++)
		if (!read_case(s, i, &c->cases[c->ncases], e) ||
		    !is_new(c, &c->cases[c->ncases], e))
			return false;
	return true;
}

bool conform_catalogue_built_in(struct conform_catalogue *c, struct scenario_error *e)
{
	for (const struct conform_file *f = conform_files; f->name; f++)
		if (!conform_catalogue_add(c, (const char *)f->text, strlen((const char *)f->text),
					   f->name, e))
			return false;
	return true;
}

void conform_catalogue_free(struct conform_catalogue *c)
{
	for (unsigned i = 0; i < c->files; i++)
		scenario_free(c->file[i]);
	free(c->file);
	free(c->cases);
}
