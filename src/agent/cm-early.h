/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests (REQ, SIDR_REQ) for a port that somebody has bound and does not listen on yet: some
 * programs tell their client the port by TCP and listen a moment later (qperf). They are kept for a
 * moment: until it listens, or they are answered "no such service" after all. Pure: no sockets, the
 * time is an argument.
 */
#ifndef AGENT_CM_EARLY_H
#define AGENT_CM_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/protocol.h"
#include "base/list.h"

enum { CM_EARLY_MAX = 64, CM_EARLY_MS = 1000 };

struct cm_early {
	struct list kept; /* struct cm_early_req, by due_ms */
	unsigned n;
};

/** One of them, to be freed by whoever takes it. */
struct cm_early_req {
	struct list node;
	uint64_t due_ms; /* is answered then */
	struct agent_cm_dgram d;
	uint8_t data[AGENT_CM_DGRAM_LEN];
};

void cm_early_init(struct cm_early *e);
void cm_early_fini(struct cm_early *e);

/** Keep a copy of a datagram (of AGENT_CM_DGRAM_LEN bytes). @return false: there is no room. */
bool cm_early_add(struct cm_early *e, const struct agent_cm_dgram *d, uint64_t now_ms);

/** Put one back that was taken too soon. */
void cm_early_put_back(struct cm_early *e, struct cm_early_req *r);

/** Take the oldest. NULL: there is none. */
struct cm_early_req *cm_early_take(struct cm_early *e);

/** When the oldest is due, UINT64_MAX: there is none. */
uint64_t cm_early_next_ms(const struct cm_early *e);

#endif
