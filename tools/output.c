/* SPDX-License-Identifier: BSD-2-Clause */
/* Colours and JSON strings. */
#include <stdlib.h>
#include <unistd.h>

#include "tool.h"

void out_bad(FILE *f, const char *text)
{
	const char *no_color = getenv("NO_COLOR");
	bool colour = isatty(fileno(f)) && !(no_color && *no_color);

	fprintf(f, "%s%s%s", colour ? "\033[31m" : "", text, colour ? "\033[0m" : "");
}

/** The length of the UTF-8 sequence that p begins with; 0: none, or a control character of two
 * bytes. */
static size_t utf8_len(const unsigned char *p)
{
	const size_t len = *p >= 0xc2 && *p < 0xe0 ? 2
			   : (*p & 0xf0) == 0xe0   ? 3
			   : (*p & 0xf8) == 0xf0   ? 4
						   : 0;

	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return p[0] == 0xc2 && p[1] < 0xa0 ? 0 : len;
}

void out_printable(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p;) {
		const size_t len = *p < 0x80 ? 1 : utf8_len(p);

		if (len == 0 || (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
			*p = '?';
		p += len ? len : 1;
	}
}

void out_error(const char *self, const char *text)
{
	char printable[512];

	snprintf(printable, sizeof(printable), "%s", text);
	out_printable(printable);
	fprintf(stderr, "%s: %s\n", self, printable);
}

void out_json_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(f, "\\u%04x", *p);
		else
			fputc(*p, f);
	}
	fputc('"', f);
}
