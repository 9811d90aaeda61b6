/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/limit.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/util.h"
#include "test.h"

static char text[LIMIT_TEXT_LEN];

/* Limits of all other resources are off. */
static void expect_text(__rlimit_resource_t resource, rlim_t value, int err, const char *expected)
{
	const __rlimit_resource_t all[] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA,
					   RLIMIT_NPROC};
	struct rlimit before[ARRAY_LEN(all)];

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rlimit now;

		assert_int_equal(getrlimit(all[i], &before[i]), 0);
		now = before[i];
		now.rlim_cur = all[i] == resource ? value : now.rlim_max;
		assert_int_equal(setrlimit(all[i], &now), 0);
	}
	limit_text(err, text);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(setrlimit(all[i], &before[i]), 0);
	if (!strstr(text, expected))
		fail_msg("\"%s\" has no \"%s\"", text, expected);
}

TEST(limit_text, error_of_a_limited_resource__value_and_remedy)
{
	expect_text(RLIMIT_NOFILE, 64, -EMFILE, "64 file descriptors");
	expect_text(RLIMIT_NOFILE, 64, -EMFILE, "(ulimit -n)");
	expect_text(RLIMIT_FSIZE, 4096, -EFBIG,
		    "4096 bytes in a file: raise the limit (ulimit -f)");
	expect_text(RLIMIT_AS, 64 << 20, -ENOMEM, "65536 KiB of address space");
	expect_text(RLIMIT_DATA, 64 << 20, -ENOMEM, "65536 KiB of data");
	expect_text(RLIMIT_DATA, 64 << 20, -EAGAIN, "65536 KiB of data, stacks included");
	expect_text(RLIMIT_NPROC, 10, -EAGAIN, "this user may have 10 processes and threads");
}

TEST(limit_text, other_errors__nothing)
{
	assert_string_equal(limit_text(-EINVAL, text), "");
	assert_string_equal(limit_text(0, text), "");
	assert_string_equal(limit_text(-ENOSPC, text), "");
}
