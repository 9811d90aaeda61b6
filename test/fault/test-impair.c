/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "fault/impair.h"
#include "fault/schedule.h"

static struct impair parse(const char *spec)
{
	struct impair im;
	char err[256] = "";

	if (impair_parse(&im, spec, err, sizeof(err)))
		fail_msg("\"%s\": %s", spec, err);
	return im;
}

static void assert_refused(const char *spec, const char *part, const char *expected)
{
	struct impair im = {.seed = 99};
	char err[FAULT_ERROR_LEN] = "";

	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), -EINVAL);
	if (!strstr(err, part) || !strstr(err, expected))
		fail_msg("\"%s\": message \"%s\" lacks \"%s\" or \"%s\"", spec, err, part,
			 expected);
	assert_null(strchr(err, '\n'));
	assert_int_equal(im.seed, 99);
}

static bool near(double a, double b)
{
	return a - b < 1e-9 && b - a < 1e-9;
}

TEST(impair, no_spec__off)
{
	assert_false(parse(NULL).on);
	assert_false(parse("").on);
}

TEST(impair, all_keys__values_taken)
{
	struct impair im = parse("loss=1%,dup=0.5%,reorder=0.02,corrupt=1,delay=10us..2ms,seed=7");

	assert_true(im.on);
	assert_true(near(im.loss, 0.01) && near(im.dup, 0.005) && near(im.reorder, 0.02) &&
		    near(im.corrupt, 1));
	assert_int_equal(im.delay.min, 10000);
	assert_int_equal(im.delay.max, 2000000);
	assert_int_equal(im.seed, 7);
}

TEST(impair, single_delay__both_ends)
{
	struct impair im = parse("delay=1.5us");

	assert_int_equal(im.delay.min, 1500);
	assert_int_equal(im.delay.max, 1500);
	assert_int_equal(parse("delay=10s").delay.max, 10000000000u);
}

TEST(impair, rnr_and_flap__values_taken)
{
	struct impair im = parse("rnr=20%,flap=2s..5s/200ms");

	assert_true(near(im.rnr, 0.2));
	assert_int_equal(im.flap_up.min, 2000000000u);
	assert_int_equal(im.flap_up.max, 5000000000u);
	assert_int_equal(im.flap_down.min, 200000000u);
	assert_int_equal(im.flap_down.max, 200000000u);
	assert_int_equal(parse("flap=3600s/10ms").flap_up.min, IMPAIR_MAX_FLAP_NS);
}

/* Follow a port from change to change. */
TEST(impair, port_goes_down_and_up__times_within_what_was_asked_and_the_same_again)
{
	struct impair im = parse("flap=100ms..300ms/10ms..20ms,seed=4");
	struct impair_link a, b;

	assert_false(impair_link_start(&a, &im, 0));
	assert_false(impair_link_start(&b, &im, 0));
	for (unsigned i = 0; i < 1000; i++) {
		const uint64_t at = a.next_ns;

		assert_false(impair_link_step(&a, &im, at - 1));
		assert_true(impair_link_step(&a, &im, at));
		assert_true(impair_link_step(&b, &im, at));
		assert_int_equal(a.down, i % 2 == 0);
		assert_int_equal(a.down, b.down);
		assert_int_equal(a.next_ns, b.next_ns);
		if (a.down)
			assert_in_range(a.next_ns - at, 10000000, 20000000);
		else
			assert_in_range(a.next_ns - at, 100000000, 300000000);
	}
}

TEST(impair, looked_at_late__state_of_that_time)
{
	struct impair im = parse("flap=100ms/100ms,seed=4");
	struct impair_link often, late;
	bool changed = false;

	impair_link_start(&often, &im, 0);
	late = often;
	while (often.next_ns < 10050000000u)
		impair_link_step(&often, &im, often.next_ns);
	changed = impair_link_step(&late, &im, 10050000000u);
	assert_int_equal(late.down, often.down);
	assert_int_equal(late.next_ns, often.next_ns);
	assert_int_equal(changed, late.down);
}

