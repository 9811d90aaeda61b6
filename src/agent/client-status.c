/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests an agent's status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/launch.h"
#include "agent/link.h"

/* @return 0, -ENOMEM, or -EPROTO: no such file. */
static int read_file(struct agent_status *st, int fd)
{
	struct stat sb;

	if (fstat(fd, &sb) || sb.st_size <= 0)
		return -EPROTO;
	st->data = malloc((size_t)sb.st_size);
	if (!st->data)
		return -ENOMEM;
	if (pread(fd, st->data, (size_t)sb.st_size, 0) != sb.st_size)
		return -EPROTO;
	return agent_status_parse(st, (size_t)sb.st_size);
}

int agent_client_status(bool system, struct agent_status **out, char *errbuf, size_t errlen)
{
	const struct agent_msg m = {.type = AGENT_STATUS};
	struct agent_status *st = calloc(1, sizeof(*st));
	struct agent_instance instance;
	struct agent_msg answer;
	struct link l;
	int r = st ? agent_instance_init(&instance, system) : -ENOMEM;

	link_init(&l, AGENT_LANE);
	if (!r)
		r = l.fd = agent_connect(&instance, LINK_TIMEOUT_MS);
	if (r < 0)
		snprintf(errbuf, errlen, "no agent: %s", strerror(-r));
	else
		r = link_request(&l, &m, AGENT_STATUS_IS, &answer, errbuf, errlen);
	if (!r) {
		r = read_file(st, answer.fds[0]);
		agent_msg_close_fds(&answer);
		if (r)
			snprintf(errbuf, errlen, "the agent's answer: %s", strerror(-r));
	}
	link_close(&l);
	if (!r)
		*out = st;
	else
		agent_status_free(st);
	return r;
}

void agent_status_free(struct agent_status *st)
{
	if (st)
		free(st->data);
	free(st);
}
