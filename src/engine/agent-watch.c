/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/agent-watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/client.h"
#include "base/thread.h"
#include "base/util.h"
#include "engine/loop.h"

enum { PAUSE_FIRST_MS = 50, PAUSE_MAX_MS = 30000 };

/* Reasons for which the loop was woken. */
enum { WOKEN_DONE = 1, WOKEN_LOOK = 2 };

struct agent_watch {
	struct loop *loop;	     /* borrowed */
	struct agent_client *client; /* borrowed */
	struct loop_io io;	     /* its descriptor is owned; -1: none */
	struct loop_timer retry;
	atomic_uint woken; /* WOKEN_DONE: the helper has finished; _LOOK: the connection may have
			      changed */
	pthread_t helper;
	bool busy;  /* helper exists */
	int result; /* the helper's, until it is joined */
	unsigned pause_ms;
};

static void wake(struct agent_watch *w, unsigned what)
{
	atomic_fetch_or(&w->woken, what);
	loop_wake(w->loop);
}

static void *helper_main(void *arg)
{
	struct agent_watch *w = arg;

	w->result = agent_client_service(w->client);
	wake(w, WOKEN_DONE);
	return NULL;
}

static void retry_later(struct agent_watch *w)
{
	loop_timer_set(w->loop, &w->retry, w->pause_ms);
	w->pause_ms = MIN(w->pause_ms * 2, (unsigned)PAUSE_MAX_MS);
}

static void unwatch(struct agent_watch *w)
{
	loop_unwatch(w->loop, &w->io);
	agent_watch_forget(w);
}

static void start_helper(struct agent_watch *w)
{
	unwatch(w);
	if (thread_start(&w->helper, "rocemu-agent", helper_main, w) < 0) {
		retry_later(w);
		return;
	}
	w->busy = true;
}

/* @return 0, also when no agent is used, or -errno: -ENOTCONN there is none at the moment. */
static int watch_fd(struct agent_watch *w)
{
	const int fd = agent_client_fd(w->client);
	int err;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	w->io.fd = fd;
	err = loop_watch(w->loop, &w->io);
	if (err)
		unwatch(w);
	return err;
}

static void on_readable(struct loop_io *io)
{
	start_helper(io->data);
}

static void on_retry(struct loop_timer *t)
{
	start_helper(t->data);
}

static void helper_done(struct agent_watch *w)
{
	if (!w->busy)
		return;
	pthread_join(w->helper, NULL);
	w->busy = false;
	if (w->result || watch_fd(w) < 0) {
		retry_later(w);
		return;
	}
	w->pause_ms = PAUSE_FIRST_MS;
}

static void look(struct agent_watch *w)
{
	if (w->busy || loop_timer_is_set(&w->retry))
		return;
	unwatch(w);
	if (watch_fd(w) < 0)
		retry_later(w);
}

void agent_watch_forget(struct agent_watch *w)
{
	const int fd = w->io.fd;

	w->io.fd = -1;
	if (fd >= 0)
		close(fd);
}

void agent_watch_look(struct agent_watch *w)
{
	wake(w, WOKEN_LOOK);
}

void agent_watch_woken(struct agent_watch *w)
{
	const unsigned what = atomic_exchange(&w->woken, 0);

	if (what & WOKEN_DONE)
		helper_done(w);
	if (what & WOKEN_LOOK)
		look(w);
}

int agent_watch_new(struct agent_watch **out, struct loop *loop, struct agent_client *client)
{
	struct agent_watch *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->loop = loop;
	w->client = client;
	w->pause_ms = PAUSE_FIRST_MS;
	loop_io_init(&w->io, -1, on_readable, w);
	loop_timer_init(&w->retry, on_retry, w);
	err = watch_fd(w);
	if (err == -ENOTCONN) {
		retry_later(w);
		err = 0;
	}
	if (err) {
		free(w);
		return err;
	}
	*out = w;
	return 0;
}

void agent_watch_free(struct agent_watch *w)
{
	if (!w)
		return;
	if (w->busy)
		pthread_join(w->helper, NULL);
	unwatch(w);
	loop_timer_stop(&w->retry);
	free(w);
}
