/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/server.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/holder.h"
#include "agent/socket.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

enum {
	CLIENTS_MAX = 2 * AGENT_SLOTS,
	ACCEPTS = 64, /* in a round: connections of one user must not delay others for long */
};
#define SWEEP_S 5.0
#define AGAIN_S 0.1

static void take_message(struct client *c)
{
	struct agent_msg m;
	int r = agent_msg_recv(c->fd, &m, MSG_DONTWAIT);

	if (agent_io_is_late(-r))
		return;
	if (r)
		client_refuse(c, r);
	else
		r = client_request(c, &m);
	if (r)
		client_close(c);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct client *c = w->data;
	struct server *s = c->server;
	struct quotas *quotas = &s->gsi.quotas;
	const uint32_t uid = c->uid;
	const uint64_t begin = monotonic_ns();

	if (revents & EV_ERROR) {
		server_refused(s);
		return;
	}
	server_watch_again(s);
	if (!quota_has_time(quotas, uid, ev_iteration(loop)))
		return;
	take_message(c);
	quota_spend(quotas, uid, monotonic_ns() - begin);
}

static void client_add(struct server *s, int fd)
{
	struct client *c = s->nclients < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len)) {
		log_warn("client refused: too many, or out of memory");
		free(c);
		close(fd);
		return;
	}
	c->server = s;
	c->fd = fd;
	c->pid = (uint32_t)cred.pid;
	c->uid = cred.uid;
	/* Other users could fill the table. */
	if (!client_is_welcome(c)) {
		free(c);
		close(fd);
		return;
	}
	list_init(&c->node);
	list_append(&s->clients, &c->node);
	s->nclients++;
	ev_io_init(&c->watcher, on_readable, fd, EV_READ);
	c->watcher.data = c;
	ev_io_start(s->loop, &c->watcher);
	server_watch_again(s);
	server_update_idle(s);
}

static void on_accept(struct ev_loop *loop, ev_io *w, int revents)
{
	struct server *s = w->data;
	int fd = -1;

	(void)loop;
	if (revents & EV_ERROR)
		server_refused(s);
	for (unsigned i = 0; i < ACCEPTS && (!i || fd >= 0); i++) {
		fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			client_add(s, fd);
	}
	if ((fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) &&
	    ev_is_active(w))
		return;
	/* Not accepting would spin: use the spare descriptor to accept and close the connection. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		log_warn("out of file descriptors: a client is refused");
		if (s->spare_fd >= 0)
			close(s->spare_fd);
		fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0 && ev_is_active(w))
		return;
	/* That failed, too: the client waits until descriptors are available. */
	ev_io_stop(s->loop, w);
	server_watch_again(s);
}

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct server *s = w->data;
	bool refused = s->refused;

	(void)revents;
	s->refused = false;
	ev_io_start(loop, &s->accept_watcher);
	ev_io_start(loop, &s->signal_watcher);
	if (s->holder >= 0)
		ev_io_start(loop, &s->holder_watcher);
	list_for_each_entry (c, struct client, node, &s->clients) {
		ev_io_start(loop, &c->watcher);
		if (c->gsi)
			gsi_client_watch(c->gsi);
	}
	/* Otherwise libev may treat a watcher stopped in this round as active. */
	if (refused)
		ev_loop_fork(loop);
	else
		ev_timer_stop(loop, w);
}

static void on_idle(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	log_info("no client left: the agent leaves");
	ev_break(loop, EVBREAK_ALL);
}

static void on_signal(struct ev_loop *loop, ev_io *w, int revents)
{
	struct signalfd_siginfo info;

	if (revents & EV_ERROR)
		server_refused(w->data);
	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	log_info("signal %u: the agent leaves", info.ssi_signo);
	ev_break(loop, EVBREAK_ALL);
}

static void on_sweep(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct server *s = w->data;

	(void)revents;
	give_sweep(s);
	if (s->store->groups.count == 0)
		ev_timer_stop(loop, w);
}

static void on_calm(void *user)
{
	server_update_idle(user);
}

static void on_watch(void *user, bool refused)
{
	if (refused)
		server_refused(user);
	else
		server_watch_again(user);
}

/* ---- start and end ---- */

