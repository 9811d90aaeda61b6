/* SPDX-License-Identifier: BSD-2-Clause */
/* Colours, and text for a terminal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "tool.h"

void out_bad(FILE *f, const char *text)
{
	const char *no_color = getenv("NO_COLOR");
	bool colour = isatty(fileno(f)) && !(no_color && *no_color);

	fprintf(f, "%s%s%s", colour ? "\033[31m" : "", text, colour ? "\033[0m" : "");
}

/** The length of the character that text[0..len) begins with; 0: it is none to print. */
static size_t printable_len(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	const bool control = (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f ||
			     (len > 1 && p[0] == 0xc2 && p[1] < 0xa0);

	return control ? 0 : utf8_len(text, len);
}

void out_printable(char *text)
{
	char *const end = text + strlen(text);

	while (text < end) {
		const size_t len = printable_len(text, (size_t)(end - text));

		if (len == 0)
			*text = '?';
		text += len ? len : 1;
	}
}

void out_error(const char *self, const char *text)
{
	char printable[512];

	snprintf(printable, sizeof(printable), "%s", text);
	out_printable(printable);
	fprintf(stderr, "%s: %s\n", self, printable);
}
