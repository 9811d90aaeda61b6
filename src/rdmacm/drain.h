/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays DISCONNECTED until completions are polled. */
#ifndef RDMACM_DRAIN_H
#define RDMACM_DRAIN_H

#include <stdbool.h>

#include "rdmacm/lock.h"

struct rcm_id;

/** The peer ends the connection: post DISCONNECTED when its completions were polled. @return false:
 * post it now. */
bool rcm_drain_begin(struct rcm_id *id) REQUIRES(rcm_lock);
/** Post DISCONNECTED now, if it waits. */
void rcm_drain_end(struct rcm_id *id) REQUIRES(rcm_lock);

#endif
