/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves addresses to devices. */
#ifndef RDMACM_RESOLVE_H
#define RDMACM_RESOLVE_H

#include "rdmacm/lock.h"

struct rcm_id;
struct sockaddr;

/** rdma_bind_addr(). -errno. */
int rcm_bind(struct rcm_id *id, const struct sockaddr *sa) EXCLUDES(rcm_lock);
/** rdma_resolve_route(), without waiting. -errno. */
int rcm_resolve_route(struct rcm_id *id) EXCLUDES(rcm_lock);

#endif
