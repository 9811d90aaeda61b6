/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <errno.h>
#include <stdio.h>

#include "transport/cq.h"
#include "transport/rq.h"

static struct rocemu_ep *new_ep(void)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});

	assert_non_null(ep);
	return ep;
}

static struct rocemu_cq *new_cq(struct rocemu_ep *ep, unsigned depth)
{
	struct rocemu_cq *cq;

	assert_int_equal(rocemu_cq_create(ep, depth, NULL, &cq), 0);
	return cq;
}

static void push(struct rocemu_cq *cq, uint64_t wr_id, uint32_t qpn)
{
	cq_push(cq, &(struct rocemu_cqe){.wr_id = wr_id, .qpn = qpn});
}

TEST(cq_create, depth__rounded_up_and_bounded)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq;

	assert_int_equal(rocemu_cq_create(ep, 0, NULL, &cq), -EINVAL);
	assert_int_equal(rocemu_cq_create(ep, ROCEMU_MAX_CQE + 1, NULL, &cq), -EINVAL);
	assert_in_range(rocemu_cq_depth(new_cq(ep, 100)), 100, 128);
	rocemu_ep_free(ep);
}

TEST(cq_poll, many_rounds__in_order)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 4);
	struct rocemu_cqe out[4];
	uint64_t in = 0, seen = 0;

	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 3; i++)
			push(cq, in++, 1);
		assert_int_equal(rocemu_cq_count(cq), 3);
		assert_int_equal(rocemu_cq_poll(cq, out, 2), 2);
		assert_int_equal(rocemu_cq_poll(cq, out + 2, 2), 1);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(out[i].wr_id, seen++);
	}
	rocemu_ep_free(ep);
}

TEST(cq_push, full__overrun_event_once_and_old_ones_kept)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 4);
	struct rocemu_event ev;
	struct rocemu_cqe out[8];

	for (uint64_t i = 0; i < 7; i++)
		push(cq, i, 1);
	assert_true(rocemu_cq_overrun(cq));
	assert_true(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(ev.type, ROCEMU_EVENT_CQ_ERR);
	assert_int_equal(ev.async, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.u.cq, cq);
	assert_false(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 4);
	assert_int_equal(out[3].wr_id, 3);
	rocemu_ep_free(ep);
}

TEST(cq_arm, any__one_event_then_disarmed)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_event ev;
	struct rocemu_cqe cqe;

	assert_false(rocemu_cq_is_armed(cq));
	push(cq, 0, 1);
	assert_false(rocemu_ep_next_event(ep, &ev)); /* was not armed */
	assert_int_equal(rocemu_cq_poll(cq, &cqe, 1), 1);
	rocemu_cq_arm(cq, 0, false);
	assert_true(rocemu_cq_is_armed(cq));
	assert_false(rocemu_ep_next_event(ep, &ev));
	push(cq, 1, 1);
	push(cq, 2, 1);
	assert_true(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(ev.type, ROCEMU_EVENT_CQ);
	assert_false(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(rocemu_ep_get_stats(ep)->cq_events, 1);
	rocemu_ep_free(ep);
}

TEST(cq_arm, solicited_only__solicited_or_failed_completion)
{
	struct rocemu_cqe out[8];
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_event ev;

	rocemu_cq_arm(cq, 0, true);
	push(cq, 0, 1);
	assert_false(rocemu_ep_next_event(ep, &ev));
	cq_push(cq, &(struct rocemu_cqe){.solicited = true});
	assert_true(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 2);
	push(cq, 0, 1);
	rocemu_cq_arm(cq, 0, true);
	cq_push(cq, &(struct rocemu_cqe){.status = IBV_WC_WR_FLUSH_ERR});
	assert_true(rocemu_ep_next_event(ep, &ev));
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 2);
	/* "any" requested and then "solicited": stays "any" */
	rocemu_cq_arm(cq, 0, false);
	rocemu_cq_arm(cq, 0, true);
	push(cq, 0, 1);
	assert_true(rocemu_ep_next_event(ep, &ev));
	rocemu_ep_free(ep);
}

TEST(cq_purge, one_qp__others_stay_in_order)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	for (uint32_t i = 0; i < 7; i++)
		push(cq, i, i % 2);
	cq_purge(cq, 1);
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(out[i].wr_id, 2 * i);
	rocemu_ep_free(ep);
}

