/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/cm-member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/cm.h"
#include "agent/server.h"
#include "base/log.h"
#include "base/syssocket.h"

enum {
	READ_BURST = 64,   /* frames of one client, then others have their turn */
	READ_LAST = 65536, /* of one that has ended: more than its socket can hold */
	SEND_BUFFER = 1 << 20,
};

struct queued {
	struct list node;
	size_t len;
	uint8_t frame[CM_FRAME_MAX];
};

static void cm_number_part(unsigned number, char part[static 16])
{
	snprintf(part, 16, "cm-%u", number);
}

/*
 * Numbers go round, so that late messages for a dead client do not meet a new one; one is in use as
 * long as its token is open somewhere, or a will with it is under way.
 */
static int take_number(struct cm *cm, int *token)
{
	int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err = ENOSPC;

	if (fd < 0)
		return -errno;
	for (unsigned i = 1; i < AGENT_CM_CLIENTS; i++) {
		struct sockaddr_un sa;
		char part[16];

		cm->last_number = (uint16_t)(cm->last_number % (AGENT_CM_CLIENTS - 1) + 1);
		if (cm->members[cm->last_number] || cm_wills_linger(&cm->wills, cm->last_number))
			continue;
		cm_number_part(cm->last_number, part);
		if (bind(fd, (struct sockaddr *)(void *)&sa,
			 agent_realm_addr(cm->realm, part, &sa)) == 0) {
			*token = fd;
			return cm->last_number;
		}
		if (errno != EADDRINUSE) {
			err = errno;
			break;
		}
	}
	close(fd);
	return -err;
}

bool cm_is_token(const struct cm *cm, int token, uint16_t number)
{
	char part[16];

	cm_number_part(number, part);
	return agent_realm_owns(cm->realm, token, false, part);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents);
static void on_writable(struct ev_loop *loop, ev_io *w, int revents);

/* Beyond the system's limit with privilege, else up to it. */
static void enlarge(int fd)
{
	int bytes = SEND_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static int open_frames(struct cm_member *m, int *client_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	enlarge(pair[0]);
	enlarge(pair[1]);
	m->fd = pair[0];
	*client_fd = pair[1];
	return 0;
}

int cm_member_new(struct cm *cm, struct conn *conn, uint16_t number, int *token, int *client_fd)
{
	struct cm_member *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	*token = -1;
	r = open_frames(m, client_fd);
	if (!r && !number) {
		r = take_number(cm, token);
		if (r > 0) {
			number = (uint16_t)r;
			r = 0;
		} else {
			close(m->fd);
			close(*client_fd);
		}
	}
	if (r) {
		free(m);
		return r;
	}
	m->cm = cm;
	m->conn = conn;
	m->number = number;
	list_init(&m->queue);
	list_init(&m->ports);
	list_init(&m->wills);
	ev_io_init(&m->reader, on_readable, m->fd, EV_READ);
	ev_io_init(&m->writer, on_writable, m->fd, EV_WRITE);
	m->reader.data = m->writer.data = m;
	ev_io_start(cm->loop, &m->reader);
	conn->cm = m;
	cm->members[number] = m;
	cm->nmembers++;
	return 0;
}

/* @return 1: a frame was taken, 0: none is there, -ECONNRESET: the client has ended. */
static int read_one(struct cm_member *m)
{
	uint8_t buf[CM_FRAME_MAX];
	struct cm_frame f;
	ssize_t n;

	do
		n = recv(m->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -ECONNRESET;
	if (n == 0)
		return -ECONNRESET;
	if ((size_t)n > sizeof(buf) || cm_frame_decode(buf, (size_t)n, &f))
		m->cm->counters[AGENT_CM_COUNT_tx_refused]++;
	else
		cm_frame(m->cm, m, &f);
	return 1;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct cm_member *m = w->data;
	int r = 1;

	(void)loop;
	(void)revents;
	for (unsigned i = 0; i < READ_BURST && r > 0; i++)
		r = read_one(m);
	if (r < 0)
		conn_close(m->conn);
}

static void drop_queue(struct cm_member *m)
{
	list_for_each_safe (it, next, &m->queue)
		free(list_entry(it, struct queued, node));
	list_init(&m->queue);
	m->queued = 0;
}

void cm_member_free(struct cm_member *m)
{
	struct cm *cm = m->cm;

	for (unsigned i = 0; i < READ_LAST && read_one(m) > 0; i++)
		;
	ev_io_stop(cm->loop, &m->reader);
	ev_io_stop(cm->loop, &m->writer);
	drop_queue(m);
	cm_member_gone(cm, m);
	close(m->fd);
	free(m);
}

static ssize_t send_frame(struct cm_member *m, const uint8_t *buf, size_t len)
{
	ssize_t n;

	do
		n = send(m->fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

static void enqueue(struct cm_member *m, const uint8_t *buf, size_t len)
{
	struct queued *e = m->queued < CM_QUEUE_MAX ? malloc(sizeof(*e)) : NULL;

	if (!e) {
		m->dropped++;
		m->cm->counters[AGENT_CM_COUNT_queue_full]++;
		return;
	}
	e->len = len;
	memcpy(e->frame, buf, len);
	list_append(&m->queue, &e->node);
	m->queued++;
	ev_io_start(m->cm->loop, &m->writer);
}

static void count_delivered(struct cm_member *m)
{
	m->delivered++;
	m->cm->counters[AGENT_CM_COUNT_delivered]++;
}

static void deliver(struct cm_member *m, const struct cm_frame *f)
{
	uint8_t buf[CM_FRAME_MAX];
	size_t len = cm_frame_encode(f, buf);

	if (m->queued || send_frame(m, buf, len) < 0)
		/* A client that has ended is found by its reader. */
		enqueue(m, buf, len);
	else
		count_delivered(m);
}

void cm_member_deliver(struct cm_member *m, const struct agent_cm_dgram *d)
{
	struct cm_frame f = {.type = CM_FRAME_DGRAM, .d = *d};

	deliver(m, &f);
}

void cm_member_unreached(struct cm_member *m, uint32_t comm_id, int error)
{
	struct cm_frame f = {
		.type = CM_FRAME_UNREACHED, .comm_id = comm_id, .error = (uint16_t)error};

	deliver(m, &f);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct cm_member *m = w->data;
	struct list *first;

	(void)revents;
	while ((first = list_first(&m->queue))) {
		struct queued *e = list_entry(first, struct queued, node);

		if (send_frame(m, e->frame, e->len) < 0 && (errno == EAGAIN || errno == ENOBUFS))
			return;
		count_delivered(m);
		list_remove(&e->node);
		free(e);
		m->queued--;
	}
	ev_io_stop(loop, w);
}
