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

/* due: 0: never. */
static int set_timer(int fd, rocemu_ns_t due)
{
	const struct itimerspec its = {
		.it_value =
			{
				.tv_sec = (time_t)(due / NS_PER_S),
				.tv_nsec = (long)(due % NS_PER_S),
			},
	};

	return timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL);
}

void lane_thread_arm(struct lane *l, rocemu_ns_t due)
{
	if (set_timer(l->thread.timer_fd, MAX(due, 1u)) == 0)
		l->thread.armed = due;
}

void lane_thread_guard(struct lane *l)
{
	(void)set_timer(l->thread.guard_fd,
			l->progress.mode == PROGRESS_POLLED ? l->progress.guard : 0);
}

void lane_thread_request(struct lane *l, enum lane_request what)
{
	/* Requested already and still pending: no second wakeup. */
	if (!(atomic_fetch_or_explicit(&l->thread.requests, what, memory_order_acq_rel) & what)) {
		UNCANCELLED;

		loop_wake(&l->thread.loop);
	}
}
