/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll() and rselect(), for rsockets and any other descriptors. Level-triggered: each socket's
 * state is checked; only the sleep in between polls the descriptors that the sockets arm.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "base/why.h"
#include "rsocket/rs.h"
#include "rsocket/setting.h"

/** Of one entry of the caller's. */
struct watched {
	struct rs *rs;	      /* a reference; NULL: not an rsocket */
	struct rs_sleeper me; /* while asleep */
	int first, n;	      /* entries in raw while asleep */
};

struct watch {
	struct pollfd *fds; /* the caller's, borrowed */
	nfds_t nfds;
	unsigned ours;	       /* of them */
	struct watched *of;    /* [nfds] */
	struct pollfd *raw;    /* [nfds * RS_SLEEP_FDS] */
	struct pollfd *others; /* [nfds]: without rsockets */
};

enum { SMALL = 8 };

/* Most programs poll a few: no allocation for them. */
struct small {
	struct watched of[SMALL];
	struct pollfd raw[SMALL * RS_SLEEP_FDS], others[SMALL];
};

static int watch_init(struct watch *w, struct small *small, struct pollfd *fds, nfds_t nfds)
{
	*w = (struct watch){.fds = fds, .nfds = nfds};
	if (nfds <= SMALL) {
		w->of = small->of;
		w->raw = small->raw;
		w->others = small->others;
	} else {
		w->of = malloc(nfds * sizeof(*w->of));
		w->raw = malloc(nfds * RS_SLEEP_FDS * sizeof(*w->raw));
		w->others = malloc(nfds * sizeof(*w->others));
		if (!w->of || !w->raw || !w->others) {
			free(w->of);
			free(w->raw);
			free(w->others);
			return -ENOMEM;
		}
	}
	for (nfds_t i = 0; i < nfds; i++) {
		w->of[i] = (struct watched){.rs = fds[i].fd < 0 ? NULL : rs_ref(fds[i].fd)};
		w->others[i] = fds[i];
		if (w->of[i].rs) {
			w->ours++;
			w->others[i].fd = -1;
		}
	}
	return 0;
}

static void watch_fini(struct watch *w)
{
	for (nfds_t i = 0; i < w->nfds; i++)
		if (w->of[i].rs)
			rs_unref(w->of[i].rs);
	if (w->nfds > SMALL) {
		free(w->of);
		free(w->raw);
		free(w->others);
	}
}

/* A socket has no urgent data and no bands: these bits are equivalent. */
enum { IN = POLLIN | POLLRDNORM, OUT = POLLOUT | POLLWRNORM };

static short requested(short events)
{
	return (short)((events & IN ? POLLIN : 0) | (events & OUT ? POLLOUT : 0));
}

/** Lock held. */
static short answer(struct rs *rs, short events)
{
	short ready, out = 0;

	if (rs->orphan)
		return POLLERR;
	if (rs->sleep.closing)
		return POLLNVAL;
	ready = rs->ops->ready(rs, requested(events));
	if (ready & POLLIN)
		out |= events & IN;
	if (ready & POLLOUT)
		out |= events & OUT;
	return (short)(out | (ready & (POLLERR | POLLHUP)));
}

/** Check the current state. @return entries with revents, or -errno. */
static int look(struct watch *w)
{
	int found = 0;

	if (w->ours < w->nfds && poll(w->others, w->nfds, 0) < 0)
		return -errno;
	for (nfds_t i = 0; i < w->nfds; i++) {
		struct rs *rs = w->of[i].rs;

		if (rs) {
			mutex_lock(&rs->lock);
			w->fds[i].revents = answer(rs, w->fds[i].events);
			mutex_unlock(&rs->lock);
		} else {
			w->fds[i].revents = w->ours < w->nfds ? w->others[i].revents : 0;
		}
		found += w->fds[i].revents != 0;
	}
	return found;
}

/** Arm all rsockets; @return entries of raw, or -errno. */
static int begin(struct watch *w)
{
	int n = 0, ret;

	for (nfds_t i = 0; i < w->nfds; i++) {
		struct watched *of = &w->of[i];

		of->first = n;
		of->n = 0;
		if (!of->rs) {
			w->raw[n++] =
				(struct pollfd){.fd = w->fds[i].fd, .events = w->fds[i].events};
			continue;
		}
		mutex_lock(&of->rs->lock);
		ret = of->rs->sleep.closing
			      ? -EBADF
			      : rs_sleep_begin(of->rs, &of->me, requested(w->fds[i].events),
					       &w->raw[n]);
		mutex_unlock(&of->rs->lock);
		if (ret == -EBADF)
			continue; /* checked by look() */
		if (ret < 0)
			return ret;
		of->n = ret;
		n += ret;
	}
	return n;
}

static void end(struct watch *w, bool polled)
{
	for (nfds_t i = 0; i < w->nfds; i++) {
		struct watched *of = &w->of[i];

		if (!of->rs || of->n == 0)
			continue;
		mutex_lock(&of->rs->lock);
		rs_sleep_end(of->rs, &of->me, &w->raw[of->first], polled ? of->n : 0);
		mutex_unlock(&of->rs->lock);
		of->n = 0;
	}
}

