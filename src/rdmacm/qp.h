/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs of IDs. */
#ifndef RDMACM_QP_H
#define RDMACM_QP_H

#include "rdmacm/lock.h"

struct rcm_id;
struct rcm_event;

/** Move the ID's QP (if it has one) to RTR and RTS for its connection. */
int rcm_qp_connect(struct rcm_id *id) EXCLUDES(rcm_lock);
void rcm_qp_error(struct rcm_id *id) EXCLUDES(rcm_lock);
/** The same for on_take of the ID's events. */
void rcm_qp_error_on_take(struct rcm_event *ev) EXCLUDES(rcm_lock);

#endif
