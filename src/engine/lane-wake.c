/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane's clock, the timer of the lane's thread, and requests to that thread.
 */
#include <sys/timerfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/lane-internal.h"

rocemu_ns_t lane_now(void)
{
	return monotonic_ns();
}

void lane_thread_arm(struct lane *l, rocemu_ns_t due)
{
	const struct itimerspec its = {
		.it_value =
			{
				.tv_sec = (time_t)(due / NS_PER_S),
				.tv_nsec = (long)(due % NS_PER_S) +
					   (due == 0), /* all zero would disarm it */
			},
	};

	if (timerfd_settime(l->thread.timer_fd, TFD_TIMER_ABSTIME, &its, NULL) == 0)
		l->thread.armed = due;
}

void lane_thread_request(struct lane *l, enum lane_request what)
{
	/* Requested already and still pending: no second wakeup. */
	if (!(atomic_fetch_or_explicit(&l->thread.requests, what, memory_order_acq_rel) & what)) {
		UNCANCELLED;

		loop_wake(&l->thread.loop);
	}
}
