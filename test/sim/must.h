/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_SIM_MUST_H
#define TEST_SIM_MUST_H

#include <stdlib.h>

/** p; a test that cannot allocate has no result. */
static inline void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

#endif
