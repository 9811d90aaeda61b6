/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/util.h"
#include "engine/progress.h"

static const rocemu_ns_t us = 1000, ms = 1000000, s = 1000000000;

/* Polls without a pause from *now on, until the thread should stop watching. @return for how long.
 */
static rocemu_ns_t poll_until_stopped(struct progress *p, rocemu_ns_t *now)
{
	const rocemu_ns_t begin = *now;

	while (progress_polled(p, *now, false) != PROGRESS_STOP_WATCHING)
		*now += us;
	assert_true(progress_stop_watching(p, *now));
	return *now - begin;
}

/* A lane in mode POLLED. */
static rocemu_ns_t init_polled(struct progress *p)
{
	rocemu_ns_t now = s;

	progress_init(p);
	assert_int_equal(p->mode, PROGRESS_ARMED);
	assert_int_equal(poll_until_stopped(p, &now), PROGRESS_NEED_NS);
	assert_int_equal(p->mode, PROGRESS_POLLED);
	assert_int_equal(p->guard, now + PROGRESS_GUARD_NS);
	return now;
}

TEST(progress, polls_with_pauses__stays_armed)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 1; i < 1000; i++)
		assert_int_equal(progress_polled(&p, i * 15 * us, i % 5 == 0), PROGRESS_GO_ON);
}

TEST(progress, sleeps_after_polls__stays_armed)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 1; i < 1000; i++) {
		assert_int_equal(progress_polled(&p, i * 15 * us, false), PROGRESS_GO_ON);
		if (i % 5 == 0)
			progress_polls_end(&p);
	}
}

/* Its request to stop comes to the thread when the program is about to sleep. */
TEST(progress, polls_end_before_the_thread_stops__stays_armed)
{
	rocemu_ns_t now = s;
	struct progress p;

	progress_init(&p);
	while (progress_polled(&p, now, false) != PROGRESS_STOP_WATCHING)
		now += us;
	progress_polls_end(&p);
	assert_false(progress_stop_watching(&p, now));
	assert_int_equal(p.mode, PROGRESS_ARMED);
	assert_int_equal(poll_until_stopped(&p, &now), PROGRESS_NEED_NS);
}

/* The thread may not get to stop: a request may be overtaken by another one. */
TEST(progress, thread_goes_on_to_watch__asked_again)
{
	rocemu_ns_t now = s;
	struct progress p;
	unsigned asked = 0;

	progress_init(&p);
	for (; now < s + 10 * PROGRESS_NEED_NS; now += us)
		asked += progress_polled(&p, now, false) == PROGRESS_STOP_WATCHING;
	assert_int_equal(asked, 9);
}

TEST(progress, polls_go_on__guard_moved_when_half_has_passed)
{
	struct progress p;
	rocemu_ns_t now = init_polled(&p), moved = now;

	for (unsigned i = 0; i < 10000; i++) {
		now += us;
		if (progress_polled(&p, now, false) == PROGRESS_MOVE_GUARD) {
			assert_int_equal(now - moved, PROGRESS_GUARD_NS / 2);
			assert_int_equal(p.guard, now + PROGRESS_GUARD_NS);
			moved = now;
		}
	}
	assert_int_not_equal(moved, s);
}

/* The table in progress.h. */
TEST(progress, guard_expires__as_the_table_says)
{
	static const struct {
		enum progress_poller poller;
		unsigned times; /* it may expire so often */
	} row[] = {
		{PROGRESS_POSTS, PROGRESS_BUSY},
		{PROGRESS_WAITS, 1000},
		{PROGRESS_AWAY, 0},
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct progress p;
		rocemu_ns_t now = init_polled(&p);

		for (unsigned n = 0; n < row[i].times; n++) {
			now = p.guard;
			assert_true(progress_guard(&p, now, row[i].poller));
			assert_in_range(p.guard, now + PROGRESS_GUARD_NS,
					now + PROGRESS_GUARD_MAX_NS);
		}
		if (row[i].times == 1000)
			continue;
		assert_false(progress_guard(&p, p.guard, row[i].poller));
	}
}

TEST(progress, posts_between_polls__never_watches)
{
	struct progress p;

	init_polled(&p);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < PROGRESS_BUSY; i++)
			assert_true(progress_guard(&p, p.guard, PROGRESS_POSTS));
		assert_int_equal(progress_polled(&p, p.guard, false), PROGRESS_MOVE_GUARD);
	}
}

