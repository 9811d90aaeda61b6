/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wait.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rsocket/rs.h"
#include "rsocket/setting.h"

uint64_t rs_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void rs_sleep_init(struct rs_sleep *sleep)
{
	*sleep = (struct rs_sleep){.fd = -1};
}

void rs_sleep_fini(struct rs_sleep *sleep)
{
	if (sleep->fd >= 0)
		close(sleep->fd);
	sleep->fd = -1;
}

int rs_sleep_begin(struct rs *rs, struct rs_sleeper *me, short events, struct pollfd *fds)
{
	struct rs_sleep *sleep = &rs->sleep;
	unsigned n;

	if (sleep->fd < 0)
		sleep->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (sleep->fd < 0)
		return -errno;
	n = rs->ops->arm(rs, events, fds);
	fds[n++] = (struct pollfd){.fd = sleep->fd, .events = POLLIN};
	me->generation = sleep->generation;
	sleep->sleepers++;
	return (int)n;
}

void rs_sleep_end(struct rs *rs, const struct rs_sleeper *me, const struct pollfd *fds, int n)
{
	struct rs_sleep *sleep = &rs->sleep;
	bool came = false;

	sleep->sleepers--;
	if (me->generation != sleep->generation && sleep->due > 0 && --sleep->due == 0) {
		eventfd_t sum;

		(void)eventfd_read(sleep->fd, &sum);
	}
	for (int i = 0; i < n - 1; i++)
		came |= fds[i].revents != 0;
	if (!came || sleep->closing)
		return;
	rs->ops->woken(rs);
	/* The others may be about to poll for what has just been taken. */
	rs_wake(rs);
}

void rs_wake(struct rs *rs)
{
	struct rs_sleep *sleep = &rs->sleep;

	if (sleep->sleepers == 0)
		return;
	sleep->generation++;
	sleep->due = sleep->sleepers;
	(void)eventfd_write(sleep->fd, 1);
}

/** The time that is left, for poll(); never longer than the interval after which we look for
 * ourselves. */
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

/** Data often comes at once, and sleeping costs more than looking a little longer. */
static bool comes_soon(struct rs *rs, short events)
{
	const uint64_t end = rs_now() + rs_polling_ns();

	do {
		if (is_ready(rs, events))
			return true;
	} while (rs_now() < end);
	return false;
}

/** 1: it is so; 0: look again; -errno. */
static int sleep_once(struct rs *rs, short events, int ms)
{
	struct pollfd fds[RS_SLEEP_FDS];
	struct rs_sleeper me;
	int n = rs_sleep_begin(rs, &me, events, fds), ret = 0;

	if (n < 0)
		return n;
	if (is_ready(rs, events)) {
		rs_sleep_end(rs, &me, fds, 0);
		return 1;
	}
	pthread_mutex_unlock(&rs->lock);
	if (poll(fds, (nfds_t)n, ms) < 0)
		ret = -errno;
	pthread_mutex_lock(&rs->lock);
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
