/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that keeps a tree: it fills the tree, brings it up to date when the network changes,
 * answers messages of NETLINK_RDMA, and removes it when all programs that use it have ended,
 * however they did. It sees that by the end of a FIFO whose other end they inherit from each other
 * (tree-dir.h); programs that close all descriptors of their children leave those to rely on the
 * others.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
	FD_BELOW = 4,	    /* so far below the limit, where that is lower */
	FD_LEAST = 32,	    /* a program with a lower limit needs all that it may have */
	COUNTERS_MS = 1000, /* how old the files of counters may be */
	FD_LIMIT = 1024,    /* to close, where the kernel cannot do it in one call */
};

/* netmon's thread changes the tree, too. */
static pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_netmon(void *user, const struct netmon_event *event)
{
	pthread_mutex_lock(&tree_lock);
	tree_refresh(user, event ? event->ifindex : 0);
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

/** What the process has of its parent's. */
struct kept {
	int end;  /* of the FIFO */
	int nl;	  /* the socket; -1: none */
	int lock; /* held until the tree is full; -1: it is */
};

static int by_number(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

/** Close all others, so that no process waits for an end of file because of this one. */
static void close_others(const struct kept *k)
{
	int fds[] = {k->end, k->nl, k->lock};
	unsigned from = 0;

	qsort(fds, ARRAY_LEN(fds), sizeof(fds[0]), by_number);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] < 0)
			continue;
		if (fds[i] > 0)
			close_from_to(from, (unsigned)fds[i] - 1);
		from = (unsigned)fds[i] + 1;
	}
	close_from_to(from, ~0u);
	/* What is opened later is not to be taken for these. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		open("/dev/null", O_RDWR);
}

/** Answer messages of NETLINK_RDMA and keep the counters' files, as long as there are users. */
static void serve(struct tree *t, const struct kept *k)
{
	struct pollfd p[] = {{.fd = k->end, .events = POLLIN}, {.fd = k->nl, .events = POLLIN}};

	/* No process writes to the FIFO: only its end makes it readable. */
	for (;;) {
		if (poll(p, ARRAY_LEN(p), COUNTERS_MS) < 0)
			continue;
		if (p[0].revents)
			return;
		pthread_mutex_lock(&tree_lock);
		if (p[1].revents)
			tree_nl_answer(t, k->nl);
		else
			tree_refresh_counters(t);
		pthread_mutex_unlock(&tree_lock);
	}
}

/** Programs that look at the tree wait for the lock. */
static void fill(struct tree *t, int lock)
{
	tree_fill(t);
	unlinkat(t->files.fd, TREE_FILLING, 0);
	close(lock);
}

static _Noreturn void keep(struct tree *t, const struct kept *k)
{
	struct netmon_listener listener = {.notify = on_netmon, .user = t};
	int err;

	prctl(PR_SET_NAME, "rocemu-paths");
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	umask(TREE_UMASK);
	if (chdir("/") < 0)
		_exit(1);
	close_others(k);
	tree_files_reopen(&t->files);
	if (k->lock >= 0)
		fill(t, k->lock);
	err = netmon_add(&listener);
	on_netmon(t, NULL);
	serve(t, k);
	if (!err)
		netmon_remove(&listener);
	/* Under a low limit (ulimit -n), none would be left for reading directories. The FIFO's end
	 * stays: others are not to remove the tree as well. */
	close_others(&(struct kept){.end = k->end, .nl = -1, .lock = -1});
	tree_remove(t);
	_exit(0);
}

/** In a process of its own, for which no program waits. */
static void sweep(void)
{
	if (fork() != 0)
		return;
	prctl(PR_SET_NAME, "rocemu-sweep");
	close_from_to(0, ~0u);
	tree_sweep();
	_exit(0);
}

/** Double fork: the executed program must not get a child that it did not start. */
static int spawn(struct tree *t, const struct kept *k)
{
	const pid_t child = fork();
	int status = 0;

	if (child < 0)
		return -errno;
	if (child == 0) {
		pid_t keeper;

		/* Before the program runs: a signal to its process group is not for these. */
		setsid();
		sweep();
		keeper = fork();
		if (keeper == 0)
			keep(t, k);
		_exit(keeper < 0 ? errno : 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

static int open_lock(const struct tree *t)
{
	const int fd =
		openat(t->files.fd, TREE_FILLING, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int err;

	/* Other users' programs wait for it as well. */
	if (fd >= 0 && fchmod(fd, 0644) == 0 && flock(fd, LOCK_EX) == 0)
		return fd;
	err = errno;
	if (fd >= 0)
		close(fd);
	return -err;
}

/** The least number that the users' end may get. */
static int kept_from(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > FD_KEPT)
		return FD_KEPT;
	return (int)limit.rlim_cur - FD_BELOW;
}

/** Have the process keep the tree, which is there. from: the least number of the users' end. */
static int start(struct tree *t, struct kept *k, int from)
{
	int r = t->mounted ? tree_fill(t) : open_lock(t);

	if (!t->mounted)
		k->lock = r;
	if (r >= 0)
		r = spawn(t, k);
	if (r >= 0 && fcntl(t->dirs.users, F_DUPFD, from) < 0)
		r = -errno;
	if (k->lock >= 0)
		close(k->lock);
	return r;
}

int tree_start(struct tree *t, struct netdev *devs, unsigned n, bool mounted)
{
	const int from = kept_from();
	struct kept k = {.lock = -1};
	int r = from < FD_LEAST ? -EMFILE : tree_make(t, devs, n, mounted);

	if (r)
		return r;
	k.end = t->dirs.end;
	k.nl = tree_nl_open(t);
	if (k.nl < 0)
		log_info("no NETLINK_RDMA: %s", strerror(-k.nl));
	r = start(t, &k, from);
	if (k.nl >= 0)
		close(k.nl);
	/* Without a user left, the process that keeps the tree removes it. */
	tree_dirs_close(&t->dirs);
	if (r)
		tree_remove(t);
	else
		tree_files_close(&t->files);
	return r;
}
