/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/known.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "conform/cases.h"

enum { TEXT_MAX = 1 << 20 };

static char *trim(char *s)
{
	char *end = s + strlen(s);

	while (isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = 0;
	return s;
}

static bool add(struct conform_known *k, const char *id, const char *why)
{
	struct conform_known_entry *more = realloc(k->entry, (k->entries + 1) * sizeof(*more));

	if (!more)
		return false;
	k->entry = more;
	more += k->entries;
	*more = (struct conform_known_entry){.id = strdup(id), .why = strdup(why)};
	k->entries++;
	return more->id && more->why;
}

static bool add_line(struct conform_known *k, char *line)
{
	char *bar;

	line = trim(line);
	if (!*line || *line == '#')
		return true;
	bar = strchr(line, '|');
	if (!bar)
		return false;
	*bar = 0;
	return *trim(line) && *trim(bar + 1) && add(k, trim(line), trim(bar + 1));
}

unsigned conform_known_add(struct conform_known *k, char *text)
{
	for (unsigned number = 1; text; number++) {
		char *end = strchr(text, '\n');

		if (end)
			*end++ = 0;
		if (!add_line(k, text))
			return number;
		text = end;
	}
	return 0;
}

/** @return a copy of the program's list of this name; NULL: there is none. */
static char *built_in(const char *name)
{
	for (const struct conform_file *f = conform_known_files; f->name; f++) {
		const size_t len = strlen(f->name) - strlen(".txt");

		if (strlen(name) == len && memcmp(f->name, name, len) == 0)
			return strdup((const char *)f->text);
	}
	return NULL;
}

static char *file_text(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(TEXT_MAX + 1) : NULL;
	size_t len;

	if (text) {
		errno = 0;
		len = fread(text, 1, TEXT_MAX, f);
		text[len] = 0;
		if (ferror(f)) {
			free(text);
			text = NULL;
		}
	}
	if (f)
		fclose(f);
	return text;
}

bool conform_known_read(struct conform_known *k, const char *name, const char *self)
{
	char *text = built_in(name);
	unsigned wrong;

	if (!text)
		text = file_text(name);
	if (!text) {
		fprintf(stderr, "%s: --known %s: %s\n", self, name, strerror(errno));
		return false;
	}
	wrong = conform_known_add(k, text);
	if (wrong)
		fprintf(stderr, "%s: --known %s, line %u: expected \"ID | reason\"\n", self, name,
			wrong);
	free(text);
	return !wrong;
}

static bool has_differed(enum conform_verdict v)
{
	return v == CONFORM_FAIL || v == CONFORM_WARN || v == CONFORM_INCONCLUSIVE;
}

void conform_known_judge(struct conform_known *k, struct conform_result *r)
{
	if (r->verdict == CONFORM_SKIP)
		return;
	for (unsigned i = 0; i < k->entries; i++) {
		struct conform_known_entry *e = &k->entry[i];

		if (fnmatch(e->id, r->c->id, 0) != 0)
			continue;
		e->met = true;
		e->differed |= has_differed(r->verdict) || r->verdict == CONFORM_KNOWN;
		if (r->verdict != CONFORM_FAIL && r->verdict != CONFORM_WARN)
			continue;
		r->verdict = CONFORM_KNOWN;
		r->known = e->why;
	}
}

void conform_known_free(struct conform_known *k)
{
	for (unsigned i = 0; i < k->entries; i++) {
		free(k->entry[i].id);
		free(k->entry[i].why);
	}
	free(k->entry);
}
