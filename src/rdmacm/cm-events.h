/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts events of the connection manager to those of rdma_cm. */
#ifndef RDMACM_CM_EVENTS_H
#define RDMACM_CM_EVENTS_H

#include "rdmacm/lock.h"

struct rcm_id;
struct cm_event;

void rcm_cm_event(struct cm_event *ev) REQUIRES(rcm_lock);
/** The ID loses its path to the peer: report the end of its pending operations. */
void rcm_cm_abort(struct rcm_id *id, int status) REQUIRES(rcm_lock);

#endif
