/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups. */
#ifndef RDMACM_MCAST_H
#define RDMACM_MCAST_H

#include "rdmacm/lock.h"

struct rcm_id;

/** The ID's QP is being destroyed: detach it from its groups. */
void rcm_groups_detach(struct rcm_id *id) EXCLUDES(rcm_lock);
/** Leave all groups. */
void rcm_groups_leave(struct rcm_id *id) EXCLUDES(rcm_lock);

#endif