TEST(cq_resize, with_completions_waiting__kept_in_order)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 4);
	struct rocemu_cqe out[8];

	for (uint32_t i = 0; i < 4; i++)
		push(cq, i, 1);
	assert_int_equal(rocemu_cq_resize(cq, 3), -EINVAL);
	assert_int_equal(rocemu_cq_resize(cq, 8), 0);
	push(cq, 4, 1);
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(out[i].wr_id, i);
	rocemu_ep_free(ep);
}

static void push_at(struct rocemu_cq *cq, rocemu_ns_t when, enum ibv_wc_status status)
{
	cq_push(cq, &(struct rocemu_cqe){.status = status, .timestamp = when});
}

static bool event_came(struct rocemu_ep *ep)
{
	struct rocemu_event ev;

	return rocemu_ep_next_event(ep, &ev) && ev.type == ROCEMU_EVENT_CQ;
}

/* ---- armed while completions are in the CQ ---- */

/* After many completions: it is how many wait that counts. */
TEST(cq_resize, fewer_entries_than_wait__einval_as_many__taken)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	for (unsigned i = 0; i < 100; i++) {
		push(cq, i, 1);
		assert_int_equal(rocemu_cq_poll(cq, out, 1), 1);
	}
	for (unsigned i = 0; i < 5; i++)
		push(cq, i, 1);
	assert_int_equal(rocemu_cq_resize(cq, 4), -EINVAL);
	assert_int_equal(rocemu_cq_resize(cq, 0), -EINVAL);
	assert_int_equal(rocemu_cq_resize(cq, ROCEMU_MAX_CQE + 1), -EINVAL);
	assert_int_equal(rocemu_cq_resize(cq, 5), 0);
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(out[i].wr_id, i);
	rocemu_ep_free(ep);
}

TEST(cq_arm, completions_without_an_event__event_soon)
{
	enum { ARMED = 10 * CQ_LATE_NS };
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);

	push_at(cq, 1, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, ARMED, false);
	assert_int_equal(rocemu_ep_deadline(ep), ARMED + CQ_LATE_NS);
	/* The next completion does not wait for longer, nor does it end the wait. */
	push_at(cq, ARMED + 1000, IBV_WC_SUCCESS);
	assert_int_equal(rocemu_ep_deadline(ep), ARMED + CQ_LATE_NS);
	rocemu_ep_expire(ep, ARMED + CQ_LATE_NS - 1);
	assert_false(event_came(ep));
	rocemu_ep_expire(ep, ARMED + CQ_LATE_NS);
	assert_true(event_came(ep));
	assert_false(rocemu_cq_is_armed(cq));
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	rocemu_ep_free(ep);
}

TEST(cq_arm, completions_polled_before_the_event__no_event_and_still_armed)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	push_at(cq, 1, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, 1000, false);
	push_at(cq, 2000, IBV_WC_SUCCESS);
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 2);
	rocemu_ep_expire(ep, 1000 + CQ_LATE_NS);
	assert_false(event_came(ep));
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	assert_true(rocemu_cq_is_armed(cq));
	push_at(cq, 100000, IBV_WC_SUCCESS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

/* The timer of an earlier arming is not the one that counts. */
TEST(cq_arm, armed_again_before_the_timer_ran_out__counts_from_then)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	push_at(cq, 1, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, 1000, false);
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 1);
	push_at(cq, 20000, IBV_WC_SUCCESS);
	assert_true(event_came(ep)); /* nothing else was in it */
	push_at(cq, 20001, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, 30000, false);
	rocemu_ep_expire(ep, 1000 + CQ_LATE_NS);
	assert_false(event_came(ep));
	assert_int_equal(rocemu_ep_deadline(ep), 30000 + CQ_LATE_NS);
	rocemu_ep_expire(ep, 30000 + CQ_LATE_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_arm, some_polled_and_another_came_before_the_next_arming__not_again)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	push_at(cq, 1, IBV_WC_SUCCESS);
	push_at(cq, 1, IBV_WC_SUCCESS);
	assert_false(rocemu_cq_arm(cq, 1000, false));
	assert_int_equal(rocemu_cq_poll(cq, out, 1), 1);
	rocemu_cq_polling(cq, true);
	push_at(cq, 2000, IBV_WC_SUCCESS);
	rocemu_cq_polling(cq, false);
	assert_false(rocemu_cq_arm(cq, 3000, false));
	assert_true(rocemu_cq_arm(cq, 4000, false));
	rocemu_ep_free(ep);
}

