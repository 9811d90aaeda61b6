/* SPDX-License-Identifier: BSD-2-Clause */
/* A file as cases and lines, lines as words, and the rounds that "with" lines make. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "scenario/internal.h"

#include "base/util.h"

__attribute__((format(printf, 4, 5))) static bool wrong(struct scenario_error *e, unsigned line,
							unsigned column, const char *fmt, ...)
{
	va_list ap;

	e->line = line;
	e->column = column;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

unsigned words_split(const struct scenario_line *line, struct scenario_word word[SCENARIO_WORDS],
		     struct scenario_error *e)
{
	const char *p = line->text;
	unsigned n = 0;

	for (;;) {
		size_t len;

		while (blank(*p))
			p++;
		if (!*p)
			return n;
		len = strcspn(p, " \t");
		if (n == SCENARIO_WORDS || len >= SCENARIO_WORD_LEN) {
			wrong(e, line->number, (unsigned)(p - line->text) + 1,
			      n == SCENARIO_WORDS ? "more than %d words in a line"
						  : "word of %d bytes or more",
			      n == SCENARIO_WORDS ? SCENARIO_WORDS : SCENARIO_WORD_LEN);
			return 0;
		}
		memcpy(word[n].text, p, len);
		word[n].text[len] = 0;
		word[n++].column = (unsigned)(p - line->text) + 1;
		p += len;
	}
}

/** Lines without comments, line ends and blanks behind; those that are empty then are left out. */
static bool split_lines(struct scenario *s, struct scenario_error *e)
{
	unsigned number = 0;

	for (char *p = s->text, *next; p; p = next) {
		char *end = strchr(p, '\n');

		number++;
		next = end ? end + 1 : NULL;
		if (end)
			*end = 0;
		for (char *c = p; *c; c++) {
			if (*c == '#' && (c == p || blank(c[-1])))
				*c = 0;
			else if (!isprint((unsigned char)*c) && *c != '\t' && *c != '\r')
				return wrong(e, number, (unsigned)(c - p) + 1,
					     "byte 0x%02x: only printable ASCII is allowed",
					     (unsigned char)*c);
		}
		end = p + strlen(p);
		while (end > p && (blank(end[-1]) || end[-1] == '\r'))
			*--end = 0;
		if (end - p > SCENARIO_LINE_MAX)
			return wrong(e, number, 0, "line of more than %d bytes", SCENARIO_LINE_MAX);
		if (p[strspn(p, " \t")])
			s->line[s->lines++] = (struct scenario_line){p, number};
	}
	return true;
}

static bool starts(const struct scenario_line *l, const char *word)
{
	const char *p = l->text + strspn(l->text, " \t");
	size_t n = strlen(word);

	return strncmp(p, word, n) == 0 && (blank(p[n]) || !p[n]);
}

/** "NAME NAME:" from a word on. @return the word behind it, or 0: wrong. */
static unsigned read_names(struct scenario_with *w, const struct scenario_word *word, unsigned i,
			   unsigned n, struct scenario_error *e)
{
	bool last = false;

	for (; i < n && !last; i++) {
		size_t len = strlen(word[i].text);

		last = word[i].text[len - 1] == ':';
		len -= last;
		for (size_t c = 0; c < len; c++)
			if (!isupper((unsigned char)word[i].text[c]) && word[i].text[c] != '_')
				return wrong(e, w->line.number, word[i].column,
					     "'%s': a name has capital letters and '_' only",
					     word[i].text);
		if (!len || w->names == SCENARIO_VARIABLES)
			return wrong(e, w->line.number, word[i].column,
				     "a name is expected, of up to %d", SCENARIO_VARIABLES);
		w->names++;
	}
	if (!last)
		wrong(e, w->line.number, 0, "'NAME...:' and values are expected");
	return last ? i : 0;
}

/** "FIRST..LAST" as the only value */
static bool read_range(struct scenario_with *w, const struct scenario_line *l,
		       const struct scenario_word *value, struct scenario_error *e)
{
	unsigned last, len = 0;

	if (sscanf(value->text, "%9u..%9u%n", &w->first, &last, &len) != 2 || value->text[len])
		return true;
	if (last < w->first || last - w->first >= SCENARIO_ROUNDS_MAX)
		return wrong(e, l->number, value->column, "'%s' is not a range of up to %d",
			     value->text, SCENARIO_ROUNDS_MAX);
	w->range = true;
	w->rounds = last - w->first + 1;
	return true;
}

