/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table, by the drop-in libibverbs over real sockets: on one device, and between two. */
#include "test.h"

#include <stdbool.h>
#include <stdlib.h>

#include "dev.h"
#include "errors.h"

static void use(const char *devices, const char *req, const char *rsp)
{
	dev_namespace();
	if (devices)
		assert_int_equal(setenv("ROCEMU_DEVICES", devices, 1), 0);
	else
		assert_int_equal(unsetenv("ROCEMU_DEVICES"), 0);
	err_verbs.device[REQ] = req;
	err_verbs.device[RSP] = rsp;
	err_verbs.vendor_err_is_nak = true;
}

static void run_all(const struct err_row *rows, unsigned n)
{
	bool ok = true;

	for (unsigned i = 0; i < n; i++)
		ok &= err_run(&err_bench_verbs, &rows[i], 0);
	assert_true(ok);
}

TEST(errors, one_request_on_one_device__as_the_table_says)
{
	use(NULL, "rocemu_lo", "rocemu_lo");
	run_all(err_rows, err_nrows);
}

TEST(errors, more_than_a_request_on_one_device__as_the_table_says)
{
	use(NULL, "rocemu_lo", "rocemu_lo");
	run_all(err_bodies, err_nbodies);
}

TEST(errors, one_request_between_devices__as_the_table_says)
{
	use("a=127.0.0.1,b=127.0.0.2", "a", "b");
	run_all(err_rows, err_nrows);
}

TEST(errors, more_than_a_request_between_devices__as_the_table_says)
{
	use("a=127.0.0.1,b=127.0.0.2", "a", "b");
	run_all(err_bodies, err_nbodies);
}
