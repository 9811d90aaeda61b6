/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/util.h"
#include "engine/progress.h"

static const rocemu_ns_t us = 1000, ms = 1000000, s = 1000000000;

/* Receives by a caller until the thread stops watching. */
static unsigned polls_until_stopped(struct progress *p, rocemu_ns_t now)
{
	unsigned n = 1;

	while (!progress_polled(p, now))
		n++;
	progress_stop_watching(p);
	return n;
}

TEST(progress, thread_gets_the_data__stays_armed)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(progress_woken(&p, i * us, false));
	assert_int_equal(p.mode, PROGRESS_ARMED);
}

TEST(progress, callers_get_the_data__stops_after_evidence)
{
	struct progress p;

	progress_init(&p);
	assert_int_equal(polls_until_stopped(&p, s), PROGRESS_EVIDENCE);
	assert_int_equal(p.mode, PROGRESS_POLLED);
	assert_false(progress_polled(&p, s));
}

TEST(progress, thread_as_often_as_callers__stays_armed)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(progress_polled(&p, s));
		assert_false(progress_woken(&p, s, false));
	}
}

TEST(progress, race_won_against_spinning_caller__evidence_too)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 0; i < PROGRESS_EVIDENCE - 1; i++)
		assert_false(progress_woken(&p, s, true));
	assert_true(progress_woken(&p, s, true));
}

TEST(progress, caller_posts_or_sends_for_some_ticks__polling_goes_on)
{
	unsigned ticks = 0;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < PROGRESS_BUSY_TICKS; i++)
			assert_true(progress_goes_on(&ticks, false, true));
		assert_true(progress_goes_on(&ticks, true, round & 1));
	}
	for (unsigned i = 0; i < PROGRESS_BUSY_TICKS; i++)
		assert_true(progress_goes_on(&ticks, false, true));
	assert_false(progress_goes_on(&ticks, false, true));
	assert_false(progress_goes_on(&ticks, false, false));
	assert_true(progress_goes_on(&ticks, false, true));
}

TEST(progress, stall__needs_twice_as_much_and_forgives)
{
	struct progress p;

	progress_init(&p);
	polls_until_stopped(&p, s);
	progress_rearm(&p, s, true);
	assert_int_equal(p.mode, PROGRESS_ARMED);
	assert_int_equal(polls_until_stopped(&p, s + ms), 2 * PROGRESS_EVIDENCE);
	progress_rearm(&p, s + ms, true);
	assert_int_equal(polls_until_stopped(&p, s + 2 * ms), 4 * PROGRESS_EVIDENCE);
	progress_rearm(&p, s + 2 * ms, false);
	assert_int_equal(polls_until_stopped(&p, s + 3 * ms), 4 * PROGRESS_EVIDENCE);
	progress_rearm(&p, 20 * s, false);
	assert_int_equal(polls_until_stopped(&p, 20 * s), PROGRESS_EVIDENCE);
}

TEST(progress, stalls_for_ever__evidence_bounded)
{
	struct progress p;

	progress_init(&p);
	for (unsigned i = 0; i < 100; i++) {
		polls_until_stopped(&p, s);
		progress_rearm(&p, s, true);
	}
	assert_int_equal(polls_until_stopped(&p, s), PROGRESS_EVIDENCE_MAX);
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
