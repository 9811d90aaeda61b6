/* SPDX-License-Identifier: BSD-2-Clause */
/* FUZZ_CHECK()'s other half, apart from driver.c so that libFuzzer builds have it too. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void fuzz_check_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, cond);
	abort();
}