TEST(progress, poller_waits_for_a_processor__more_patience_until_it_is_away)
{
	struct progress p;
	rocemu_ns_t now = init_polled(&p);

	now = p.guard;
	assert_true(progress_guard(&p, now, PROGRESS_WAITS));
	assert_int_equal(p.guard, now + 2 * PROGRESS_GUARD_NS);
	now = p.guard;
	assert_int_equal(progress_polled(&p, now, false), PROGRESS_MOVE_GUARD);
	assert_int_equal(p.guard, now + 2 * PROGRESS_GUARD_NS);
	for (unsigned i = 0; i < 100; i++)
		assert_true(progress_guard(&p, p.guard, PROGRESS_WAITS));
	now = p.guard;
	assert_true(progress_guard(&p, now, PROGRESS_WAITS));
	assert_int_equal(p.guard, now + PROGRESS_GUARD_MAX_NS);
	now = p.guard;
	assert_false(progress_guard(&p, now, PROGRESS_AWAY));
	progress_rearm(&p, now, false);
	poll_until_stopped(&p, &now);
	assert_int_equal(p.guard, now + PROGRESS_GUARD_NS);
}

TEST(progress, stall__needs_twice_as_much_and_forgives)
{
	struct progress p;
	rocemu_ns_t now = init_polled(&p);

	progress_rearm(&p, now, true);
	assert_int_equal(p.mode, PROGRESS_ARMED);
	assert_int_equal(poll_until_stopped(&p, &now), 2 * PROGRESS_NEED_NS);
	progress_rearm(&p, now, true);
	assert_int_equal(poll_until_stopped(&p, &now), 4 * PROGRESS_NEED_NS);
	progress_rearm(&p, now, false);
	assert_int_equal(poll_until_stopped(&p, &now), 4 * PROGRESS_NEED_NS);
	progress_rearm(&p, now, false);
	now += 20 * s;
	assert_int_equal(poll_until_stopped(&p, &now), PROGRESS_NEED_NS);
}

TEST(progress, stalls_for_ever__need_is_bounded)
{
	struct progress p;
	rocemu_ns_t now = init_polled(&p);

	for (unsigned i = 0; i < 20; i++) {
		progress_rearm(&p, now, true);
		assert_in_range(poll_until_stopped(&p, &now), PROGRESS_NEED_NS,
				PROGRESS_NEED_MAX_NS);
	}
	progress_rearm(&p, now, true);
	assert_int_equal(poll_until_stopped(&p, &now), PROGRESS_NEED_MAX_NS);
}

TEST(delayed_ack, answers_follow__held)
{
	struct delayed_ack a;

	delayed_ack_init(&a);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(delayed_ack_offer(&a, i * 10 * us));
		delayed_ack_answered(&a, i * 10 * us + us);
		assert_false(a.held);
	}
}

TEST(delayed_ack, nobody_answers__soon_no_longer_held)
{
	struct delayed_ack a;
	unsigned held = 0;

	delayed_ack_init(&a);
	for (unsigned i = 0; i < 100; i++) {
		held += delayed_ack_offer(&a, i * 10 * us);
		a.held = false; /* sent when the wait was over */
	}
	assert_true(held <= 2);
}

TEST(delayed_ack, late_answer__is_none)
{
	struct delayed_ack a;
	unsigned held = 0;

	delayed_ack_init(&a);
	for (unsigned i = 1; i <= 100; i++) {
		held += delayed_ack_offer(&a, i * ms);
		delayed_ack_answered(&a, i * ms + ms / 2);
	}
	assert_true(held <= 2);
}

/* Who waits for the lock has read the clock before. */
TEST(delayed_ack, clock_read_before_the_packet__an_answer)
{
	struct delayed_ack a;

	delayed_ack_init(&a);
	for (unsigned i = 1; i <= 100; i++) {
		assert_true(delayed_ack_offer(&a, i * ms));
		delayed_ack_answered(&a, i * ms - us);
	}
	assert_int_equal(a.score, DELAYED_ACK_MAX_SCORE);
}