TEST(cq_arm, armed_again_and_again_without_a_poll__event_of_the_first_time)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	push_at(cq, 1, IBV_WC_SUCCESS);
	push_at(cq, 1, IBV_WC_SUCCESS);
	assert_false(rocemu_cq_arm(cq, 1000, false));
	assert_true(rocemu_cq_arm(cq, 100000, true));
	assert_true(rocemu_cq_arm(cq, 200000, false));
	rocemu_ep_expire(ep, 999 + CQ_LATE_NS);
	assert_false(event_came(ep));
	rocemu_ep_expire(ep, 1000 + CQ_LATE_NS);
	assert_true(event_came(ep));
	/* With a poll in between it is another one. */
	assert_false(rocemu_cq_arm(cq, 300000, false));
	assert_int_equal(rocemu_cq_poll(cq, out, 1), 1);
	assert_false(rocemu_cq_arm(cq, 400000, false));
	rocemu_ep_expire(ep, 399999 + CQ_LATE_AGAIN_NS);
	assert_false(event_came(ep));
	rocemu_ep_expire(ep, 400000 + CQ_LATE_AGAIN_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_arm, all_completions_had_an_event__the_next_one_takes_longer)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);

	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 1, IBV_WC_SUCCESS);
	assert_true(event_came(ep));
	rocemu_cq_arm(cq, 1000, false);
	rocemu_ep_expire(ep, 999 + CQ_LATE_AGAIN_NS);
	assert_false(event_came(ep));
	rocemu_ep_expire(ep, 1000 + CQ_LATE_AGAIN_NS);
	assert_true(event_came(ep));
	/* A new one raises the event soon. */
	rocemu_cq_arm(cq, 2000000, false);
	push_at(cq, 2001000, IBV_WC_SUCCESS);
	rocemu_ep_expire(ep, 2001000 + CQ_LATE_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_arm, solicited_only__counts_unpolled_solicited_ones_alone)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	push_at(cq, 1, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, 1000, true);
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	cq_push(cq, &(struct rocemu_cqe){.solicited = true, .timestamp = 2000});
	assert_true(event_came(ep)); /* at once: those before it do not count */
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 2);

	cq_push(cq, &(struct rocemu_cqe){.solicited = true, .timestamp = 3000});
	push_at(cq, 3000, IBV_WC_SUCCESS);
	rocemu_cq_arm(cq, 4000, true);
	assert_int_equal(rocemu_ep_deadline(ep), 4000 + CQ_LATE_NS);
	assert_int_equal(rocemu_cq_poll(cq, out, 1), 1);
	rocemu_ep_expire(ep, 4000 + CQ_LATE_NS);
	assert_false(event_came(ep)); /* the one that is left is none */

	push_at(cq, 100000, IBV_WC_WR_FLUSH_ERR);
	assert_true(event_came(ep));
	rocemu_cq_arm(cq, 200000, true);
	rocemu_ep_expire(ep, 200000 + CQ_LATE_AGAIN_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_arm, solicited_one_moved_by_a_purge__event)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);

	push(cq, 0, 1);
	push(cq, 1, 1);
	cq_push(cq, &(struct rocemu_cqe){.solicited = true, .qpn = 2});
	cq_purge(cq, 1);
	rocemu_cq_arm(cq, 1000, true);
	rocemu_ep_expire(ep, 1000 + CQ_LATE_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_polling, completion_that_the_poll_returns__no_event)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);
	struct rocemu_cqe out[8];

	rocemu_cq_arm(cq, 0, false);
	rocemu_cq_polling(cq, true);
	push_at(cq, 1000, IBV_WC_SUCCESS);
	rocemu_cq_polling(cq, false);
	assert_false(event_came(ep));
	assert_int_equal(rocemu_cq_poll(cq, out, 8), 1);
	rocemu_ep_expire(ep, 1000 + CQ_LATE_NS);
	assert_false(event_came(ep));
	/* What the poll leaves has its event. */
	rocemu_cq_polling(cq, true);
	push_at(cq, 200000, IBV_WC_SUCCESS);
	push_at(cq, 200000, IBV_WC_SUCCESS);
	rocemu_cq_polling(cq, false);
	assert_int_equal(rocemu_cq_poll(cq, out, 1), 1);
	rocemu_ep_expire(ep, 200000 + CQ_LATE_NS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

TEST(cq_destroy, late_event_to_come__timer_goes_with_it)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 8);

	push(cq, 0, 1);
	rocemu_cq_arm(cq, 0, false);
	assert_int_equal(rocemu_cq_destroy(cq), 0);
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	rocemu_ep_free(ep);
}

