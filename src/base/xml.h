/* SPDX-License-Identifier: BSD-2-Clause */
/* Text in XML and HTML. */
#ifndef BASE_XML_H
#define BASE_XML_H

#include <stdio.h>
#include <string.h>

#include "base/json.h"

/**
 * Between tags and in attributes: what is markup is escaped. Control characters but newlines become
 * blanks, what is no UTF-8 becomes U+FFFD.
 */
static inline void xml_text_n(FILE *f, const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		const unsigned char c = (unsigned char)text[i];

		n = utf8_len(text + i, len - i);
		if (n == 0)
			fputs("&#xfffd;", f);
		else if (strchr("&<>\"'", c) || c == 0x7f || (c == 0xc2 && n == 2))
			fprintf(f, "&#%u;", n == 2 ? (unsigned char)text[i + 1] : c);
		else if (n == 1)
			fputc(c >= 0x20 || c == '\n' ? c : ' ', f);
		else
			fwrite(text + i, 1, n, f);
	}
}

static inline void xml_text(FILE *f, const char *text)
{
	xml_text_n(f, text, strlen(text));
}

#endif
