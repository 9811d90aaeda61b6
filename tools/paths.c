/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the other parts relative to this executable, so that a build tree works as it is and an
 * installed tree may be moved.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/util.h"
#include "tool.h"

/** Directory of this program, without a slash at the end. */
static bool own_directory(char *out, size_t len)
{
	ssize_t n = readlink("/proc/self/exe", out, len - 1);
	const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	char real[PATH_MAX], *slash;

	if (n >= 0)
		out[n] = 0;
	/* Without /proc: as it was started, and nothing has changed the directory since. */
	else if (!name || !realpath(name, real) || snprintf(out, len, "%s", real) >= (int)len)
		return false;
	slash = strrchr(out, '/');
	if (!slash)
		return false;
	*slash = 0;
	return true;
}

/** dir/file, if it is there. out may not be dir. */
static bool beside(char *out, size_t len, const char *dir, const char *file)
{
	return snprintf(out, len, "%s/%s", dir, file) < (int)len && access(out, F_OK) == 0;
}

/** path without "..", where it can be had: the C library's realpath() makes a call (faccessat2)
 * that old sandboxes forbid. */
static void plain(const char *path, char out[static PATH_MAX])
{
	if (!realpath(path, out))
		snprintf(out, PATH_MAX, "%s", path);
}

/** Append the directory of library, which is relative to dir or absolute, to the list. */
static bool append_if_there(char *list, size_t len, const char *dir, const char *sub,
			    const char *library)
{
	char at[PATH_MAX], file[PATH_MAX], real[PATH_MAX];
	size_t used = strlen(list);

	if (*sub == '/' ? snprintf(at, sizeof(at), "%s", sub) >= (int)sizeof(at)
			: snprintf(at, sizeof(at), "%s/%s", dir, sub) >= (int)sizeof(at))
		return false;
	if (!beside(file, sizeof(file), at, library))
		return false;
	plain(at, real);
	return snprintf(list + used, len - used, "%s%s", used ? ":" : "", real) < (int)(len - used);
}

bool paths_libraries(char *out, size_t len)
{
	char dir[PATH_MAX];

	out[0] = 0;
	if (!own_directory(dir, sizeof(dir)))
		return false;
	if (append_if_there(out, len, dir, "../src/verbs", "libibverbs.so.1")) {
		append_if_there(out, len, dir, "../src/rdmacm", "librdmacm.so.1");
		return true;
	}
	return append_if_there(out, len, dir, LIBDIR_FROM_BINDIR, "libibverbs.so.1") ||
	       append_if_there(out, len, dir, LIBDIR_INSTALLED, "libibverbs.so.1");
}

/**
 * Look for a file in n directories, relative to this executable's, then in the configured install
 * paths.
 */
static bool find_program(char out[static PATH_MAX], const char *const *places, size_t n,
			 const char *program)
{
	char dir[PATH_MAX], at[PATH_MAX], file[PATH_MAX];

	if (own_directory(dir, sizeof(dir)))
		for (size_t i = 0; i < n; i++)
			if (snprintf(at, sizeof(at), "%s/%s", dir, places[i]) < (int)sizeof(at) &&
			    beside(file, sizeof(file), at, program)) {
				plain(file, out);
				return true;
			}
	return beside(out, PATH_MAX, LIBDIR_INSTALLED, program);
}

bool paths_agent(char out[static PATH_MAX])
{
	static const char *const places[] = {"../src/agent", LIBDIR_FROM_BINDIR};

	return find_program(out, places, ARRAY_LEN(places), "rocemu-agent");
}

static const char *const interpose_places[] = {"../src/interpose", LIBDIR_FROM_BINDIR};

bool paths_interposer(char out[static PATH_MAX])
{
	return find_program(out, interpose_places, ARRAY_LEN(interpose_places),
			    "librocemu-paths.so");
}

bool paths_auditor(char out[static PATH_MAX])
{
	return find_program(out, interpose_places, ARRAY_LEN(interpose_places),
			    "librocemu-audit.so");
}

bool paths_parity(char out[static PATH_MAX])
{
	static const char *const places[] = {"../lab/parity", LIBDIR_FROM_BINDIR};

	return find_program(out, places, ARRAY_LEN(places), "rocemu-parity");
}

bool paths_suppressions(char out[static PATH_MAX])
{
	static const char *const places[] = {"../src/verbs", LIBDIR_FROM_BINDIR};

	return find_program(out, places, ARRAY_LEN(places), "rocemu.supp");
}