/* The sequence begins with the process, and a packet's dice do not shift it. */
TEST(impair, started_twice__same_place)
{
	struct impair im = parse("flap=1s..2s/50ms..100ms,loss=50%,seed=4");
	struct impair_link a, b;
	const uint64_t now = monotonic_ns();

	impair_link_start(&a, &im, now);
	for (unsigned i = 0; i < 10; i++)
		impair_roll(&im);
	impair_link_start(&b, &im, now + 1000);
	if (a.next_ns > now + 1000) {
		assert_int_equal(a.next_ns, b.next_ns);
		assert_int_equal(a.down, b.down);
	}
	/* No later than a first time up after now. */
	assert_in_range(a.next_ns, now, now + 2000000000u);
}

TEST(impair, no_flap__never)
{
	struct impair im = parse("loss=1%"), off = parse("");
	struct impair_link link;

	assert_false(impair_link_start(&link, &im, 1));
	assert_int_equal(link.next_ns, UINT64_MAX);
	assert_false(impair_link_start(&link, &off, 1));
	assert_false(impair_link_step(&link, &off, UINT64_MAX - 1));
}

TEST(impair, no_seed_or_zero__random_one)
{
	assert_true(parse("loss=1%").seed != 0);
	assert_true(parse("loss=1%,seed=0").seed != 0);
}

TEST(impair, bad_part__named_with_what_was_expected)
{
	static const char *const bad_chance[] = {
		"loss=101%", "loss=1.01", "loss=-1%",	 "loss=",	"loss=1%%", "loss=x",
		"loss=1 %",  "dup=nan",	  "reorder=inf", "corrupt=0x1", "loss=1,5%"};
	static const char *const bad_delay[] = {
		"delay=10", "delay=10us..", "delay=2ms..10us", "delay=11s", "delay=1us..2us..3us",
		"delay=us", "delay=-1us",   "delay=1usx"};
	static const char *const bad_seed[] = {"seed=", "seed=-1", "seed=x",
					       "seed=18446744073709551616", "seed=1e3"};
	static const char *const bad_flap[] = {
		"flap=1s",	 "flap=1s/",	  "flap=/1s",	    "flap=9ms/1s", "flap=1s/9ms",
		"flap=3601s/1s", "flap=1s/1s/1s", "flap=2s..1s/1s", "flap=1/1",	   "flap=1s/1s..x"};
	char part[64];

	for (unsigned i = 0; i < ARRAY_LEN(bad_chance); i++) {
		snprintf(part, sizeof(part), "%.*s", (int)strcspn(bad_chance[i], ","),
			 bad_chance[i]);
		if (!strcmp(bad_chance[i], "loss=1,5%"))
			assert_refused(bad_chance[i], "\"5%\"", "key=value");
		else if (!strcmp(bad_chance[i], "loss=1 %"))
			assert_refused(bad_chance[i], "column 8: \"%\"", "a comma");
		else
			assert_refused(bad_chance[i], part, "from 0% to 100%");
	}
	for (unsigned i = 0; i < ARRAY_LEN(bad_delay); i++)
		assert_refused(bad_delay[i], bad_delay[i], "ns, us, ms or s");
	for (unsigned i = 0; i < ARRAY_LEN(bad_seed); i++)
		assert_refused(bad_seed[i], bad_seed[i], "a number");
	for (unsigned i = 0; i < ARRAY_LEN(bad_flap); i++)
		assert_refused(bad_flap[i], bad_flap[i], "UP/DOWN");
	assert_refused("rnr=2", "rnr=2", "from 0% to 100%");
	assert_refused("los=1%", "los=1%", "loss, dup, reorder");
	assert_refused("loss", "loss", "key=value");
	assert_refused(",", "\"\"", "key=value");
	assert_refused("loss=1%,,dup=1%", "\"\"", "key=value");
	assert_refused("loss=1%,", "\"\"", "key=value");
	assert_refused(",", "\"\"", "key=value");
}

