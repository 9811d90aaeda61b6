/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of a GSI client's second socket: MADs in both directions, and exit MADs, which the agent
 * sends for a connection when the client's process ends. One struct of fixed size in host order,
 * since both ends are of one host and one version. None of these packets has an answer.
 */
#ifndef AGENT_GSI_FRAME_H
#define AGENT_GSI_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gsi.h"

#define GSI_FRAME_MAGIC 0x526f4302u /* "RoC", version 2 */

enum gsi_frame_type {
	GSI_FRAME_MAD = 1,     /* to be sent; received */
	GSI_FRAME_SENT,	       /* agent to client, if requested: the MAD as it was sent */
	GSI_FRAME_UNREACHABLE, /* agent to client: the request comm_id did not arrive: error */
	GSI_FRAME_EXIT_SET,    /* client to agent: exit MAD of comm_id, replaces an earlier one */
	GSI_FRAME_EXIT_CLEAR,  /* client to agent: comm_id has none any more */
};

struct gsi_frame {
	uint32_t magic;
	uint8_t type;	    /* enum gsi_frame_type */
	uint8_t echo;	    /* MAD to send: answer with SENT */
	uint8_t cm_timeout; /* EXIT_SET: of a DREQ, 5 bits: repeated every 4.096 us * 2^value, ...
			     */
	uint8_t retries;    /* ... so often, 4 bits, until DREP, REJ or DREQ comes */
	uint32_t comm_id;   /* EXIT_*, UNREACHABLE */
	int32_t error;	    /* UNREACHABLE: errno */
	struct gsi_mad m;   /* MAD, SENT, EXIT_SET */
};

/** Is f[0..len) a frame? */
static inline bool gsi_frame_ok(const struct gsi_frame *f, size_t len)
{
	return len == sizeof(*f) && f->magic == GSI_FRAME_MAGIC && f->type >= GSI_FRAME_MAD &&
	       f->type <= GSI_FRAME_EXIT_CLEAR && f->cm_timeout < 32 && f->retries < 16 &&
	       f->m.nflips <= GSI_FLIPS_MAX;
}

#endif
