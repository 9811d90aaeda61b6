/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/syssocket.h"
#include "agent/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limit.h"
#include "base/unixnames.h"
#include "base/util.h"

#ifndef AGENT_INSTALLED
#define AGENT_INSTALLED "/usr/lib/rocemu/rocemu-agent"
#endif

enum {
	REPORT_TIMEOUT_MS = 10000,
	RETRY_MS = 20,
	SUFFIX_LEN = 1 + 16,   /* '+' and a random number */
	BUSY_WAIT_MS = 200,    /* for a listener whose queue is full */
	LISTEN_WAIT_MS = 1000, /* an agent listens within this time after taking its name */
};

/* Connect to one name. @return a descriptor, -EPERM: a stranger has it, or -errno. */
static int connect_to(const struct agent_instance *instance, const struct sockaddr_un *sa,
		      socklen_t len)
{
	struct ucred cred;
	socklen_t cred_len = sizeof(cred);
	/* Non-blocking: do not wait for a process that does not accept. */
	int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -errno;
	do
		r = connect(fd, (const struct sockaddr *)(const void *)sa, len);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		r = -errno;
	/* Any user can bind an abstract name: trust only the own user and root. */
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len))
		r = -errno;
	else if (cred.uid != 0 && (instance->system || cred.uid != instance->uid))
		r = -EPERM;
	if (!r)
		return fd;
	close(fd);
	return r;
}

/* Find the next name in the kernel's list that is the instance's with a suffix. */
static bool next_name(struct unix_names *names, const struct agent_instance *instance,
		      struct sockaddr_un *sa, socklen_t *len)
{
	char prefix[sizeof(sa->sun_path)], suffix[SUFFIX_LEN + 1] = "+";
	const char *rest;

	*len = agent_instance_addr(instance, suffix, sa);
	snprintf(prefix, sizeof(prefix), "%s", sa->sun_path + 1);
	while ((rest = unix_names_next(names, prefix))) {
		if (strlen(rest) != SUFFIX_LEN - 1)
			continue;
		memcpy(suffix + 1, rest, SUFFIX_LEN);
		*len = agent_instance_addr(instance, suffix, sa);
		return true;
	}
	return false;
}

/*
 * Connect to the instance's agent by any of its names. except: a name to skip, or NULL.
 * @return a descriptor, -ECONNREFUSED: there is none, -EAGAIN: there may be one, but busy.
 */
static int connect_once(const struct agent_instance *instance, const struct sockaddr_un *except)
{
	struct sockaddr_un sa;
	socklen_t len = agent_instance_addr(instance, "", &sa);
	bool busy = false;
	int fd = -ECONNREFUSED;
	struct unix_names names;

	if (!except || memcmp(&sa, except, sizeof(sa)) != 0)
		fd = connect_to(instance, &sa, len);
	if (fd != -ECONNREFUSED && fd != -EPERM && fd != -EAGAIN)
		return fd;
	busy = fd == -EAGAIN;
	unix_names_open(&names);
	while (fd < 0 && next_name(&names, instance, &sa, &len)) {
		if (except && memcmp(&sa, except, sizeof(sa)) == 0)
			continue;
		fd = connect_to(instance, &sa, len);
		busy |= fd == -EAGAIN;
	}
	unix_names_close(&names);
	return fd >= 0 ? fd : busy ? -EAGAIN : -ECONNREFUSED;
}

int agent_connect(const struct agent_instance *instance, unsigned timeout_ms)
{
	struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	const int patience_ms = MIN((int)timeout_ms, BUSY_WAIT_MS);
	int fd, waited_ms = 0;

	while ((fd = connect_once(instance, NULL)) == -EAGAIN && waited_ms < patience_ms) {
		poll(NULL, 0, RETRY_MS);
		waited_ms += RETRY_MS;
	}
	/*
	 * The owner of the full queue cannot be determined. An agent's queue has room for a
	 * thousand.
	 */
	if (fd < 0)
		return fd == -EAGAIN ? -ECONNREFUSED : fd;
	(void)fcntl(fd, F_SETFL, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return fd;
}

/* @return as agent_listen(); *sa: the name. -EADDRINUSE: it is in use. */
static int listen_on(const struct agent_instance *instance, const char *suffix,
		     struct sockaddr_un *sa)
{
	socklen_t len = agent_instance_addr(instance, suffix, sa);
	int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)(void *)sa, len) == 0 && listen(fd, AGENT_SLOTS) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

