/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
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
