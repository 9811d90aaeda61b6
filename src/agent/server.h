/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent's worker: its state and loop. It accepts clients, answers them, and exits when idle.
 * One thread, a libev loop, no blocking calls except those to the holder. State that must outlive
 * it is in the store. Requests are in request.c and gsi-request.c, places and sockets in give.c,
 * the general services interface in gsi.c.
 */
#ifndef AGENT_SERVER_H
#define AGENT_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/give.h"
#include "agent/gsi.h"
#include "agent/holder.h"
#include "agent/protocol.h"
#include "agent/store.h"
#include "base/list.h"

struct server_config {
	struct agent_instance instance;
	double idle_timeout_s; /* exit after this time without a client; 0: never */
};

struct server {
	struct ev_loop *loop;
	struct agent_instance instance;
	struct server_config *config;
	struct store *store; /* borrowed; group.user: struct qp1 */
	struct gsi gsi;
	struct list clients; /* of struct client */
	unsigned nclients;
	int spare_fd; /* closed for a moment to refuse a client when out of descriptors */
	int signal_fd;
	int holder; /* the socket to it; -1: none */
	pid_t holder_pid;
	holder_work_fn *work;	      /* by which another holder starts workers: server_work() */
	void (*forget)(void *server); /* frees it, but not the store, in another holder */
	int exit_code;
	ev_io accept_watcher, signal_watcher, holder_watcher;
	bool refused;	      /* a watcher was stopped */
	ev_timer again_timer; /* retries failed watchers and accepts */
	ev_timer idle_timer;
	ev_timer sweep_timer; /* looks for unused groups; runs while there are groups */
};

/** A client's connection. */
struct client {
	struct list node;
	struct server *server;
	int fd;
	uint32_t pid, uid;	/* of the peer, from the kernel, at connect */
	uint16_t slot;		/* 0: none (yet) */
	struct gsi_client *gsi; /* owned; NULL: no GSI client */
	ev_io watcher;
};

/**
 * A holder_work_fn: serve until idle or until a signal ends it. user: struct server_config. @return
 * the exit code.
 */
int server_work(void *user, struct store *st, int holder);

/** change.c: change the store, here and in the holder. @return as store_apply(). */
int server_change(struct server *s, const struct store_change *c, const int *fds, unsigned n);

/** change.c: send a change to the holder only. @return as holder_update(). */
int server_update_holder(struct server *s, const struct store_change *c, const int *fds,
			 unsigned n);

/** change.c: start another holder when s->holder has died. */
void server_watch_holder(struct server *s);

/** conn.c: start or stop the idle timer, after which the agent exits. */
void server_update_idle(struct server *s);

/** conn.c: a watcher was added or stopped, which may have failed: check soon. */
void server_watch_again(struct server *s);
/** conn.c: a watcher got EV_ERROR: it was stopped for lack of memory, and is started again soon. */
void server_refused(struct server *s);

/** conn.c: close a connection; its place is free when the client's token is closed too. */
void client_close(struct client *c);

/** request.c: may the client use this agent? If not, it gets an error with the reason. */
bool client_is_welcome(struct client *c);

/** request.c: one message from a client. @return 0, or -errno: the connection is to be closed. */
int client_request(struct client *c, struct agent_msg *m);

/**
 * request.c: a message that could not be read; err: returned by agent_msg_recv(). Sends the reason
 * if possible.
 */
void client_refuse(struct client *c, int err);

/** conn.c: send a message to a client. @return 0, or -errno: the connection is to be closed. */
int client_reply(struct client *c, const struct agent_msg *m);
/** Send an ERROR; err is negative. */
int client_reply_error(struct client *c, int err, const char *text);

/** gsi-request.c: a GSI_* message. @return as client_request(). */
int client_gsi_request(struct client *c, const struct agent_msg *m);

#endif