/* ---- moderation ---- */

TEST(cq_moderate, count__one_event_for_so_many_completions)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 64);
	struct rocemu_cqe out[8];

	rocemu_cq_moderate(cq, 4, 0);
	for (unsigned round = 0; round < 3; round++) {
		rocemu_cq_arm(cq, 0, false);
		for (unsigned i = 0; i < 3; i++)
			push_at(cq, i, IBV_WC_SUCCESS);
		assert_false(event_came(ep));
		assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
		push_at(cq, 3, IBV_WC_SUCCESS);
		assert_true(event_came(ep));
		push_at(cq, 4, IBV_WC_SUCCESS);
		assert_false(event_came(ep));
		assert_int_equal(rocemu_cq_poll(cq, out, 8), 5);
	}
	rocemu_ep_free(ep);
}

TEST(cq_moderate, period__ends_with_fewer_completions)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 64);

	rocemu_cq_moderate(cq, 100, 5000);
	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 1000, IBV_WC_SUCCESS);
	push_at(cq, 3000, IBV_WC_SUCCESS);
	assert_int_equal(rocemu_ep_deadline(ep), 6000);
	rocemu_ep_expire(ep, 5999);
	assert_false(event_came(ep));
	rocemu_ep_expire(ep, 6000);
	assert_true(event_came(ep));
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	rocemu_ep_free(ep);
}

TEST(cq_moderate, error__waits_for_nobody)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 64);

	rocemu_cq_moderate(cq, 100, 5000);
	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 1, IBV_WC_SUCCESS);
	push_at(cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_true(event_came(ep));
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	rocemu_ep_free(ep);
}

TEST(cq_moderate, changed_while_an_event_waits__it_comes)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 64);
	struct rocemu_cqe cqe;

	rocemu_cq_moderate(cq, 100, 0);
	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 1, IBV_WC_SUCCESS);
	rocemu_cq_moderate(cq, 0, 0);
	assert_true(event_came(ep));
	assert_int_equal(rocemu_cq_poll(cq, &cqe, 1), 1);
	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 2, IBV_WC_SUCCESS);
	assert_true(event_came(ep));
	rocemu_ep_free(ep);
}

/* The numbers of the completions that 12 pushes leave behind. */
static const char *left_of_12(uint64_t nth, uint64_t every, uint64_t times)
{
	static char text[64];
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 16);
	struct rocemu_cqe out[16];
	struct rocemu_event ev;
	unsigned n;

	rocemu_cq_overrun_at(cq, nth, every, times);
	for (uint64_t i = 1; i <= 12; i++)
		push(cq, i, 1);
	n = rocemu_cq_poll(cq, out, 16);
	assert_int_equal(rocemu_cq_overrun(cq), n < 12);
	assert_int_equal(rocemu_ep_next_event(ep, &ev), n < 12);
	if (n < 12)
		assert_int_equal(ev.async, IBV_EVENT_CQ_ERR);
	text[0] = '\0';
	for (unsigned i = 0, at = 0; i < n; i++)
		at += (unsigned)snprintf(text + at, sizeof(text) - at, "%s%u", i ? " " : "",
					 (unsigned)out[i].wr_id);
	rocemu_ep_free(ep);
	return text;
}

