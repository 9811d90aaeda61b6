/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/rcvbuf-query.h"

#include <errno.h>
#include <unistd.h>

#include "agent/client.h"
#include "engine/lane-internal.h"

static void answered(struct rcvbuf_query *a, int fd)
{
	lane_lock(a->lane);
	rcvbuf_set(&a->lane->rcvbuf, &a->addr, fd);
	lane_unlock(a->lane);
}

static void on_answer(struct loop_io *io)
{
	struct rcvbuf_query *a = io->data;
	const int fd = agent_peer_take(a->fd);

	if (fd == -EAGAIN)
		return;
	loop_unwatch(a->loop, io);
	close(a->fd);
	a->fd = -1;
	answered(a, fd < 0 ? -1 : fd);
	rcvbuf_query_start(a);
}

void rcvbuf_query_init(struct rcvbuf_query *a, struct lane *l, struct loop *loop)
{
	a->lane = l;
	a->loop = loop;
	a->fd = -1;
	loop_io_init(&a->io, -1, on_answer, a);
}

void rcvbuf_query_fini(struct rcvbuf_query *a)
{
	if (!a->loop || a->fd < 0)
		return;
	loop_unwatch(a->loop, &a->io);
	close(a->fd);
	a->fd = -1;
}

void rcvbuf_query_start(struct rcvbuf_query *a)
{
	bool wants;

	while (a->fd < 0) {
		lane_lock(a->lane);
		wants = rcvbuf_next_query(&a->lane->rcvbuf, &a->addr);
		lane_unlock(a->lane);
		if (!wants)
			return;
		a->fd = agent_peer_request(a->lane->agent, &a->addr.gid, a->addr.scope_id,
					   a->addr.slot);
		if (a->fd < 0) {
			a->fd = -1;
			answered(a, -1);
			continue;
		}
		a->io.fd = a->fd;
		if (loop_watch(a->loop, &a->io) < 0) {
			close(a->fd);
			a->fd = -1;
			answered(a, -1);
		}
	}
}