/** Sleep until something may have changed. @return as look(). */
static int doze(struct watch *w, int ms)
{
	int n, found;

	for (nfds_t i = 0; i < w->nfds; i++)
		w->of[i].n = 0;
	n = begin(w);
	found = n < 0 ? n : look(w);
	if (found != 0) {
		end(w, false);
		return found;
	}
	if (poll(w->raw, (nfds_t)n, ms) < 0) {
		const int err = errno;

		end(w, false);
		return -err;
	}
	end(w, true);
	return look(w);
}

static int wait_for_any(struct watch *w, uint64_t end_ns)
{
	const uint64_t spin_end = rs_now() + rs_polling_ns();
	uint64_t now;
	int found;

	do {
		found = look(w);
		now = rs_now();
		if (found != 0 || now >= end_ns)
			return found;
	} while (now < spin_end);
	while (found == 0 && now < end_ns) {
		const uint64_t most = (uint64_t)rs_wake_up_ms(),
			       ms = (end_ns - now + 999999) / 1000000;

		found = doze(w, (int)MIN(ms, most));
		now = rs_now();
	}
	return found;
}

/** Each poll() is a cancellation point: sockets that sleep then no longer do. */
static void poll_cancelled(void *arg)
{
	struct watch *w = arg;

	end(w, false);
	watch_fini(w);
}

static int poll_until(struct pollfd *fds, nfds_t nfds, uint64_t end_ns, int timeout_ms)
{
	struct small small;
	struct watch w;
	int ret;

	if (nfds > INT_MAX / RS_SLEEP_FDS)
		return REFUSE(-EINVAL, 0,
			      "rpoll: nfds is %lu: it must be at most %d: poll in several calls",
			      (unsigned long)nfds, INT_MAX / RS_SLEEP_FDS);
	ret = watch_init(&w, &small, fds, nfds);
	if (ret < 0)
		return ret;
	if (w.ours == 0) {
		ret = poll(fds, nfds, timeout_ms);
		ret = ret < 0 ? -errno : ret;
	} else {
		pthread_cleanup_push(poll_cancelled, &w);
		ret = wait_for_any(&w, end_ns);
		pthread_cleanup_pop(0);
	}
	watch_fini(&w);
	return ret;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	const uint64_t end_ns =
		timeout < 0 ? UINT64_MAX / 2 : rs_now() + (uint64_t)timeout * 1000000u;

	return (int)rs_ret(poll_until(fds, nfds, end_ns, timeout));
}

/* ---- rselect() ---- */

static short wanted(int fd, fd_set *readfds, fd_set *writefds, fd_set *exceptfds)
{
	short events = 0;

	if (readfds && FD_ISSET(fd, readfds))
		events |= POLLIN;
	if (writefds && FD_ISSET(fd, writefds))
		events |= POLLOUT;
	if (exceptfds && FD_ISSET(fd, exceptfds))
		events |= POLLPRI;
	return events;
}

/** Keep ready descriptors in set. @return how many. */
static int keep(fd_set *set, const struct pollfd *fds, nfds_t n, short event, short came)
{
	int count = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (!(fds[i].events & event))
			continue;
		if (fds[i].revents & came)
			count++;
		else
			FD_CLR(fds[i].fd, set);
	}
	return count;
}

static int select_until(struct pollfd *fds, nfds_t n, fd_set *sets[3], uint64_t end_ns,
			int timeout_ms)
{
	/* As select(2) maps its conditions to those of poll(2). */
	static const struct {
		short event, came;
	} of[3] = {
		{POLLIN, POLLIN | POLLHUP | POLLERR},
		{POLLOUT, POLLOUT | POLLERR},
		{POLLPRI, POLLPRI},
	};
	int ret = poll_until(fds, n, end_ns, timeout_ms), count = 0;

	if (ret < 0)
		return ret;
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (int i = 0; i < 3; i++)
		if (sets[i])
			count += keep(sets[i], fds, n, of[i].event, of[i].came);
	return count;
}

/** Rounded up: a short wait is not none. -1: infinite, or too long to matter. */
static int ms_of(const struct timeval *t)
{
	if (!t || t->tv_sec > INT_MAX / 1000 - 1)
		return -1;
	return (int)(t->tv_sec * 1000 + (t->tv_usec + 999) / 1000);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	fd_set *sets[3] = {readfds, writefds, exceptfds};
	const int ms = ms_of(timeout);
	const uint64_t end_ns = ms < 0 ? UINT64_MAX / 2 : rs_now() + (uint64_t)ms * 1000000u;
	struct pollfd *fds;
	nfds_t n = 0;
	int ret;

	if (nfds < 0 || nfds > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec > 999999)))
		return (int)rs_ret(REFUSE(-EINVAL, 0,
					  "rselect: nfds is %d: it must be 0 to %d, and tv_usec 0 "
					  "to 999999: change them",
					  nfds, FD_SETSIZE));
	fds = calloc((size_t)MAX(nfds, 1), sizeof(*fds));
	if (!fds)
		return (int)rs_ret(-ENOMEM);
	for (int fd = 0; fd < nfds; fd++) {
		const short events = wanted(fd, readfds, writefds, exceptfds);

		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	pthread_cleanup_push(free, fds);
	ret = select_until(fds, n, sets, end_ns, ms);
	pthread_cleanup_pop(1);
	return (int)rs_ret(ret);
}
