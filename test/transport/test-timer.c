/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/rng.h"
#include "base/util.h"
#include "transport/timer.h"

enum { N = 200 };

TEST(timer, none_running__never)
{
	struct timer_heap h;

	timer_heap_init(&h);
	assert_true(timer_next(&h) == ROCEMU_NEVER);
	assert_null(timer_pop_due(&h, ROCEMU_NEVER - 1));
	timer_heap_fini(&h);
}

TEST(timer, set_in_any_order__due_in_order_of_deadline)
{
	struct timer timers[N] = {0};
	struct timer_heap h;
	struct rng r;
	struct timer *t;
	rocemu_ns_t last = 0;
	unsigned popped = 0;

	rng_init(&r, 1);
	timer_heap_init(&h);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(timer_reserve(&h), 0);
	for (unsigned i = 0; i < N; i++)
		timer_set(&h, &timers[i], rng_below(&r, 1000));
	/* Move a third, stop a third. */
	for (unsigned i = 0; i < N; i += 3)
		timer_set(&h, &timers[i], rng_below(&r, 1000));
	for (unsigned i = 1; i < N; i += 3)
		timer_stop(&h, &timers[i]);
	while ((t = timer_pop_due(&h, 1000))) {
		assert_true(t->deadline >= last);
		assert_false(timer_running(t));
		assert_int_not_equal((t - timers) % 3, 1);
		last = t->deadline;
		popped++;
	}
	assert_int_equal(popped, N - (N + 1) / 3);
	timer_heap_fini(&h);
}

TEST(timer, stopped_twice__harmless)
{
	struct timer a = {0}, b = {0};
	struct timer_heap h;

	timer_heap_init(&h);
	timer_reserve(&h);
	timer_reserve(&h);
	timer_set(&h, &a, 5);
	timer_set(&h, &b, 3);
	timer_stop(&h, &b);
	timer_stop(&h, &b);
	assert_int_equal(timer_next(&h), 5);
	assert_null(timer_pop_due(&h, 4));
	assert_ptr_equal(timer_pop_due(&h, 5), &a);
	timer_heap_fini(&h);
}
