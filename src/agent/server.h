/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's state and loop: accepts clients, hands out slots and sockets, leaves when nobody is
 * there. One thread, a libev loop, no blocking call. Requests are in request.c and gsi-request.c,
 * connection management is in gsi.c.
 */
#ifndef AGENT_SERVER_H
#define AGENT_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/gsi.h"
#include "agent/group.h"
#include "agent/protocol.h"
#include "agent/slots.h"
#include "agent/stash.h"
#include "base/list.h"

/* How long clients wait for somebody to hand over the stash of an agent that died. */
#define SERVER_RECOVERY_S 2.0

struct server_config {
	struct agent_realm realm;
	int listen_fd;	       /* owned by the server from then on; listening, non-blocking */
	double idle_timeout_s; /* leave when there was no client for so long; 0: never */
};

struct server {
	struct ev_loop *loop;
	struct agent_realm realm;
	double idle_timeout_s;
	double started;
	struct stash stash; /* both -1: not yet, an earlier agent's lives (recovering) */
	struct slots slots;
	struct groups groups; /* group.user: struct qp1 */
	struct gsi gsi;
	struct list conns; /* of conn */
	unsigned nconns;
	int spare_fd; /* given up for a moment to turn a client away when out of descriptors */
	double recovery_ends; /* loop time; while somebody waits */
	ev_io accept_watcher;
	ev_timer idle_timer;
	ev_timer recovery_timer; /* runs while somebody waits */
	ev_signal term, intr;
	int keeper; /* lifeline of a system-wide agent's keeper; -1: none */
	ev_io keeper_watcher;
};

/** A client's connection. */
struct client {
	struct list node;
	struct server *server;
	int fd;
	uint32_t pid, uid;	  /* as the kernel says, at connect */
	uint16_t slot;		  /* 0: none (yet) */
	struct gsi_client *gsi;	  /* owned; NULL: no client of connection management */
	bool waits;		  /* pending is to be answered when the stash has come */
	struct agent_msg pending; /* HELLO, SOCKET or GSI_OPEN */
	ev_io watcher;
};

/** Serve until idle or told to leave. @return 0 or -errno. */
int server_run(const struct server_config *config);

/** Close a connection; its slot is free when the client's token is closed too. */
void client_close(struct client *c);

/** Is an earlier agent's stash still to come? */
static inline bool server_recovering(const struct server *s)
{
	return s->stash.r < 0;
}

/** Answer everybody who waited. */
void server_recovered(struct server *s);

/** While recovering: begin with an empty stash if nobody has the earlier one any more. @return
 * done. */
bool server_try_anew(struct server *s);

/** request.c: one message from a client. @return 0, or -errno: the connection is to be closed. */
int client_request(struct client *c, struct agent_msg *m);

/** request.c: a message that could not be read, agent_msg_recv() having returned err. Says why if
 * it can. */
void client_refuse(struct client *c, int err);

/** request.c: answer what waited; the stash is there, or it has not come in time. */
int client_resume(struct client *c);

/** request.c: send a message to a client. @return 0, or -errno: the connection is to be closed. */
int client_reply(struct client *c, const struct agent_msg *m);
/** Send an ERROR; err is negative. */
int client_reply_error(struct client *c, int err, const char *text);

/** gsi-request.c: a GSI_* message. @return as client_request(). */
int client_gsi_request(struct client *c, const struct agent_msg *m);

/** Have QP 1 of a new group. */
void server_watch_group(struct server *s, struct group *g);

#endif
