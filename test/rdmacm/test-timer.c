/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of IDs: their order, and what may be done to them while one expires. */
#include "rdmacm/globals.h"
#include "rdmacm/timer.h"
#include "test.h"

enum { TIMERS = 4 };

static struct {
	struct rcm_timer timer[TIMERS];
	char order[2 * TIMERS]; /* of those that expired */
	unsigned n;
} s;

static void note(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	s.order[s.n++] = (char)('a' + (t - s.timer));
}

static void begin(void) ACQUIRE(rcm_lock)
{
	memset(&s, 0, sizeof(s));
	for (int i = 0; i < TIMERS; i++)
		rcm_timer_init(&s.timer[i]);
	rcm_lock_take();
}

static void end(void) RELEASE(rcm_lock)
{
	assert_true(rcm_timers_deadline() == ROCEMU_NEVER);
	rcm_lock_drop();
}

TEST(timer, several__expire_by_due_time_then_in_order_of_setting)
{
	begin();
	rcm_timer_set(&s.timer[0], 30, note);
	rcm_timer_set(&s.timer[1], 10, note);
	rcm_timer_set(&s.timer[2], 20, note);
	rcm_timer_set(&s.timer[3], 10, note);
	assert_int_equal(rcm_timers_deadline(), 10);
	rcm_timers_expire(9);
	assert_string_equal(s.order, "");
	rcm_timers_expire(20);
	assert_string_equal(s.order, "bdc");
	assert_false(rcm_timer_pending(&s.timer[1]));
	assert_true(rcm_timer_pending(&s.timer[0]));
	assert_int_equal(rcm_timers_deadline(), 30);
	rcm_timers_expire(30);
	assert_string_equal(s.order, "bdca");
	end();
}

TEST(timer, set_again_or_stopped__expires_once_or_never)
{
	begin();
	rcm_timer_set(&s.timer[0], 10, note);
	rcm_timer_set(&s.timer[1], 20, note);
	rcm_timer_set(&s.timer[2], 30, note);
	rcm_timer_set(&s.timer[0], 40, note);
	rcm_timer_stop(&s.timer[1]);
	rcm_timer_stop(&s.timer[3]);
	rcm_timers_expire(100);
	assert_string_equal(s.order, "ca");
	end();
}

static void stop_itself(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	assert_true(rcm_timer_expiring(t));
	rcm_timer_stop(t);
	assert_false(rcm_timer_expiring(t));
	note(t);
}

static void set_next(struct rcm_timer *t) REQUIRES(rcm_lock)
{
	note(t);
	rcm_timer_set(t, t->due + 1, t->due == 12 ? stop_itself : set_next);
	assert_true(rcm_timer_expiring(t));
}

TEST(timer, expiring__may_be_set_and_stopped)
{
	begin();
	rcm_timer_set(&s.timer[1], 10, set_next);
	rcm_timer_set(&s.timer[0], 12, note);
	rcm_timers_expire(20);
	assert_string_equal(s.order, "bbabb");
	assert_false(rcm_timer_expiring(&s.timer[1]));
	end();
}

TEST(timer, forked_child__inherited_ones_do_not_expire_and_may_be_stopped)
{
	begin();
	for (int i = 0; i < TIMERS; i++)
		rcm_timer_set(&s.timer[i], 10, note);
	rcm_globals_forget();
	rcm_timer_stop(&s.timer[1]);
	rcm_timer_set(&s.timer[3], 20, note);
	rcm_timer_stop(&s.timer[2]);
	rcm_timers_expire(20);
	assert_string_equal(s.order, "d");
	end();
}