TEST(impair, part_longer_than_any__refused)
{
	char spec[4096];

	memset(spec, '1', sizeof(spec));
	memcpy(spec, "loss=0.", 7);
	spec[sizeof(spec) - 1] = '\0';
	assert_refused(spec, "loss=0.111", "at most");
}

TEST(impair, same_seed__same_fates)
{
	struct impair a = parse("loss=10%,dup=10%,reorder=10%,corrupt=10%,delay=1us..1ms,seed=42");
	struct impair b = a,
		      c = parse("loss=10%,dup=10%,reorder=10%,corrupt=10%,delay=1us..1ms,seed=43");
	unsigned differ = 0;

	for (unsigned i = 0; i < 1000; i++) {
		struct impair_action fa = impair_roll(&a), fb = impair_roll(&b),
				     fc = impair_roll(&c);

		assert_int_equal(fa.lost, fb.lost);
		assert_int_equal(fa.dup, fb.dup);
		assert_int_equal(fa.overtakers, fb.overtakers);
		assert_int_equal(fa.corrupt_bits, fb.corrupt_bits);
		assert_int_equal(fa.delay_ns, fb.delay_ns);
		differ += fa.lost != fc.lost || fa.delay_ns != fc.delay_ns;
	}
	assert_true(differ > 500);
}

TEST(impair, many_rolls__rates_as_asked)
{
	enum { N = 200000 };
	struct impair im = parse("loss=1%,dup=2%,reorder=3%,corrupt=4%,delay=10us..20us,seed=1");
	unsigned lost = 0, dup = 0, reorder = 0, corrupt = 0;
	uint64_t delay = 0;

	for (unsigned i = 0; i < N; i++) {
		struct impair_action f = impair_roll(&im);

		lost += f.lost;
		dup += f.dup;
		reorder += f.overtakers > 0;
		assert_true(f.overtakers <= 3);
		corrupt += f.corrupt_bits > 0;
		assert_true(f.corrupt_bits <= 3);
		delay += f.delay_ns;
		if (f.lost)
			assert_false(f.dup || f.overtakers || f.corrupt_bits || f.delay_ns);
		else
			assert_true(f.delay_ns >= 10000 && f.delay_ns <= 20000);
	}
	/* More than six standard deviations to either side. */
	assert_in_range(lost, N / 100 - 300, N / 100 + 300);
	assert_in_range(dup, N / 50 - 500, N / 50 + 300);
	assert_in_range(reorder, N * 3 / 100 - 700, N * 3 / 100 + 500);
	assert_in_range(corrupt, N / 25 - 800, N / 25 + 600);
	assert_in_range(delay / (N - lost), 14900, 15100);
}

TEST(impair, all_or_nothing__certain)
{
	struct impair all = parse("loss=100%,seed=3"), none = parse("loss=0,seed=3");

	for (unsigned i = 0; i < 1000; i++) {
		assert_true(impair_roll(&all).lost);
		assert_false(impair_roll(&none).lost);
	}
}

TEST(impair, corrupt__at_least_one_bit_at_most_as_asked)
{
	struct impair im = parse("corrupt=1,seed=5");

	for (unsigned i = 0; i < 1000; i++) {
		uint8_t buf[3] = {0};
		unsigned bits = 1 + i % 3, flipped;

		impair_corrupt(&im, buf, sizeof(buf), bits);
		flipped = (unsigned)(__builtin_popcount(buf[0]) + __builtin_popcount(buf[1]) +
				     __builtin_popcount(buf[2]));
		assert_in_range(flipped, 1, bits);
	}
}

/* ---- the link ---- */

/* 1 Gbit/s: a byte in 8 ns. */
static const struct fault_link gigabit = {
	.rate_bps = 1000000000, .queue_bytes = 10000, .mark_bytes = 4000};

