/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients' connections: messages to them, and their end. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/server.h"
#include "base/log.h"

void server_update_idle(struct server *s)
{
	ev_timer_stop(s->loop, &s->idle_timer);
	if (s->nclients == 0 && !gsi_is_busy(&s->gsi) && s->config->idle_timeout_s > 0) {
		ev_now_update(s->loop);
		ev_timer_set(&s->idle_timer, s->config->idle_timeout_s, 0.);
		ev_timer_start(s->loop, &s->idle_timer);
	}
}

/*
 * When epoll has no memory for a descriptor, libev stops its watchers, and reports it to them with
 * the next event. So after a call that may have added a watcher, an event is triggered.
 */
void server_watch_again(struct server *s)
{
	if (!ev_is_active(&s->again_timer))
		ev_timer_again(s->loop, &s->again_timer);
}

void server_refused(struct server *s)
{
	s->refused = true;
	server_watch_again(s);
}

void client_close(struct client *c)
{
	struct server *s = c->server;

	log_debug("client %u (slot %u) is gone", c->pid, c->slot);
	ev_io_stop(s->loop, &c->watcher);
	if (c->gsi)
		gsi_end_client(&s->gsi, c->gsi);
	close(c->fd);
	list_remove(&c->node);
	free(c);
	s->nclients--;
	server_update_idle(s);
}

/* A client reads each answer before its next request, so there is room for one unless it
 * misbehaves. */
int client_reply(struct client *c, const struct agent_msg *m)
{
	return agent_msg_send(c->fd, m, MSG_DONTWAIT);
}

int client_reply_error(struct client *c, int err, const char *text)
{
	struct agent_msg m;

	agent_msg_set_error(&m, -err, "%s", text);
	return client_reply(c, &m);
}
