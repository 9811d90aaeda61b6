/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included by every test file: cmocka, and test cases that register themselves, so that none can be
 * missing from a list.
 *
 *	TEST(psn, wraps_at_2_24__difference_is_one)
 *	{
 *		assert_int_equal(rocemu_psn_diff(0, 0xffffff), 1);
 *	}
 *
 * The test's name is made of its file, its subject and the second argument:
 * subject__condition__outcome. A test program is one or more such files linked with lib_test, which
 * brings main(): its arguments are name patterns (with * and ?), none means all.
 */
#ifndef TEST_LIB_TEST_H
#define TEST_LIB_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* With a sanitizer an endpoint takes 10 ms, fifty times as long, since its allocator maps each
 * large buffer anew. It looks at each access, not at what comes of it: tests that run through all
 * of a long list of cases take a part of them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TEST_SANITIZED = 1 };
#else
enum { TEST_SANITIZED = 0 };
#endif

struct test_case {
	const char *name;
	CMUnitTestFunction run;
	struct test_case *next; /* borrowed: static storage */
};

/** Called by TEST() before main(). */
void test_register(struct test_case *t);

/**
 * Run the registered tests whose names match one of patterns[0..n); all of them when n is 0.
 * @return the exit code: 0 all passed, 1 some failed, 2 nothing matched.
 */
int test_run(const char *program, char *const *patterns, int n);

#define TEST(subject, name) TEST_CASE_(subject##__##name)
#define TEST_CASE_(id)                                                      \
	static void id(void);                                               \
	static void id##_run(void **state)                                  \
	{                                                                   \
		(void)state;                                                \
		id();                                                       \
	}                                                                   \
	__attribute__((constructor)) static void id##_register(void)        \
	{                                                                   \
		static struct test_case t = {.name = #id, .run = id##_run}; \
                                                                            \
		test_register(&t);                                          \
	}                                                                   \
	static void id(void)

#endif
