/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/pace-ask.h"

#include <errno.h>
#include <unistd.h>

#include "agent/client.h"
#include "engine/lane-internal.h"

static void answered(struct pace_ask *a, int fd)
{
	lane_lock(a->lane);
	pace_known(&a->lane->pace, &a->who, fd);
	lane_unlock(a->lane);
}

static void on_answer(struct loop_io *io)
{
	struct pace_ask *a = io->data;
	const int fd = agent_peer_take(a->fd);

	if (fd == -EAGAIN)
		return;
	loop_unwatch(a->loop, io);
	a->fd = -1;
	answered(a, fd < 0 ? -1 : fd);
	pace_ask_next(a);
}

void pace_ask_init(struct pace_ask *a, struct lane *l, struct loop *loop)
{
	a->lane = l;
	a->loop = loop;
	a->fd = -1;
	loop_io_init(&a->io, -1, on_answer, a);
}

void pace_ask_fini(struct pace_ask *a)
{
	if (!a->loop || a->fd < 0)
		return;
	loop_unwatch(a->loop, &a->io);
	close(a->fd);
	a->fd = -1;
}

void pace_ask_next(struct pace_ask *a)
{
	bool wants;

	while (a->fd < 0) {
		lane_lock(a->lane);
		wants = pace_want(&a->lane->pace, &a->who);
		lane_unlock(a->lane);
		if (!wants)
			return;
		a->fd = agent_peer_ask(a->lane->agent, &a->who.gid, a->who.scope_id, a->who.slot);
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
