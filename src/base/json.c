/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/* ---- strings ---- */

/* The least and the most that the second byte may be: no longer form than needed, no surrogates,
 * nothing above U+10FFFF. RFC 3629, section 4. */
static bool second_fits(unsigned char first, unsigned char second)
{
	const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return second >= least && second <= most;
}

size_t utf8_len(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	const size_t n = len == 0			? 0
			 : p[0] < 0x80			? 1
			 : p[0] >= 0xc2 && p[0] < 0xe0	? 2
			 : p[0] >= 0xe0 && p[0] < 0xf0	? 3
			 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
							: 0;

	if (n > len || (n > 1 && !second_fits(p[0], p[1])))
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void json_string(FILE *f, const char *text, size_t len)
{
	fputc('"', f);
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		const unsigned char c = (unsigned char)text[i];

		n = utf8_len(text + i, len - i);
		if (n == 0)
			fputs("\\ufffd", f);
		else if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20 || c == '<' || c == 0x7f)
			fprintf(f, "\\u%04x", c);
		else if (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0)
			fprintf(f, "\\u%04x", (unsigned char)text[i + 1]);
		else
			fwrite(text + i, 1, n, f);
	}
	fputc('"', f);
}

/* ---- members ---- */

static void begin(struct json *j, const char *key)
{
	if (j->follows)
		fputc(',', j->f);
	if (j->line)
		fputc('\n', j->f);
	else if (j->follows)
		fputc(' ', j->f);
	j->line = false;
	j->follows = true;
	if (key) {
		json_string(j->f, key, strlen(key));
		fputs(": ", j->f);
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin(j, key);
	fputc(bracket, j->f);
	j->follows = false;
}

void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->f);
	j->follows = true;
	j->line = false;
}

void json_line(struct json *j)
{
	j->line = true;
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	begin(j, key);
	fprintf(j->f, "%" PRIu64, value);
}

void json_u64s(struct json *j, const struct json_u64 *members, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_u64(j, members[i].key, members[i].value);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
	begin(j, key);
	fprintf(j->f, "%" PRId64, value);
}

void json_real(struct json *j, const char *key, double value, int decimals)
{
	begin(j, key);
	fprintf(j->f, "%.*f", decimals, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	begin(j, key);
	fputs(value ? "true" : "false", j->f);
}

void json_null(struct json *j, const char *key)
{
	begin(j, key);
	fputs("null", j->f);
}

void json_text(struct json *j, const char *key, const char *text)
{
	json_text_n(j, key, text, strlen(text));
}

void json_text_n(struct json *j, const char *key, const char *text, size_t len)
{
	begin(j, key);
	json_string(j->f, text, len);
}
