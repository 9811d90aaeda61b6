/* SPDX-License-Identifier: BSD-2-Clause */
#include "like.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/personality.h"
#include "tool.h"

static int complain(const char *self, const char *name, const char *text)
{
	fprintf(stderr, "%s: --like %s: %s\n", self, name, text);
	return TOOL_USAGE;
}

/** The traits that the library takes, a line each. @return false, with a line in errbuf. */
static bool write_traits(const struct personality *p, FILE *taken, FILE *others, char *errbuf,
			 size_t errlen)
{
	struct like like = {0};

	for (unsigned i = 0; i < p->traits; i++) {
		const struct like_trait *t = &p->trait[i];
		const int got = like_take(&like, t, errbuf, errlen);

		if (got < 0)
			return false;
		if (got)
			fprintf(taken, "%s %s\n", t->name, t->value);
		else
			fprintf(others, "%s'%s'", ftell(others) > 0 ? ", " : "", t->name);
	}
	return true;
}

int like_set(const char *self, const char *name)
{
	char *taken = NULL, *others = NULL, error[256];
	size_t ntaken, nothers;
	FILE *t = open_memstream(&taken, &ntaken), *o = open_memstream(&others, &nothers);
	static struct personality p; /* large */
	int code = TOOL_OK;

	if (!t || !o)
		snprintf(error, sizeof(error), "%s", strerror(ENOMEM));
	if (!t || !o || !personality_read(&p, name, error, sizeof(error)) ||
	    !write_traits(&p, t, o, error, sizeof(error)))
		code = complain(self, name, error);
	if (t && fclose(t) != 0 && !code)
		code = complain(self, name, strerror(ENOMEM));
	if (o && fclose(o) != 0 && !code)
		code = complain(self, name, strerror(ENOMEM));
	if (!code && nothers)
		fprintf(stderr, "%s: --like %s: not emulated: %s\n", self, name, others);
	if (!code)
		setenv("ROCEMU_LIKE", taken, 1);
	free(taken);
	free(others);
	return code;
}
