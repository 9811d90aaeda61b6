/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends and receives frames to and from the agent. No function here waits. */
#include "agent/client-frames.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"

/* Frames that wait for the agent. MADs beyond it are lost, as packets are; exit MADs are not. */
enum { QUEUE_MAX = 16384, QUEUE_MAX_EXIT = 4 * QUEUE_MAX };

struct queued {
	struct list node;
	struct gsi_frame frame;
};

struct exit_reg {
	struct hash_node node;	/* in agent_gsi.exits, by communication ID */
	struct gsi_frame frame; /* as it is sent */
};

bool agent_gsi_is_ours(const struct agent_gsi *c)
{
	return c->pid == getpid();
}

uint16_t agent_gsi_number(const struct agent_gsi *c)
{
	return c->number;
}

int agent_gsi_fd(const struct agent_gsi *c)
{
	return c->watch;
}

/* ---- frames: under the lock ---- */

static void drop_queue(struct agent_gsi *c)
{
	list_for_each_safe (it, next, &c->queue)
		free(list_entry(it, struct queued, node));
	list_init(&c->queue);
	c->taken += c->queued;
	c->queued = 0;
}

/* Queued frames are lost, as on any network; exit MADs are in the registrations. */
static void drop(struct agent_gsi *c)
{
	drop_queue(c);
	/* A forked child may briefly have a copy, so close() alone does not end the connection. */
	if (c->frames >= 0)
		(void)epoll_ctl(c->watch, EPOLL_CTL_DEL, c->frames, NULL);
	link_close_fd(&c->frames);
}

static int watch_frames(struct agent_gsi *c, int op)
{
	struct epoll_event want = {.events = EPOLLIN | (c->queued ? EPOLLOUT : 0)};

	return epoll_ctl(c->watch, op, c->frames, &want) ? -errno : 0;
}

static int enqueue(struct agent_gsi *c, const struct gsi_frame *f, unsigned max)
{
	struct queued *e = c->queued < max ? malloc(sizeof(*e)) : NULL;

	if (!e)
		return -EAGAIN;
	e->frame = *f;
	list_append(&c->queue, &e->node);
	if (c->queued++ == 0)
		watch_frames(c, EPOLL_CTL_MOD);
	return 0;
}

