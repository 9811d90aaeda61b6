/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/client.h"

#include <errno.h>
#include <fcntl.h>
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
	LONE_SLOT = 1, /* without an agent */
};

struct agent_client {
	pthread_mutex_t lock; /* guards the link, but its slot */
	struct link link;
	bool lone; /* ROCEMU_AGENT=off */
	bool forgotten;
};

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
	link_init(&c->link, AGENT_LANE);
	c->lone = off;
	if (off) {
		uint16_t index;

		if (getrandom(&index, sizeof(index), GRND_NONBLOCK) < 0)
			index = (uint16_t)getpid();
		c->link.place = LONE_SLOT;
		c->link.first_index = index % AGENT_INDEXES;
	} else {
		r = link_join(&c->link, errbuf, errlen);
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

void agent_client_free(struct agent_client *c)
{
	if (!c)
		return;
	link_close(&c->link);
	free(c);
}

void agent_client_forget(struct agent_client *c)
{
	link_close(&c->link);
	c->forgotten = true;
}

void agent_client_instance(const struct agent_client *c, char *buf, size_t len)
{
	snprintf(buf, len, "%s:%s", c->link.instance.system ? "system" : "", c->link.instance.name);
}

uint16_t agent_client_slot(const struct agent_client *c)
{
	return c->link.place;
}

uint16_t agent_client_first_index(const struct agent_client *c)
{
	return c->link.first_index;
}

int agent_client_fd(struct agent_client *c)
{
	int fd = -ENOTCONN;

	if (c->lone)
		return -ENOENT;
	pthread_mutex_lock(&c->lock);
	if (c->link.fd >= 0)
		fd = fcntl(c->link.fd, F_DUPFD_CLOEXEC, 0);
	if (fd == -1)
		fd = -errno;
	pthread_mutex_unlock(&c->lock);
	return fd;
}

/* The lock is held. */
static int service(struct agent_client *c)
{
	char text[AGENT_TEXT_MAX];
	struct agent_msg m;
	int r;

	if (c->lone || c->forgotten)
		return 0;
	if (c->link.fd >= 0) {
		r = agent_msg_recv(c->link.fd, &m, MSG_DONTWAIT);
		if (agent_io_is_late(-r))
			return 0;
		if (!r)
			agent_msg_close_fds(&m);
		/*
		 * It died, or sent a message without a request, which a rocemu agent does not do.
		 */
	}
	r = link_join(&c->link, text, sizeof(text));
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

static int standalone_socket(const struct rocemu_gid *addr, uint32_t scope_id, char *errbuf,
			     size_t errlen)
{
	int fd = data_socket_open(addr, scope_id, AGENT_PORT);

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

int agent_peer_request(const struct agent_client *c, const struct rocemu_gid *addr,
		       uint32_t scope_id, uint16_t slot)
{
	const struct agent_msg m = {.type = AGENT_PEER, .u.socket = {*addr, scope_id, slot}};
	int fd, r;

	if (c->lone || c->forgotten)
		return -ENOENT;
	fd = agent_connect(&c->link.instance, 0);
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

	if (r)
		return r;
	if (answer.type == AGENT_SOCKET_IS)
		return answer.fds[0];
	agent_msg_close_fds(&answer);
	return answer.type == AGENT_ERROR ? -(int)answer.u.error.err : -EPROTO;
}

static int get_socket(struct agent_client *c, const struct rocemu_gid *addr, uint32_t scope_id,
		      char *errbuf, size_t errlen)
{
	struct agent_msg m = {.type = AGENT_SOCKET, .u.socket = {*addr, scope_id, 0}}, answer;
	int r;

	if (c->lone)
		return standalone_socket(addr, scope_id, errbuf, errlen);
	r = link_request(&c->link, &m, AGENT_SOCKET_IS, &answer, errbuf, errlen);
	if (r == -ECONNRESET) {
		/* The agent died: once more with the next one. */
		r = link_join(&c->link, errbuf, errlen);
		if (!r)
			r = link_request(&c->link, &m, AGENT_SOCKET_IS, &answer, errbuf, errlen);
	}
	return r ? r : answer.fds[0];
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
