/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "engine/loop.h"

enum { ENOUGH = 10 };

#define LONG_NS	 60000000000u
#define SHORT_NS 1000000u

struct counts {
	unsigned looks, woken;
};

static void stop(struct loop *l)
{
	struct counts *c = l->data;

	c->woken++;
	loop_stop(l);
}

/* In vain, until it is enough. */
static bool look_in_vain(struct loop *l)
{
	struct counts *c = l->data;

	if (++c->looks == ENOUGH)
		loop_wake(l);
	return false;
}

static bool look_and_find(struct loop *l)
{
	struct counts *c = l->data;

	if (++c->looks == ENOUGH)
		loop_wake(l);
	return true;
}

TEST(loop, polls__looks_first_and_descriptors_as_well)
{
	struct counts c = {0};
	struct loop l;

	assert_int_equal(loop_init(&l, stop, look_in_vain, &c), 0);
	loop_spin(&l, LONG_NS);
	assert_int_equal(loop_run(&l), 0);
	assert_in_range(c.looks, ENOUGH, 2 * ENOUGH);
	assert_int_equal(c.woken, 1);
	assert_true(loop_spins(&l));
	loop_fini(&l);
}

/* An endless stream must not keep the loop from anything else. */
TEST(loop, finds_each_time_it_looks__descriptors_polled_as_well)
{
	struct counts c = {0};
	struct loop l;

	assert_int_equal(loop_init(&l, stop, look_and_find, &c), 0);
	loop_spin(&l, LONG_NS);
	assert_int_equal(loop_run(&l), 0);
	assert_in_range(c.looks, ENOUGH, 2 * ENOUGH);
	assert_int_equal(c.woken, 1);
	loop_fini(&l);
}

static bool look_and_count(struct loop *l)
{
	struct counts *c = l->data;

	c->looks++;
	return false;
}

static void wake_and_stop(struct loop_timer *t)
{
	loop_stop(t->data);
}

TEST(loop, time_to_poll_is_over__sleeps)
{
	struct loop_timer t;
	struct counts c = {0};
	struct loop l;

	assert_int_equal(loop_init(&l, stop, look_and_count, &c), 0);
	loop_timer_init(&t, wake_and_stop, &l);
	loop_timer_set(&l, &t, 100);
	loop_spin(&l, SHORT_NS);
	assert_int_equal(loop_run(&l), 0);
	assert_true(c.looks > 0);
	assert_false(loop_spins(&l));
	loop_fini(&l);
}

TEST(loop, never_told_to_poll__does_not_look)
{
	struct counts c = {0};
	struct loop l;

	assert_int_equal(loop_init(&l, stop, look_and_count, &c), 0);
	loop_wake(&l);
	assert_int_equal(loop_run(&l), 0);
	assert_int_equal(c.looks, 0);
	loop_fini(&l);
}
