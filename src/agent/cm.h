/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 in the agent: routes the MADs of communication management to the clients they are for, sends
 * for clients, answers for those that are not there, and executes wills. How a connection comes
 * about is no business of it: the state machine is the client's.
 *
 * Where a MAD goes:
 *
 *	REQ, SIDR_REQ    to the client that got it when it came first, else to who listens on its
 *			 service ID at its destination address; nobody: REJ or SIDR_REP
 *	REJ without an   to the client that got the REQ which it takes back
 *	ID of ours
 *	all others       to the client whose number is the prefix of the ID it names as the
 *			 receiver's; nobody: REP is rejected, DREQ and LAP are answered, the rest
 *			 is dropped
 */
#ifndef AGENT_CM_H
#define AGENT_CM_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

#include "agent/cm-early.h"
#include "agent/cm-member.h"
#include "agent/cm-ports.h"
#include "agent/cm-reqs.h"
#include "agent/cm-wills.h"
#include "agent/group.h"
#include "agent/protocol.h"
#include "agent/qp1.h"

struct cm {
	struct ev_loop *loop;		 /* borrowed */
	const struct agent_realm *realm; /* borrowed */
	struct groups *groups;		 /* borrowed: whose user is a struct qp1 */
	struct cm_member *members[AGENT_CM_CLIENTS];
	unsigned nmembers;
	uint16_t last_number;
	struct cm_ports ports;
	struct cm_reqs reqs;
	struct cm_wills wills;
	ev_timer will_timer;
	struct cm_early early;
	ev_timer early_timer;
	uint64_t back_by_ms; /* see cm_follows(); 0: no client of an earlier agent has come */
	void (*on_calm)(void *user); /* the last will is done */
	void *user;
	uint32_t psn; /* of what the agent sends itself */
	bool leaving; /* clients live on: their wills are the next agent's */
	uint64_t counters[AGENT_CM_COUNTER_COUNT];
};

void cm_init(struct cm *cm, struct ev_loop *loop, const struct agent_realm *realm,
	     struct groups *groups);
/** After all connections were closed. */
void cm_fini(struct cm *cm);

/** A datagram for QP 1 came; d->data is borrowed for the call. */
void cm_input(struct cm *cm, struct qp1 *q, struct agent_cm_dgram *d);

/** The network returned a datagram that q sent; error: an errno that says why. */
void cm_returned(struct cm *cm, struct qp1 *q, struct agent_cm_dgram *d, int error);

/**
 * A client of an earlier agent is back. The others come one by one: requests for those that are not back yet are kept
 * for a moment, once in the agent's life.
 */
void cm_follows(struct cm *cm);

/** A client listens now: requests that came too early go to it. */
void cm_listens(struct cm *cm);

/** A client's frame. */
void cm_frame(struct cm *cm, struct cm_member *m, const struct cm_frame *f);

/** cm_member_free(): give back what it has, execute its wills. */
void cm_member_gone(struct cm *cm, struct cm_member *m);

/** Is that descriptor that number's token? */
bool cm_is_token(const struct cm *cm, int token, uint16_t number);

/** Are wills under way? Then the agent is not idle. */
static inline bool cm_is_busy(const struct cm *cm)
{
	return cm->wills.due_count > 0;
}

/** One page of status, from the given client and listener on. */
void cm_status(const struct cm *cm, unsigned from_client, unsigned from_listener,
	       struct agent_cm_page *pg);

#endif
