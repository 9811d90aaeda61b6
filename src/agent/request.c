/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's answers to its clients' requests. Whatever a client sends, the answer is a message to
 * it, or the end of its connection: other clients do not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/server.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/util.h"

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

static bool may_use(const struct client *c)
{
	return c->server->realm.system || c->uid == geteuid() || c->uid == 0;
}

/*
 * The stash holds everybody's sockets. A user's own processes may read each other's memory anyway;
 * clients of other users of a system-wide agent get their own sockets only.
 */
static bool may_hold_stash(const struct client *c)
{
	return c->uid == geteuid() || c->uid == 0;
}

/* A slot changed hands: whoever is still connected with it has no right to it any more. */
static void drop_others(struct client *c, uint16_t slot)
{
	list_for_each_safe (it, next, &c->server->conns) {
		struct client *other = list_entry(it, struct client, node);

		if (other != c && other->slot == slot)
			client_close(other);
	}
}

static int hello(struct client *c)
{
	struct server *s = c->server;
	struct agent_msg m = {.type = AGENT_WELCOME};
	int token, slot, r;

	if (c->slot || c->gsi)
		return -EPROTO;
	slot = slots_take(&s->slots, &token, &m.u.slot.first_index);
	if (slot == -ENOSPC)
		return client_reply_error(
			c, slot, "all 1023 slots of this host are in use: end some RDMA processes");
	if (slot < 0)
		return client_reply_error(c, slot, strerror(-slot));
	c->slot = (uint16_t)slot;
	drop_others(c, c->slot);
	/* What came for the slot's last user. */
	list_for_each (it, &s->groups.all) {
		struct group *g = list_entry(it, struct group, node);

		if (c->slot < g->count)
			data_socket_drain(g->fds[c->slot]);
	}
	m.u.slot.slot = c->slot;
	m.fds[m.nfds++] = token;
	if (may_hold_stash(c)) {
		m.fds[m.nfds++] = s->stash.r;
		m.fds[m.nfds++] = s->stash.w;
	}
	r = client_reply(c, &m);
	/* From here the client alone holds it. */
	close(token);
	log_debug("client %u of user %u: slot %u", c->pid, c->uid, c->slot);
	return r;
}

/* Take over an earlier agent's stash. Its sockets are the groups from now on. */
static int adopt(struct server *s, int r_fd, int w_fd)
{
	struct stash stash = {.r = fcntl(r_fd, F_DUPFD_CLOEXEC, 0),
			      .w = fcntl(w_fd, F_DUPFD_CLOEXEC, 0)};
	int r = stash.r >= 0 && stash.w >= 0 ? 0 : -EMFILE;

	if (!r)
		r = stash_load(&stash, groups_adopt, &s->groups);
	if (!r)
		r = groups_steer(&s->groups);
	if (r) {
		log_warn("an earlier agent's sockets cannot be taken over: %s", strerror(-r));
		groups_fini(&s->groups);
		stash_fini(&stash);
		return r;
	}
	log_info("took over the sockets of %u addresses from an earlier agent", s->groups.count);
	s->stash = stash;
	server_recovered(s);
	return 0;
}

static int rejoin(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	uint16_t slot = m->u.slot.slot;
	unsigned has_token = slot ? 1 : 0;
	struct agent_msg answer = {.type = AGENT_WELCOME, .u.slot = {slot, m->u.slot.first_index}};

	if (c->slot || c->gsi)
		return -EPROTO;
	if (slot && !slots_is_token(&s->slots, m->fds[0], slot))
		return client_reply_error(c, -EBADMSG,
					"that slot's token is not what was sent with it");
	if (m->nfds > has_token) {
		int r_fd = m->fds[has_token], w_fd = m->fds[has_token + 1];

		if (!stash_is(r_fd, w_fd, &s->realm))
			return client_reply_error(c, -EBADMSG,
						"what was handed over is not the stash");
		if (server_recovering(s) && adopt(s, r_fd, w_fd))
			return client_reply_error(c, -EBADMSG, "the stash cannot be read");
	}
	gsi_follows(&s->gsi);
	if (slot) {
		drop_others(c, slot);
		c->slot = slot;
	}
	return client_reply(c, &answer);
}

static int give_socket(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	struct agent_msg answer = {.type = AGENT_SOCKET_IS, .nfds = 1};
	char text[AGENT_TEXT_MAX];
	struct group *g;
	int r = groups_need(&s->groups, &m->u.socket.addr, m->u.socket.scope_id, c->slot, &s->stash,
			    &g, text, sizeof(text));

	if (r)
		return client_reply_error(c, r, text);
	server_watch_group(s, g);
	answer.fds[0] = g->fds[c->slot];
	return client_reply(c, &answer);
}

