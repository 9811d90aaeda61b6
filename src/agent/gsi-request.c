/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers requests of clients of connection management, which request.c passes on. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/gsi.h"
#include "agent/server.h"
#include "agent/socket.h"

static int done(struct client *c, uint64_t value)
{
	struct agent_msg m = {.type = AGENT_GSI_DONE, .u.gsi_done.value = value};

	return client_reply(c, &m);
}

static int gsi_open(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	char text[AGENT_TEXT_MAX];
	struct group *g;
	struct qp1 *q;
	int r = give_group(s, &m->u.socket.addr, m->u.socket.scope_id, 0, c->uid, &g, text,
			   sizeof(text));

	if (r)
		return client_reply_error(c, r, text);
	q = g->user;
	if (!q)
		return client_reply_error(c, -ENOMEM, strerror(ENOMEM));
	if (!seat_set_has(&q->members, c->gsi->number)) {
		seat_set_add(&q->members, c->gsi->number);
		c->gsi->naddrs++;
	}
	return done(c, 0);
}

/* The sweep closes its sockets when no client uses it. */
static int gsi_close(struct client *c, const struct agent_msg *m)
{
	const struct group *g =
		groups_find(&c->server->store->groups, &m->u.socket.addr, m->u.socket.scope_id);
	struct qp1 *q = g ? g->user : NULL;

	if (q && seat_set_has(&q->members, c->gsi->number)) {
		seat_set_remove(&q->members, c->gsi->number);
		c->gsi->naddrs--;
	}
	return done(c, 0);
}

static int take_port(struct client *c, uint32_t key, struct agent_gsi_bind *b)
{
	struct gsi *gsi = &c->server->gsi;
	int r = -ENOBUFS;

	if (c->gsi->nports < AGENT_GSI_BINDS_MAX)
		r = gsi_ports_bind(&gsi->ports, c->gsi->number, c->uid, key, b, &c->gsi->ports);
	if (r)
		quota_release(&gsi->quotas, c->uid, QUOTA_PORTS, 1);
	else
		c->gsi->nports++;
	return r;
}

static int gsi_bind(struct client *c, const struct agent_msg *m)
{
	struct agent_gsi_bind b = m->u.gsi_bind.bind;
	int r = quota_take(&c->server->gsi.quotas, c->uid, QUOTA_PORTS);

	if (r == -ENOBUFS)
		return client_reply_error(c, r,
					  "the user has reached the limit of ports for one user: "
					  "end some RDMA processes");
	if (!r)
		r = take_port(c, m->u.gsi_bind.key, &b);
	if (r == -EADDRNOTAVAIL)
		return client_reply_error(
			c, r,
			"no port is free: all of net.ipv4.ip_local_port_range are "
			"in use");
	if (r)
		return client_reply_error(c, r, strerror(-r));
	return done(c, b.service_id);
}

static int gsi_listen(struct client *c, const struct agent_msg *m)
{
	int r = gsi_ports_listen(&c->server->gsi.ports, c->gsi->number, m->u.gsi_bind.key);

	if (r)
		return client_reply_error(c, r, strerror(-r));
	gsi_listens(&c->server->gsi);
	return done(c, 0);
}

static int gsi_unbind(struct client *c, const struct agent_msg *m)
{
	int r = gsi_ports_unbind(&c->server->gsi.ports, c->gsi->number, m->u.gsi_bind.key);

	if (r)
		return client_reply_error(c, r, strerror(-r));
	c->gsi->nports--;
	quota_release(&c->server->gsi.quotas, c->uid, QUOTA_PORTS, 1);
	return done(c, 0);
}

int client_gsi_request(struct client *c, const struct agent_msg *m)
{
	if (!c->gsi)
		return -EPROTO;
	switch (m->type) {
	case AGENT_GSI_OPEN:
		return gsi_open(c, m);
	case AGENT_GSI_CLOSE:
		return gsi_close(c, m);
	case AGENT_GSI_BIND:
		return gsi_bind(c, m);
	case AGENT_GSI_LISTEN:
		return gsi_listen(c, m);
	case AGENT_GSI_UNBIND:
		return gsi_unbind(c, m);
	default:
		return -EPROTO;
	}
}
