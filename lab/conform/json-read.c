/* SPDX-License-Identifier: BSD-2-Clause */
#include "conform/json-read.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { DEPTH_MAX = 16, NUMBER_MAX = 40 };

void json_read_begin(struct json_reader *r, const char *text, size_t len)
{
	*r = (struct json_reader){.begin = text, .at = text, .end = text + len};
}

unsigned json_read_line(const struct json_reader *r)
{
	unsigned line = 1;

	for (const char *p = r->begin; p < r->at; p++)
		line += *p == '\n';
	return line;
}

bool json_read_fail(struct json_reader *r, const char *error)
{
	if (!r->error)
		r->error = error;
	return false;
}

/** The next character that is no blank; 0: the end. */
static char peek(struct json_reader *r)
{
	while (r->at < r->end && *r->at && strchr(" \t\r\n", *r->at))
		r->at++;
	return r->at < r->end ? *r->at : 0;
}

static bool take(struct json_reader *r, char c, const char *error)
{
	if (r->error || peek(r) != c)
		return json_read_fail(r, error);
	r->at++;
	return true;
}

bool json_enter(struct json_reader *r, char bracket)
{
	if (!take(r, bracket, bracket == '{' ? "an object is expected" : "an array is expected"))
		return false;
	if (++r->depth > DEPTH_MAX)
		return json_read_fail(r, "objects and arrays are too deep within each other");
	r->first = true;
	return true;
}

/** Another member or element? @return false: the bracket that closes was read; or an error. */
static bool more(struct json_reader *r, char close)
{
	const bool first = r->first;

	if (r->error)
		return false;
	r->first = false;
	if (peek(r) == close) {
		r->at++;
		r->depth--;
		return false;
	}
	return first ||
	       take(r, ',', close == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
}

bool json_next_key(struct json_reader *r, char *key, size_t size)
{
	return more(r, '}') && json_read_string(r, key, size) && take(r, ':', "':' is expected");
}

bool json_next_element(struct json_reader *r)
{
	return more(r, ']');
}

bool json_is_string(struct json_reader *r)
{
	return !r->error && peek(r) == '"';
}

/* ---- strings ---- */

struct out {
	char *to;
	size_t size, n;
};

/** All bytes of a character or none. */
static void put(struct out *o, const char *bytes, size_t n)
{
	if (o->n + n >= o->size) {
		o->size = o->n + 1; /* it is cut here */
		return;
	}
	memcpy(o->to + o->n, bytes, n);
	o->n += n;
}

/** As UTF-8; control characters of both sets are blanks, halves of surrogate pairs U+FFFD. */
static void put_character(struct out *o, unsigned c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		c = ' ';
	if (c >= 0xd800 && c < 0xe000)
		c = 0xfffd;
	if (c < 0x80)
		put(o, (const char[]){(char)c}, 1);
	else if (c < 0x800)
		put(o, (const char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, 2);
	else
		put(o,
		    (const char[]){(char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 0x3f)),
				   (char)(0x80 | (c & 0x3f))},
		    3);
}

static bool read_hex(struct json_reader *r, struct out *o)
{
	unsigned c = 0;

	for (unsigned i = 0; i < 4; i++, r->at++) {
		if (r->at == r->end || !isxdigit((unsigned char)*r->at))
			return json_read_fail(r, "four hexadecimal digits are expected behind \\u");
		c = c << 4 | (unsigned)(isdigit((unsigned char)*r->at)
						? *r->at - '0'
						: tolower((unsigned char)*r->at) - 'a' + 10);
	}
	put_character(o, c);
	return true;
}

static bool read_escape(struct json_reader *r, struct out *o)
{
	const char c = r->at < r->end ? *r->at++ : 0;

	if (c == 'u')
		return read_hex(r, o);
	if (!c || !strchr("\"\\/bfnrt", c))
		return json_read_fail(r, "there is no such escape in a string");
	put_character(o, strchr("bfnrt", c) ? ' ' : (unsigned char)c);
	return true;
}

/** One character, or an escape. */
static bool read_character(struct json_reader *r, struct out *o)
{
	const char *at = r->at;
	const size_t n = utf8_len(at, (size_t)(r->end - at));

	if (!n || (unsigned char)*at < 0x20)
		return json_read_fail(r, "this byte cannot be in a string");
	r->at += n;
	if (*at == '\\')
		return read_escape(r, o);
	if (n == 1)
		put_character(o, (unsigned char)*at);
	else if (n == 2 && (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0)
		put_character(o, ' ');
	else
		put(o, at, n);
	return true;
}

bool json_read_string(struct json_reader *r, char *to, size_t size)
{
	struct out o = {to, size, 0};
	bool good = take(r, '"', "a string is expected");

	while (good && r->at < r->end && *r->at != '"')
		good = read_character(r, &o);
	to[o.n] = 0;
	return good && take(r, '"', "the string has no end");
}

/* ---- other values ---- */

bool json_read_number(struct json_reader *r, double *to)
{
	char text[NUMBER_MAX], *end;
	size_t n = 0;

	*to = 0;
	if (r->error)
		return false;
	peek(r);
	while (r->at + n < r->end && n + 1 < sizeof(text) && r->at[n] &&
	       strchr("0123456789+-.eE", r->at[n])) {
		text[n] = r->at[n];
		n++;
	}
	text[n] = 0;
	*to = strtod(text, &end);
	if (!n || *end || strchr("+.", text[0]))
		return json_read_fail(r, "a number is expected");
	r->at += n;
	return true;
}

static bool skip_word(struct json_reader *r)
{
	static const char *const words[] = {"true", "false", "null"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const size_t n = strlen(words[i]);

		if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i], n) == 0) {
			r->at += n;
			return true;
		}
	}
	return json_read_fail(r, "a value is expected");
}

bool json_skip(struct json_reader *r)
{
	char text[4];
	double number;

	if (r->error)
		return false;
	switch (peek(r)) {
	case '{':
		json_enter(r, '{');
		while (json_next_key(r, text, sizeof(text)) && json_skip(r))
			;
		return !r->error;
	case '[':
		json_enter(r, '[');
		while (json_next_element(r) && json_skip(r))
			;
		return !r->error;
	case '"':
		return json_read_string(r, text, sizeof(text));
	case 't':
	case 'f':
	case 'n':
		return skip_word(r);
	default:
		return json_read_number(r, &number);
	}
}

bool json_read_end(struct json_reader *r)
{
	return !r->error && (peek(r) == 0 && r->at == r->end
				     ? true
				     : json_read_fail(r, "there is more behind the end"));
}