/* @return 0, -EAGAIN: there is no room, or -ENOTCONN. */
static int send_now(struct agent_gsi *c, const struct gsi_frame *f)
{
	ssize_t n;

	do
		n = send(c->frames, f, sizeof(*f), MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return agent_io_is_late(errno) ? -EAGAIN : -ENOTCONN;
}

/* Never waits: frames that the agent has no room for are queued, up to max. */
static int send_frame(struct agent_gsi *c, const struct gsi_frame *f, unsigned max)
{
	int r;

	if (c->frames < 0)
		return -ENOTCONN;
	r = c->queued ? -EAGAIN : send_now(c, f);
	return r == -EAGAIN ? enqueue(c, f, max) : r;
}

int agent_gsi_send(struct agent_gsi *c, const struct gsi_mad *m, bool echo)
{
	if (!agent_gsi_is_ours(c))
		return -ECHILD;
	MUTEX_HELD(&c->lock);
	return send_frame(
		c,
		&(struct gsi_frame){
			.magic = GSI_FRAME_MAGIC, .type = GSI_FRAME_MAD, .echo = echo, .m = *m},
		QUEUE_MAX);
}

bool agent_gsi_flush(struct agent_gsi *c)
{
	struct list *first;

	MUTEX_HELD(&c->lock);
	while (c->frames >= 0 && (first = list_first(&c->queue))) {
		struct queued *e = list_entry(first, struct queued, node);

		if (send_now(c, &e->frame))
			break;
		list_remove(&e->node);
		free(e);
		c->taken++;
		if (--c->queued == 0)
			watch_frames(c, EPOLL_CTL_MOD);
	}
	c->stalled = c->stalled && c->queued > 0;
	return c->queued == 0;
}

bool agent_gsi_waits(struct agent_gsi *c)
{
	MUTEX_HELD(&c->lock);
	return c->queued > 0;
}

bool agent_gsi_connected(struct agent_gsi *c)
{
	MUTEX_HELD(&c->lock);
	return c->frames >= 0;
}

int agent_gsi_recv(struct agent_gsi *c, struct gsi_frame *f)
{
	ssize_t n;

	if (!agent_gsi_is_ours(c))
		return -ECHILD;
	MUTEX_HELD(&c->lock);
	while (c->frames >= 0) {
		n = recv(c->frames, f, sizeof(*f), MSG_DONTWAIT | MSG_TRUNC);
		if (n > 0 && gsi_frame_ok(f, (size_t)n) && f->type <= GSI_FRAME_UNREACHABLE)
			return 1;
		if (n < 0 && agent_io_is_late(errno))
			return 0;
		if (n == 0 || (n < 0 && errno != EINTR))
			drop(c);
	}
	return -ENOTCONN;
}

/* ---- exit MADs ---- */

/* Under the lock. No agent is not an error: join() passes the registrations to the next one. */
static void send_exit(struct agent_gsi *c, const struct gsi_frame *f)
{
	if (send_frame(c, f, QUEUE_MAX_EXIT) == -EAGAIN)
		drop(c);
}

static struct exit_reg *find_exit(const struct agent_gsi *c, uint32_t comm_id)
{
	return hash_entry(hash_find(&c->exits, comm_id), struct exit_reg, node);
}

int agent_gsi_exit_set(struct agent_gsi *c, uint32_t comm_id, const struct agent_exit_mad *exit_mad)
{
	struct exit_reg *e;

	if (!agent_gsi_is_ours(c))
		return -ECHILD;
	if (comm_id >> AGENT_GSI_ID_BITS != c->number)
		return -EINVAL;
	MUTEX_HELD(&c->lock);
	e = find_exit(c, comm_id);
	if (!e) {
		if (c->exits.n >= AGENT_GSI_EXITS_MAX)
			return -ENOBUFS;
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		hash_add(&c->exits, &e->node, comm_id);
	}
	e->frame = (struct gsi_frame){.magic = GSI_FRAME_MAGIC,
				      .type = GSI_FRAME_EXIT_SET,
				      .comm_id = comm_id,
				      .cm_timeout = exit_mad->cm_timeout & 31,
				      .retries = exit_mad->retries & 15,
				      .m = exit_mad->mad};
	send_exit(c, &e->frame);
	return 0;
}

int agent_gsi_exit_clear(struct agent_gsi *c, uint32_t comm_id)
{
	struct exit_reg *e;

	if (!agent_gsi_is_ours(c))
		return -ECHILD;
	MUTEX_HELD(&c->lock);
	e = find_exit(c, comm_id);
	if (!e)
		return 0;
	hash_remove(&c->exits, &e->node);
	free(e);
	send_exit(c, &(struct gsi_frame){.magic = GSI_FRAME_MAGIC,
					 .type = GSI_FRAME_EXIT_CLEAR,
					 .comm_id = comm_id});
	return 0;
}

/* ---- installing and dropping the socket ---- */

static int send_exits(struct agent_gsi *c)
{
	int r = 0;

	hash_for_all (e, struct exit_reg, node, &c->exits) {
		r = send_frame(c, &e->frame, QUEUE_MAX_EXIT);
		if (r)
			break;
	}
	return r;
}

int frames_install(struct agent_gsi *c)
{
	int r;

	MUTEX_HELD(&c->lock);
	if (!c->number)
		c->number = c->link.place;
	c->frames = c->link.frames;
	c->link.frames = -1;
	r = watch_frames(c, EPOLL_CTL_ADD);
	if (!r)
		r = send_exits(c);
	if (r)
		drop(c);
	return r;
}

void frames_drop(struct agent_gsi *c)
{
	MUTEX_HELD(&c->lock);
	drop(c);
}

int frames_init(struct agent_gsi *c)
{
	mutex_init(&c->lock);
	list_init(&c->queue);
	c->frames = -1;
	c->watch = epoll_create1(EPOLL_CLOEXEC);
	return c->watch < 0 ? -errno : 0;
}

void frames_forget(struct agent_gsi *c)
{
	link_close_fd(&c->frames);
	link_close_fd(&c->watch);
}

void frames_fini(struct agent_gsi *c)
{
	drop_queue(c);
	hash_for_all (e, struct exit_reg, node, &c->exits)
		free(e);
	hash_fini(&c->exits);
}
