/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs as packets of QP 1, on the way between the connection manager and the agent: made and
 * sealed, taken apart, captured, and harmed on purpose when ROCEMU_IMPAIR says so. Guarded by
 * rdmacm's lock.
 */
#ifndef RDMACM_MAD_H
#define RDMACM_MAD_H

#include "agent/client-gsi.h"
#include "cm/cm.h"

/**
 * Make the packet of a MAD, which stands in packet then, and its addressing. to_keep: it is not
 * sent now, so it takes no PSN from those that are.
 */
void mad_seal(struct agent_gsi_dgram *d, uint8_t packet[AGENT_GSI_DGRAM_LEN], const struct cm_mad *m,
	      uint16_t sport, uint32_t scope_id, bool to_keep);

/** Capture and send, now or when chance says so. packet is d's data; may be corrupted. Errors are
 * losses. */
void mad_send(struct agent_gsi *client, rocemu_ns_t now, struct agent_gsi_dgram *d, uint8_t *packet);
/** When the next packet that was held back is due, or ROCEMU_NEVER. */
rocemu_ns_t mad_deadline(void);
/** Send those that are due. */
void mad_expire(struct agent_gsi *client, rocemu_ns_t now);

/** A packet that came in: capture it and find the MAD in it (borrowed from d). @return false: there
 * is none, or the port is down on purpose. */
bool mad_open(const struct agent_gsi_dgram *d, rocemu_ns_t now, struct cm_addr *addr,
	      const uint8_t **mad, size_t *len);

/** In a forked child: begin anew. */
void mad_forget(void);

#endif
