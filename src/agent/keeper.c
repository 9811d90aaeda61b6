/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/launch.h"

enum { CONNECT_MS = 2000, RETRY_MS = 50 };

/* The keeper's descriptors, beyond standard input, output and error. */
enum { KEEP_LIFELINE = 3, KEEP_R, KEEP_W, KEEP_END };

/* Keep the three, at known places, and nothing else: neither the agent's name nor anybody's
 * connection. */
static int keep_only(int lifeline, int r, int w)
{
	int from[] = {lifeline, r, w};

	for (int i = 0; i < 3; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, KEEP_END);
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(from[i], KEEP_LIFELINE + i) < 0)
			return -errno;
	close_range(KEEP_END, ~0u, 0);
	return 0;
}

/* @return 0: done, or -errno: there is no agent yet. */
static int hand_over(const struct agent_realm *realm)
{
	struct agent_msg m = {.type = AGENT_REJOIN, .nfds = 2, .fds = {KEEP_R, KEEP_W}}, answer;
	int fd = agent_connect(realm, CONNECT_MS), r;

	if (fd < 0)
		return fd;
	r = agent_msg_send(fd, &m, 0);
	if (!r)
		r = agent_msg_recv(fd, &answer, 0);
	if (!r)
		agent_msg_close_fds(&answer);
	close(fd);
	return r;
}

static void keep(const struct agent_realm *realm)
{
	char byte;
	ssize_t n;

	do
		n = read(KEEP_LIFELINE, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		return; /* dismissed */
	/* A name that is bound cannot be waited for: look again and again. */
	for (int tries = 0; tries < KEEPER_WAIT_S * 1000 / RETRY_MS && hand_over(realm); tries++)
		poll(NULL, 0, RETRY_MS);
}

int keeper_start(const struct agent_realm *realm, const struct stash *stash)
{
	struct timeval patience = {.tv_sec = 2};
	int pair[2];
	pid_t pid;
	char byte;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	(void)setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	pid = fork();
	if (pid == 0) {
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		prctl(PR_SET_NAME, "rocemu-keeper");
		if (keep_only(pair[1], stash->r, stash->w) == 0 &&
		    send(KEEP_LIFELINE, "k", 1, MSG_NOSIGNAL) == 1)
			keep(realm);
		_exit(0);
	}
	close(pair[1]);
	/*
	 * Until it has closed its copies, it would keep the name we listen on, and clients would
	 * knock at a dead agent's door.
	 */
	if (pid > 0 && recv(pair[0], &byte, 1, 0) == 1)
		return pair[0];
	close(pair[0]);
	return -EAGAIN;
}

void keeper_dismiss(int lifeline)
{
	(void)send(lifeline, "q", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(lifeline);
}
