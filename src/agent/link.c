/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "agent/launch.h"
#include "base/clock.h"
#include "base/log.h"

enum { AGAIN_MS = 10, ANSWER_TRIES = 50 };

uint64_t link_now_ms(void)
{
	return monotonic_ms();
}

void link_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void link_init(struct link *l, enum agent_kind kind)
{
	*l = (struct link){.kind = kind, .fd = -1, .token = -1, .frames = -1};
}

void link_disconnect(struct link *l)
{
	link_close_fd(&l->frames);
	link_close_fd(&l->fd);
}

void link_close(struct link *l)
{
	/* The token first: the place must be free when the agent sees the connection end. */
	link_close_fd(&l->token);
	link_disconnect(l);
}

/* Without its answer the connection is of no use, so wait a little for memory. */
static int receive(int fd, struct agent_msg *m)
{
	int r = agent_msg_recv(fd, m, 0);

	for (unsigned i = 0; i < ANSWER_TRIES && r != -EAGAIN && agent_io_is_late(-r); i++) {
		poll(NULL, 0, AGAIN_MS);
		r = agent_msg_recv(fd, m, 0);
	}
	return r;
}

int link_request(struct link *l, const struct agent_msg *request, enum agent_msg_type type,
		 struct agent_msg *answer, char *errbuf, size_t errlen)
{
	int r = l->fd < 0 ? -ECONNRESET : agent_msg_send(l->fd, request, 0);

	if (r != -EAGAIN && agent_io_is_late(-r)) {
		snprintf(errbuf, errlen, "cannot send a request to the agent: %s", strerror(-r));
		return r;
	}
	/*
	 * An agent that refuses a client sends an error and closes, without waiting for a request;
	 * the message is read after the error of send().
	 */
	if (!r || r == -EPIPE)
		r = receive(l->fd, answer);
	if (r == -ECONNRESET && l->fd >= 0)
		r = receive(l->fd, answer);
	if (r == -EAGAIN)
		r = -ETIMEDOUT;
	if (r == -EPIPE)
		r = -ECONNRESET;
	if (r) {
		snprintf(errbuf, errlen, "the agent%s: %s",
			 r == -EMFILE ? "'s answer brings file descriptors" : " does not answer",
			 r == -EPROTO ? "it is of another version of rocemu" : strerror(-r));
		link_disconnect(l);
		return r;
	}
	if (answer->type == AGENT_ERROR) {
		snprintf(errbuf, errlen, "%s", answer->u.error.text);
		return -(int)answer->u.error.err;
	}
	if (answer->type == type)
		return 0;
	snprintf(errbuf, errlen, "the agent's answer is invalid (type %u)", (unsigned)answer->type);
	agent_msg_close_fds(answer);
	return -EPROTO;
}

/* Connect to the system-wide agent if there is one, else to the user's. instance: set to it. */
static int connect_any(struct agent_instance *instance, char *errbuf, size_t errlen)
{
	int fd = -ECONNREFUSED, r;

	for (int system = 1; system >= 0 && fd == -ECONNREFUSED; system--) {
		r = agent_instance_init(instance, system);
		if (r) {
			snprintf(errbuf, errlen,
				 "ROCEMU_AGENT_NAME is not a name of at most 32 letters, digits, "
				 "'_', '.', '-'");
			return r;
		}
		fd = agent_connect(instance, LINK_TIMEOUT_MS);
	}
	return fd;
}

int link_agent_is_off(char *errbuf, size_t errlen)
{
	const char *env = secure_getenv("ROCEMU_AGENT");

	if (!env || !*env || !strcmp(env, "on"))
		return 0;
	if (!strcmp(env, "off"))
		return 1;
	snprintf(errbuf, errlen, "ROCEMU_AGENT is '%.40s': expected 'on' or 'off'", env);
	return -EINVAL;
}

/*
 * The owner of a place connects only to the instance that gave it: the place means nothing to
 * another one.
 */
static int connect_or_spawn(struct link *l, uint64_t deadline_ms, char *errbuf, size_t errlen)
{
	for (;;) {
		int fd = l->place ? agent_connect(&l->instance, LINK_TIMEOUT_MS)
				  : connect_any(&l->instance, errbuf, errlen);
		int r;

		if (fd < 0 && fd != -EINVAL)
			snprintf(errbuf, errlen, "cannot connect to the agent: %s", strerror(-fd));
		if (fd != -ECONNREFUSED || l->instance.system)
			return fd;
		r = agent_spawn(errbuf, errlen);
		if (r)
			return r;
		if (link_now_ms() > deadline_ms) {
			snprintf(errbuf, errlen, "the agent starts but cannot be reached");
			return -ETIMEDOUT;
		}
	}
}

/* An unpredictable number, written where only the place's owner can write. */
static int show_token(const struct link *l, uint64_t *nonce)
{
	if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce))
		return -errno;
	*nonce |= 1; /* not 0 */
	/* A token whose other end is closed is not from this agent, which detects that. */
	if (send(l->token, nonce, sizeof(*nonce), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("the token is of an earlier agent: %s", strerror(errno));
	return 0;
}

static int take_welcome(struct link *l, struct agent_msg *m, char *errbuf, size_t errlen)
{
	unsigned frames = l->kind == AGENT_GSI;
	bool token = m->nfds > frames;

	if (m->u.welcome.kind != l->kind || (l->place ? m->u.welcome.place != l->place : !token)) {
		agent_msg_close_fds(m);
		snprintf(errbuf, errlen, "the agent's answer is invalid (place %u)",
			 m->u.welcome.place);
		return -EPROTO;
	}
	l->frames = frames ? m->fds[0] : -1;
	if (token) {
		link_close_fd(&l->token);
		l->token = m->fds[frames];
	}
	if (!l->place)
		l->first_index = m->u.welcome.first_index;
	l->place = m->u.welcome.place;
	return 0;
}

static int introduce(struct link *l, char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_HELLO, .u.hello = {.kind = l->kind}}, answer;
	int r = 0;

	if (l->place) {
		m.type = AGENT_REJOIN;
		m.u.rejoin.kind = l->kind;
		m.u.rejoin.place = l->place;
		r = show_token(l, &m.u.rejoin.nonce);
	}
	if (r)
		snprintf(errbuf, errlen, "no random numbers: %s", strerror(-r));
	else
		r = link_request(l, &m, AGENT_WELCOME, &answer, errbuf, errlen);
	return r ? r : take_welcome(l, &answer, errbuf, errlen);
}

/*
 * A connection ended with r before the first answer. An agent that lacks a resource refuses all
 * clients at once, so retry after a pause.
 */
static bool try_again(int r, uint64_t deadline_ms)
{
	if (r != -ECONNRESET || link_now_ms() >= deadline_ms)
		return false;
	poll(NULL, 0, AGAIN_MS);
	return true;
}

int link_join(struct link *l, char *errbuf, size_t errlen)
{
	uint64_t deadline = link_now_ms() + LINK_TIMEOUT_MS;
	int r;

	link_disconnect(l);
	do {
		r = connect_or_spawn(l, deadline, errbuf, errlen);
		if (r < 0)
			return r;
		l->fd = r;
		r = introduce(l, errbuf, errlen);
		if (r)
			link_disconnect(l);
		/* An agent that ended between connect and answer: try the next one. */
	} while (try_again(r, deadline));
	return r;
}
