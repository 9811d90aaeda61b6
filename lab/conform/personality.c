/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/personality.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/cases.h"

/** What is about the personality itself. @return 0: it is a trait; -1: a wrong value. */
static int take_head(struct personality *p, const struct like_trait *t)
{
	if (strcmp(t->name, "name") == 0) {
		memcpy(p->name, t->value, sizeof(p->name));
		return 1;
	}
	if (strcmp(t->name, "status") != 0)
		return 0;
	p->published = strcmp(t->value, "published") == 0;
	return p->published || strcmp(t->value, "measured") == 0 ? 1 : -1;
}

bool personality_parse(struct personality *p, const char *text, char *errbuf, size_t errlen)
{
	struct like_reader r = {.at = text};
	int got;

	*p = (struct personality){.name = "?"};
	for (;;) {
		struct like_trait *t = &p->trait[p->traits];

		if (p->traits == PERSONALITY_TRAITS) {
			snprintf(errbuf, errlen, "line %u: more than %d traits", r.line,
				 PERSONALITY_TRAITS - 1);
			return false;
		}
		got = like_next(&r, t, errbuf, errlen);
		if (got <= 0)
			return got == 0;
		got = take_head(p, t);
		if (got < 0) {
			snprintf(errbuf, errlen, "line %u: expected status measured or published",
				 r.line);
			return false;
		}
		p->traits += got == 0;
	}
}

static const struct conform_file *find(const char *name)
{
	for (const struct conform_file *f = conform_personality_files; f->name; f++) {
		const size_t len = strlen(f->name) - strlen(".txt");

		if (strlen(name) == len && memcmp(f->name, name, len) == 0)
			return f;
	}
	return NULL;
}

/** @return the text, to be freed; NULL with a line in errbuf. */
static char *file_text(const char *path, char *errbuf, size_t errlen)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(LIKE_TEXT_MAX + 1) : NULL;
	size_t len = 0;

	if (text)
		len = fread(text, 1, LIKE_TEXT_MAX + 1, f);
	if (!text || ferror(f) || len > LIKE_TEXT_MAX) {
		if (!f && errno == ENOENT)
			snprintf(errbuf, errlen, "no such file, and not one of the program's");
		else
			snprintf(errbuf, errlen, "cannot be read: %s",
				 len > LIKE_TEXT_MAX ? "too long" : strerror(errno));
		free(text);
		text = NULL;
	} else {
		text[len] = 0;
	}
	if (f)
		fclose(f);
	return text;
}

bool personality_read(struct personality *p, const char *name, char *errbuf, size_t errlen)
{
	const struct conform_file *f = find(name);
	char *text;
	bool good;

	if (f)
		return personality_parse(p, (const char *)f->text, errbuf, errlen);
	text = file_text(name, errbuf, errlen);
	good = text && personality_parse(p, text, errbuf, errlen);
	free(text);
	return good;
}

bool personality_built_in(struct personality *p, unsigned number)
{
	char text[128];

	for (const struct conform_file *f = conform_personality_files; f->name; f++)
		if (number-- == 0)
			return personality_parse(p, (const char *)f->text, text, sizeof(text));
	return false;
}
