/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a connection does not come about, or ends: a line at the log level "why" (base/why.h). */
#ifndef RDMACM_WHY_H
#define RDMACM_WHY_H

#include "rdmacm/id.h"

/** The program gets an event that is an error. */
void rcm_why_event(struct rcm_id *id, enum rdma_cm_event_type type, int status);

/** The peer has rejected the connection. */
void rcm_why_rejected(struct rcm_id *id, uint16_t reason);

#endif
