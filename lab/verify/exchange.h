/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of an exchange of CM messages. */
#ifndef VERIFY_EXCHANGE_H
#define VERIFY_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/cm.h>

#include "base/hash.h"

enum cm_side { CM_ACTIVE, CM_PASSIVE, CM_SIDES };
enum { CM_ATTRS = ROCEMU_CM_APR - ROCEMU_CM_REQ + 1 };

/** A message, as its first copy was. */
struct cm_seen {
	uint64_t first_ns, number, tid;
	uint32_t digest;
	uint16_t count;
	bool anonymous; /* a REJ from a side without a communication ID */
};

struct cm_exchange {
	struct hash_node node;
	struct cm_exchange *later;
	struct rocemu_gid active, passive; /* sender and receiver of the (SIDR_)REQ */
	uint32_t active_id, passive_id; /* communication IDs; a SIDR exchange has one request ID */
	bool passive_known, sidr;
	enum rocemu_service svc;
	uint32_t qpn[CM_SIDES];
	uint32_t psn, mtu; /* that the REQ announced */
	struct cm_seen seen[CM_SIDES][CM_ATTRS];
};

#endif
