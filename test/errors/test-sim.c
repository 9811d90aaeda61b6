/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table in the simulator: on a perfect network, and over all losses of its first
 * packets. */
#include "test.h"

#include <stdbool.h>

#include "errors.h"

/* All but the one that loses eight packets: a request is sent eight times before it is given up. */
enum { MASKS = 255 };

static bool run_all(const struct err_row *rows, unsigned n, uint32_t mask)
{
	bool ok = true;

	for (unsigned i = 0; i < n; i++)
		/*
		 * Unacknowledged messages do not survive a loss, and a requester does not retry
		 * after nonsense.
		 */
		if (!mask || (rows[i].type == IBV_QPT_RC && !rows[i].sim_only))
			ok &= err_run(&err_bench_sim, &rows[i], mask);
	return ok;
}

static bool has_status(const struct err_row *rows, unsigned n, int status)
{
	for (unsigned i = 0; i < n; i++) {
		const struct err_ends *w = &rows[i].want;

		if (!rows[i].err &&
		    (w->first == status || w->behind == status || w->recv == status ||
		     w->recv_behind == status || w->recv_req == status))
			return true;
	}
	return false;
}

static bool has_event(const struct err_row *rows, unsigned n, int event)
{
	for (unsigned i = 0; i < n; i++)
		if ((rows[i].want.events[REQ] | rows[i].want.events[RSP]) >> event & 1)
			return true;
	return false;
}

static bool is_absent(const struct err_absent *list, unsigned n, int code)
{
	for (unsigned i = 0; i < n; i++)
		if (list[i].code == code)
			return true;
	return false;
}

/* A status or an event has a row, or a reason why it has none; not both. */
TEST(errors, each_status_and_event__has_a_row_or_a_reason)
{
	for (int s = 0; s <= IBV_WC_TM_RNDV_INCOMPLETE; s++)
		if ((has_status(err_rows, err_nrows, s) ||
		     has_status(err_bodies, err_nbodies, s)) ==
		    is_absent(err_absent_statuses, err_nabsent_statuses, s))
			fail_msg("status %d (%s)", s, ibv_wc_status_str((enum ibv_wc_status)s));
	for (int e = 0; e <= IBV_EVENT_WQ_FATAL; e++)
		if ((has_event(err_rows, err_nrows, e) || has_event(err_bodies, err_nbodies, e)) ==
		    is_absent(err_absent_events, err_nabsent_events, e))
			fail_msg("event %d (%s)", e, ibv_event_type_str((enum ibv_event_type)e));
}

TEST(errors, perfect_network__as_the_table_says)
{
	assert_true(run_all(err_rows, err_nrows, 0));
	assert_true(run_all(err_bodies, err_nbodies, 0));
}

TEST(errors, every_loss_of_the_first_packets__as_the_table_says)
{
	bool ok = true;

	for (uint32_t mask = 1; mask < MASKS; mask++) {
		ok &= run_all(err_rows, err_nrows, mask);
		ok &= run_all(err_bodies, err_nbodies, mask);
	}
	assert_true(ok);
}
