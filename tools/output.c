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
