/* SPDX-License-Identifier: BSD-2-Clause */
#include "libraries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

int libraries_set_path(const char *self)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char dirs[2 * PATH_MAX], *value;
	int n;

	if (!paths_libraries(dirs, sizeof(dirs))) {
		fprintf(stderr,
			"%s: libibverbs.so.1 is not where this program's installation should have "
			"it\n",
			self);
		return TOOL_FAILED;
	}
	n = old && *old ? asprintf(&value, "%s:%s", dirs, old) : asprintf(&value, "%s", dirs);
	if (n < 0 || setenv("LD_LIBRARY_PATH", value, 1) < 0) {
		fprintf(stderr, "%s: out of memory\n", self);
		return TOOL_FAILED;
	}
	free(value);
	return TOOL_OK;
}

/** Put text before a variable's value, in the variable's syntax. @return -1: no
 * memory. */
static int put_before(const char *name, const char *text, char separator)
{
	const char *old = getenv(name);
	char *value;
	int n;

	n = old && *old ? asprintf(&value, "%s%c%s", text, separator, old)
			: asprintf(&value, "%s", text);
	if (n < 0)
		return -1;
	n = setenv(name, value, 1);
	free(value);
	return n;
}

int libraries_set_checkers(void)
{
	static const char link_order[] = "verify_asan_link_order";
	const char *asan = getenv("ASAN_OPTIONS"), *valgrind = getenv("VALGRIND_OPTS");
	char file[PATH_MAX], option[PATH_MAX + 32];

	/*
	 * AddressSanitizer's runtime requires to be the first library; it also works behind the
	 * preloaded one.
	 */
	if (!(asan && strstr(asan, link_order)) &&
	    put_before("ASAN_OPTIONS", "verify_asan_link_order=0", ':'))
		return -1;
	if (!paths_suppressions(file) || strpbrk(file, " \"'") ||
	    (valgrind && strstr(valgrind, file)))
		return 0;
	snprintf(option, sizeof(option), "--suppressions=%s", file);
	return put_before("VALGRIND_OPTS", option, ' ');
}

int libraries_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	int n;

	if (strpbrk(library, " :")) {
		errno = EINVAL;
		return -1;
	}
	/* Under another "rocemu run" it is there. */
	if (old && strstr(old, library))
		return 0;
	n = old && *old ? asprintf(&value, "%s:%s", old, library) : asprintf(&value, "%s", library);
	if (n < 0)
		return -1;
	n = setenv("LD_PRELOAD", value, 1);
	free(value);
	return n;
}
