/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/syssocket.h"
#include "agent/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

#ifndef AGENT_INSTALLED
#define AGENT_INSTALLED "/usr/lib/rocemu/rocemu-agent"
#endif

enum { REPORT_TIMEOUT_MS = 10000 };

int agent_connect(const struct agent_realm *realm, unsigned timeout_ms)
{
	struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	struct ucred cred;
	socklen_t cred_len = sizeof(cred);
	struct sockaddr_un sa;
	socklen_t len = agent_realm_addr(realm, "", &sa);
	int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	do
		r = connect(fd, (struct sockaddr *)(void *)&sa, len);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		r = errno == EAGAIN ? -ETIMEDOUT : -errno;
	/* Anybody may bind an abstract name: trust only ourselves and root. */
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len))
		r = -errno;
	else if (cred.uid != 0 && (realm->system || cred.uid != realm->uid))
		r = -EPERM;
	if (!r)
		return fd;
	close(fd);
	return r;
}

int agent_listen(const struct agent_realm *realm)
{
	struct sockaddr_un sa;
	socklen_t len = agent_realm_addr(realm, "", &sa);
	int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)(void *)&sa, len) == 0 && listen(fd, AGENT_SLOTS) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

/* Beside the library or program that this code is in, installed or in the build tree; else where it
 * was to go. */
static const char *find_agent(char path[static PATH_MAX])
{
	static const char *const beside[] = {"rocemu-agent", "../agent/rocemu-agent",
					     "../src/agent/rocemu-agent"};
	const char *env = secure_getenv("ROCEMU_AGENT_BIN");
	const char *slash;
	Dl_info info;

	if (env && *env)
		return env;
	if (dladdr((void *)(uintptr_t)find_agent, &info) && info.dli_fname &&
	    (slash = strrchr(info.dli_fname, '/'))) {
		for (unsigned i = 0; i < ARRAY_LEN(beside); i++) {
			int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - info.dli_fname),
					 info.dli_fname, beside[i]);

			if (n < PATH_MAX && access(path, X_OK) == 0)
				return path;
		}
	}
	return AGENT_INSTALLED;
}

/* The environment without what would make the agent carry somebody's tool with it. Strings are
 * borrowed. */
static char **agent_environ(void)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ && environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
			env[kept++] = environ[i];
	return env;
}

/*
 * posix_spawn(), not fork(): the caller may have many threads, much memory and pthread_atfork
 * handlers. The agent itself closes what it inherits besides standard input, output and error and
 * the report pipe.
 */
static int spawn(const char *path, int report_fd, pid_t *pid)
{
	char arg0[] = "rocemu-agent", arg1[] = "--spawned";
	char *argv[] = {arg0, arg1, NULL};
	char **env = agent_environ();
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t set;
	int err;

	if (!env)
		return -ENOMEM;
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	err = posix_spawn_file_actions_adddup2(&fa, report_fd, SPAWN_REPORT_FD);
	for (int fd = 0; fd <= 2 && !err; fd++)
		err = posix_spawn_file_actions_addopen(&fa, fd, "/dev/null",
						       fd ? O_WRONLY : O_RDONLY, 0);
	sigfillset(&set);
	posix_spawnattr_setsigdefault(&attr, &set);
	sigemptyset(&set);
	posix_spawnattr_setsigmask(&attr, &set);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSID);
	if (!err)
		err = posix_spawn(pid, path, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	free(env);
	return -err;
}

/* @return 0, what the agent reports, or -ETIMEDOUT, -EPIPE: it ended without a report. */
static int read_report(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int report, r;
	ssize_t n;

	do
		r = poll(&pfd, 1, REPORT_TIMEOUT_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return -ETIMEDOUT;
	do
		n = read(fd, &report, sizeof(report));
	while (n < 0 && errno == EINTR);
	return n == sizeof(report) ? -report : -EPIPE;
}

/* A pipe whose ends are not where the agent's standard descriptors and report will be. */
static int high_pipe(int p[2])
{
	int low[2], err = 0;

	if (pipe2(low, O_CLOEXEC))
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		p[i] = fcntl(low[i], F_DUPFD_CLOEXEC, SPAWN_REPORT_FD + 1);
		if (p[i] < 0)
			err = errno;
		close(low[i]);
	}
	if (!err)
		return 0;
	for (unsigned i = 0; i < 2; i++)
		if (p[i] >= 0)
			close(p[i]);
	return -err;
}

int agent_spawn(char *errbuf, size_t errlen)
{
	char found[PATH_MAX];
	const char *path = find_agent(found);
	int p[2], r;
	pid_t pid;

	r = high_pipe(p);
	if (r) {
		snprintf(errbuf, errlen, "cannot start rocemu-agent: %s", strerror(-r));
		return r;
	}
	r = spawn(path, p[1], &pid);
	close(p[1]);
	if (r) {
		snprintf(errbuf, errlen,
			 "cannot start %s: %s; say where it is in ROCEMU_AGENT_BIN, or do "
			 "without it with ROCEMU_AGENT=off (one process per address)",
			 path, strerror(-r));
		close(p[0]);
		return -ECONNREFUSED;
	}
	r = read_report(p[0]);
	close(p[0]);
	/* The first process of the two it takes to become a daemon; the program may have reaped it
	 * already. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (r)
		snprintf(errbuf, errlen,
			 "%s did not start: %s; ROCEMU_AGENT_LOG=FILE shows what it says", path,
			 r == -EPIPE ? "it ended at once" : strerror(-r));
	return r;
}
