/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/gsi-client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/gsi.h"
#include "agent/server.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/syssocket.h"

enum {
	READ_BURST = 64,   /* frames of one client, then others have their turn */
	READ_LAST = 65536, /* of one that has ended: more than its socket can hold */
	SEND_BUFFER = 1 << 20,
};

struct queued {
	struct list node;
	struct gsi_frame frame;
	unsigned cell; /* of the source, in shares */
};

bool gsi_number_is_free(const struct gsi *gsi, unsigned number)
{
	return !gsi->members[number] && !gsi_exits_linger(&gsi->exit_mads, (uint16_t)number);
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

static int open_frames(struct gsi_client *m, int *client_fd)
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

int gsi_client_new(struct gsi *gsi, struct client *conn, uint16_t number, int *client_fd)
{
	struct gsi_client *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	r = open_frames(m, client_fd);
	if (r) {
		free(m);
		return r;
	}
	m->gsi = gsi;
	m->conn = conn;
	m->number = number;
	list_init(&m->queue);
	list_init(&m->ports);
	list_init(&m->exit_mads);
	ev_io_init(&m->reader, on_readable, m->fd, EV_READ);
	ev_io_init(&m->writer, on_writable, m->fd, EV_WRITE);
	m->reader.data = m->writer.data = m;
	ev_io_start(gsi->loop, &m->reader);
	gsi->members[number] = m;
	gsi->nmembers++;
	return 0;
}

void gsi_client_watch(struct gsi_client *m)
{
	ev_io_start(m->gsi->loop, &m->reader);
	if (m->queued)
		ev_io_start(m->gsi->loop, &m->writer);
}

/* @return 1: a frame was taken, 0: none is there, -ECONNRESET: the client has ended. */
static int read_one(struct gsi_client *m)
{
	struct gsi_frame f;
	ssize_t n = TEMP_FAILURE_RETRY(recv(m->fd, &f, sizeof(f), MSG_DONTWAIT | MSG_TRUNC));

	if (n < 0)
		return agent_io_is_late(errno) ? 0 : -ECONNRESET;
	if (n == 0)
		return -ECONNRESET;
	if (gsi_frame_ok(&f, (size_t)n))
		m->gsi->on_frame(m->gsi, m, &f);
	else
		m->gsi->counters[AGENT_GSI_COUNT_tx_refused]++;
	return 1;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct gsi_client *m = w->data;
	struct gsi *gsi = m->gsi;
	const uint32_t uid = m->conn->uid;
	const uint64_t begin = monotonic_ns();
	int r = 1;

	if (revents & EV_ERROR) {
		gsi->on_watch(gsi->user, true);
		return;
	}
	if (!quota_has_time(&gsi->quotas, uid, ev_iteration(loop)))
		return;
	for (unsigned i = 0; i < READ_BURST && r > 0; i++)
		r = read_one(m);
	if (r < 0)
		gsi->on_end(m->conn);
	quota_spend(&gsi->quotas, uid, monotonic_ns() - begin);
}

static void drop_queue(struct gsi_client *m)
{
	list_for_each_entry (e, struct queued, node, &m->queue)
		free(e);
	list_init(&m->queue);
	quota_release(&m->gsi->quotas, m->conn->uid, QUOTA_QUEUED, m->queued);
	m->queued = 0;
	m->shares = (struct share){0};
}

void gsi_client_drain(struct gsi_client *m)
{
	for (unsigned i = 0; i < READ_LAST && read_one(m) > 0; i++)
		;
}

void gsi_client_free(struct gsi_client *m)
{
	ev_io_stop(m->gsi->loop, &m->reader);
	ev_io_stop(m->gsi->loop, &m->writer);
	drop_queue(m);
	close(m->fd);
	free(m);
}

static ssize_t send_frame(struct gsi_client *m, const struct gsi_frame *f)
{
	return TEMP_FAILURE_RETRY(send(m->fd, f, sizeof(*f), MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* NULL: no room in the client's queue, or in all queues of its user. */
static struct queued *new_queued(struct gsi_client *m, unsigned cell)
{
	struct quotas *quotas = &m->gsi->quotas;
	struct queued *e;

	if (!share_has_room(&m->shares, cell, GSI_QUEUE_MAX / 2) ||
	    quota_take(quotas, m->conn->uid, QUOTA_QUEUED))
		return NULL;
	e = malloc(sizeof(*e));
	if (!e)
		quota_release(quotas, m->conn->uid, QUOTA_QUEUED, 1);
	return e;
}

static void enqueue(struct gsi_client *m, const struct gsi_frame *f, unsigned cell)
{
	struct queued *e = new_queued(m, cell);

	if (!e) {
		m->dropped++;
		m->gsi->counters[AGENT_GSI_COUNT_queue_full]++;
		return;
	}
	e->frame = *f;
	e->cell = cell;
	share_take(&m->shares, cell);
	list_append(&m->queue, &e->node);
	m->queued++;
	ev_io_start(m->gsi->loop, &m->writer);
	m->gsi->on_watch(m->gsi->user, false);
}

static void count_delivered(struct gsi_client *m, const struct gsi_frame *f)
{
	if (f->type == GSI_FRAME_SENT)
		return;
	m->delivered++;
	m->gsi->counters[AGENT_GSI_COUNT_delivered]++;
}

static void deliver(struct gsi_client *m, const struct gsi_frame *f)
{
	if (m->queued || send_frame(m, f) < 0)
		/* A client that has ended is found by its reader. */
		enqueue(m, f, gsi_sources_cell(&m->gsi->sources, &f->m.src, f->m.sport));
	else
		count_delivered(m, f);
}

void gsi_client_deliver(struct gsi_client *m, enum gsi_frame_type type, const struct gsi_mad *mad)
{
	deliver(m, &(struct gsi_frame){.magic = GSI_FRAME_MAGIC, .type = (uint8_t)type, .m = *mad});
}

void gsi_client_unreachable(struct gsi_client *m, uint32_t comm_id, int error)
{
	deliver(m, &(struct gsi_frame){.magic = GSI_FRAME_MAGIC,
				       .type = GSI_FRAME_UNREACHABLE,
				       .comm_id = comm_id,
				       .error = error});
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct gsi_client *m = w->data;
	struct list *first;

	if (revents & EV_ERROR) {
		m->gsi->on_watch(m->gsi->user, true);
		return;
	}
	while ((first = list_first(&m->queue))) {
		struct queued *e = list_entry(first, struct queued, node);

		if (send_frame(m, &e->frame) < 0 && agent_io_is_late(errno))
			return;
		count_delivered(m, &e->frame);
		list_remove(&e->node);
		share_give(&m->shares, e->cell);
		quota_release(&m->gsi->quotas, m->conn->uid, QUOTA_QUEUED, 1);
		free(e);
		m->queued--;
	}
	ev_io_stop(loop, w);
	m->gsi->on_watch(m->gsi->user, false);
}
