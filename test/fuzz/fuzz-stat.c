/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes from the other end of a socket of `rocemu stat`: whatever bytes, as a request and as
 * an answer. An answer that passes the check is walked and shown in all forms.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stat-show.h"

static void show(struct stat_head *h)
{
	static const char *const keys[] = {NULL, "tx", "naks"};
	struct stat_process p = {.pid = 1, .comm = "a \"b\\", .answer = h};
	const struct stat_list l = {.process = &p, .n = 1};
	const struct stat_filter all = {0}, some = {.qpn = 17, .device = "dev0"};
	FILE *f = fopen("/dev/null", "w");

	FUZZ_CHECK(f);
	for (unsigned i = 0; i < 3; i++)
		stat_print_table(f, &l, &all, keys[i]);
	stat_print_table(f, &l, &some, NULL);
	stat_print_json(f, &l, &all);
	stat_print_dump(f, &l, &all);
	stat_print_metrics(f, &l);
	fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Aligned, and no longer than it is. */
	struct stat_head *h = calloc(1, size ? size : 1);
	const struct stat_lane *l = NULL;
	unsigned lanes = 0;

	FUZZ_CHECK(h);
	if (size)
		memcpy(h, data, size);
	FUZZ_CHECK(!stat_request_is_valid(h, size) || size == sizeof(struct stat_request));
	if (stat_check(h, size) == 0) {
		while ((l = stat_lane_next(h, l))) {
			FUZZ_CHECK((const uint8_t *)(stat_qps(l) + l->nqps) <=
				   (const uint8_t *)h + size);
			lanes++;
		}
		FUZZ_CHECK(lanes == h->nlanes);
		show(h);
	}
	free(h);
	return 0;
}
