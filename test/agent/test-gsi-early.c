/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-early.h"

#include "test.h"

static bool add(struct gsi_early *e, unsigned cell, uint64_t now_ms)
{
	const struct gsi_mad d = {.sport = 1};

	return gsi_early_add(e, &d, cell, now_ms);
}

TEST(early, one_source_floods__another_is_kept)
{
	struct gsi_early e;
	unsigned kept = 0;

	gsi_early_init(&e);
	while (add(&e, 1, 5))
		kept++;
	assert_int_equal(kept, GSI_EARLY_MAX);
	assert_true(add(&e, 2, 5));
	gsi_early_fini(&e);
}

TEST(early, dropped__there_is_room_again)
{
	struct gsi_early e;

	gsi_early_init(&e);
	while (add(&e, 1, 5))
		;
	assert_int_equal(gsi_early_next_ms(&e), 5 + GSI_EARLY_MS);
	gsi_early_drop(&e, gsi_early_first(&e));
	assert_true(add(&e, 1, 5));
	gsi_early_fini(&e);
}
