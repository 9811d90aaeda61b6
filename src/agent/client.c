/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/socket.h"
#include "agent/launch.h"
#include "agent/link.h"
#include "base/log.h"
#include "base/util.h"

enum {
	PEER_TIMEOUT_MS = 200, /* of the connection */
	LONE_SLOT = 1,	       /* without an agent */
};

struct agent_client {
	struct agent_realm realm; /* of the agent that gave the slot */
	pthread_mutex_t lock;	  /* guards fd and what is said over it */
	int fd;			  /* connection; -1: none now, or works without */
	int token;		  /* holds the slot; -1 without agent */
	int stash[2];		  /* read and write end; -1 when not entrusted with it */
	uint16_t slot, first_index;
	bool lone; /* ROCEMU_AGENT=off */
	bool forgotten;
};

static int take_welcome(struct agent_client *c, struct agent_msg *m, char *errbuf, size_t errlen)
{
	if (m->type != AGENT_WELCOME || m->nfds == 0 || m->u.slot.slot == 0) {
		agent_msg_close_fds(m);
		snprintf(errbuf, errlen, "the agent's answer makes no sense (type %u)",
			 (unsigned)m->type);
		return -EPROTO;
	}
	c->slot = m->u.slot.slot;
	c->first_index = m->u.slot.first_index;
	c->token = m->fds[0];
	if (m->nfds == 3) {
		c->stash[0] = m->fds[1];
		c->stash[1] = m->fds[2];
	}
	return 0;
}

static int join(struct agent_client *c, char *errbuf, size_t errlen)
{
	uint64_t deadline = link_now_ms() + LINK_TIMEOUT_MS;
	struct agent_msg hello = {.type = AGENT_HELLO}, m;
	int r;

	do {
		r = link_connect(&c->realm, false, deadline, errbuf, errlen);
		if (r < 0)
			return r;
		c->fd = r;
		r = link_ask(&c->fd, &hello, &m, errbuf, errlen);
		if (!r)
			r = take_welcome(c, &m, errbuf, errlen);
		if (r)
			link_close_fd(&c->fd);
		/* An agent that left between connect and answer: the next one. */
	} while (r == -ECONNRESET && link_now_ms() < deadline);
	return r;
}