TEST(cq_overrun_at, completions_that_were_named__lost)
{
	assert_string_equal(left_of_12(0, 0, 1), "1 2 3 4 5 6 7 8 9 10 11 12");
	assert_string_equal(left_of_12(3, 0, 0), "1 2 3 4 5 6 7 8 9 10 11 12");
	assert_string_equal(left_of_12(1, 0, 1), "2 3 4 5 6 7 8 9 10 11 12");
	assert_string_equal(left_of_12(3, 0, 5), "1 2 4 5 6 7 8 9 10 11 12");
	assert_string_equal(left_of_12(3, 4, 2), "1 2 4 5 6 8 9 10 11 12");
	assert_string_equal(left_of_12(3, 4, UINT64_MAX), "1 2 4 5 6 8 9 10 12");
}

TEST(cq_destroy, period_running__timer_goes_with_it)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 64);

	rocemu_cq_moderate(cq, 100, 5000);
	rocemu_cq_arm(cq, 0, false);
	push_at(cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(rocemu_cq_destroy(cq), 0);
	assert_int_equal(rocemu_ep_deadline(ep), ROCEMU_NEVER);
	rocemu_ep_free(ep);
}

TEST(cq_move, armed__event_of_its_new_endpoint)
{
	struct rocemu_ep *from = new_ep(), *to = new_ep();
	struct rocemu_cq *cq = new_cq(from, 4);
	struct rocemu_event ev;

	rocemu_cq_arm(cq, 0, false);
	assert_int_equal(rocemu_cq_move(cq, to), 0);
	rocemu_ep_free(from);
	push(cq, 1, 1);
	assert_true(rocemu_ep_next_event(to, &ev));
	assert_ptr_equal(ev.u.cq, cq);
	rocemu_ep_free(to);
}

TEST(cq_move, event_waits__moves_as_well)
{
	struct rocemu_ep *from = new_ep(), *to = new_ep();
	struct rocemu_cq *cq = new_cq(from, 4);
	struct rocemu_event ev;

	rocemu_cq_arm(cq, 0, false);
	push(cq, 1, 1);
	assert_int_equal(rocemu_cq_move(cq, to), 0);
	assert_false(rocemu_ep_next_event(from, &ev));
	assert_true(rocemu_ep_next_event(to, &ev));
	rocemu_ep_free(to);
	rocemu_ep_free(from);
}

TEST(cq_move, in_use_or_late_event__refused)
{
	struct rocemu_ep *from = new_ep(), *to = new_ep();
	struct rocemu_cq *cq = new_cq(from, 4);

	cq->refs++;
	assert_int_equal(rocemu_cq_move(cq, to), -EBUSY);
	cq->refs--;
	push(cq, 1, 1);
	rocemu_cq_arm(cq, 0, false);
	assert_int_equal(rocemu_cq_move(cq, to), -EBUSY);
	rocemu_ep_free(from);
	rocemu_ep_free(to);
}

TEST(cq_destroy, event_waits__goes_with_it)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 4), *other = new_cq(ep, 4);
	struct rocemu_event ev;

	rocemu_cq_arm(cq, 0, false);
	rocemu_cq_arm(other, 0, false);
	push(cq, 1, 1);
	push(other, 1, 1);
	assert_int_equal(rocemu_cq_destroy(cq), 0);
	assert_true(rocemu_ep_next_event(ep, &ev));
	assert_ptr_equal(ev.u.cq, other);
	assert_false(rocemu_ep_next_event(ep, &ev));
	rocemu_ep_free(ep);
}

TEST(cq_holds_success, of_another_qp_or_failed__no)
{
	struct rocemu_ep *ep = new_ep();
	struct rocemu_cq *cq = new_cq(ep, 4);
	struct rocemu_cqe out;

	cq_push(cq, &(struct rocemu_cqe){.qpn = 1, .status = IBV_WC_WR_FLUSH_ERR});
	cq_push(cq, &(struct rocemu_cqe){.qpn = 2, .status = IBV_WC_SUCCESS});
	assert_false(rocemu_cq_holds_success(cq, 1));
	assert_true(rocemu_cq_holds_success(cq, 2));
	assert_int_equal(rocemu_cq_poll(cq, &out, 1), 1);
	assert_true(rocemu_cq_holds_success(cq, 2));
	assert_int_equal(rocemu_cq_poll(cq, &out, 1), 1);
	assert_false(rocemu_cq_holds_success(cq, 2));
	rocemu_ep_free(ep);
}
