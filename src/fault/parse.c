/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* ---- errors ---- */

/* One byte as it may go to a terminal. */
static char printable(char c)
{
	return c >= ' ' && c <= '~' ? c : c == '\t' ? ' ' : '?';
}

/* The line of the text that at is in, or what of it is around column, and a caret below. */
static void write_excerpt(struct fault_error *e, const char *line, unsigned length)
{
	enum {
		WIDTH = 100,
		LEFT = 60
	}; /* LEFT: columns kept before the caret when the line is cut */
	const size_t column = e->column - 1, len = strcspn(line, "\n");
	const size_t first = len > WIDTH && column > LEFT ? column - LEFT : 0;
	const size_t last = MIN(len, first + WIDTH);
	char *p = e->excerpt;

	p += sprintf(p, "  ");
	for (size_t i = first; i < last; i++)
		*p++ = printable(line[i]);
	p += sprintf(p, "\n  ");
	for (size_t i = first; i < column; i++)
		*p++ = ' ';
	*p++ = '^';
	for (size_t i = column + 1; i < MIN(column + length, last); i++)
		*p++ = '~';
	*p++ = '\n';
	*p = '\0';
}

/* An error at a column of the reader's line; the wrong text is length bytes long, possibly 0. */
static int refuse_at(const struct fault_reader *r, unsigned column, unsigned length,
		     struct fault_error *e, const char *expected, va_list ap)
	__attribute__((format(printf, 5, 0)));
static int refuse_at(const struct fault_reader *r, unsigned column, unsigned length,
		     struct fault_error *e, const char *expected, va_list ap)
{
	enum { SHOWN = 64 };
	char what[SHOWN + 4] = "", wanted[FAULT_ERROR_LEN];
	unsigned shown = MIN(length, (unsigned)SHOWN);

	for (unsigned i = 0; i < shown; i++)
		what[i] = printable(r->line_start[column - 1 + i]);
	if (length > SHOWN)
		memcpy(what + SHOWN, "...", 4);
	e->line = r->line;
	e->column = column;
	vsnprintf(wanted, sizeof(wanted), expected, ap);
	snprintf(e->text, sizeof(e->text), "%.128s: line %u, column %u: \"%s\": expected %.300s",
		 r->source ? r->source : "impairment", e->line, e->column, what, wanted);
	write_excerpt(e, r->line_start, length);
	return -EINVAL;
}

int fault_refuse(const struct fault_reader *r, const struct fault_item *item,
		 const struct fault_word *w, struct fault_error *e, const char *expected, ...)
{
	va_list ap;
	int err;

	(void)item;
	va_start(ap, expected);
	err = refuse_at(r, w->column, w->length, e, expected, ap);
	va_end(ap);
	return err;
}

int fault_refuse_end(const struct fault_reader *r, const struct fault_item *item,
		     struct fault_error *e, const char *expected, ...)
{
	const struct fault_word *last = &item->word[item->nwords - 1];
	va_list ap;
	int err;

	va_start(ap, expected);
	err = refuse_at(r, last->column + last->length, 0, e, expected, ap);
	va_end(ap);
	return err;
}

/* ---- items and words ---- */

void fault_reader_init(struct fault_reader *r, const char *text, const char *source)
{
	*r = (struct fault_reader){.source = source, .at = text, .line_start = text, .line = 1};
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Does the item end here? */
static bool is_end(char c)
{
	return !c || c == ';' || c == '\n' || c == '#';
}

static void skip_blanks(struct fault_reader *r)
{
	while (is_blank(*r->at))
		r->at++;
}

/* Skip separators, to the first byte of an item or to the end of the text. */
static void skip_to_item(struct fault_reader *r)
{
	for (;;) {
		skip_blanks(r);
		if (*r->at == '#')
			r->at += strcspn(r->at, "\n");
		if (*r->at == '\n') {
			r->line++;
			r->line_start = r->at + 1;
		} else if (*r->at != ';') {
			return;
		}
		r->at++;
	}
}

static int refuse_word(const struct fault_reader *r, const struct fault_word *w,
		       struct fault_error *e, const char *expected, ...)
	__attribute__((format(printf, 4, 5)));
static int refuse_word(const struct fault_reader *r, const struct fault_word *w,
		       struct fault_error *e, const char *expected, ...)
{
	va_list ap;
	int err;

	va_start(ap, expected);
	err = refuse_at(r, w->column, w->length, e, expected, ap);
	va_end(ap);
	return err;
}

/* The word at r->at, which may be empty. */
static int read_word(struct fault_reader *r, struct fault_word *w, struct fault_error *e)
{
	const char *start = r->at, *eq;
	size_t len, key_len;

	while (!is_end(*r->at) && !is_blank(*r->at) && *r->at != ',')
		r->at++;
	len = (size_t)(r->at - start);
	eq = memchr(start, '=', len);
	key_len = eq ? (size_t)(eq - start) : len;
	w->column = (unsigned)(start - r->line_start) + 1;
	w->length = (unsigned)len;
	w->has_value = eq != NULL;
	if (key_len >= sizeof(w->key) || (eq && len - key_len - 1 >= sizeof(w->value)))
		return refuse_word(r, w, e, "at most %u characters before and %u after a \"=\"",
				   FAULT_KEY_LEN - 1, FAULT_VALUE_LEN - 1);
	memcpy(w->key, start, key_len);
	w->key[key_len] = '\0';
	w->value[0] = '\0';
	if (eq) {
		memcpy(w->value, eq + 1, len - key_len - 1);
		w->value[len - key_len - 1] = '\0';
	}
	return 0;
}

int fault_reader_next(struct fault_reader *r, struct fault_item *item, struct fault_error *e)
{
	bool comma = false;

	skip_to_item(r);
	if (!*r->at)
		return 0;
	item->line = r->line;
	item->number = ++r->number;
	item->nwords = 0;
	item->start = r->at;
	/* A comma is always followed by a word, which may be empty. */
	while (!is_end(*r->at) || comma) {
		struct fault_word *w = &item->word[item->nwords++];

		w->comma = comma;
		if (read_word(r, w, e))
			return -EINVAL;
		item->length = (size_t)(r->at - item->start);
		skip_blanks(r);
		comma = *r->at == ',';
		r->at += comma;
		skip_blanks(r);
		if (item->nwords == FAULT_WORDS && (comma || !is_end(*r->at)))
			return refuse_word(r, w, e, "at most %u words in a rule", FAULT_WORDS);
	}
	return 1;
}

const struct fault_word *fault_item_find(const struct fault_item *item, const char *key)
{
	for (unsigned i = 1; i < item->nwords; i++)
		if (!strcmp(item->word[i].key, key))
			return &item->word[i];
	return NULL;
}