int agent_client_new(struct agent_client **out, char *errbuf, size_t errlen)
{
	struct agent_client *c;
	int off = link_agent_is_off(errbuf, errlen), r = 0;

	if (off < 0)
		return off;
	c = calloc(1, sizeof(*c));
	if (!c) {
		snprintf(errbuf, errlen, "out of memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->fd = c->token = c->stash[0] = c->stash[1] = -1;
	c->lone = off;
	if (off) {
		c->slot = LONE_SLOT;
		if (getrandom(&c->first_index, sizeof(c->first_index), GRND_NONBLOCK) < 0)
			c->first_index = (uint16_t)getpid();
		c->first_index %= AGENT_INDEXES;
	} else {
		r = join(c, errbuf, errlen);
	}
	if (r) {
		free(c);
		return r;
	}
	if (errlen)
		errbuf[0] = '\0'; /* a first try may have failed */
	*out = c;
	return 0;
}

static void close_all(struct agent_client *c)
{
	/* The token first: the slot is to be free when the agent sees the connection end. */
	link_close_fd(&c->token);
	link_close_fd(&c->fd);
	link_close_fd(&c->stash[0]);
	link_close_fd(&c->stash[1]);
}

void agent_client_free(struct agent_client *c)
{
	if (!c)
		return;
	close_all(c);
	free(c);
}

void agent_client_forget(struct agent_client *c)
{
	close_all(c);
	c->forgotten = true;
}

void agent_client_realm(const struct agent_client *c, char *buf, size_t len)
{
	snprintf(buf, len, "%s:%s", c->realm.system ? "system" : "", c->realm.name);
}

uint16_t agent_client_slot(const struct agent_client *c)
{
	return c->slot;
}

uint16_t agent_client_first_index(const struct agent_client *c)
{
	return c->first_index;
}

int agent_client_fd(struct agent_client *c)
{
	int fd;

	pthread_mutex_lock(&c->lock);
	fd = c->fd;
	pthread_mutex_unlock(&c->lock);
	return fd;
}

/* Find or spawn the next agent and show it what we have of the last one. */
static int rejoin(struct agent_client *c, char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_REJOIN, .u.slot = {c->slot, c->first_index}}, answer;
	int r = link_connect(&c->realm, true, link_now_ms() + LINK_TIMEOUT_MS, errbuf, errlen);

	if (r < 0)
		return r;
	c->fd = r;
	m.fds[m.nfds++] = c->token;
	if (c->stash[0] >= 0) {
		m.fds[m.nfds++] = c->stash[0];
		m.fds[m.nfds++] = c->stash[1];
	}
	r = link_ask(&c->fd, &m, &answer, errbuf, errlen);
	if (!r) {
		agent_msg_close_fds(&answer);
		if (answer.type != AGENT_WELCOME || answer.u.slot.slot != c->slot)
			r = -EPROTO;
	}
	if (r)
		link_close_fd(&c->fd);
	return r;
}

/* The lock is held, as below. */
static int service(struct agent_client *c)
{
	char text[AGENT_TEXT_MAX];
	struct agent_msg m;
	int r;

	if (c->lone || c->forgotten)
		return 0;
	if (c->fd >= 0) {
		r = agent_msg_recv(c->fd, &m, MSG_DONTWAIT);
		if (r == -EAGAIN)
			return 0;
		if (!r)
			agent_msg_close_fds(&m);
		/* It died, or speaks unasked, which none of ours does. */
		link_close_fd(&c->fd);
	}
	r = rejoin(c, text, sizeof(text));
	if (r)
		log_info("%s", text);
	return r;
}

int agent_client_service(struct agent_client *c)
{
	int r;

	pthread_mutex_lock(&c->lock);
	r = service(c);
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int lone_socket(const struct rocemu_gid *addr, uint32_t scope_id, char *errbuf,
		       size_t errlen)
{
	int fd = data_socket_open(addr, scope_id, false);

	if (fd < 0)
		data_socket_explain(fd, addr, scope_id, errbuf, errlen);
	return fd;
}

int agent_group_socket(const struct rocemu_gid *group, unsigned ifindex, char *errbuf,
		       size_t errlen)
{
	char name[AGENT_ADDR_STRLEN];
	int fd = data_socket_open_group(group, ifindex);

	if (fd == -EADDRINUSE)
		data_socket_explain(fd, group, 0, errbuf, errlen);
	else if (fd < 0)
		snprintf(errbuf, errlen, "cannot join the multicast group %s on interface %u: %s",
			 data_addr_str(group, 0, name), ifindex, strerror(-fd));
	return fd;
}

int agent_peer_ask(const struct agent_client *c, const struct rocemu_gid *addr, uint32_t scope_id,
		   uint16_t slot)
{
	const struct agent_msg m = {.type = AGENT_PEER, .u.socket = {*addr, scope_id, slot}};
	int fd, r;

	if (c->lone || c->forgotten)
		return -ENOENT;
	fd = agent_connect(&c->realm, PEER_TIMEOUT_MS);
	if (fd < 0)
		return fd;
	r = agent_msg_send(fd, &m, MSG_DONTWAIT);
	if (r)
		link_close_fd(&fd);
	return r ? r : fd;
}

int agent_peer_take(int fd)
{
	struct agent_msg answer;
	int r = agent_msg_recv(fd, &answer, MSG_DONTWAIT);

	if (r == -EAGAIN)
		return r;
	link_close_fd(&fd);
	if (r)
		return r;
	if (answer.type == AGENT_SOCKET_IS)
		return answer.fds[0];
	agent_msg_close_fds(&answer);
	return answer.type == AGENT_ERROR ? -answer.u.error.err : -EPROTO;
}

static int get_socket(struct agent_client *c, const struct rocemu_gid *addr, uint32_t scope_id,
		      char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_SOCKET, .u.socket = {*addr, scope_id, 0}}, answer;
	int r = -ECONNRESET;

	if (c->lone)
		return lone_socket(addr, scope_id, errbuf, errlen);
	if (c->fd >= 0)
		r = link_ask(&c->fd, &m, &answer, errbuf, errlen);
	if (r == -ECONNRESET) {
		/* The agent died: once more with the next one. */
		link_close_fd(&c->fd);
		r = rejoin(c, errbuf, errlen);
		if (!r)
			r = link_ask(&c->fd, &m, &answer, errbuf, errlen);
	}
	if (r)
		return r;
	if (answer.type != AGENT_SOCKET_IS) {
		agent_msg_close_fds(&answer);
		snprintf(errbuf, errlen, "the agent's answer makes no sense (type %u)",
			 (unsigned)answer.type);
		return -EPROTO;
	}
	return answer.fds[0];
}

int agent_client_socket(struct agent_client *c, const struct rocemu_gid *addr, uint32_t scope_id,
			char *errbuf, size_t errlen)
{
	int r;

	pthread_mutex_lock(&c->lock);
	r = get_socket(c, addr, scope_id, errbuf, errlen);
	pthread_mutex_unlock(&c->lock);
	return r;
}
