/* SPDX-License-Identifier: BSD-2-Clause */
/* rocemu conform --diff and --matrix. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "conform/past.h"

enum { GOOD, WORSE, WRONG };

static int put_page(const char *self, const struct conform_past *p, unsigned n, const char *path)
{
	FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	int error = f ? 0 : errno;

	if (f) {
		conform_matrix_html(f, p, n);
		error = -cli_flush(f);
	}
	if (f && f != stdout && fclose(f) != 0 && !error)
		error = errno;
	if (!error)
		return GOOD;
	fprintf(stderr, "%s: --html: cannot write %s: %s\n", self, path, strerror(error));
	return WRONG;
}

int conform_compare(const char *self, char **paths, unsigned n, bool diff, const char *html)
{
	struct conform_past *p = calloc(n, sizeof(*p));
	int code = WRONG;
	unsigned i = 0;

	if (!p) {
		fprintf(stderr, "%s: no memory\n", self);
		return WRONG;
	}
	while (i < n && conform_past_read(&p[i], paths[i], self))
		i++;
	if (i == n && diff) {
		code = conform_diff(stdout, &p[0], &p[1]) ? WORSE : GOOD;
	} else if (i == n && html) {
		code = put_page(self, p, n, html);
	} else if (i == n) {
		conform_matrix(stdout, p, n);
		code = GOOD;
	}
	for (i = 0; i < n; i++)
		conform_past_free(&p[i]);
	free(p);
	return code;
}
