/* SPDX-License-Identifier: BSD-2-Clause */
/* Starting the core. */
#ifndef RDMACM_START_H
#define RDMACM_START_H

#include "rdmacm/lock.h"

struct rcm_id;

/** As rcm_core_start(), with the files that the core calls. */
int rcm_start(struct rcm_id *id, uint64_t guid) REQUIRES(rcm_lock);

#endif
