/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers clients' requests. The result of any request is a message to the client or the end of its
 * connection, without effect on other clients.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/link.h"
#include "agent/server.h"
#include "agent/socket.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/util.h"

bool client_is_welcome(struct client *c)
{
	struct server *s = c->server;
	unsigned n = 0;

	if (!s->instance.system && c->uid != geteuid() && c->uid != 0) {
		(void)client_reply_error(
			c, -EPERM,
			"this agent serves another user: for all users of a machine, "
			"run `rocemu agent --system` as root");
		return false;
	}
	list_for_each_entry (other, const struct client, node, &s->clients)
		n += other->uid == c->uid;
	if (n < QUOTA_CLIENTS || !give_is_limited(s, c->uid))
		return true;
	(void)client_reply_error(c, -ENOSPC,
				 "the user has reached the limit of connections to the agent: end "
				 "some RDMA processes");
	return false;
}

/*
 * A place has a new owner, or its owner has a new connection: close an older connection that still
 * claims it.
 */
static void drop_others(struct client *c, enum agent_kind kind, unsigned place)
{
	struct gsi_client *m = c->server->gsi.members[place];

	if (kind == AGENT_GSI && m)
		client_close(m->conn);
	list_for_each_entry (other, struct client, node, &c->server->clients) {
		if (kind == AGENT_LANE && other != c && other->slot == place)
			client_close(other);
	}
}

/* The place is the client's; token: sent with the answer, or -1. */
static int welcome(struct client *c, enum agent_kind kind, unsigned place, uint16_t first_index,
		   int token)
{
	struct agent_msg m = {.type = AGENT_WELCOME};
	int r = 0, frames;

	m.u.welcome.kind = kind;
	m.u.welcome.place = (uint16_t)place;
	m.u.welcome.first_index = first_index;
	drop_others(c, kind, place);
	if (kind == AGENT_LANE) {
		c->slot = (uint16_t)place;
	} else {
		/* The client is back, so it has not ended. */
		gsi_exits_recall(&c->server->gsi.exit_mads, (uint16_t)place);
		r = gsi_client_new(&c->server->gsi, c, (uint16_t)place, &frames);
		if (!r) {
			c->gsi = c->server->gsi.members[place];
			m.fds[m.nfds++] = frames;
		}
	}
	if (token >= 0)
		m.fds[m.nfds++] = token;
	r = r ? client_reply_error(c, r, strerror(-r)) : client_reply(c, &m);
	/* From here the client alone holds them. */
	agent_msg_close_fds(&m);
	log_debug("client %u of user %u: kind %u, place %u", c->pid, c->uid, kind, place);
	return r;
}

static int take_place(struct client *c, enum agent_kind kind, unsigned wanted)
{
	char text[AGENT_TEXT_MAX];
	uint16_t first_index;
	int token, place = give_place(c->server, kind, c->uid, wanted, &token, &first_index, text,
				      sizeof(text));

	if (place < 0)
		return client_reply_error(c, place, text);
	return welcome(c, kind, (unsigned)place, first_index, token);
}

static int rejoin(struct client *c, const struct agent_msg *m)
{
	enum agent_kind kind = (enum agent_kind)m->u.rejoin.kind;
	struct seats *seats = &c->server->store->seats[kind];
	unsigned place = m->u.rejoin.place;

	gsi_follows(&c->server->gsi);
	if (seats_prove(seats, place, m->u.rejoin.nonce))
		return welcome(c, kind, place, seats->seat[place].next_index, -1);
	return take_place(c, kind, place);
}

static int give_socket(struct client *c, const struct agent_msg *m)
{
	struct agent_msg answer = {.type = AGENT_SOCKET_IS, .nfds = 1};
	char text[AGENT_TEXT_MAX];
	struct group *g;
	int r = give_group(c->server, &m->u.socket.addr, m->u.socket.scope_id, c->slot, c->uid, &g,
			   text, sizeof(text));

	if (r)
		return client_reply_error(c, r, text);
	answer.fds[0] = g->places[group_place(g, c->slot)].fd;
	return client_reply(c, &answer);
}

/* PEER: a client may read the state of another slot's buffer if it is the same user's. */
static int give_peer(struct client *c, const struct agent_msg *m)
{
	struct agent_msg answer = {.type = AGENT_SOCKET_IS, .nfds = 1};
	struct store *st = c->server->store;
	unsigned slot = m->u.socket.slot;
	const struct group *g = groups_find(&st->groups, &m->u.socket.addr, m->u.socket.scope_id);
	int place = g ? group_place(g, slot) : -1;

	if (place < 0 || !seat_set_has(&g->slots, slot))
		return client_reply_error(c, -ENOENT, "no socket of that address and slot");
	if (c->uid != 0 && c->uid != st->seats[AGENT_LANE].seat[slot].uid)
		return client_reply_error(c, -EPERM, "another user's socket");
	answer.fds[0] = g->places[place].fd;
	return client_reply(c, &answer);
}