bool agent_another_runs(const struct agent_instance *instance, const struct sockaddr_un *except)
{
	int fd = connect_once(instance, except);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The instance's name is taken: by an agent that does not listen yet, or by another user? */
static int listen_elsewhere(const struct agent_instance *instance, struct sockaddr_un *sa)
{
	char suffix[SUFFIX_LEN + 1];
	uint64_t random;

	for (int waited_ms = 0; waited_ms < LISTEN_WAIT_MS; waited_ms += RETRY_MS) {
		socklen_t len = agent_instance_addr(instance, "", sa);
		int fd = connect_to(instance, sa, len);

		if (fd >= 0) {
			close(fd);
			return -EADDRINUSE;
		}
		if (fd == -EPERM)
			break;
		poll(NULL, 0, RETRY_MS);
	}
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -errno;
	snprintf(suffix, sizeof(suffix), "+%016" PRIx64, random);
	return listen_on(instance, suffix, sa);
}

int agent_listen(const struct agent_instance *instance)
{
	struct sockaddr_un sa;
	int fd;

	if (agent_another_runs(instance, NULL))
		return -EADDRINUSE;
	fd = listen_on(instance, "", &sa);
	if (fd == -EADDRINUSE)
		fd = listen_elsewhere(instance, &sa);
	if (fd < 0 || !agent_another_runs(instance, &sa))
		return fd;
	close(fd);
	return -EADDRINUSE;
}

/*
 * Beside the library or program that contains this code, installed or in the build tree; else the
 * configured install path.
 */
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

/* The environment without variables that would load a tool's library into the agent. Strings are
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
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
		    strncmp(environ[i], "LD_AUDIT=", 9) != 0)
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
	/* First, since the pipe may have the number of a standard descriptor. */
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
	n = TEMP_FAILURE_RETRY(read(fd, &report, sizeof(report)));
	return n == sizeof(report) ? -report : -EPIPE;
}

/* Why it cannot be executed: the path is wrong, or a resource is used up. */
static void explain_spawn(int err, const char *path, char *errbuf, size_t errlen)
{
	char limit[LIMIT_TEXT_LEN];

	if (!*limit_text(err, limit))
		refusal_text(err, limit);
	snprintf(errbuf, errlen, "cannot start %s: %s%s", path, strerror(-err),
		 *limit ? limit
			: "; set its path in ROCEMU_AGENT_BIN, or run without an agent with "
			  "ROCEMU_AGENT=off (one process per address)");
}

static int spawn_and_wait(const char *path, char *errbuf, size_t errlen)
{
	int p[2], r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC)) {
		r = -errno;
		snprintf(errbuf, errlen, "cannot start rocemu-agent: %s", strerror(-r));
		return r;
	}
	r = spawn(path, p[1], &pid);
	close(p[1]);
	if (r) {
		explain_spawn(r, path, errbuf, errlen);
		close(p[0]);
		return -ECONNREFUSED;
	}
	r = read_report(p[0]);
	close(p[0]);
	/* The first of the two processes of daemon creation; the program may have reaped it
	 * already. */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (r)
		snprintf(errbuf, errlen,
			 "%s did not start: %s; its messages go to the file of "
			 "ROCEMU_AGENT_LOG=FILE",
			 path, r == -EPIPE ? "it ended at once" : strerror(-r));
	return r;
}

int agent_spawn(char *errbuf, size_t errlen)
{
	char *found = malloc(PATH_MAX); /* too large for small stacks */
	int r;

	if (!found) {
		snprintf(errbuf, errlen, "cannot start rocemu-agent: out of memory");
		return -ENOMEM;
	}
	r = spawn_and_wait(find_agent(found), errbuf, errlen);
	free(found);
	return r;
}
