/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <rocemu/wire.h>

#include "base/util.h"

/* IBTA vol. 1, table 46, in milliseconds as printed there. */
static void rnr_timer__every_code__as_the_standards_table(void **state)
{
	/* clang-format off */
	static const double ms[32] = {
		655.36, 0.01,  0.02,  0.03,  0.04,  0.06,  0.08,  0.12,   0.16,   0.24,   0.32,
		0.48,   0.64,  0.96,  1.28,  1.92,  2.56,  3.84,  5.12,   7.68,   10.24,  15.36,
		20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	};
	/* clang-format on */

	(void)state;
	for (uint8_t code = 0; code < 32; code++)
		assert_int_equal(rocemu_rnr_timer_ns(code), (uint64_t)(ms[code] * 1e6 + 0.5));
}

static void rnr_timer__whole_syndrome__upper_bits_ignored(void **state)
{
	(void)state;
	assert_int_equal(rocemu_rnr_timer_ns(ROCEMU_AETH_RNR | 12), 640000);
}

static void ack_timeout__codes__4096_ns_doubled_each(void **state)
{
	(void)state;
	assert_int_equal(rocemu_ack_timeout_ns(0), 0);
	assert_int_equal(rocemu_ack_timeout_ns(1), 8192);
	assert_int_equal(rocemu_ack_timeout_ns(14), 67108864);
	assert_int_equal(rocemu_ack_timeout_ns(31), (uint64_t)4096 << 31);
}

static void psn_diff__around_the_wrap__signed_distance(void **state)
{
	static const struct {
		uint32_t a, b;
		int32_t diff;
	} t[] = {
		{5, 5, 0},
		{0, 0xffffff, 1},
		{0xffffff, 0, -1},
		{0x800000, 0, -0x800000},
		{0x7fffff, 0, 0x7fffff},
		{3, 0xfffffd, 6},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(rocemu_psn_diff(t[i].a, t[i].b), t[i].diff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_timer__every_code__as_the_standards_table),
		cmocka_unit_test(rnr_timer__whole_syndrome__upper_bits_ignored),
		cmocka_unit_test(ack_timeout__codes__4096_ns_doubled_each),
		cmocka_unit_test(psn_diff__around_the_wrap__signed_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
