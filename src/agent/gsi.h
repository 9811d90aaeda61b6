/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 in the agent: routes the MADs of communication management to clients, sends for clients,
 * replies for absent ones, and sends exit MADs. The connection's state machine is in the client.
 *
 * Where a MAD goes:
 *
 *	REQ, SIDR_REQ    to the client that got it first, else to the listener of its service ID
 *	                 at its destination address; none: REJ or SIDR_REP
 *	REJ without an   to the client that got the REQ which it withdraws
 *	ID of this host
 *	all others       to the client whose number is the prefix of the receiver's ID; none:
 *	                 REP is rejected, DREQ and LAP are answered, the rest is dropped
 */
#ifndef AGENT_GSI_H
#define AGENT_GSI_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

#include "agent/gsi-early.h"
#include "agent/gsi-client.h"
#include "agent/gsi-ports.h"
#include "agent/gsi-reqs.h"
#include "agent/gsi-exit.h"
#include "agent/gsi-sources.h"
#include "agent/protocol.h"
#include "agent/qp1.h"
#include "agent/quota.h"
#include "agent/store.h"
#include "base/prf.h"

struct gsi {
	struct ev_loop *loop; /* borrowed */
	struct store *store;  /* borrowed: of a group the user is a struct qp1 */
	struct gsi_client *members[AGENT_GSI_CLIENTS];
	unsigned nmembers;
	uint16_t last_number;
	struct gsi_ports ports;
	struct gsi_reqs reqs;
	struct quotas quotas;
	struct gsi_exits exit_mads;
	ev_timer exit_timer;
	struct gsi_early early;
	ev_timer early_timer;
	uint64_t back_by_ms; /* see gsi_follows(); 0: no client of an earlier agent has come */
	void (*on_calm)(void *user); /* the last exit MAD is done */
	void (*on_end)(
		struct client *conn); /* a client's second socket has ended: gsi_end_client() */
	void (*on_watch)(void *user,
			 bool refused); /* as server_watch_again(), or as server_refused() */
	/* Set by gsi_init(): called by the clients' files. */
	void (*on_frame)(struct gsi *gsi, struct gsi_client *m, struct gsi_frame *f);
	void *user;
	bool leaving; /* clients continue, and register their exit MADs with the next agent */
	struct prf prf;
	struct gsi_sources sources;
	struct qp1_turns turns;
	uint64_t counters[AGENT_GSI_COUNTER_COUNT];
};

/** limited: users have quotas. */
void gsi_init(struct gsi *gsi, struct ev_loop *loop, struct store *store, bool limited);
/** After all connections were closed. */
void gsi_fini(struct gsi *gsi);
/** In a process that is no worker: free all, for no client has ended. */
void gsi_forget(struct gsi *gsi);

/** Start QP 1 of a group that has sockets. */
void gsi_watch(struct gsi *gsi, struct group *g);

/**
 * A client of an earlier agent is back. The others follow one by one: requests for those that are
 * not back yet are kept for a moment, once in the agent's life.
 */
void gsi_follows(struct gsi *gsi);

/** A client listens now: requests that came too early go to it. */
void gsi_listens(struct gsi *gsi);

/** A client has ended: read its last frames, release its bindings, send its exit MADs, free it. */
void gsi_end_client(struct gsi *gsi, struct gsi_client *m);

/** Are exit MADs being sent? Then the agent is not idle. */
static inline bool gsi_is_busy(const struct gsi *gsi)
{
	return gsi->exit_mads.due_count > 0;
}

#endif