TEST(delayed_ack, more_packets_before_the_answer__sent)
{
	struct delayed_ack a;

	delayed_ack_init(&a);
	delayed_ack_answered(&a, 0);
	a.score = DELAYED_ACK_MAX_SCORE;
	assert_true(delayed_ack_offer(&a, us));
	assert_false(delayed_ack_offer(&a, 2 * us));
}

/* Setting a timer costs more than the answers. */
TEST(delayed_ack, always_answered_before_the_timer__timer_becomes_rarer)
{
	struct delayed_ack a;

	delayed_ack_init(&a);
	assert_int_equal(delayed_ack_due(&a, s), s + DELAYED_ACK_THREAD_NS);
	for (unsigned i = 1; i <= 10; i++) {
		assert_true(delayed_ack_offer(&a, i * ms));
		delayed_ack_answered(&a, i * ms + us);
		delayed_ack_timer(&a);
	}
	assert_int_equal(delayed_ack_due(&a, s),
			 s + (DELAYED_ACK_THREAD_NS << DELAYED_ACK_TIMER_SHIFT));
	delayed_ack_late(&a);
	assert_int_equal(delayed_ack_due(&a, s), s + DELAYED_ACK_THREAD_NS);
}

TEST(delayed_ack, timer_expires_and_nothing_was_held__as_often_as_before)
{
	struct delayed_ack a;

	delayed_ack_init(&a);
	for (unsigned i = 0; i < 10; i++)
		delayed_ack_timer(&a);
	assert_int_equal(delayed_ack_due(&a, s), s + DELAYED_ACK_THREAD_NS);
}

TEST(delayed_ack, answers_begin_again__learned_again)
{
	struct delayed_ack a;
	unsigned i;

	delayed_ack_init(&a);
	for (i = 0; i < 100; i++)
		delayed_ack_offer(&a, i * us);
	for (i = 0; i < 10 && !delayed_ack_offer(&a, s + i * ms); i++)
		delayed_ack_answered(&a, s + i * ms + us);
	assert_true(i < 10);
}

static struct lane_post of_bytes(size_t bytes)
{
	return (struct lane_post){.bytes = bytes, .signaled = true};
}

/* n posts, one each gap. @return how many of them wait, or have waited. */
static unsigned gather_posts(struct gather *g, rocemu_ns_t *now, unsigned n, rocemu_ns_t gap)
{
	unsigned held = 0;

	for (unsigned i = 0; i < n; i++) {
		*now += gap;
		if (gather_offer(g, *now, of_bytes(64)))
			held++;
		else
			gather_sent(g);
	}
	return held;
}

TEST(gather, lone_posts__never_wait)
{
	struct gather g = {0};
	rocemu_ns_t now = s;

	assert_int_equal(gather_posts(&g, &now, 1000, 2 * us), 0);
}

TEST(gather, pairs__never_wait)
{
	struct gather g = {0};
	rocemu_ns_t now = s;

	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(gather_posts(&g, &now, 1, 10 * us), 0);
		assert_int_equal(gather_posts(&g, &now, 1, us / 10), 0);
	}
}

TEST(gather, quick_answers__never_wait)
{
	struct gather g = {0};
	rocemu_ns_t now = s;

	for (unsigned i = 0; i < 1000; i++) {
		gather_request_seen(&g);
		assert_int_equal(gather_posts(&g, &now, 1, us), 0);
	}
}

TEST(gather, many_in_quick_succession__as_many_as_fit)
{
	struct gather g = {0};
	rocemu_ns_t now = s;

	assert_int_equal(gather_posts(&g, &now, 3 * GATHER_MAX, 10),
			 3 * GATHER_MAX - GATHER_THRESHOLD - 2);
	gather_sent(&g);
	/* Of the next ones only the first leaves alone. */
	assert_int_equal(gather_posts(&g, &now, 1, 100 * us), 0);
	assert_int_equal(gather_posts(&g, &now, GATHER_MAX - 1, 10), GATHER_MAX - 1);
}

TEST(gather, first_post_after_a_pause__waits_while_others_are_in_flight)
{
	const struct lane_post alone = of_bytes(64);
	const struct lane_post stream = {.bytes = 64, .signaled = true, .in_flight = true};
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};

	assert_false(gather_offer(&g, 2 * s, alone));
	gather_sent(&g);
	assert_true(gather_offer(&g, 3 * s, stream));
	gather_sent(&g);
	/* Not where posts no longer follow each other quickly. */
	for (unsigned i = 4; g.score >= GATHER_THRESHOLD; i++) {
		assert_true(i < 4 + GATHER_MAX_SCORE);
		gather_offer(&g, i * s, stream);
		gather_sent(&g);
	}
	assert_false(gather_offer(&g, 100 * s, stream));
}