/* libev aborts without memory; it needs little. */
static void *wait_for_memory(void *old, long size)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	void *p;

	if (!size) {
		free(old);
		return NULL;
	}
	while (!(p = realloc(old, (size_t)size)))
		nanosleep(&pause, NULL);
	return p;
}

/* And when a system call fails; the next iteration of the loop repeats it. */
static void log_system_error(const char *what)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	log_warn("%s: %s", what, strerror(errno));
	nanosleep(&pause, NULL);
}

static int watch_signals(struct server *s)
{
	sigset_t set;

	holder_mask_signals(SIG_BLOCK);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return -errno;
	ev_io_init(&s->signal_watcher, on_signal, s->signal_fd, EV_READ);
	s->signal_watcher.data = s;
	ev_io_start(s->loop, &s->signal_watcher);
	return 0;
}

static void forget(void *server)
{
	struct server *s = server;

	list_for_each_entry (g, struct group, node, &s->store->groups.all) {
		if (g->user)
			qp1_free(g->user);
		g->user = NULL;
	}
	gsi_forget(&s->gsi);
	list_for_each_entry (c, struct client, node, &s->clients)
		free(c);
	ev_loop_destroy(s->loop);
	free(s);
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

static int start(struct server *s, struct server_config *config, struct store *st, int holder)
{
	struct seats_used used;

	ev_set_allocator(wait_for_memory);
	ev_set_syserr_cb(log_system_error);
	*s = (struct server){.instance = config->instance,
			     .config = config,
			     .work = server_work,
			     .forget = forget,
			     .store = st,
			     .holder = holder,
			     .holder_pid = getppid(),
			     .spare_fd = -1,
			     .signal_fd = -1};
	list_init(&s->clients);
	s->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	if (!s->loop)
		return -ENOMEM;
	gsi_init(&s->gsi, s->loop, st, s->instance.system);
	s->gsi.on_calm = on_calm;
	s->gsi.on_watch = on_watch;
	s->gsi.on_end = client_close;
	s->gsi.user = s;
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ev_io_init(&s->accept_watcher, on_accept, st->listener, EV_READ);
	s->accept_watcher.data = s;
	ev_io_start(s->loop, &s->accept_watcher);
	ev_timer_init(&s->again_timer, on_again, 0., AGAIN_S);
	s->again_timer.data = s;
	ev_init(&s->idle_timer, on_idle);
	ev_timer_init(&s->sweep_timer, on_sweep, SWEEP_S, SWEEP_S);
	s->sweep_timer.data = s;
	server_watch_holder(s);
	/* Take over the store of an earlier worker. */
	list_for_each_entry (g, struct group, node, &st->groups.all) {
		g->user = NULL;
		(void)group_steer(g, NULL);
		give_watch(s, g);
	}
	seats_look(&st->seats[AGENT_GSI], &used);
	if (memchr(used.is, true, sizeof(used.is)))
		gsi_follows(&s->gsi);
	server_update_idle(s);
	return watch_signals(s);
}

/* Close the sockets before the name, so that a process that finds no agent can bind the port. */
static void stop(struct server *s, int exit_code)
{
	struct store_change leave = {.type = STORE_LEAVE, .value = (uint32_t)exit_code};

	s->gsi.leaving = true;
	list_for_each_entry (c, struct client, node, &s->clients)
		client_close(c);
	list_for_each_entry (g, struct group, node, &s->store->groups.all) {
		struct store_change c = {
			.type = STORE_DROP, .addr = g->addr, .scope_id = g->scope_id};

		if (g->user)
			qp1_free(g->user);
		(void)server_update_holder(s, &c, NULL, 0);
		(void)store_apply(s->store, &c, NULL, 0);
	}
	gsi_fini(&s->gsi);
	(void)server_update_holder(s, &leave, NULL, 0);
	if (s->holder >= 0)
		close(s->holder);
	store_fini(s->store);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->spare_fd >= 0)
		close(s->spare_fd);
	ev_loop_destroy(s->loop);
}

int server_work(void *user, struct store *st, int holder)
{
	struct server *s = malloc(sizeof(*s));
	int r = s ? start(s, user, st, holder) : -ENOMEM;

	if (!r)
		ev_run(s->loop, 0);
	else
		log_error("the agent cannot run: %s", strerror(-r));
	if (s && s->loop)
		stop(s, r ? 1 : 0);
	free(s);
	return r ? 1 : 0;
}
