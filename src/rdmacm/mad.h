/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures MADs between the connection manager and the agent, and injects faults into them
 * (ROCEMU_IMPAIR). Guarded by rdmacm's lock.
 */
#ifndef RDMACM_MAD_H
#define RDMACM_MAD_H

#include "agent/client-gsi.h"
#include "cm/cm.h"
#include "fault/impair.h"
#include "rdmacm/private.h"
#include "rdmacm/timer.h"

struct mad_state {
	bool ready;
	private_capture_fn *capture; /* NULL: no capture, or not rocemu's libibverbs */
	struct impair impair;
	struct impair_link port; /* goes down and up when the lanes' does */
	struct faults *faults;	 /* owned; NULL: no rules by packet */
	struct fault_total *total[FAULT_RULES];
	rocemu_ns_t last_due; /* when the last MAD leaves that must not be overtaken */
	unsigned nheld;	      /* MADs delayed by fault injection */
	unsigned unseen;      /* sent, and not yet captured: the agent has not returned them */
};

/** A MAD for the agent. */
struct gsi_mad mad_make(const struct cm_mad *m);

/** Send, now or delayed by fault injection, which may also corrupt m. Errors are losses. */
void mad_send(struct agent_gsi *client, rocemu_ns_t now, struct gsi_mad *m) REQUIRES(rcm_lock);

/** The agent sent it: capture it. */
void mad_sent(const struct gsi_mad *m);

/**
 * A MAD came in: capture it. @return false: drop it, because of a rule or because fault injection
 * has the port down.
 */
bool mad_received(const struct gsi_mad *m, rocemu_ns_t now, struct cm_addr *addr);

#endif
