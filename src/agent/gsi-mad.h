/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet of QP 1: whether it is a MAD of communication management, whose it is by its IDs, and
 * the answer that the agent gives in the place of a process that is not there. Pure.
 *
 * Sources: IBTA vol. 1, 12.6 to 12.11 (messages), 12.10 (what an unexpected one is answered with),
 * 3.5.3 (general services).
 */
#ifndef AGENT_GSI_MAD_H
#define AGENT_GSI_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

#include "agent/protocol.h"

enum gsi_mad_verdict {
	GSI_MAD_OK = 0,
	GSI_MAD_FORM, /* no packet from QP 1 to QP 1 with one MAD of the class */
	GSI_MAD_KEY,  /* wrong Q_Key or P_Key */
	GSI_MAD_ICRC,
};

/**
 * Check a datagram and read its message. Sets d->ip_id to the identification with which the ICRC
 * fits; as a UDP socket does not show it, d->ip_id is taken for a guess only.
 */
enum gsi_mad_verdict gsi_mad_decode(struct agent_gsi_dgram *d, struct rocemu_cm_msg *m);

/** A request that is routed by its service ID. @return false: *m is none (REQ, SIDR_REQ). */
bool gsi_mad_service(const struct rocemu_cm_msg *m, uint64_t *service_id);

/** The ID its sender gave the exchange; 0: none. Of a SIDR_REP, whose only ID is the receiver's: 0.
 */
uint32_t gsi_mad_sender_id(const struct rocemu_cm_msg *m);

/** The ID its receiver gave the exchange; 0: none. Of a REQ and a SIDR_REQ: 0. */
uint32_t gsi_mad_receiver_id(const struct rocemu_cm_msg *m);

/**
 * What is answered when there is nobody whom the message is for. @return false: nothing (RTU, MRA,
 * REJ, DREP, APR, SIDR_REP).
 */
bool gsi_mad_answer(const struct rocemu_cm_msg *m, struct rocemu_cm_msg *answer);

/** Make the packet of a message to buf, sealed for d's addresses and port; d->data is buf then. */
void gsi_mad_build(struct agent_gsi_dgram *d, const struct rocemu_cm_msg *m, uint32_t psn,
		  uint8_t buf[static AGENT_GSI_DGRAM_LEN]);

/** Write the ICRC anew, for d's addresses and port. buf: the packet. */
void gsi_mad_seal(const struct agent_gsi_dgram *d, uint8_t buf[static AGENT_GSI_DGRAM_LEN]);

#endif
