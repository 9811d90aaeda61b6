/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/util.h"

enum { KIB = 1024 };

/* In the order in which they are looked at. */
static const struct limit {
	int err;
	__rlimit_resource_t resource;
	unsigned unit;	  /* bytes of one; 1: not bytes */
	const char *who;  /* NULL: this process */
	const char *text; /* after "WHO may have N" */
} limits[] = {
	{EMFILE, RLIMIT_NOFILE, 1, NULL,
	 "file descriptors, and has no free one: raise the limit (ulimit -n), or close some"},
	{EFBIG, RLIMIT_FSIZE, 1, NULL, "bytes in a file: raise the limit (ulimit -f)"},
	{ENOMEM, RLIMIT_AS, KIB, NULL, "KiB of address space: raise the limit (ulimit -v)"},
	{ENOMEM, RLIMIT_DATA, KIB, NULL, "KiB of data: raise the limit (ulimit -d)"},
	/* A thread without memory for its stack gets EAGAIN, too. */
	{EAGAIN, RLIMIT_AS, KIB,
	 "KiB of address space, for stacks too: raise the limit (ulimit -v)"},
	{EAGAIN, RLIMIT_DATA, KIB, NULL,
	 "KiB of data, stacks included: raise the limit (ulimit -d)"},
	{EAGAIN, RLIMIT_NPROC, 1, "this user",
	 "processes and threads: raise the limit (ulimit -u), or pids.max of the control group"},
};

static bool is_limited(const struct limit *l, unsigned long long *value)
{
	struct rlimit now;

	if (getrlimit(l->resource, &now) < 0 || now.rlim_cur == RLIM_INFINITY)
		return false;
	*value = now.rlim_cur / l->unit;
	return true;
}

const char *limit_text(int err, char buf[static LIMIT_TEXT_LEN])
{
	unsigned long long value;

	buf[0] = 0;
	if (err == -ENFILE)
		snprintf(buf, LIMIT_TEXT_LEN, "; raise the system's limit: sysctl fs.file-max");
	for (unsigned i = 0; i < ARRAY_LEN(limits) && !buf[0]; i++)
		if (err == -limits[i].err && is_limited(&limits[i], &value))
			snprintf(buf, LIMIT_TEXT_LEN, "; %s may have %llu %s",
				 limits[i].who ? limits[i].who : "this process", value,
				 limits[i].text);
	return buf;
}

/* ---- policies ---- */

/** Is there a line that begins with text? */
static bool file_has(const char *path, const char *text)
{
	FILE *f = fopen(path, "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, text, strlen(text)) == 0;
	if (f)
		fclose(f);
	return found;
}

/** AppArmor's profile or SELinux's label of this process. @return false: none that restricts it. */
static bool security_label(char *out, size_t len)
{
	FILE *f = fopen("/proc/self/attr/current", "re");
	bool any = f && fgets(out, (int)len, f);

	if (f)
		fclose(f);
	if (any)
		out[strcspn(out, "\n")] = 0;
	return any && *out && !strstr(out, "unconfined") && strcmp(out, "kernel") != 0;
}

const char *refusal_text(int err, char buf[static LIMIT_TEXT_LEN])
{
	const bool refused =
		err == -EPERM || err == -EACCES || err == -ENOSYS || err == -EAFNOSUPPORT;
	char label[80];

	buf[0] = 0;
	if (refused && file_has("/proc/self/status", "Seccomp:\t2"))
		snprintf(buf, LIMIT_TEXT_LEN,
			 "; a seccomp filter is in force, a container's or sandbox's, which may "
			 "forbid it");
	else if ((err == -EPERM || err == -EACCES) && security_label(label, sizeof(label)))
		snprintf(buf, LIMIT_TEXT_LEN,
			 "; the security profile \"%s\" is in force, which may forbid it", label);
	return buf;
}
