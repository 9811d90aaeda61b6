/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Applies changes of the store in the worker and in its holder; starts another holder when that has
 * died.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/holder.h"
#include "agent/server.h"
#include "base/log.h"

static void renew_holder(struct server *s)
{
	ev_io_stop(s->loop, &s->holder_watcher);
	if (s->holder >= 0)
		close(s->holder);
	s->holder = holder_fork(s->store, s->work, s->config, s->forget, s, &s->holder_pid);
	if (s->holder >= 0) {
		log_info("the agent has another holder");
		server_watch_holder(s);
		return;
	}
	log_warn("no holder (%s): if the agent dies, running connections may break",
		 strerror(-s->holder));
	s->holder = -1;
	s->holder_pid = 0;
}

/* Readable without a message: it has died. */
static void on_holder(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	if (revents & EV_ERROR)
		server_refused(w->data);
	else
		renew_holder(w->data);
}

/*
 * Send the change to the holder. A holder that is alive but does not read is killed: once it
 * continued, it would take the end of the connection for the worker's death and start a second
 * worker.
 */
int server_update_holder(struct server *s, const struct store_change *c, const int *fds, unsigned n)
{
	int r = s->holder < 0 ? -EPIPE : holder_update(s->holder, c, fds, n);

	if (r && r != -EPIPE && r != -ECONNRESET) {
		log_warn("the holder %d does not read: %s", (int)s->holder_pid, strerror(-r));
		kill(s->holder_pid, SIGKILL);
	}
	return r;
}

int server_change(struct server *s, const struct store_change *c, const int *fds, unsigned n)
{
	int r = store_apply(s->store, c, fds, n);

	/* A new holder gets the change with the rest of the store. */
	if (!r && server_update_holder(s, c, fds, n))
		renew_holder(s);
	return r;
}

void server_watch_holder(struct server *s)
{
	ev_io_init(&s->holder_watcher, on_holder, s->holder, EV_READ);
	s->holder_watcher.data = s;
	ev_io_start(s->loop, &s->holder_watcher);
}
