/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Differences that have an explanation. Three fields a line, separated by "|": pattern of the
 * scenario, pattern of the line that differs, explanation. "#" begins a comment. The files of
 * differences that are known to us, known.txt and those of certain devices, are compiled in.
 */
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "parity.h"

/* known.txt and known-rxe.txt, as C strings */
extern const char known_text[], known_rxe_text[];

static const struct {
	const char *name, *text;
} builtin[] = {{"", known_text}, {"rxe", known_rxe_text}};

static char *trim(char *s)
{
	char *end = s + strlen(s);

	while (isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = 0;
	return s;
}

static char *copy(char *s)
{
	char *c = strdup(trim(s));

	if (!c)
		abort();
	return c;
}

/** @return false: not three fields. Changes the line. */
static bool add_line(struct known_list *k, char *line)
{
	char *scenario = trim(line), *text, *why;

	if (!*scenario || *scenario == '#')
		return true;
	text = strchr(scenario, '|');
	why = text ? strchr(text + 1, '|') : NULL;
	if (!why)
		return false;
	*text++ = *why++ = 0;
	k->items = realloc(k->items, (k->n + 1) * sizeof(*k->items));
	if (!k->items)
		abort();
	k->items[k->n++] = (struct known){copy(scenario), copy(text), copy(why)};
	return *k->items[k->n - 1].why != 0;
}

bool known_builtin(struct known_list *k, const char *name)
{
	char *all, *save = NULL;
	unsigned i = 0;

	while (i < COUNT(builtin) && strcmp(builtin[i].name, name) != 0)
		i++;
	if (i == COUNT(builtin))
		return false;
	all = strdup(builtin[i].text);
	if (!all)
		abort();
	for (char *s = strtok_r(all, "\n", &save); s; s = strtok_r(NULL, "\n", &save))
		if (!add_line(k, s))
			broken("known%s%s.txt is not as it should be: %s", *name ? "-" : "", name,
			       s);
	free(all);
	return true;
}

bool known_read(struct known_list *k, const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int number = 0;
	bool ok = true;

	if (!f) {
		fprintf(stderr, "rocemu parity: --known: %s: %s\n", path, strerror(errno));
		return false;
	}
	while (ok && getline(&line, &room, f) >= 0) {
		number++;
		ok = add_line(k, line);
	}
	if (!ok)
		fprintf(stderr,
			"rocemu parity: --known: %s, line %d: expected \"scenario | line | "
			"explanation\"\n",
			path, number);
	else if (ferror(f)) {
		fprintf(stderr, "rocemu parity: --known: %s: %s\n", path, strerror(errno));
		ok = false;
	}
	free(line);
	fclose(f);
	return ok;
}

const char *known_find(const struct known_list *k, const char *scenario, const char *line)
{
	for (unsigned i = 0; i < k->n; i++)
		if (fnmatch(k->items[i].scenario, scenario, 0) == 0 &&
		    fnmatch(k->items[i].line, line, 0) == 0)
			return k->items[i].why;
	return NULL;
}
