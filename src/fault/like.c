/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/like.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define HOUR_NS 3600000000000u

/* ---- lines ---- */

static int wrong(const struct like_reader *r, char *errbuf, size_t errlen, const char *what)
{
	snprintf(errbuf, errlen, "line %u: %s", r->line, what);
	return -EINVAL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip_blanks(const char *s, const char *end)
{
	while (s < end && is_blank(*s))
		s++;
	return s;
}

/** The word at *s, which moves behind it. @return false: there is none, or it is too long. */
static bool take_word(const char **s, const char *end, char *to, size_t size)
{
	const char *from = *s = skip_blanks(*s, end);

	while (*s < end && (isalnum((unsigned char)**s) || (**s && strchr("_.-", **s))))
		++*s;
	if (*s == from || (size_t)(*s - from) >= size || (*s < end && !is_blank(**s) && **s != '|'))
		return false;
	memcpy(to, from, (size_t)(*s - from));
	to[*s - from] = 0;
	return true;
}

/** What stands behind the bar, without blanks at either end; what is too long is cut. */
static void take_source(const char *s, const char *end, char *to, size_t size)
{
	size_t n;

	s = skip_blanks(s, end);
	while (end > s && is_blank(end[-1]))
		end--;
	n = MIN((size_t)(end - s), size - 1);
	memcpy(to, s, n);
	to[n] = 0;
}

bool like_value(struct like_trait *t, const char *text)
{
	const char *end = text + strlen(text);

	t->kind = LIKE_WORD;
	t->range = (struct fault_range){0};
	if (!take_word(&text, end, t->value, sizeof(t->value)) || text != end)
		return false;
	if (!isdigit((unsigned char)t->value[0]))
		return true;
	t->kind = LIKE_NUMBER;
	if (fault_value_range(t->value, UINT32_MAX, &t->range))
		return true;
	t->kind = LIKE_TIME;
	return fault_value_span(t->value, HOUR_NS, &t->range);
}

static int read_line(const struct like_reader *r, const char *s, const char *end,
		     struct like_trait *t, char *errbuf, size_t errlen)
{
	char value[LIKE_VALUE_LEN];

	if (!take_word(&s, end, t->name, sizeof(t->name)))
		return wrong(r, errbuf, errlen, "expected NAME VALUE | SOURCE");
	if (!take_word(&s, end, value, sizeof(value)))
		return wrong(r, errbuf, errlen, "expected a value behind the name");
	if (!like_value(t, value))
		return wrong(
			r, errbuf, errlen,
			"the value is not a word, a number (7, 4..11) or a time (530ms..545ms)");
	s = skip_blanks(s, end);
	if (s < end && *s != '|')
		return wrong(r, errbuf, errlen, "expected '|' and a source behind the value");
	take_source(s + (s < end), end, t->source, sizeof(t->source));
	return 1;
}

int like_next(struct like_reader *r, struct like_trait *t, char *errbuf, size_t errlen)
{
	while (*r->at) {
		const char *end = r->at + strcspn(r->at, "\n");
		const char *s = skip_blanks(r->at, end);

		r->line++;
		r->at = end + (*end == '\n');
		if (s < end && *s != '#')
			return read_line(r, s, end, t, errbuf, errlen);
	}
	return 0;
}

/* ---- what is emulated ---- */

/** Values are one of two words, or a number or time up to max, at a place in struct like. */
struct emulated {
	const char *name;
	const char *no, *yes; /* words, for a bool; or NULL */
	enum like_kind kind;
	uint64_t max;
	size_t size, at;
};

#define TRAIT(member) \
	sizeof(((struct like *)0)->traits.member), offsetof(struct like, traits.member)
#define LIMIT(member) \
	sizeof(((struct like *)0)->limits.member), offsetof(struct like, limits.member)

static const struct emulated table[] = {
	{"recovery", "keeps", "goes_back", LIKE_WORD, 1, TRAIT(drops_early)},
	{"nak_range", "named_only", "goes_back", LIKE_WORD, 1, TRAIT(goes_back)},
	{"probes", "yes", "no", LIKE_WORD, 1, TRAIT(no_probes)},
	{"migreq", "1", "0", LIKE_WORD, 1, TRAIT(no_migreq)},
	{"ack_credits", "31", "0..30", LIKE_WORD, 1, TRAIT(sends_credits)},
	{"cnp", "yes", "no", LIKE_WORD, 1, TRAIT(no_cnps)},
	{"nak_cnp", "no", "yes", LIKE_WORD, 1, TRAIT(cnp_on_nak)},
	{"extra_repetitions", NULL, NULL, LIKE_NUMBER, UINT8_MAX, TRAIT(extra_repetitions)},
	{"ack_timeout_floor", NULL, NULL, LIKE_TIME, HOUR_NS, TRAIT(ack_timeout_floor)},
	{"rnr_wait_floor", NULL, NULL, LIKE_TIME, HOUR_NS, TRAIT(rnr_wait_floor)},
	{"nak_delay", NULL, NULL, LIKE_TIME, HOUR_NS, TRAIT(nak_delay)},
	{"cnp_interval", NULL, NULL, LIKE_TIME, HOUR_NS, TRAIT(cnp_interval)},
	{"max_sge", NULL, NULL, LIKE_NUMBER, ROCEMU_MAX_SGE, LIMIT(max_sge)},
	{"max_inline_data", NULL, NULL, LIKE_NUMBER, ROCEMU_MAX_INLINE, LIMIT(max_inline_data)},
	{"max_qp_wr", NULL, NULL, LIKE_NUMBER, ROCEMU_MAX_WR, LIMIT(max_qp_wr)},
	{"max_qp_rd_atom", NULL, NULL, LIKE_NUMBER, ROCEMU_MAX_RD_ATOMIC, LIMIT(max_qp_rd_atom)},
};

static void put(struct like *l, const struct emulated *e, uint64_t value)
{
	void *to = (char *)l + e->at;

	if (e->size == sizeof(uint64_t))
		memcpy(to, &value, sizeof(value));
	else if (e->size == sizeof(uint32_t))
		memcpy(to, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
	else
		memcpy(to, &(uint8_t){(uint8_t)value}, sizeof(uint8_t));
}

static int take_bool(struct like *l, const struct emulated *e, const struct like_trait *t,
		     char *errbuf, size_t errlen)
{
	const bool yes = strcmp(t->value, e->yes) == 0;

	if (!yes && strcmp(t->value, e->no) != 0) {
		snprintf(errbuf, errlen, "%s %s: expected %s or %s", t->name, t->value, e->no,
			 e->yes);
		return -EINVAL;
	}
	put(l, e, yes);
	return 1;
}

int like_take(struct like *l, const struct like_trait *t, char *errbuf, size_t errlen)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct emulated *e = &table[i];

		if (strcmp(e->name, t->name) != 0)
			continue;
		if (e->kind == LIKE_WORD)
			return take_bool(l, e, t, errbuf, errlen);
		if (t->kind != e->kind) {
			snprintf(errbuf, errlen, "%s %s: expected a %s", t->name, t->value,
				 e->kind == LIKE_TIME ? "time, such as 40us" : "number");
			return -EINVAL;
		}
		/* A limit above rocemu's stays rocemu's. */
		put(l, e, MIN(t->range.min + (t->range.max - t->range.min) / 2, e->max));
		return 1;
	}
	return 0;
}

int like_get(struct like *l, char *errbuf, size_t errlen)
{
	const char *text = secure_getenv("ROCEMU_LIKE");
	struct like_reader r = {.at = text ? text : ""};
	struct like_trait t;
	char why[200];
	int got = 0;

	*l = (struct like){0};
	if (strlen(r.at) > LIKE_TEXT_MAX) {
		snprintf(errbuf, errlen, "ROCEMU_LIKE: longer than %d bytes", LIKE_TEXT_MAX);
		return -EINVAL;
	}
	while ((got = like_next(&r, &t, why, sizeof(why))) > 0)
		if ((got = like_take(l, &t, why, sizeof(why))) < 0)
			break;
	if (got < 0)
		snprintf(errbuf, errlen, "ROCEMU_LIKE: %s", why);
	return got;
}
