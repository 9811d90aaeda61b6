/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-sources.h"

#include "test.h"

static const struct rocemu_gid host = {{[10] = 0xff, 0xff, 10, 0, 0, 1}};

static struct gsi_sources start(uint64_t key)
{
	struct gsi_sources s;

	gsi_sources_init(&s, (uint64_t[]){key, 7});
	return s;
}

TEST(sources, ports_of_a_host__one_cell_and_qp1s_of_its_own)
{
	unsigned apart = 0;

	/* Under some keys they meet: one in 256. */
	for (uint64_t key = 0; key < 64; key++) {
		const struct gsi_sources s = start(key);

		assert_int_equal(gsi_sources_cell(&s, &host, 40000),
				 gsi_sources_cell(&s, &host, 1));
		apart += gsi_sources_cell(&s, &host, 40000) !=
			 gsi_sources_cell(&s, &host, GSI_SPORT);
	}
	assert_true(apart > 48);
}

TEST(sources, key__says_who_shares_a_cell)
{
	unsigned differ = 0;

	for (uint64_t key = 0; key < 64; key++) {
		const struct gsi_sources a = start(key), b = start(key + 1);

		differ += gsi_sources_cell(&a, &host, 1) != gsi_sources_cell(&b, &host, 1);
	}
	assert_true(differ > 48);
}

TEST(answers, to_one_source__so_many_in_a_second)
{
	struct gsi_sources s = start(1);

	for (unsigned second = 100; second < 102; second++) {
		for (unsigned i = 0; i < GSI_ANSWERS_PER_S; i++)
			assert_true(gsi_sources_may_answer(&s, 3, second * 1000 + i % 1000));
		assert_false(gsi_sources_may_answer(&s, 3, second * 1000 + 999));
		assert_true(gsi_sources_may_answer(&s, 4, second * 1000 + 999));
	}
}
