/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes JSON to a file. The caller gives members in their order; separators come by themselves.
 * Errors stay in the file (ferror()).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *f;
	bool follows; /* the next member has one before it */
	bool line;    /* ... and begins on a new line */
};

/*
 * A member of an object has a key, an element of an array, and the whole, have NULL.
 */
/** bracket: '{' or '['. */
void json_open(struct json *j, const char *key, char bracket);
/** bracket: '}' or ']'. */
void json_close(struct json *j, char bracket);
/** The next member begins on a new line. */
void json_line(struct json *j);

void json_u64(struct json *j, const char *key, uint64_t value);
struct json_u64 {
	const char *key;
	uint64_t value;
};
void json_u64s(struct json *j, const struct json_u64 *members, size_t n);
/** JSON_U64S(j, {"key", value}, ...): several in turn. */
#define JSON_U64S(j, ...)                                    \
	json_u64s(j, (const struct json_u64[]){__VA_ARGS__}, \
		  sizeof((const struct json_u64[]){__VA_ARGS__}) / sizeof(struct json_u64))
void json_i64(struct json *j, const char *key, int64_t value);
/** With that many decimals. */
void json_real(struct json *j, const char *key, double value, int decimals);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_text(struct json *j, const char *key, const char *text);
/** The first len bytes of it. */
void json_text_n(struct json *j, const char *key, const char *text, size_t len);

/** A string with its quotes: UTF-8 stays, other bytes become U+FFFD. Control characters (of both
 * sets: a terminal may take them for commands) and '<' (the string may stand in a page) are
 * escaped. */
void json_string(FILE *f, const char *text, size_t len);

/** The length of the UTF-8 sequence that text[0..len) begins with; 0: none. */
size_t utf8_len(const char *text, size_t len);

#endif
