/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/agent-watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/client.h"
#include "base/util.h"

#define PAUSE_FIRST 0.05 /* seconds */
#define PAUSE_MAX   30.0

struct agent_watch {
	struct ev_loop *loop;	     /* borrowed */
	struct agent_client *client; /* borrowed */
	ev_io io;
	ev_timer retry;
	ev_async done; /* the helper is through */
	ev_async look; /* the connection may be another */
	pthread_t helper;
	bool busy;  /* helper exists */
	int result; /* the helper's, until it is joined */
	double pause;
};

static void *helper_main(void *arg)
{
	struct agent_watch *w = arg;

	w->result = agent_client_service(w->client);
	ev_async_send(w->loop, &w->done);
	return NULL;
}

static void retry_later(struct agent_watch *w)
{
	ev_timer_set(&w->retry, w->pause, 0.);
	ev_timer_start(w->loop, &w->retry);
	w->pause = MIN(w->pause * 2, PAUSE_MAX);
}

/* Signals are blocked in the loop's thread, so in the helper too. */
static void start_helper(struct agent_watch *w)
{
	ev_io_stop(w->loop, &w->io);
	if (pthread_create(&w->helper, NULL, helper_main, w)) {
		retry_later(w);
		return;
	}
	w->busy = true;
}

static void watch_fd(struct agent_watch *w)
{
	const int fd = agent_client_fd(w->client);

	if (fd < 0)
		return;
	ev_io_set(&w->io, fd, EV_READ);
	ev_io_start(w->loop, &w->io);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	(void)loop;
	(void)revents;
	start_helper(io->data);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)revents;
	start_helper(timer->data);
}

static void on_done(struct ev_loop *loop, ev_async *async, int revents)
{
	struct agent_watch *w = async->data;

	(void)loop;
	(void)revents;
	if (!w->busy)
		return;
	pthread_join(w->helper, NULL);
	w->busy = false;
	if (w->result) {
		retry_later(w);
		return;
	}
	w->pause = PAUSE_FIRST;
	watch_fd(w);
}

static void on_look(struct ev_loop *loop, ev_async *async, int revents)
{
	struct agent_watch *w = async->data;

	(void)revents;
	if (w->busy || ev_is_active(&w->retry))
		return;
	ev_io_stop(loop, &w->io);
	watch_fd(w);
}

void agent_watch_look(struct agent_watch *w)
{
	ev_async_send(w->loop, &w->look);
}

struct agent_watch *agent_watch_new(struct ev_loop *loop, struct agent_client *client)
{
	struct agent_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->loop = loop;
	w->client = client;
	w->pause = PAUSE_FIRST;
	ev_init(&w->io, on_readable);
	ev_init(&w->retry, on_retry);
	ev_async_init(&w->done, on_done);
	ev_async_init(&w->look, on_look);
	w->io.data = w->retry.data = w->done.data = w->look.data = w;
	ev_async_start(loop, &w->done);
	ev_async_start(loop, &w->look);
	watch_fd(w);
	return w;
}

void agent_watch_free(struct agent_watch *w)
{
	if (!w)
		return;
	if (w->busy)
		pthread_join(w->helper, NULL);
	ev_io_stop(w->loop, &w->io);
	ev_timer_stop(w->loop, &w->retry);
	ev_async_stop(w->loop, &w->done);
	ev_async_stop(w->loop, &w->look);
	free(w);
}
