/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timescale.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static double parsed(const char *text)
{
	double scale = -1;
	char err[256] = "";

	return timescale_parse(text, &scale, err, sizeof(err)) ? scale : -1;
}

TEST(timescale_parse, numbers_in_the_range__taken)
{
	assert_true(parsed(NULL) == 1);
	assert_true(parsed("") == 1);
	assert_true(parsed("1") == 1);
	assert_true(parsed("100") == 100);
	assert_true(parsed("2.5") == 2.5);
	assert_true(parsed(".5") == 0.5);
	assert_true(parsed("0.0001") > 0.00009 && parsed("0.0001") < 0.00011);
	assert_true(parsed("1000000") == 1000000);
}

TEST(timescale_parse, anything_else__refused_with_value_and_range)
{
	static const char *const bad[] = {"0",	 "0.00009", "1000001", "-1",   "x",
					  "1x",	 "1,5",	    " 1",      "1e3",  "inf",
					  "nan", ".",	    "1.2.3",   "0x10", "100%"};
	double scale = 7;
	char err[256];

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		assert_false(timescale_parse(bad[i], &scale, err, sizeof(err)));
		assert_true(scale == 7);
		assert_non_null(strstr(err, bad[i]));
		assert_non_null(strstr(err, "0.0001 to 1000000"));
	}
}

TEST(timescale_get, environment__named_in_the_message)
{
	double scale = 7;
	char err[256] = "";

	unsetenv("ROCEMU_TIME_SCALE");
	assert_int_equal(timescale_get(&scale, err, sizeof(err)), 0);
	assert_true(scale == 1);
	setenv("ROCEMU_TIME_SCALE", "50", 1);
	assert_int_equal(timescale_get(&scale, err, sizeof(err)), 0);
	assert_true(scale == 50);
	setenv("ROCEMU_TIME_SCALE", "fast", 1);
	assert_int_equal(timescale_get(&scale, err, sizeof(err)), -EINVAL);
	assert_true(scale == 50);
	assert_non_null(strstr(err, "ROCEMU_TIME_SCALE: \"fast\""));
	unsetenv("ROCEMU_TIME_SCALE");
}

TEST(timescale_wait, scaled__divided_and_never_nothing)
{
	assert_int_equal(timescale_wait(0, 1000), 1000);
	assert_int_equal(timescale_wait(1, 1000), 1000);
	assert_int_equal(timescale_wait(1, UINT64_MAX), UINT64_MAX);
	assert_int_equal(timescale_wait(100, 1000), 10);
	assert_int_equal(timescale_wait(0.5, 1000), 2000);
	assert_int_equal(timescale_wait(1000000, 5), 1);
	assert_int_equal(timescale_wait(100, 0), 0);
	/* The longest of all: an ACK timeout of code 31, 2.4 hours. */
	assert_true(timescale_wait(TIMESCALE_MIN, (uint64_t)4096 << 31) < UINT64_MAX / 2);
}
