/* SPDX-License-Identifier: BSD-2-Clause */
/* Each exchange with every combination of its first eight messages lost, or doubled; and in random
 * order. */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

TEST(masks, good_network__first_of_the_allowed_logs)
{
	struct net n;

	for (unsigned i = 0; i < scenario_count; i++) {
		struct scenario s = scenarios[i];

		if (s.logs[1].a)
			memset(&s.logs[1], 0, sizeof(s.logs) - sizeof(s.logs[0]));
		net_start(&n, 1);
		scenario_run(&s, &n, "good network");
	}
}

TEST(masks, each_loss_of_the_first_eight__ends_as_without)
{
	struct net n;
	char what[32];

	for (unsigned i = 0; i < scenario_count; i++)
		for (unsigned mask = 0; mask < 256; mask++) {
			net_start(&n, mask);
			n.lose = mask;
			snprintf(what, sizeof(what), "lost 0x%02x", mask);
			scenario_run(&scenarios[i], &n, what);
		}
}

TEST(masks, each_doubling_of_the_first_eight__ends_as_without)
{
	struct net n;
	char what[32];

	for (unsigned i = 0; i < scenario_count; i++)
		for (unsigned mask = 0; mask < 256; mask++) {
			net_start(&n, mask);
			n.twice = mask;
			snprintf(what, sizeof(what), "twice 0x%02x", mask);
			scenario_run(&scenarios[i], &n, what);
		}
}

/** Late by up to a second, a packet's life time: copies come after the messages that follow. */
TEST(masks, loss_doubling_and_disorder__ends_as_without)
{
	struct net n;
	char what[32];

	for (unsigned i = 0; i < scenario_count; i++)
		for (unsigned seed = 0; seed < 500; seed++) {
			net_start(&n, seed);
			n.jumble = true;
			n.spread = 1000000000u;
			n.lose = rng_u64(&n.rng) & rng_u64(&n.rng) & 0xffff;
			n.twice = rng_u64(&n.rng) & 0xffff;
			snprintf(what, sizeof(what), "seed %u", seed);
			scenario_run(&scenarios[i], &n, what);
		}
}