/** Check a "with" line and count what it has. */
static bool read_with(struct scenario_with *w, const struct scenario_line *l,
		      struct scenario_error *e)
{
	struct scenario_word word[SCENARIO_WORDS];
	unsigned n = words_split(l, word, e), in_round = 0;
	unsigned i;

	*w = (struct scenario_with){.line = *l, .rounds = 1};
	i = n ? read_names(w, word, 1, n, e) : 0;
	if (!i)
		return false;
	for (; i < n; i++) {
		bool bar = strcmp(word[i].text, "|") == 0;

		in_round += !bar;
		w->rounds += bar;
		if (bar ? in_round != w->names : in_round > w->names)
			return wrong(e, l->number, word[i].column, "%u values for %u names",
				     in_round, w->names);
		if (bar)
			in_round = 0;
	}
	if (in_round != w->names)
		return wrong(e, l->number, 0, "%u values for %u names", in_round, w->names);
	return w->names > 1 || w->rounds > 1 || read_range(w, l, &word[n - 1], e);
}

/** "table NAME NAMES:" */
static bool add_table(struct scenario *s, const struct scenario_line *l, struct scenario_error *e)
{
	struct scenario_with *t = &s->table[s->tables++];
	struct scenario_word word[SCENARIO_WORDS];
	unsigned n = words_split(l, word, e), i;

	*t = (struct scenario_with){.line = *l, .rows = l + 1};
	i = n ? read_names(t, word, 2, n, e) : 0;
	return i && (i == n || wrong(e, l->number, word[i].column,
				     "the rows of a table are lines of their own"));
}

/** "| VALUES" below it. */
static bool add_row(struct scenario *s, const struct scenario_line *l, struct scenario_error *e)
{
	struct scenario_with *t = &s->table[s->tables - 1];
	struct scenario_word word[SCENARIO_WORDS];
	unsigned n = words_split(l, word, e);

	t->rounds++;
	return n && (n == t->names + 1 ||
		     wrong(e, l->number, 0, "%u values for %u names", n - 1, t->names));
}

/** "with NAME": a table. */
static bool use_table(const struct scenario *s, struct scenario_with *w,
		      const struct scenario_line *l, const char *name, struct scenario_error *e)
{
	for (unsigned i = 0; i < s->tables; i++) {
		struct scenario_word word[SCENARIO_WORDS];

		words_split(&s->table[i].line, word, e);
		if (strcmp(word[1].text, name) != 0)
			continue;
		*w = s->table[i];
		return w->rounds || wrong(e, l->number, 0, "the table '%s' has no rows", name);
	}
	return wrong(e, l->number, 0, "there is no table '%s' above", name);
}

static bool add_with(const struct scenario *s, struct scenario_case *c,
		     const struct scenario_line *l, struct scenario_error *e)
{
	struct scenario_word word[SCENARIO_WORDS];
	unsigned names = 0;
	bool table;
	uint64_t rounds;

	if (c->withs == SCENARIO_VARIABLES)
		return wrong(e, l->number, 0, "more than %d 'with' lines", SCENARIO_VARIABLES);
	table = words_split(l, word, e) == 2 && !strchr(word[1].text, ':');
	if (table ? !use_table(s, &c->with[c->withs], l, word[1].text, e)
		  : !read_with(&c->with[c->withs], l, e))
		return false;
	rounds = (uint64_t)c->rounds * c->with[c->withs++].rounds;
	if (rounds > SCENARIO_ROUNDS_MAX)
		return wrong(e, l->number, 0, "more than %d rounds", SCENARIO_ROUNDS_MAX);
	c->rounds = (unsigned)rounds;
	for (unsigned i = 0; i < c->withs; i++)
		names += c->with[i].names;
	return names <= SCENARIO_VARIABLES ||
	       wrong(e, l->number, 0, "more than %d names", SCENARIO_VARIABLES);
}

/** "case NAME" */
static struct scenario_case *add_case(struct scenario *s, unsigned line)
{
	struct scenario_case *c = &s->cases[s->ncases++];

	*c = (struct scenario_case){.head = s->line[line], .first = line + 1, .rounds = 1};
	c->head.text += strspn(c->head.text, " \t") + strlen("case");
	c->head.text += strspn(c->head.text, " \t");
	return c;
}

