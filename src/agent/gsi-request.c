/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's answers to requests of clients of connection management: request.c hands them on. */
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

/* Whoever is still connected under a number that another connection shows the token of. */
static void drop_earlier(struct server *s, uint16_t number)
{
	struct gsi_client *m = s->gsi.members[number];

	if (m)
		client_close(m->conn);
	/* It is back, so it has not ended. */
	gsi_exits_recall(&s->gsi.exit_mads, number);
}

static int gsi_hello(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	struct agent_msg answer = {.type = AGENT_GSI_WELCOME};
	uint16_t number = m->u.gsi_number.number;
	int token, frames, r;

	if (c->slot || c->gsi)
		return -EPROTO;
	if (number && !gsi_is_token(&s->gsi, m->fds[0], number))
		return client_reply_error(c, -EBADMSG,
					"that number's token is not what was sent with it");
	if (number) {
		gsi_follows(&s->gsi);
		drop_earlier(s, number);
	}
	r = gsi_client_new(&s->gsi, c, number, &token, &frames);
	if (r == -ENOSPC)
		return client_reply_error(c, r,
					"all 1023 numbers of connection management are in use: end "
					"some RDMA processes");
	if (r)
		return client_reply_error(c, r, strerror(-r));
	answer.u.gsi_number.number = c->gsi->number;
	answer.fds[answer.nfds++] = frames;
	if (token >= 0)
		answer.fds[answer.nfds++] = token;
	r = client_reply(c, &answer);
	agent_msg_close_fds(&answer);
	return r;
}

static int gsi_open(struct client *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	char text[AGENT_TEXT_MAX];
	struct group *g;
	struct qp1 *q;
	int r = groups_need(&s->groups, &m->u.socket.addr, m->u.socket.scope_id, 0, &s->stash, &g,
			    text, sizeof(text));

	if (r)
		return client_reply_error(c, r, text);
	server_watch_group(s, g);
	q = g->user;
	if (!q)
		return client_reply_error(c, -ENOMEM, strerror(ENOMEM));
	if (!gsi_set_has(&q->members, c->gsi->number)) {
		gsi_set_add(&q->members, c->gsi->number);
		c->gsi->naddrs++;
	}
	return done(c, 0);
}

static int gsi_bind(struct client *c, const struct agent_msg *m)
{
	struct agent_gsi_bind b = m->u.gsi_bind.bind;
	int r = -ENOBUFS;

	if (c->gsi->nports < AGENT_GSI_BINDS_MAX)
		r = gsi_ports_bind(&c->server->gsi.ports, c->gsi->number, m->u.gsi_bind.key, &b,
				  &c->gsi->ports);
	if (r == -EADDRNOTAVAIL)
		return client_reply_error(c, r,
					"no port is free: all of net.ipv4.ip_local_port_range are "
					"in use");
	if (r)
		return client_reply_error(c, r, strerror(-r));
	c->gsi->nports++;
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
	return done(c, 0);
}

int client_gsi_request(struct client *c, const struct agent_msg *m)
{
	struct agent_msg answer;

	if (m->type == AGENT_GSI_STATUS) {
		answer = (struct agent_msg){.type = AGENT_GSI_STATUS_PAGE};
		gsi_status(&c->server->gsi, m->u.gsi_from.client, m->u.gsi_from.listener,
			  &answer.u.gsi_page);
		return client_reply(c, &answer);
	}
	if (m->type == AGENT_GSI_HELLO)
		return gsi_hello(c, m);
	if (!c->gsi)
		return -EPROTO;
	switch (m->type) {
	case AGENT_GSI_OPEN:
		return gsi_open(c, m);
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