TEST(impair, link__packets_leave_at_its_rate_in_order)
{
	static struct fault_sched s;
	uint64_t leaves;
	bool mark;

	memset(&s, 0, sizeof(s));
	/* Idle: at once, all its length after that is taken. */
	assert_true(fault_sched_enqueue(&s, &gigabit, 100, 1000, &leaves, &mark));
	assert_int_equal(leaves, 100);
	assert_true(fault_sched_enqueue(&s, &gigabit, 100, 500, &leaves, &mark));
	assert_int_equal(leaves, 8100);
	assert_true(fault_sched_enqueue(&s, &gigabit, 8000, 500, &leaves, &mark));
	assert_int_equal(leaves, 12100);
	/* Idle again. */
	assert_true(fault_sched_enqueue(&s, &gigabit, 16100, 500, &leaves, &mark));
	assert_int_equal(leaves, 16100);
	/* Another thread's clock reading, a little behind. */
	assert_true(fault_sched_enqueue(&s, &gigabit, 16000, 500, &leaves, &mark));
	assert_int_equal(leaves, 20100);
}

TEST(impair, link_queue__marks_first_then_drops)
{
	static struct fault_sched s;
	uint64_t leaves;
	bool mark;

	memset(&s, 0, sizeof(s));
	for (unsigned i = 0; i < 10; i++) {
		assert_true(fault_sched_enqueue(&s, &gigabit, 0, 1000, &leaves, &mark));
		assert_int_equal(leaves, i * 8000);
		assert_int_equal(mark, i >= 4);
	}
	assert_false(fault_sched_enqueue(&s, &gigabit, 0, 1000, &leaves, &mark));
	assert_false(fault_sched_enqueue(&s, &gigabit, 7999, 1000, &leaves, &mark));
	/* One has left. */
	assert_true(fault_sched_enqueue(&s, &gigabit, 8000, 1000, &leaves, &mark));
	assert_int_equal(leaves, 80000);
	/* What was dropped took no time. */
	assert_true(fault_sched_enqueue(&s, &gigabit, 88000, 1000, &leaves, &mark));
	assert_int_equal(leaves, 88000);
	assert_false(mark);
}

TEST(impair, flows__each_in_its_order)
{
	static struct fault_sched s;

	memset(&s, 0, sizeof(s));
	assert_int_equal(fault_sched_order(&s, 1, 500), 500);
	assert_int_equal(fault_sched_order(&s, 1, 300), 500);
	assert_int_equal(fault_sched_order(&s, 2, 300), 300);
	assert_int_equal(fault_sched_order(&s, 1, 700), 700);
	assert_int_equal(fault_sched_order(&s, 2, 100), 300);
}

TEST(impair, file__read_or_refused)
{
	char name[] = "/tmp/rocemu-impair-XXXXXX", spec[64], err[FAULT_ERROR_LEN];
	static char large[FAULT_TEXT_MAX + 1];
	static struct impair im;
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	snprintf(spec, sizeof(spec), "@%s", name);
	assert_int_equal(write(fd, "loss=1%\n# x\ndrop\n", 17), 17);
	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), 0);
	assert_true(near(im.loss, 0.01) && im.nrules == 1);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), 0);
	assert_false(im.on);
	assert_int_equal(pwrite(fd, "a\0b", 3, 0), 3);
	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "NUL"));
	memset(large, ' ', sizeof(large));
	assert_int_equal(pwrite(fd, large, sizeof(large), 0), sizeof(large));
	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "65536"));
	close(fd);
	unlink(name);
	assert_int_equal(impair_parse(&im, spec, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, name));
	assert_int_equal(impair_parse(&im, "@/", err, sizeof(err)), -EINVAL);
	assert_int_equal(impair_parse(&im, "@", err, sizeof(err)), -EINVAL);
}
