/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "conform/json-read.h"
#include "conform/report.h"

enum { FILE_MAX = 32 << 20, CASES_MAX = 10000, KEY_LEN = 48, FORMAT = 1 };

/* ---- a case ---- */

static bool read_verdict(struct json_reader *r, enum conform_verdict *to)
{
	char word[32];

	if (!json_read_string(r, word, sizeof(word)))
		return false;
	for (unsigned i = 0; i < CONFORM_VERDICT_COUNT; i++) {
		*to = (enum conform_verdict)i;
		if (strcmp(word, conform_verdict_text[i]) == 0)
			return true;
	}
	return json_read_fail(r, "there is no such verdict");
}

/** The words, each once, with commas. */
static void add_word(struct conform_past_trait *t, const char *word)
{
	const size_t n = strlen(t->value), len = strlen(word);
	const char *at = strstr(t->value, word);

	if (at && (at == t->value || at[-1] == ' ') && (!at[len] || at[len] == ','))
		return;
	snprintf(t->value + n, sizeof(t->value) - n, "%s%s", n ? ", " : "", word);
}

/** An array of words, or of numbers, of which the median is taken. */
static void read_trait(struct json_reader *r, struct conform_past_trait *t)
{
	const size_t len = strlen(t->name);
	struct scenario_measure m[SCENARIO_MEASURES];
	struct conform_series s = {.kind = SCENARIO_NUMBER};
	char word[64];
	double number;

	t->time = len > 3 && strcmp(t->name + len - 3, "_ns") == 0;
	if (!json_enter(r, '['))
		return;
	while (json_next_element(r)) {
		if (json_is_string(r)) {
			if (json_read_string(r, word, sizeof(word)))
				add_word(t, word);
		} else if (json_read_number(r, &number) && s.n < ARRAY_LEN(m)) {
			m[s.n].number = number > 0 && number < 1e18 ? (uint64_t)number : 0;
			s.of[s.n] = &m[s.n];
			s.n++;
		}
	}
	if (!s.n || r->error)
		return;
	conform_series_median(&s);
	if (t->time) {
		t->name[len - 3] = 0;
		conform_time_text(s.median, t->value, sizeof(t->value));
	} else {
		snprintf(t->value, sizeof(t->value), "%llu", (unsigned long long)s.median);
	}
}

static void read_measured(struct json_reader *r, struct conform_past_case *c)
{
	char key[KEY_LEN];

	if (!json_enter(r, '{'))
		return;
	while (json_next_key(r, key, sizeof(key))) {
		struct conform_past_trait *t = &c->trait[c->traits];

		if (c->traits == CONFORM_PAST_TRAITS) {
			json_skip(r);
			continue;
		}
		c->traits++;
		memcpy(t->name, key, sizeof(t->name));
		read_trait(r, t);
	}
}

static void read_case(struct json_reader *r, struct conform_past_case *c)
{
	bool verdict = false;
	char key[KEY_LEN];

	if (!json_enter(r, '{'))
		return;
	while (json_next_key(r, key, sizeof(key))) {
		if (strcmp(key, "id") == 0)
			json_read_string(r, c->id, sizeof(c->id));
		else if (strcmp(key, "verdict") == 0)
			verdict = read_verdict(r, &c->verdict);
		else if (strcmp(key, "sentence") == 0)
			json_read_string(r, c->sentence, sizeof(c->sentence));
		else if (strcmp(key, "expected") == 0)
			json_read_string(r, c->expected, sizeof(c->expected));
		else if (strcmp(key, "came") == 0)
			json_read_string(r, c->came, sizeof(c->came));
		else if (strcmp(key, "measured") == 0)
			read_measured(r, c);
		else
			json_skip(r);
	}
	if (!*c->id || !verdict)
		json_read_fail(r, "a case has no id or no verdict");
}

/* ---- a run ---- */

static void read_cases(struct json_reader *r, struct conform_past *p)
{
	unsigned room = 0;

	if (!json_enter(r, '['))
		return;
	while (json_next_element(r)) {
		struct conform_past_case *more = p->cases;

		if (p->ncases == room) {
			room = room ? 2 * room : 32;
			more = p->ncases < CASES_MAX ? realloc(p->cases, room * sizeof(*more))
						     : NULL;
		}
		if (!more) {
			json_read_fail(r, "too many cases");
			return;
		}
		p->cases = more;
		p->cases[p->ncases] = (struct conform_past_case){0};
		read_case(r, &p->cases[p->ncases++]);
	}
}

static void read_run(struct json_reader *r, struct conform_past *p)
{
	double format = 0;
	char key[KEY_LEN];

	if (!json_enter(r, '{'))
		return;
	while (json_next_key(r, key, sizeof(key))) {
		if (strcmp(key, "format") == 0)
			json_read_number(r, &format);
		else if (strcmp(key, "name") == 0)
			json_read_string(r, p->name, sizeof(p->name));
		else if (strcmp(key, "target") == 0)
			json_read_string(r, p->target, sizeof(p->target));
		else if (strcmp(key, "version") == 0)
			json_read_string(r, p->version, sizeof(p->version));
		else if (strcmp(key, "started") == 0)
			json_read_string(r, p->started, sizeof(p->started));
		else if (strcmp(key, "cases") == 0 && !p->cases)
			read_cases(r, p);
		else
			json_skip(r);
	}
	if (format != FORMAT || !p->cases)
		json_read_fail(r, "this is no result of rocemu conform --json");
}

const char *conform_past_parse(struct conform_past *p, const char *text, size_t len, unsigned *line)
{
	struct json_reader r;

	*p = (struct conform_past){.path = p->path};
	json_read_begin(&r, text, len);
	read_run(&r, p);
	json_read_end(&r);
	*line = json_read_line(&r);
	return r.error;
}

bool conform_past_read(struct conform_past *p, const char *path, const char *self)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(FILE_MAX) : NULL;
	const size_t len = text ? fread(text, 1, FILE_MAX, f) : 0;
	const bool good = text && !ferror(f);
	const char *wrong = NULL;
	unsigned line = 0;

	*p = (struct conform_past){.path = path};
	if (!good)
		fprintf(stderr, "%s: %s: %s\n", self, path, strerror(errno));
	else
		wrong = conform_past_parse(p, text, len, &line);
	if (wrong)
		fprintf(stderr, "%s: %s:%u: %s\n", self, path, line, wrong);
	if (f)
		fclose(f);
	free(text);
	return good && !wrong;
}

void conform_past_free(struct conform_past *p)
{
	free(p->cases);
}

const struct conform_past_case *conform_past_find(const struct conform_past *p, const char *id)
{
	for (unsigned i = 0; i < p->ncases; i++)
		if (strcmp(p->cases[i].id, id) == 0)
			return &p->cases[i];
	return NULL;
}

const char *conform_past_name(const struct conform_past *p)
{
	return *p->name ? p->name : *p->target ? p->target : p->path;
}