TEST(gather, some_wait__clock_read_at_each_fourth)
{
	struct gather g = {0};

	/* A post that leaves at once, or that is the first to wait, has its own time. */
	assert_true(gather_needs_clock(&g));
	g = (struct gather){.score = GATHER_MAX_SCORE, .last = s};
	for (unsigned i = 0; i < 3 * GATHER_CLOCK; i++) {
		assert_int_equal(gather_needs_clock(&g), i % GATHER_CLOCK == 0);
		assert_true(gather_offer(&g, s, of_bytes(64)));
	}
	gather_sent(&g);
	assert_true(gather_needs_clock(&g));
	/* The time of a post before a peer's request is none. */
	g = (struct gather){.score = GATHER_MAX_SCORE, .last = s, .posts = 1};
	assert_false(gather_needs_clock(&g));
	gather_request_seen(&g);
	assert_true(gather_needs_clock(&g));
}

TEST(gather, completion_of_many__leaves_with_them)
{
	const struct lane_post quiet = {.bytes = 64};
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};

	for (unsigned i = 0; i < GATHER_MODERATED; i++)
		assert_true(gather_offer(&g, s, quiet));
	assert_false(gather_offer(&g, s, of_bytes(64)));
	gather_sent(&g);
	/* One of few waits as the others do. */
	for (unsigned i = 0; i < GATHER_MODERATED - 1; i++)
		assert_true(gather_offer(&g, s, quiet));
	assert_true(gather_offer(&g, s, of_bytes(64)));
}

TEST(gather, time_is_up__all_go)
{
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};
	rocemu_ns_t now = s;

	assert_int_equal(gather_posts(&g, &now, GATHER_NS / us + 1, us), GATHER_NS / us);
	assert_int_equal(g.posts, 0);
}

TEST(gather, bytes_for_a_burst__all_go)
{
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};

	for (unsigned i = 1; i < GATHER_BYTES / GATHER_SMALL; i++)
		assert_true(gather_offer(&g, s, of_bytes(GATHER_SMALL)));
	assert_false(gather_offer(&g, s, of_bytes(GATHER_SMALL)));
	gather_sent(&g);
	assert_false(gather_offer(&g, s, of_bytes(GATHER_SMALL + 1)));
	assert_false(gather_offer(&g, s, of_bytes(SIZE_MAX)));
}

TEST(gather, sent_in_time__timer_becomes_rarer)
{
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};
	rocemu_ns_t now = s;

	assert_int_equal(gather_due(&g), ROCEMU_NEVER);
	gather_timer(&g); /* it was set for something else */
	for (unsigned i = 0; i < 2 * GATHER_TIMER_SHIFT; i++) {
		const unsigned doubled = MIN(i, (unsigned)GATHER_TIMER_SHIFT);

		for (unsigned j = 0; j < 3; j++) {
			assert_int_equal(gather_posts(&g, &now, 1, 10), 1);
			assert_int_equal(gather_due(&g), now + (GATHER_TIMER_NS << doubled));
			gather_sent(&g);
		}
		gather_timer(&g);
	}
	assert_int_equal(gather_posts(&g, &now, 1, 10), 1);
	gather_late(&g);
	gather_timer(&g);
	assert_int_equal(gather_due(&g), ROCEMU_NEVER);
	g.score = GATHER_MAX_SCORE;
	assert_int_equal(gather_posts(&g, &now, 1, 10), 1);
	assert_int_equal(gather_due(&g), now + GATHER_TIMER_NS);
}

TEST(gather, nobody_came_back__trusted_less)
{
	struct gather g = {.score = GATHER_MAX_SCORE, .last = s};
	rocemu_ns_t now = s;

	assert_int_equal(gather_posts(&g, &now, 1, 10), 1);
	gather_late(&g);
	gather_sent(&g);
	assert_int_equal(gather_posts(&g, &now, GATHER_THRESHOLD - GATHER_DISTRUST - 1, 10), 0);
	assert_int_equal(gather_posts(&g, &now, 1, 10), 1);
}
