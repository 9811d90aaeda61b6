/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/text.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include "wire/ip.h"

struct text text_start(char *buf, size_t size)
{
	if (size != 0)
		buf[0] = '\0';
	return (struct text){.buf = buf, .size = size};
}

void text_add(struct text *t, const char *fmt, ...)
{
	size_t room = t->len < t->size ? t->size - t->len : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room != 0 ? t->buf + t->len : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
}

void text_add_gid(struct text *t, const struct rocemu_gid *g)
{
	char s[INET6_ADDRSTRLEN];

	if (gid_is_ipv4(g))
		text_add(t, "%s", inet_ntop(AF_INET, g->raw + 12, s, sizeof(s)));
	else
		text_add(t, "%s", inet_ntop(AF_INET6, g->raw, s, sizeof(s)));
}
