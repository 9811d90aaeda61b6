/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/keeper.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

enum { CLIENTS_MAX = 2 * AGENT_SLOTS };
#define RECOVERY_RETRY_S 0.02

static void update_idle(struct server *s)
{
	ev_timer_stop(s->loop, &s->idle_timer);
	if (s->nconns == 0 && !gsi_is_busy(&s->gsi) && s->idle_timeout_s > 0) {
		ev_now_update(s->loop);
		ev_timer_set(&s->idle_timer, s->idle_timeout_s, 0.);
		ev_timer_start(s->loop, &s->idle_timer);
	}
}

void client_close(struct client *c)
{
	struct server *s = c->server;

	log_debug("client %u (slot %u) is gone", c->pid, c->slot);
	ev_io_stop(s->loop, &c->watcher);
	if (c->gsi)
		gsi_client_free(c->gsi);
	close(c->fd);
	list_remove(&c->node);
	free(c);
	s->nconns--;
	update_idle(s);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct client *c = w->data;
	struct agent_msg m;
	int r = agent_msg_recv(c->fd, &m, MSG_DONTWAIT);

	(void)loop;
	(void)revents;
	if (r == -EAGAIN)
		return;
	if (r)
		client_refuse(c, r);
	else
		r = client_request(c, &m);
	if (r)
		client_close(c);
}

static void client_add(struct server *s, int fd)
{
	struct client *c = s->nconns < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		log_warn("client turned away: too many, or out of memory");
		free(c);
		close(fd);
		return;
	}
	c->server = s;
	c->fd = fd;
	c->pid = (uint32_t)cred.pid;
	c->uid = cred.uid;
	list_init(&c->node);
	list_append(&s->conns, &c->node);
	s->nconns++;
	ev_io_init(&c->watcher, on_readable, fd, EV_READ);
	c->watcher.data = c;
	ev_io_start(s->loop, &c->watcher);
	update_idle(s);
}

static void on_accept(struct ev_loop *loop, ev_io *w, int revents)
{
	struct server *s = w->data;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)loop;
	(void)revents;
	if (fd >= 0) {
		client_add(s, fd);
		return;
	}
	if (errno != EMFILE && errno != ENFILE)
		return;
	/* Not accepting would spin: use the spare descriptor to close the connection in the
	 * client's face. */
	log_warn("out of file descriptors: a client is turned away");
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_idle(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	log_info("no client left: the agent leaves");
	ev_break(loop, EVBREAK_ALL);
}

static void on_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
	(void)revents;
	log_info("signal %d: the agent leaves", w->signum);
	ev_break(loop, EVBREAK_ALL);
}

static void on_calm(void *user)
{
	update_idle(user);
}

void server_watch_group(struct server *s, struct group *g)
{
	if (!g->user && g->count)
		g->user = qp1_new(&s->gsi, g, s->loop);
}

static void start_keeper(struct server *s);

/* The keeper has ended, which it does not do by itself while the agent lives: another one. */
static void on_keeper(struct ev_loop *loop, ev_io *w, int revents)
{
	struct server *s = w->data;

	(void)revents;
	ev_io_stop(loop, w);
	close(s->keeper);
	start_keeper(s);
}

static void start_keeper(struct server *s)
{
	s->keeper = keeper_start(&s->realm, &s->stash);
	if (s->keeper < 0) {
		log_warn("no keeper: if the agent dies, running connections may break");
		s->keeper = -1;
		return;
	}
	ev_io_init(&s->keeper_watcher, on_keeper, s->keeper, EV_READ);
	s->keeper_watcher.data = s;
	ev_io_start(s->loop, &s->keeper_watcher);
}

/* A keeper that is needed no more leaves; one that is hands the stash to the next agent. */
static void release_keeper(struct server *s, bool needed)
{
	if (s->keeper < 0)
		return;
	ev_io_stop(s->loop, &s->keeper_watcher);
	if (needed)
		close(s->keeper);
	else
		keeper_dismiss(s->keeper);
	s->keeper = -1;
}

static struct client *next_waiting(struct server *s)
{
	list_for_each (it, &s->conns)
		if (list_entry(it, struct client, node)->waits)
			return list_entry(it, struct client, node);
	return NULL;
}

static void resume_all(struct server *s)
{
	struct client *c;

	ev_timer_stop(s->loop, &s->recovery_timer);
	/* From the start each time: answering one may close others. */
	while ((c = next_waiting(s)))
		if (client_resume(c))
			client_close(c);
}

void server_recovered(struct server *s)
{
	if (s->realm.system)
		start_keeper(s);
	list_for_each (it, &s->groups.all)
		server_watch_group(s, list_entry(it, struct group, node));
	resume_all(s);
}

bool server_try_anew(struct server *s)
{
	if (stash_init(&s->stash, &s->realm))
		return false;
	server_recovered(s);
	return true;
}

/* Somebody waits for the stash: whoever held it may have left, which frees its name. */
static void on_recovery(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct server *s = w->data;

	(void)revents;
	if (!server_try_anew(s) && ev_now(loop) >= s->recovery_ends)
		resume_all(s);
}

static int start(struct server *s, const struct server_config *config)
{
	int r;

	*s = (struct server){
		.realm = config->realm, .idle_timeout_s = config->idle_timeout_s, .keeper = -1};
	s->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	if (!s->loop)
		return -ENOMEM;
	s->started = ev_now(s->loop);
	list_init(&s->conns);
	groups_init(&s->groups);
	slots_init(&s->slots, &s->realm);
	gsi_init(&s->gsi, s->loop, &s->realm, &s->groups);
	s->gsi.on_calm = on_calm;
	s->gsi.user = s;
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	r = stash_init(&s->stash, &s->realm);
	if (r && r != -EADDRINUSE)
		return r;
	if (r)
		log_info("processes of an earlier agent are there: waiting for its sockets");

	ev_io_init(&s->accept_watcher, on_accept, config->listen_fd, EV_READ);
	s->accept_watcher.data = s;
	ev_io_start(s->loop, &s->accept_watcher);
	ev_init(&s->idle_timer, on_idle);
	ev_timer_init(&s->recovery_timer, on_recovery, RECOVERY_RETRY_S, RECOVERY_RETRY_S);
	s->recovery_timer.data = s;
	ev_signal_init(&s->term, on_signal, SIGTERM);
	ev_signal_start(s->loop, &s->term);
	ev_signal_init(&s->intr, on_signal, SIGINT);
	ev_signal_start(s->loop, &s->intr);
	update_idle(s);
	if (s->realm.system && !server_recovering(s))
		start_keeper(s);
	return 0;
}

static void stop(struct server *s)
{
	release_keeper(s, s->nconns > 0);
	s->gsi.leaving = true;
	list_for_each_safe (it, next, &s->conns)
		client_close(list_entry(it, struct client, node));
	list_for_each (it, &s->groups.all) {
		struct group *g = list_entry(it, struct group, node);

		if (g->user)
			qp1_free(g->user);
	}
	gsi_fini(&s->gsi);
	groups_fini(&s->groups);
	stash_fini(&s->stash);
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	ev_loop_destroy(s->loop);
}

int server_run(const struct server_config *config)
{
	struct server *s = malloc(sizeof(*s));
	int r;

	if (!s) {
		close(config->listen_fd);
		return -ENOMEM;
	}
	r = start(s, config);
	if (!r)
		ev_run(s->loop, 0);
	/* First the name, so that who comes now spawns the next agent; who waits to be accepted
	 * sees the end. */
	close(config->listen_fd);
	if (s->loop)
		stop(s);
	free(s);
	return r;
}
