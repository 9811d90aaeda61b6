/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs on their way between the connection manager and the agent: captured, and harmed on purpose
 * when ROCEMU_IMPAIR says so. Guarded by rdmacm's lock.
 */
#ifndef RDMACM_MAD_H
#define RDMACM_MAD_H

#include "agent/client-gsi.h"
#include "cm/cm.h"

/** A MAD for the agent. */
struct gsi_mad mad_make(const struct cm_mad *m, uint32_t scope_id);

/** Send, now or when fault injection says so; m may be corrupted. Errors are losses. */
void mad_send(struct agent_gsi *client, rocemu_ns_t now, struct gsi_mad *m);
/** When the next MAD that was held back is due, or ROCEMU_NEVER. */
rocemu_ns_t mad_deadline(void);
/** Send those that are due. */
void mad_expire(struct agent_gsi *client, rocemu_ns_t now);

/** The agent sent it: capture it. */
void mad_sent(const struct gsi_mad *m);

/** A MAD came in: capture it. @return false: it is to be dropped: a rule says so, or the port is down
 * on purpose. */
bool mad_received(const struct gsi_mad *m, rocemu_ns_t now, struct cm_addr *addr);

/** In a forked child: begin anew. */
void mad_forget(void);

#endif
