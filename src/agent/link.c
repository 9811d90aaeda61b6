/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/launch.h"
#include "base/log.h"

uint64_t link_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void link_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int link_ask(int *fd, const struct agent_msg *request, struct agent_msg *answer, char *errbuf,
	     size_t errlen)
{
	int r = agent_msg_send(*fd, request, 0);

	if (!r)
		r = agent_msg_recv(*fd, answer, 0);
	if (r == -EAGAIN)
		r = -ETIMEDOUT;
	if (r == -EPIPE)
		r = -ECONNRESET;
	if (r) {
		snprintf(errbuf, errlen, "the agent does not answer: %s",
			 r == -EPROTO ? "it is of another version of rocemu" : strerror(-r));
		link_close_fd(fd);
		return r;
	}
	if (answer->type == AGENT_ERROR) {
		snprintf(errbuf, errlen, "%s", answer->u.error.text);
		return -answer->u.error.err;
	}
	return 0;
}

/* The system-wide agent if there is one, else the user's. realm: whose it is. */
static int connect_any(struct agent_realm *realm, char *errbuf, size_t errlen)
{
	int fd, r;

	for (int system = 1; system >= 0; system--) {
		r = agent_realm_init(realm, system);
		if (r) {
			snprintf(errbuf, errlen,
				 "ROCEMU_AGENT_NAME is not a name of at most 32 letters, digits, "
				 "'_', '.', '-'");
			return r;
		}
		fd = agent_connect(realm, LINK_TIMEOUT_MS);
		if (fd >= 0)
			return fd;
		if (fd == -EPERM && system)
			log_warn("somebody who is not root sits on the name of the system-wide "
				 "agent: not used");
	}
	if (fd == -EPERM)
		snprintf(errbuf, errlen,
			 "another user's program sits on the name of this user's agent");
	else
		snprintf(errbuf, errlen, "cannot connect to the agent: %s", strerror(-fd));
	return fd;
}

int link_agent_is_off(char *errbuf, size_t errlen)
{
	const char *env = getenv("ROCEMU_AGENT");

	if (!env || !*env || !strcmp(env, "on"))
		return 0;
	if (!strcmp(env, "off"))
		return 1;
	snprintf(errbuf, errlen, "ROCEMU_AGENT is '%.40s': expected 'on' or 'off'", env);
	return -EINVAL;
}

int link_connect(struct agent_realm *realm, bool again, uint64_t deadline_ms, char *errbuf,
		 size_t errlen)
{
	for (;;) {
		int fd, r;

		if (again) {
			fd = agent_connect(realm, LINK_TIMEOUT_MS);
			if (fd < 0)
				snprintf(errbuf, errlen, "cannot connect to the agent: %s",
					 strerror(-fd));
		} else {
			fd = connect_any(realm, errbuf, errlen);
		}
		if (fd != -ECONNREFUSED || realm->system)
			return fd;
		r = agent_spawn(errbuf, errlen);
		if (r)
			return r;
		if (link_now_ms() > deadline_ms) {
			snprintf(errbuf, errlen, "the agent starts but is not to be reached");
			return -ETIMEDOUT;
		}
	}
}
