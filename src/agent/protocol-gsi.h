/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of what the agent and clients of connection management tell each other: the bodies of
 * the GSI_* messages, called by protocol.c, and the frames of the second socket, on which datagrams
 * and wills travel. Integers in network order.
 */
#ifndef AGENT_PROTOCOL_CM_H
#define AGENT_PROTOCOL_CM_H

#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

enum {
	GSI_MSG_HDR_LEN = 8, /* of protocol.c, before each body */
	GSI_NUMBER_LEN = GSI_MSG_HDR_LEN + 2,
	GSI_KEY_LEN = GSI_MSG_HDR_LEN + 4,
	GSI_BIND_LEN = GSI_KEY_LEN + 32,
	GSI_DONE_LEN = GSI_MSG_HDR_LEN + 8,
	GSI_FROM_LEN = GSI_MSG_HDR_LEN + 6,
	GSI_PAGE_MIN_LEN = GSI_MSG_HDR_LEN + 14 + 8 * AGENT_GSI_COUNTER_COUNT,
};

/** Write the body of a GSI_* message; header and descriptors are protocol.c's. @return the whole
 * length. */
size_t gsi_msg_encode(const struct agent_msg *m, uint8_t *buf);

/** Read it; len is one that the type allows. @return 0, or -EBADMSG. */
int gsi_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m);

enum gsi_frame_type {
	GSI_FRAME_DGRAM = 1, /* either way */
	GSI_FRAME_EXIT,	    /* client to agent; without datagram: taken back */
	GSI_FRAME_UNREACHED, /* agent to client, without datagram */
};

enum { GSI_FRAME_HDR_LEN = 56, GSI_FRAME_MAX = GSI_FRAME_HDR_LEN + AGENT_GSI_DGRAM_LEN };

/** A packet of the second socket. */
struct gsi_frame {
	enum gsi_frame_type type;
	uint32_t comm_id;	 /* WILL; UNREACHED: of the request */
	uint16_t error;		 /* UNREACHED: errno */
	uint8_t cm_timeout;	 /* WILL: 5 bits, 4.096 us * 2^value */
	uint8_t retries;	 /* WILL: 4 bits */
	struct agent_gsi_dgram d; /* d.len: AGENT_GSI_DGRAM_LEN, or 0 in a WILL */
};

/** Write a frame to buf[0..GSI_FRAME_MAX). @return its length. */
size_t gsi_frame_encode(const struct gsi_frame *f, uint8_t *buf);

/** Read a frame; any bytes are safe. f->d.data points into buf. @return 0, or -EBADMSG. */
int gsi_frame_decode(const uint8_t *buf, size_t len, struct gsi_frame *f);

#endif
