/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/launch.h"

enum { PASSED_FD = 3 };

/* @return a decimal number, or -1. */
static long number(const char *text)
{
	const size_t n = strlen(text);

	return n && n <= 9 && strspn(text, "0123456789") == n ? strtol(text, NULL, 10) : -1;
}

static bool has_option(int option, int value)
{
	socklen_t len = sizeof(int);
	int is;

	return !getsockopt(PASSED_FD, SOL_SOCKET, option, &is, &len) && is == value;
}

static int refuse(char *errbuf, size_t errlen, const struct agent_instance *instance,
		  const char *why)
{
	struct sockaddr_un want;

	agent_instance_addr(instance, "", &want);
	snprintf(errbuf, errlen,
		 "the socket that the agent was started with %s; expected is one "
		 "ListenSequentialPacket=@%s",
		 why, want.sun_path + 1);
	return -EINVAL;
}

/* Is descriptor 3 what agent_listen() would have made? */
static int check(const struct agent_instance *instance, char *errbuf, size_t errlen)
{
	struct sockaddr_un want, have = {0};
	const socklen_t want_len = agent_instance_addr(instance, "", &want);
	socklen_t len = sizeof(have);
	struct ucred maker;

	if (!has_option(SO_DOMAIN, AF_UNIX) || !has_option(SO_TYPE, SOCK_SEQPACKET) ||
	    !has_option(SO_ACCEPTCONN, 1))
		return refuse(errbuf, errlen, instance, "is no listening Unix socket of that type");
	if (getsockname(PASSED_FD, (struct sockaddr *)(void *)&have, &len))
		return -errno;
	if (len != want_len || memcmp(&have, &want, len) != 0)
		return refuse(errbuf, errlen, instance, "has another name");
	/* Clients look at who called listen(). */
	len = sizeof(maker);
	if (getsockopt(PASSED_FD, SOL_SOCKET, SO_PEERCRED, &maker, &len))
		return -errno;
	if (maker.uid == 0 || (!instance->system && maker.uid == instance->uid))
		return 0;
	snprintf(errbuf, errlen,
		 "the socket that the agent was started with was made by user %u, whom clients do "
		 "not trust",
		 (unsigned)maker.uid);
	return -EPERM;
}

static int take(const struct agent_instance *instance, char *errbuf, size_t errlen)
{
	struct sockaddr_un name;
	int r = check(instance, errbuf, errlen), flags;

	if (r)
		return r;
	flags = fcntl(PASSED_FD, F_GETFL);
	if (flags < 0 || fcntl(PASSED_FD, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(PASSED_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	agent_instance_addr(instance, "", &name);
	return agent_another_runs(instance, &name) ? -EADDRINUSE : PASSED_FD;
}

int agent_listener_passed(const struct agent_instance *instance, char *errbuf, size_t errlen)
{
	const char *pid = secure_getenv("LISTEN_PID"), *fds = secure_getenv("LISTEN_FDS");
	int r = -ENOENT;

	*errbuf = '\0';
	/* Variables of another process, which passed its environment on, mean nothing. */
	if (pid && fds && number(pid) == getpid() && strcmp(fds, "0") != 0) {
		if (number(fds) == 1)
			r = take(instance, errbuf, errlen);
		else
			r = refuse(errbuf, errlen, instance, "is not one");
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}
