/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks until a socket is ready: polls for a short time, then sleeps. */
#include "rsocket/rs.h"
#include "rsocket/setting.h"

/** The time that is left, for poll(); never longer than the interval of checks without an event. */
static int left_ms(uint64_t end, int timeout_ms)
{
	const int most = rs_wake_up_ms();
	uint64_t now, ms;

	if (timeout_ms < 0)
		return most;
	now = rs_now();
	if (now >= end)
		return 0;
	ms = (end - now + 999999) / 1000000;
	return ms < (uint64_t)most ? (int)ms : most;
}

static bool is_ready(struct rs *rs, short events)
{
	return rs->ops->ready(rs, events) & (events | POLLERR | POLLHUP);
}

/** Data often comes at once, and sleeping costs more than polling a little longer. */
static bool comes_soon(struct rs *rs, short events)
{
	const uint64_t end = rs_now() + rs_polling_ns();

	do {
		if (is_ready(rs, events))
			return true;
	} while (rs_now() < end);
	return false;
}

struct sleeping {
	struct rs *rs;
	const struct rs_sleeper *me;
};

/** Clean up a cancelled call: end its sleep and its reference to the socket. */
static void sleep_cancelled(void *arg)
{
	const struct sleeping *s = arg;

	mutex_lock(&s->rs->lock);
	rs_sleep_end(s->rs, s->me, NULL, 0);
	rs_put(s->rs);
}

/** 1: ready; 0: check again; -errno. A cancellation point; the caller has the socket by rs_get().
 */
static int sleep_once(struct rs *rs, short events, int ms)
{
	struct pollfd fds[RS_SLEEP_FDS];
	struct rs_sleeper me;
	struct sleeping asleep = {rs, &me};
	int n = rs_sleep_begin(rs, &me, events, fds), ret = 0;

	if (n < 0)
		return n;
	if (is_ready(rs, events)) {
		rs_sleep_end(rs, &me, fds, 0);
		return 1;
	}
	mutex_unlock(&rs->lock);
	pthread_cleanup_push(sleep_cancelled, &asleep);
	if (poll(fds, (nfds_t)n, ms) < 0)
		ret = -errno;
	pthread_cleanup_pop(0);
	mutex_lock(&rs->lock);
	rs_sleep_end(rs, &me, fds, ret < 0 ? 0 : n);
	return rs->sleep.closing ? -EBADF : ret;
}

int rs_wait(struct rs *rs, short events, int flags, int timeout_ms)
{
	uint64_t end = timeout_ms > 0 ? rs_now() + (uint64_t)timeout_ms * 1000000u : 0;
	int ret;

	if (rs->sleep.closing)
		return -EBADF;
	if (is_ready(rs, events))
		return 0;
	if (rs->nonblock || (flags & MSG_DONTWAIT) || timeout_ms == 0)
		return -EAGAIN;
	if (comes_soon(rs, events))
		return 0;
	for (;;) {
		const int ms = left_ms(end, timeout_ms);

		if (ms == 0)
			return -EAGAIN;
		ret = sleep_once(rs, events, ms);
		if (ret < 0)
			return ret;
		if (ret > 0 || is_ready(rs, events))
			return 0;
	}
}
