/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that keeps a tree: it brings the tree up to date when the network changes, and
 * answers messages of NETLINK_RDMA, and
 * removes it when all programs that use it have ended, however they did. It sees that by the end of
 * a pipe whose other end they inherit from each other; programs that close all descriptors of their
 * children leave those to rely on the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "netdev/netmon.h"
#include "tree-nl.h"

enum {
	/* Out of the way of shells and of programs that count their descriptors. */
	FD_KEPT = 200,
	COUNTERS_MS = 1000, /* how old the files of counters may be */
	FD_LIMIT = 1024,    /* to close, where the kernel cannot do it in one call */
};

/* netmon's thread changes the tree, too. */
static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_netmon(void *user, const struct netmon_event *event)
{
	(void)event;
	pthread_mutex_lock(&tree_lock);
	tree_refresh(user);
	pthread_mutex_unlock(&tree_lock);
}

static void close_from_to(unsigned first, unsigned last)
{
	if (first > last)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, first, last, 0u) == 0)
		return;
#endif
	for (unsigned fd = first; fd <= last && fd < FD_LIMIT; fd++)
		close((int)fd);
}

/**
 * Close all but two, which may be equal, so that no process waits for an end of file because of
 * this one.
 */
static void close_others(int a, int b)
{
	const unsigned low = (unsigned)MIN(a, b), high = (unsigned)MAX(a, b);

	if (low)
		close_from_to(0, low - 1);
	close_from_to(low + 1, high ? high - 1 : 0);
	close_from_to(high + 1, ~0u);
	/* What is opened later is not to be taken for these. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		open("/dev/null", O_RDWR);
}

/**
 * Answer messages of NETLINK_RDMA and keep the counters' files, as long as there are users. nl: the
 * socket, -1: none.
 */
static void serve(struct tree *t, int pipe_fd, int nl)
{
	struct pollfd p[] = {{.fd = pipe_fd, .events = POLLIN}, {.fd = nl, .events = POLLIN}};

	/* No process writes to the pipe: only its end makes it readable. */
	for (;;) {
		if (poll(p, ARRAY_LEN(p), COUNTERS_MS) < 0)
			continue;
		if (p[0].revents)
			return;
		pthread_mutex_lock(&tree_lock);
		if (p[1].revents)
			tree_nl_answer(t, nl);
		else
			tree_refresh_counters(t);
		pthread_mutex_unlock(&tree_lock);
	}
}

static _Noreturn void keep(struct tree *t, int pipe_fd, int nl)
{
	struct netmon_listener listener = {.notify = on_netmon, .user = t};
	int err;

	setsid();
	prctl(PR_SET_NAME, "rocemu-paths");
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (chdir("/") < 0)
		_exit(1);
	close_others(pipe_fd, nl < 0 ? pipe_fd : nl);
	err = netmon_add(&listener);
	on_netmon(t, NULL);
	serve(t, pipe_fd, nl);
	if (!err)
		netmon_remove(&listener);
	/* Under a low limit (ulimit -n), none would be left for reading directories. */
	close_from_to(0, ~0u);
	tree_remove(t);
	_exit(0);
}

/** Double fork: the executed program must not get a child that it did not start. */
static int spawn(struct tree *t, const int fds[2], int nl)
{
	const pid_t child = fork();
	int status = 0;

	if (child < 0)
		return -errno;
	if (child == 0) {
		const pid_t keeper = fork();

		if (keeper == 0) {
			close(fds[1]);
			keep(t, fds[0], nl);
		}
		_exit(keeper < 0 ? errno : 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

int tree_start(struct tree *t, struct netdev *devs, unsigned n, bool mounted)
{
	int fds[2] = {-1, -1}, kept = -1, nl, r = tree_make(t, devs, n, mounted);

	if (r)
		return r;
	nl = tree_nl_open(t);
	if (nl < 0)
		log_info("no NETLINK_RDMA: %s", strerror(-nl));
	if (pipe2(fds, O_CLOEXEC) < 0 || (kept = fcntl(fds[1], F_DUPFD, FD_KEPT)) < 0)
		r = -errno;
	if (!r)
		r = spawn(t, fds, nl);
	if (r && kept >= 0)
		close(kept);
	if (nl >= 0)
		close(nl);
	if (fds[0] >= 0) {
		close(fds[0]);
		close(fds[1]);
	}
	if (r)
		tree_remove(t);
	return r;
}
