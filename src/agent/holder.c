/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/holder.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/link.h"
#include "base/log.h"
#include "base/util.h"

enum {
	PAUSE_MIN_MS = 20, /* pause before the next worker when the last one died at once, ... */
	PAUSE_MAX_MS = 1000,
	LIFE_MS = 1000, /* ... which is what this means */
	UPDATE_TIMEOUT_S = 2,
	LAST_TRIES = 50, /* tries to apply the changes that a worker left when it died, PAUSE_MIN_MS
			    apart */
};

static volatile sig_atomic_t stop_requested;
static volatile pid_t worker;

/* The worker decides when the agent ends. */
static void on_signal(int sig)
{
	stop_requested = 1;
	if (worker > 0)
		kill(worker, sig);
}

static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	holder_mask_signals(SIG_UNBLOCK);
}

void holder_mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(how, &set, NULL);
}

static int make_pair(int pair[2])
{
	struct timeval tv = {.tv_sec = UPDATE_TIMEOUT_S};
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	if (!setsockopt(pair[1], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)))
		return 0;
	r = -errno;
	close(pair[0]);
	close(pair[1]);
	return r;
}

int holder_update(int fd, const struct store_change *c, const int *fds, unsigned n)
{
	int r = 0;

	/* Memory may be available soon; -EAGAIN: the holder does not read. */
	for (unsigned tries = 0; tries < LAST_TRIES; tries++) {
		r = agent_fds_send(fd, c, sizeof(*c), fds, n, 0);
		if (r == -EAGAIN || !agent_io_is_late(-r))
			break;
		poll(NULL, 0, PAUSE_MIN_MS);
	}
	return r;
}

bool holder_catches_up(int fd)
{
	int waiting = 1;

	for (unsigned tries = 0; fd >= 0 && tries < LAST_TRIES; tries++) {
		if (!ioctl(fd, SIOCOUTQ, &waiting) && !waiting)
			return true;
		poll(NULL, 0, PAUSE_MIN_MS);
	}
	return false;
}

/*
 * Apply the next change and leave it in the queue.
 * @return 0, -ECONNRESET: the worker has died, -EBADMSG: the store is not what the worker has, or
 * -EAGAIN: there is no memory, or no descriptor.
 */
static int look_at_change(struct store *st, int fd, struct store_change *c)
{
	int fds[AGENT_FDS_MAX], r = 0;
	unsigned n;
	const ssize_t len = agent_fds_recv(fd, c, sizeof(*c), fds, AGENT_FDS_MAX, &n, MSG_PEEK);

	if (len == -ECONNRESET || len == -EBADMSG)
		r = (int)len;
	else if (len < 0)
		r = -EAGAIN;
	else if (len != sizeof(*c))
		r = -EBADMSG;
	else if (c->type != STORE_LEAVE)
		r = store_apply(st, c, fds, n);
	while (r && n)
		close(fds[--n]);
	return r == -ENOMEM ? -EAGAIN : r;
}

/* @return as look_at_change(), but -EAGAIN. */
static int take_change(struct store *st, int fd, struct store_change *c)
{
	struct pollfd p = {.fd = fd};
	unsigned tries = 0;
	char byte;
	int r;

	/*
	 * Memory or descriptors may be available soon; when the worker has died, the next one
	 * should not wait for long.
	 */
	while ((r = look_at_change(st, fd, c)) == -EAGAIN && tries < LAST_TRIES) {
		poll(NULL, 0, PAUSE_MIN_MS);
		tries += poll(&p, 1, 0) > 0;
	}
	if (r)
		return r == -EAGAIN ? -ECONNRESET : r;
	while (recv(fd, &byte, 1, 0) < 0 && errno != ECONNRESET)
		poll(NULL, 0, PAUSE_MIN_MS);
	return 0;
}

/* Keep the store until the worker dies. @return -1: it did, or the agent's exit code. */
static int hold(struct store *st, int fd)
{
	struct store_change c;
	int r;

	do {
		r = take_change(st, fd, &c);
		if (!r && c.type == STORE_LEAVE)
			return (int)c.value;
	} while (!r);
	/*
	 * A store that differs from the worker's is useless to the next one. The worker forks
	 * another holder.
	 */
	return r == -ECONNRESET ? -1 : 1;
}

/* @return the socket to it, or -errno. */
static int start_worker(struct store *st, holder_work_fn *work, void *user)
{
	int pair[2], r = make_pair(pair);

	if (r)
		return r;
	/* A signal that comes now is for the new worker, which takes it when it is ready. */
	holder_mask_signals(SIG_BLOCK);
	worker = fork();
	if (worker == 0) {
		close(pair[0]);
		prctl(PR_SET_NAME, "rocemu-agent");
		_exit(work(user, st, pair[1]));
	}
	holder_mask_signals(SIG_UNBLOCK);
	close(pair[1]);
	return pair[0];
}

/* Keep the store for the worker at fd (-1: none yet) and for its successors. */
static int hold_all(struct store *st, int fd, holder_work_fn *work, void *user)
{
	uint64_t started = link_now_ms();
	int pause_ms = 0, code;

	prctl(PR_SET_NAME, "rocemu-holder");
	catch_signals();
	for (;;) {
		if (fd >= 0) {
			code = hold(st, fd);
			close(fd);
			if (code >= 0)
				return code;
			if (stop_requested)
				return 0;
			log_warn("the agent's worker died: starting another one");
			pause_ms = link_now_ms() - started > LIFE_MS
					   ? 0
					   : MIN(MAX(2 * pause_ms, PAUSE_MIN_MS), PAUSE_MAX_MS);
		}
		poll(NULL, 0, pause_ms);
		if (stop_requested)
			return 0;
		started = link_now_ms();
		fd = start_worker(st, work, user);
		if (fd < 0)
			pause_ms = PAUSE_MIN_MS;
	}
}

int holder_run(struct store *st, holder_work_fn *work, void *user)
{
	return hold_all(st, -1, work, user);
}

int holder_fork(struct store *st, holder_work_fn *work, void *user, void (*forget)(void *of),
		void *of, pid_t *pid)
{
	pid_t parent = getpid();
	int pair[2], r = make_pair(pair);

	if (r)
		return r;
	*pid = fork();
	if (*pid == 0) {
		worker = parent;
		stop_requested = 0;
		store_close_others(st, pair[0]);
		forget(of);
		_exit(hold_all(st, pair[0], work, user));
	}
	r = -errno;
	close(pair[0]);
	if (*pid > 0)
		return pair[1];
	close(pair[1]);
	return r;
}
