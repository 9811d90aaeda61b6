/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are made again after "no such service". */
#ifndef RDMACM_REJ_RETRY_H
#define RDMACM_REJ_RETRY_H

#include <rocemu/wire.h>
#include <stdbool.h>

#include "rdmacm/lock.h"

struct rcm_id;

/** Ports that have served this process, the oldest replaced first. */
struct rcm_rej_retries {
	struct {
		struct rocemu_gid gid;
		uint16_t port;
		rocemu_ns_t when;
	} served[8];
	unsigned next;
};

/** The ID's peer has served us now. */
void rcm_rej_retry_served(const struct rcm_id *id) REQUIRES(rcm_lock);
/** The peer rejects: no such service. @return true: the request is made again later; false: the
 * program gets the rejection. */
bool rcm_rej_retry(struct rcm_id *id) REQUIRES(rcm_lock);

#endif