/* Somebody wants to see how full another slot's buffer is. He could read from it as well: see
 * may_hold_stash(). */
static int give_peer(struct client *c, const struct agent_msg *m)
{
	struct agent_msg answer = {.type = AGENT_SOCKET_IS, .nfds = 1};
	const struct group *g =
		groups_find(&c->server->groups, &m->u.socket.addr, m->u.socket.scope_id);

	if (!may_hold_stash(c))
		return client_reply_error(c, -EPERM, "another user's socket");
	if (!g || m->u.socket.slot >= g->count)
		return client_reply_error(c, -ENOENT, "no socket of that address and slot");
	answer.fds[0] = g->fds[m->u.socket.slot];
	return client_reply(c, &answer);
}

static int give_status(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	struct agent_msg answer = {.type = AGENT_STATUS_PAGE};
	struct agent_page *pg = &answer.u.page;

	pg->pid = (uint32_t)getpid();
	pg->uid = geteuid();
	pg->uptime_ms = (uint64_t)((ev_now(s->loop) - s->started) * 1e3);
	pg->system = s->realm.system;
	pg->recovering = server_recovering(s);
	list_for_each (it, &s->conns) {
		struct client *o = list_entry(it, struct client, node);

		if (!o->slot)
			continue;
		if (pg->clients_total++ >= m->u.from.client && pg->nclients < AGENT_PAGE_CLIENTS)
			pg->clients[pg->nclients++] = (struct agent_client_info){
				.pid = o->pid, .uid = o->uid, .slot = o->slot};
	}
	list_for_each (it, &s->groups.all) {
		struct group *g = list_entry(it, struct group, node);

		if (pg->addrs_total++ >= m->u.from.addr && pg->naddrs < AGENT_PAGE_ADDRS)
			pg->addrs[pg->naddrs++] =
				(struct agent_addr_info){.addr = g->addr,
							 .scope_id = g->scope_id,
							 .sockets = (uint16_t)g->count,
							 .dropped = g->dropped};
	}
	return client_reply(c, &answer);
}

/* Leave the request until the stash is there. */
static int wait_for_stash(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;

	if (!ev_is_active(&s->recovery_timer)) {
		s->recovery_ends = ev_now(s->loop) + SERVER_RECOVERY_S;
		ev_timer_again(s->loop, &s->recovery_timer);
	}
	c->pending = *m;
	c->waits = true;
	return 0;
}

static int answer(struct client *c, const struct agent_msg *m)
{
	switch (m->type) {
	case AGENT_HELLO:
	case AGENT_SOCKET:
	case AGENT_GSI_OPEN:
		if ((m->type == AGENT_SOCKET && !c->slot) || (m->type == AGENT_GSI_OPEN && !c->gsi))
			return -EPROTO;
		if (server_recovering(c->server) && !server_try_anew(c->server))
			return wait_for_stash(c, m);
		return m->type == AGENT_HELLO	 ? hello(c)
		       : m->type == AGENT_SOCKET ? give_socket(c, m)
						 : client_gsi_request(c, m);
	case AGENT_REJOIN:
		return rejoin(c, m);
	case AGENT_PEER:
		return give_peer(c, m);
	case AGENT_STATUS:
		return give_status(c, m);
	default:
		return client_gsi_request(c, m);
	}
}

int client_request(struct client *c, struct agent_msg *m)
{
	int r;

	if (c->waits)
		r = -EPROTO;
	else if (may_use(c))
		r = answer(c, m);
	else
		r = client_reply_error(c, -EPERM,
				     "this agent serves another user: for all users of a machine, "
				     "run `rocemu agent --system` as root");
	agent_msg_close_fds(m);
	if (r)
		log_debug("client %u: %s", c->pid, strerror(-r));
	return r;
}

int client_resume(struct client *c)
{
	c->waits = false;
	if (server_recovering(c->server))
		return client_reply_error(
			c, -EBUSY,
			"RDMA processes of an earlier agent hold its sockets and do not "
			"answer (stopped, or in a debugger?): continue or end them");
	return answer(c, &c->pending);
}

void client_refuse(struct client *c, int err)
{
	struct agent_msg m;

	if (err == -ECONNRESET)
		return;
	log_info("client %u sent no proper message: %s", c->pid, strerror(-err));
	if (err == -EPROTO)
		agent_msg_set_error(
			&m, EPROTO,
			"the agent (process %d) is of another version of rocemu: end it, "
			"or wait until the programs that use it have ended",
			(int)getpid());
	else
		agent_msg_set_error(&m, EBADMSG, "malformed message");
	(void)client_reply(c, &m);
}
