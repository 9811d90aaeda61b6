/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table, by the drop-in libibverbs over real sockets. */
#include "test.h"

#include <stdbool.h>

#include "errors.h"

static bool run_all(const struct err_row *rows, unsigned n)
{
	bool ok = true;

	for (unsigned i = 0; i < n; i++)
		ok &= err_run(&err_bench_verbs, &rows[i], 0);
	return ok;
}

TEST(errors, one_request__as_the_table_says)
{
	assert_true(run_all(err_rows, err_nrows));
}

TEST(errors, more_than_a_request__as_the_table_says)
{
	assert_true(run_all(err_bodies, err_nbodies));
}
