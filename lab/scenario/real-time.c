/* SPDX-License-Identifier: BSD-2-Clause */
/* Effects as a back end in real time can have them. */
#include <string.h>

#include "scenario/internal.h"

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, size_t len, const char *with)
{
	const size_t n = strlen(with);

	return len >= n && memcmp(text + len - n, with, n) == 0;
}

/** Is it there for certain? A packet that was not taken is not seen, and an ACK in front of another
 * answer that acknowledges as much may be left out. */
static bool is_seen(const char *effect, const char *next)
{
	const bool acknowledges =
		starts(next, "ack ") || starts(next, "nak ") || starts(next, "rnr ");

	return !starts(effect, "drop ") && !(starts(effect, "ack ") && acknowledges);
}

unsigned in_real_time(char *list)
{
	char *to = list;
	unsigned n = 0;

	if (strcmp(list, "nothing") == 0)
		return 0;
	for (const char *p = list; *p;) {
		const size_t all = strcspn(p, ";"), gap = strspn(p + all, "; ");
		const char *next = p + all + gap;
		const size_t len = ends(p, all, " sol") ? all - strlen(" sol") : all;

		if (is_seen(p, next)) {
			memmove(to, p, len);
			memmove(to + len, p + all, gap);
			to += len + gap;
			n++;
		}
		p = next;
	}
	/* Nothing comes behind the last one. */
	while (to > list && strchr("; ", to[-1]))
		to--;
	strcpy(to, n ? "" : "nothing");
	return n;
}
