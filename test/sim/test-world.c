/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds (world.h), one a seed, until so many packets were sent. Without options, the tests: a seed
 * replays exactly, and a number of packets that leaves nothing out. `test-world --help`; night.py
 * runs it on all cores.
 */
#include "test.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#ifndef WORLD_CI_PACKETS
#define WORLD_CI_PACKETS 10000000
#endif

static struct world_stats stats;

TEST(world, same_seed_twice__same_run)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct world_stats a = {0}, b = {0};
		uint64_t first = world_run(seed, false, &a), second = world_run(seed, false, &b);

		assert_true(first == second);
		assert_memory_equal(&a, &b, sizeof(a));
	}
}

TEST(world, other_seed__other_run)
{
	struct world_stats s = {0};

	assert_true(world_run(1, false, &s) != world_run(2, false, &s));
}

TEST(world, random_worlds__all_that_must_hold_holds)
{
	for (uint64_t seed = 1; stats.packets < WORLD_CI_PACKETS; seed++)
		world_run(seed, false, &stats);
	/* Nothing of what this is about may have stayed away. */
	assert_true(stats.lost && stats.bad && stats.faults && stats.ep.retransmits &&
		    stats.ep.naks_rcvd && stats.ep.rnr_naks_rcvd && stats.ep.duplicates &&
		    stats.ep.drops[ROCEMU_DROP_ICRC]);
}

static void print_stats(void)
{
	fprintf(stderr,
		"%12llu packets, %llu lost\n%12llu requests, %llu good completions, %llu bad\n"
		"%12llu lives of connections, %llu faults\n",
		(unsigned long long)stats.packets, (unsigned long long)stats.lost,
		(unsigned long long)stats.requests, (unsigned long long)stats.good,
		(unsigned long long)stats.bad, (unsigned long long)stats.lives,
		(unsigned long long)stats.faults);
#define X(name, text) fprintf(stderr, "%12llu %s\n", (unsigned long long)stats.ep.name, text);
	ROCEMU_STATS(X)
#undef X
	for (unsigned d = 1; d < ROCEMU_DROP_COUNT; d++)
		if (stats.ep.drops[d])
			fprintf(stderr, "%12llu dropped: %s\n",
				(unsigned long long)stats.ep.drops[d],
				rocemu_drop_text((enum rocemu_drop)d));
}

static int usage(FILE *out, int rc)
{
	fprintf(out,
		"usage: test-world [--seed N [--trace]] [--start S] [--seeds N] [--packets N]\n"
		"Without options: the tests.\n"
		"  --seed N     that world alone; prints its digest\n"
		"  --trace      prints each packet as well\n"
		"  --start S    the first seed (1)\n"
		"  --seeds N    so many worlds\n"
		"  --packets N  worlds until so many packets were sent\n"
		"A line \"seed packets\" for each 100 worlds goes to standard output.\n");
	return rc;
}

static bool number(const char *text, uint64_t *v)
{
	char *end;

	*v = text ? strtoull(text, &end, 0) : 0;
	return text && *text && !*end;
}

static int run_worlds(uint64_t start, uint64_t seeds, uint64_t packets)
{
	uint64_t i;

	for (i = 0; i < seeds && stats.packets < packets; i++) {
		world_run(start + i, false, &stats);
		if (i % 100 == 99) {
			printf("%llu %llu\n", (unsigned long long)(start + i),
			       (unsigned long long)stats.packets);
			fflush(stdout);
		}
	}
	printf("%llu %llu\n", (unsigned long long)(start + i - 1),
	       (unsigned long long)stats.packets);
	print_stats();
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = 0, start = 1, seeds = UINT64_MAX, packets = UINT64_MAX;
	bool trace = false, ok = true;

	if (argc == 1)
		return test_run(argv[0], NULL, 0);
	for (int i = 1; i < argc && ok; i++) {
		const char *value = argv[i + 1];

		if (strcmp(argv[i], "--trace") == 0)
			trace = true;
		else if (strcmp(argv[i], "--help") == 0)
			return usage(stdout, 0);
		else if (strcmp(argv[i], "--seed") == 0)
			ok = number(value, &seed) && i++;
		else if (strcmp(argv[i], "--start") == 0)
			ok = number(value, &start) && i++;
		else if (strcmp(argv[i], "--seeds") == 0)
			ok = number(value, &seeds) && i++;
		else if (strcmp(argv[i], "--packets") == 0)
			ok = number(value, &packets) && i++;
		else
			ok = false;
	}
	if (!ok)
		return usage(stderr, 2);
	if (!seed)
		return run_worlds(start, seeds, packets);
	printf("digest %016llx\n", (unsigned long long)world_run(seed, trace, &stats));
	print_stats();
	return 0;
}
