/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet of QP 1: whether it is a MAD of communication management, whose it is by its IDs, and
 * the answer that the agent gives in the place of a process that is not there. Pure.
 *
 * Sources: IBTA vol. 1, 12.6 to 12.11 (messages), 12.10 (what an unexpected one is answered with),
 * 3.5.3 (general services).
 */
#ifndef AGENT_CM_MAD_H
#define AGENT_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

#include "agent/protocol.h"

enum cm_mad_verdict {
	CM_MAD_OK = 0,
	CM_MAD_FORM, /* no packet from QP 1 to QP 1 with one MAD of the class */
	CM_MAD_KEY,  /* wrong Q_Key or P_Key */
	CM_MAD_ICRC,
};

/**
 * Check a datagram and read its message. Sets d->ip_id to the identification with which the ICRC
 * fits; as a UDP socket does not show it, d->ip_id is taken for a guess only.
 */
enum cm_mad_verdict cm_mad_decode(struct agent_cm_dgram *d, struct rocemu_cm_msg *m);

/** A request that is routed by its service ID. @return false: *m is none (REQ, SIDR_REQ). */
bool cm_mad_service(const struct rocemu_cm_msg *m, uint64_t *service_id);

/** The ID its sender gave the exchange; 0: none. Of a SIDR_REP, whose only ID is the receiver's: 0.
 */
uint32_t cm_mad_sender_id(const struct rocemu_cm_msg *m);

/** The ID its receiver gave the exchange; 0: none. Of a REQ and a SIDR_REQ: 0. */
uint32_t cm_mad_receiver_id(const struct rocemu_cm_msg *m);

/**
 * What is answered when there is nobody whom the message is for. @return false: nothing (RTU, MRA,
 * REJ, DREP, APR, SIDR_REP).
 */
bool cm_mad_answer(const struct rocemu_cm_msg *m, struct rocemu_cm_msg *answer);

/** Make the packet of a message to buf, sealed for d's addresses and port; d->data is buf then. */
void cm_mad_build(struct agent_cm_dgram *d, const struct rocemu_cm_msg *m, uint32_t psn,
		  uint8_t buf[static AGENT_CM_DGRAM_LEN]);

/** Write the ICRC anew, for d's addresses and port. buf: the packet. */
void cm_mad_seal(const struct agent_cm_dgram *d, uint8_t buf[static AGENT_CM_DGRAM_LEN]);

#endif
