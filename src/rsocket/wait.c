/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wait.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/rs.h"

uint64_t rs_now(void)
{
	return monotonic_ns();
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
	/* Other threads may be about to poll for events that have just been taken. */
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