#define PUT(f, ...) fwrite(&(__VA_ARGS__), sizeof(__VA_ARGS__), 1, f)

/* The GSI client with a number, if there is one and c may see it. */
static const struct gsi_client *visible(const struct client *c, unsigned number)
{
	const struct gsi_client *m = c->server->gsi.members[number];

	return m && give_may_see(c->server, c->uid, m->conn->uid) ? m : NULL;
}

static void write_gsi_status(const struct client *c, struct agent_status_head *h, FILE *f)
{
	const struct gsi *gsi = &c->server->gsi;
	const struct gsi_client *m;

	for (unsigned i = 1; i < AGENT_SEATS; i++) {
		if (!(m = visible(c, i)))
			continue;
		h->ngsi_clients++;
		PUT(f, (struct agent_gsi_client_info){.pid = m->conn->pid,
						      .uid = m->conn->uid,
						      .number = m->number,
						      .addrs = (uint16_t)m->naddrs,
						      .binds = m->nports,
						      .exit_mads = m->nexits,
						      .queued = m->queued,
						      .delivered = m->delivered,
						      .dropped = m->dropped});
	}
	for (unsigned i = 1; i < AGENT_SEATS; i++) {
		if (!(m = visible(c, i)))
			continue;
		list_for_each_entry (p, const struct gsi_port, of_client, &m->ports) {
			if (!p->listens)
				continue;
			h->nlisteners++;
			PUT(f, (struct agent_gsi_listener_info){p->bind, p->number, 0});
		}
	}
	h->other_gsi_clients = gsi->nmembers - h->ngsi_clients;
	h->other_listeners = gsi->ports.listeners - h->nlisteners;
	h->lingering = gsi->exit_mads.due_count;
	memcpy(h->counters, gsi->counters, sizeof(h->counters));
}

static void write_status(const struct client *c, FILE *f)
{
	const struct server *s = c->server;
	struct agent_status_head h = {.uptime_ms = link_now_ms() - s->store->started_ms,
				      .pid = (uint32_t)getpid(),
				      .uid = geteuid(),
				      .system = s->instance.system,
				      .holder = (uint32_t)s->holder_pid};

	PUT(f, h);
	list_for_each_entry (g, const struct group, node, &s->store->groups.all) {
		h.naddrs++;
		PUT(f, (struct agent_addr_info){.addr = g->addr,
						.scope_id = g->scope_id,
						.sockets = g->count,
						.dropped = g->dropped});
	}
	write_gsi_status(c, &h, f);
	list_for_each_entry (o, const struct client, node, &s->clients) {
		if (!o->slot)
			continue;
		if (!give_may_see(s, c->uid, o->uid)) {
			h.other_clients++;
			continue;
		}
		h.nclients++;
		PUT(f, (struct agent_client_info){.pid = o->pid, .uid = o->uid, .slot = o->slot});
	}
	rewind(f);
	PUT(f, h);
}

static int give_status(struct client *c)
{
	struct agent_msg answer = {.type = AGENT_STATUS_IS, .nfds = 1};
	int fd = memfile_or_temporary("rocemu-status", MFD_CLOEXEC), r;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		r = client_reply_error(c, -errno, "the agent is short of memory or descriptors");
		if (fd >= 0)
			close(fd);
		return r;
	}
	answer.fds[0] = fd;
	write_status(c, f);
	r = fflush(f) || ferror(f) ? client_reply_error(c, -ENOMEM, "the agent is short of memory")
				   : client_reply(c, &answer);
	fclose(f);
	return r;
}

/* Not when the client has closed its token: the place may be another one's at any time. */
static bool holds_place(const struct client *c)
{
	const struct seats *seats = c->server->store->seats;

	return c->gsi ? seats_is_used(&seats[AGENT_GSI], c->gsi->number)
		      : c->slot && seats_is_used(&seats[AGENT_LANE], c->slot);
}

static int answer(struct client *c, const struct agent_msg *m)
{
	bool placed = c->slot || c->gsi;

	switch (m->type) {
	case AGENT_HELLO:
		return placed ? -EPROTO : take_place(c, (enum agent_kind)m->u.hello.kind, 0);
	case AGENT_REJOIN:
		return placed ? -EPROTO : rejoin(c, m);
	case AGENT_SOCKET:
		return c->slot && holds_place(c) ? give_socket(c, m) : -EPROTO;
	case AGENT_PEER:
		return give_peer(c, m);
	case AGENT_STATUS:
		return give_status(c);
	default:
		return holds_place(c) ? client_gsi_request(c, m) : -EPROTO;
	}
}

int client_request(struct client *c, struct agent_msg *m)
{
	int r = answer(c, m);

	agent_msg_close_fds(m);
	if (r)
		log_debug("client %u: %s", c->pid, strerror(-r));
	return r;
}

void client_refuse(struct client *c, int err)
{
	struct agent_msg m;

	if (err == -ECONNRESET)
		return;
	log_info("client %u sent an invalid message: %s", c->pid, strerror(-err));
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
