/* SPDX-License-Identifier: BSD-2-Clause */
#include "libraries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/** Put text into a variable whose value is a list. @return -1 and errno. */
static int put(const char *name, const char *first, char separator, const char *last)
{
	char *value;
	int n = asprintf(&value, "%s%c%s", first, separator, last);

	if (n < 0)
		return -1;
	n = setenv(name, value, 1);
	free(value);
	return n;
}

static int put_before(const char *name, const char *text, char separator)
{
	const char *old = getenv(name);

	return old && *old ? put(name, text, separator, old) : setenv(name, text, 1);
}

/** @param separators what cannot be in a file's name, a colon the last. */
static int put_file_after(const char *name, const char *file, const char *separators)
{
	const char *old = getenv(name);

	if (strpbrk(file, separators)) {
		errno = EINVAL;
		return -1;
	}
	/* Under another "rocemu run" it is there. */
	if (old && strstr(old, file))
		return 0;
	return old && *old ? put(name, old, ':', file) : setenv(name, file, 1);
}

int libraries_set_path(const char *self)
{
	char dirs[2 * PATH_MAX];

	if (!paths_libraries(dirs, sizeof(dirs))) {
		fprintf(stderr,
			"%s: libibverbs.so.1 is not where this program's installation should have "
			"it\n",
			self);
		return TOOL_FAILED;
	}
	if (put_before("LD_LIBRARY_PATH", dirs, ':') == 0)
		return TOOL_OK;
	fprintf(stderr, "%s: out of memory\n", self);
	return TOOL_FAILED;
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
	return put_file_after("LD_PRELOAD", library, " :");
}

int libraries_audit(void)
{
	char auditor[PATH_MAX], dirs[2 * PATH_MAX], *verbs = dirs, *rdmacm, *value;
	int n;

	if (!paths_auditor(auditor) || !paths_libraries(dirs, sizeof(dirs))) {
		errno = ENOENT;
		return -1;
	}
	/* One directory has both, or each has one. */
	rdmacm = strchr(dirs, ':');
	if (rdmacm)
		*rdmacm++ = 0;
	n = asprintf(&value, "%s/libibverbs.so.1:%s/librdmacm.so.1", verbs,
		     rdmacm ? rdmacm : verbs);
	if (n < 0)
		return -1;
	n = setenv("ROCEMU_AUDIT", value, 1);
	free(value);
	return n < 0 ? n : put_file_after("LD_AUDIT", auditor, ":");
}
