/* SPDX-License-Identifier: BSD-2-Clause */
/* Repeats requests after "no such service". */
#ifndef RDMACM_REJ_RETRY_H
#define RDMACM_REJ_RETRY_H

#include <rocemu/wire.h>
#include <stdbool.h>

#include "rdmacm/lock.h"

struct rcm_id;

/** Ports that have served this process; the oldest entry is replaced first. */
struct rcm_rej_retries {
	struct {
		struct rocemu_gid gid;
		uint16_t port;
		rocemu_ns_t when;
	} served[8];
	unsigned next;
};

/** The ID's peer has just served this process. */
void rcm_rej_retry_served(const struct rcm_id *id) REQUIRES(rcm_lock);
/**
 * The peer rejects with "no such service". @return true: the request is repeated later; false: the
 * rejection is reported to the program.
 */
bool rcm_rej_retry(struct rcm_id *id) REQUIRES(rcm_lock);

#endif
