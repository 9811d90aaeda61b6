/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry behind TEST(): collects test cases before main() and gives them to cmocka. */
#include "test.h"

#include <fnmatch.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_case *first, **last = &first;
static size_t count;

void test_register(struct test_case *t)
{
	*last = t;
	last = &t->next;
	count++;
}

static bool wanted(const char *name, char *const *patterns, int n)
{
	for (int i = 0; i < n; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return n == 0;
}

/* Many cases make and free an endpoint or a buffer each: memory that goes back to the system and
 * comes again costs a page fault for each page, which on a virtual machine takes longer than the
 * case. */
static void keep_freed_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

int test_run(const char *program, char *const *patterns, int n)
{
	const char *slash = strrchr(program, '/');
	struct CMUnitTest *tests = calloc(count + 1, sizeof(*tests));
	size_t chosen = 0;
	int failed;

	if (!tests)
		return 2;
	keep_freed_memory();
	for (struct test_case *t = first; t; t = t->next)
		if (wanted(t->name, patterns, n))
			tests[chosen++] = (struct CMUnitTest){.name = t->name, .test_func = t->run};
	if (chosen == 0) {
		fprintf(stderr, "%s: no test matches; there are:\n", program);
		for (struct test_case *t = first; t; t = t->next)
			fprintf(stderr, "  %s\n", t->name);
		free(tests);
		return 2;
	}
	/* The function behind the macro, which requires an array of known size. */
	failed = _cmocka_run_group_tests(slash ? slash + 1 : program, tests, chosen, NULL, NULL);
	free(tests);
	return failed ? 1 : 0;
}
