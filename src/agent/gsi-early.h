/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps early requests (REQ, SIDR_REQ): for a port that is bound, but without a listener yet. Some
 * programs send their port to the client by TCP and listen a moment later (qperf). A request is
 * kept until the port has a listener, or is answered "no such service" after a short time. Pure: no
 * sockets, the time is an argument.
 */
#ifndef AGENT_GSI_EARLY_H
#define AGENT_GSI_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/share.h"
#include "wire/gsi.h"

/* Of one source; of all twice as many. */
enum { GSI_EARLY_MAX = 64, GSI_EARLY_MS = 1000 };

struct gsi_early {
	struct list kept; /* struct gsi_early_req, by due_ms */
	struct share shares;
};

/** One of them. */
struct gsi_early_req {
	struct list node;
	uint64_t due_ms; /* when it is answered */
	unsigned cell;	 /* of its source, in shares */
	struct gsi_mad d;
};

void gsi_early_init(struct gsi_early *e);
void gsi_early_fini(struct gsi_early *e);

/** Keep a copy; cell: of its source. @return false: there is no room. */
bool gsi_early_add(struct gsi_early *e, const struct gsi_mad *d, unsigned cell, uint64_t now_ms);

/** The oldest. NULL: there is none. */
struct gsi_early_req *gsi_early_first(const struct gsi_early *e);

/** Forget one. */
void gsi_early_drop(struct gsi_early *e, struct gsi_early_req *r);

/** When the oldest is due, UINT64_MAX: there is none. */
uint64_t gsi_early_next_ms(const struct gsi_early *e);

#endif