static bool split_cases(struct scenario *s, struct scenario_error *e)
{
	struct scenario_case *c = NULL;
	bool table = false;

	for (unsigned i = 0; i < s->lines; i++) {
		struct scenario_line *l = &s->line[i];

		if (starts(l, "table")) {
			c = NULL;
			table = true;
			if (!add_table(s, l, e))
				return false;
		} else if (table && starts(l, "|")) {
			if (!add_row(s, l, e))
				return false;
		} else if (starts(l, "case")) {
			table = false;
			c = add_case(s, i);
			if (!*c->head.text)
				return wrong(e, l->number, 0, "a case needs a name");
		} else if (!c) {
			return wrong(e, l->number, 1,
				     table ? "'|' or 'case' is expected"
					   : "a file begins with 'case NAME'");
		} else if (!starts(l, "with")) {
			c->lines++;
		} else if (c->lines) {
			return wrong(e, l->number, 0,
				     "'with' stands before all other lines of a case");
		} else {
			c->first = i + 1;
			if (!add_with(s, c, l, e))
				return false;
		}
	}
	return true;
}

struct scenario *scenario_read(const char *text, size_t len, const char *file,
			       struct scenario_error *e)
{
	struct scenario *s = calloc(1, sizeof(*s));
	size_t lines = 1;

	*e = (struct scenario_error){.file = file};
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	if (len > SCENARIO_TEXT_MAX || memchr(text, 0, len)) {
		free(s);
		wrong(e, 1, 0, "more than %d bytes, or a zero byte", SCENARIO_TEXT_MAX);
		return NULL;
	}
	if (s) {
		s->steps_max = SCENARIO_STEPS_MAX;
		s->defaults = setup_defaults();
		s->file = strdup(file);
		s->text = strndup(text, len);
		s->line = calloc(lines, sizeof(*s->line));
		s->cases = calloc(lines, sizeof(*s->cases));
		s->table = calloc(lines, sizeof(*s->table));
	}
	if (!s || !s->file || !s->text || !s->line || !s->cases || !s->table) {
		wrong(e, 1, 0, "out of memory");
	} else if (split_lines(s, e) && split_cases(s, e)) {
		return s;
	}
	scenario_free(s);
	return NULL;
}

void scenario_free(struct scenario *s)
{
	if (!s)
		return;
	free(s->file);
	free(s->text);
	free(s->line);
	free(s->cases);
	free(s->table);
	free(s);
}

/** What the names of one "with" line stand for. */
static bool values_of(const struct scenario_with *w, unsigned round, struct variable *v,
		      struct scenario_error *e)
{
	struct scenario_word name[SCENARIO_WORDS], row[SCENARIO_WORDS];
	const unsigned first = w->rows ? 2 : 1;
	const unsigned turn = w->range ? 0 : round;
	const unsigned value = w->rows ? 1 : 1 + w->names + turn * (w->names + 1);

	if (!words_split(&w->line, name, e) ||
	    !words_split(w->rows ? &w->rows[round] : &w->line, row, e))
		return false;
	for (unsigned i = 0; i < w->names; i++) {
		memcpy(v[i].name, name[first + i].text, sizeof(v->name));
		v[i].name[strcspn(v[i].name, ":")] = 0;
		if (w->range)
			snprintf(v[i].text, sizeof(v->text), "%u", w->first + round);
		else
			memcpy(v[i].text, row[value + i].text, sizeof(v->text));
	}
	return true;
}

bool with_values(const struct scenario_case *c, unsigned round,
		 struct variable with[SCENARIO_VARIABLES], unsigned *n, struct scenario_error *e)
{
	*n = 0;
	for (unsigned i = 0; i < c->withs; i++) {
		const struct scenario_with *w = &c->with[i];

		if (!values_of(w, round % w->rounds, &with[*n], e))
			return false;
		*n += w->names;
		round /= w->rounds;
	}
	return true;
}

bool scenario_round_has(const struct scenario *s, unsigned number, unsigned round, const char *name,
			const char *word, bool unless)
{
	struct variable with[SCENARIO_VARIABLES];
	struct scenario_error e;
	unsigned n;

	if (with_values(&s->cases[number], round, with, &n, &e))
		for (unsigned i = 0; i < n; i++)
			if (strcmp(with[i].name, name) == 0)
				return strcmp(with[i].text, word) == 0;
	return unless;
}
