/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses the grammar of injected faults, shared by rates, rules by packet and rules by verb: splits
 * a text into items and words and reports wrong words. The meaning of the words is defined
 * elsewhere (impair-parse.c, rule.c, verb.c).
 *
 *   TEXT  := ITEM { (";" | newline) ITEM }       "#" starts a comment up to the line's end
 *   ITEM  := RATES | RULE | nothing
 *   RATES := key=value { "," key=value }         the first word has a "="
 *   RULE  := action { blank (key=value | flag) } the first word has none
 */
#ifndef FAULT_PARSE_H
#define FAULT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FAULT_KEY_LEN = 32,	/* with the NUL */
	FAULT_VALUE_LEN = 192,	/* with the NUL */
	FAULT_WORDS = 32,	/* in an item */
	FAULT_TEXT_MAX = 65536, /* bytes of a text */
	FAULT_ERROR_LEN = 512,
	FAULT_EXCERPT_LEN = 256,
};

/** "key=value", or "key" alone. */
struct fault_word {
	char key[FAULT_KEY_LEN];
	char value[FAULT_VALUE_LEN];
	bool has_value;	 /* there was a "=" */
	bool comma;	 /* a comma stands before it */
	unsigned column; /* of the first byte in its line, from 1 */
	unsigned length; /* bytes in the text */
};

/** Rates or a rule. word[0] is the action of a rule. */
struct fault_item {
	unsigned line;	 /* of the text, from 1 */
	unsigned number; /* of the item in the text, from 1 */
	unsigned nwords; /* at least 1 */
	struct fault_word word[FAULT_WORDS];
	const char *start; /* the item as written: borrowed from the text */
	size_t length;
};

/** Why a text was refused. */
struct fault_error {
	unsigned line, column;	    /* from 1 */
	char text[FAULT_ERROR_LEN]; /* one line: the position, the text there, what was expected */
	char excerpt[FAULT_EXCERPT_LEN]; /* two lines: the text there, and a caret below; or "" */
};

struct fault_reader {
	const char *source; /* a file's name, or NULL; borrowed */
	const char *at;	    /* what comes next; borrowed, as is line_start */
	const char *line_start;
	unsigned line, number;
};

/** text and source (NULL: not a file) are borrowed until the last call. */
void fault_reader_init(struct fault_reader *r, const char *text, const char *source);

/**
 * The next item that is not empty.
 * @return 1, 0 (there is none any more), or -EINVAL with *e filled: a word that is too long, or too
 * many words.
 */
int fault_reader_next(struct fault_reader *r, struct fault_item *item, struct fault_error *e);

/**
 * Refuse word w of the item that was read last; expected: the correct form ("a number from 1 to
 * 5").
 * @return -EINVAL, for the caller to pass on.
 */
int fault_refuse(const struct fault_reader *r, const struct fault_item *item,
		 const struct fault_word *w, struct fault_error *e, const char *expected, ...)
	__attribute__((format(printf, 5, 6)));

/** The same after the last word: a word is missing. */
int fault_refuse_end(const struct fault_reader *r, const struct fault_item *item,
		     struct fault_error *e, const char *expected, ...)
	__attribute__((format(printf, 4, 5)));

/** The item has word key (with or without a value), from word[1] on. NULL: it does not. */
const struct fault_word *fault_item_find(const struct fault_item *item, const char *key);

/* ---- values: each reads all of s and returns false when s is not such a value ---- */

/** Two numbers or times, ends included. */
struct fault_range {
	uint64_t min, max;
};

/** Decimal, or hexadecimal with 0x; at most max. */
bool fault_value_number(const char *s, uint64_t max, uint64_t *out);
/** "A", "A..B", "A.." (up to max), "..B" (from 0); A <= B. */
bool fault_value_range(const char *s, uint64_t max, struct fault_range *out);
/** "1.5%" or "0.015": 0 to 1. */
bool fault_value_chance(const char *s, double *out);
/** "10us"; ns, us, ms, s. */
bool fault_value_time(const char *s, uint64_t max_ns, uint64_t *out);
/** "10us" or "10us..2ms". */
bool fault_value_span(const char *s, uint64_t max_ns, struct fault_range *out);
/** "10us..2ms" at the front of *s, which moves behind it. */
bool fault_value_span_part(const char **s, uint64_t max_ns, struct fault_range *out);
/** "4096", "64k", "1M": bytes, k and M of 1024. */
bool fault_value_bytes(const char *s, uint64_t max, uint64_t *out);
/** "1Gbit", "2.5Gbit", "100Mbit", "64kbit": bits per second, factors of 1000. At least 1. */
bool fault_value_rate(const char *s, uint64_t max, uint64_t *out);

#endif
