/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routing of a MAD of communication management: by its IDs, and the agent's reply for a client that
 * is absent. Pure.
 *
 * Sources: IBTA vol. 1, 12.6 to 12.11 (messages), 12.10 (replies to unexpected ones).
 */
#ifndef AGENT_GSI_MAD_H
#define AGENT_GSI_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

/** A request that is routed by its service ID. @return false: *m is none (REQ, SIDR_REQ). */
bool gsi_mad_service(const struct rocemu_cm_msg *m, uint64_t *service_id);

/** The ID its sender gave the exchange; 0: none. Of a SIDR_REP, whose only ID is the receiver's: 0.
 */
uint32_t gsi_mad_sender_id(const struct rocemu_cm_msg *m);

/** The ID its receiver gave the exchange; 0: none. Of a REQ and a SIDR_REQ: 0. */
uint32_t gsi_mad_receiver_id(const struct rocemu_cm_msg *m);

/** The number that it gives its sender's QP; 0: none. */
uint32_t gsi_mad_sender_qpn(const struct rocemu_cm_msg *m);

/** The reply for an absent client. @return false: none (RTU, MRA, REJ, DREP, APR, SIDR_REP). */
bool gsi_mad_answer(const struct rocemu_cm_msg *m, struct rocemu_cm_msg *answer);

#endif
