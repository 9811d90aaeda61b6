/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent's answers to requests of clients of connection management: request.c hands them on. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/cm.h"
#include "agent/server.h"
#include "agent/socket.h"

static int done(struct conn *c, uint64_t value)
{
	struct agent_msg m = {.type = AGENT_CM_DONE, .u.cm_done.value = value};

	return conn_reply(c, &m);
}

/* Whoever is still connected under a number that another connection shows the token of. */
static void drop_earlier(struct server *s, uint16_t number)
{
	struct cm_member *m = s->cm.members[number];

	if (m)
		conn_close(m->conn);
	/* It is back, so it has not ended. */
	cm_wills_recall(&s->cm.wills, number);
}

static int cm_hello(struct conn *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	struct agent_msg answer = {.type = AGENT_CM_WELCOME};
	uint16_t number = m->u.cm_number.number;
	int token, frames, r;

	if (c->slot || c->cm)
		return -EPROTO;
	if (number && !cm_is_token(&s->cm, m->fds[0], number))
		return conn_reply_error(c, -EBADMSG,
					"that number's token is not what was sent with it");
	if (number) {
		cm_follows(&s->cm);
		drop_earlier(s, number);
	}
	r = cm_member_new(&s->cm, c, number, &token, &frames);
	if (r == -ENOSPC)
		return conn_reply_error(c, r,
					"all 1023 numbers of connection management are in use: end "
					"some RDMA processes");
	if (r)
		return conn_reply_error(c, r, strerror(-r));
	answer.u.cm_number.number = c->cm->number;
	answer.fds[answer.nfds++] = frames;
	if (token >= 0)
		answer.fds[answer.nfds++] = token;
	r = conn_reply(c, &answer);
	agent_msg_close_fds(&answer);
	return r;
}

static int cm_open(struct conn *c, const struct agent_msg *m)
{
	struct server *s = c->server;
	char text[AGENT_TEXT_MAX];
	struct group *g;
	struct qp1 *q;
	int r = groups_need(&s->groups, &m->u.socket.addr, m->u.socket.scope_id, 0, &s->stash, &g,
			    text, sizeof(text));

	if (r)
		return conn_reply_error(c, r, text);
	server_watch_group(s, g);
	q = g->user;
	if (!q)
		return conn_reply_error(c, -ENOMEM, strerror(ENOMEM));
	if (!cm_set_has(&q->members, c->cm->number)) {
		cm_set_add(&q->members, c->cm->number);
		c->cm->naddrs++;
	}
	return done(c, q->sport);
}

static int cm_bind(struct conn *c, const struct agent_msg *m)
{
	struct agent_cm_bind b = m->u.cm_bind.bind;
	int r = -ENOBUFS;

	if (c->cm->nports < AGENT_CM_BINDS_MAX)
		r = cm_ports_bind(&c->server->cm.ports, c->cm->number, m->u.cm_bind.key, &b,
				  &c->cm->ports);
	if (r == -EADDRNOTAVAIL)
		return conn_reply_error(c, r,
					"no port is free: all of net.ipv4.ip_local_port_range are "
					"in use");
	if (r)
		return conn_reply_error(c, r, strerror(-r));
	c->cm->nports++;
	return done(c, b.service_id);
}

static int cm_listen(struct conn *c, const struct agent_msg *m)
{
	int r = cm_ports_listen(&c->server->cm.ports, c->cm->number, m->u.cm_bind.key);

	if (r)
		return conn_reply_error(c, r, strerror(-r));
	cm_listens(&c->server->cm);
	return done(c, 0);
}

static int cm_unbind(struct conn *c, const struct agent_msg *m)
{
	int r = cm_ports_unbind(&c->server->cm.ports, c->cm->number, m->u.cm_bind.key);

	if (r)
		return conn_reply_error(c, r, strerror(-r));
	c->cm->nports--;
	return done(c, 0);
}

int conn_cm_request(struct conn *c, const struct agent_msg *m)
{
	struct agent_msg answer;

	if (m->type == AGENT_CM_STATUS) {
		answer = (struct agent_msg){.type = AGENT_CM_STATUS_PAGE};
		cm_status(&c->server->cm, m->u.cm_from.client, m->u.cm_from.listener,
			  &answer.u.cm_page);
		return conn_reply(c, &answer);
	}
	if (m->type == AGENT_CM_HELLO)
		return cm_hello(c, m);
	if (!c->cm)
		return -EPROTO;
	switch (m->type) {
	case AGENT_CM_OPEN:
		return cm_open(c, m);
	case AGENT_CM_BIND:
		return cm_bind(c, m);
	case AGENT_CM_LISTEN:
		return cm_listen(c, m);
	case AGENT_CM_UNBIND:
		return cm_unbind(c, m);
	default:
		return -EPROTO;
	}
}
