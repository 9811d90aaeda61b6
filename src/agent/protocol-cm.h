/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of what the agent and clients of connection management tell each other: the bodies of
 * the CM_* messages, called by protocol.c, and the frames of the second socket, on which datagrams
 * and wills travel. Integers in network order.
 */
#ifndef AGENT_PROTOCOL_CM_H
#define AGENT_PROTOCOL_CM_H

#include <stddef.h>
#include <stdint.h>

#include "agent/protocol.h"

enum {
	CM_MSG_HDR_LEN = 8, /* of protocol.c, before each body */
	CM_NUMBER_LEN = CM_MSG_HDR_LEN + 2,
	CM_KEY_LEN = CM_MSG_HDR_LEN + 4,
	CM_BIND_LEN = CM_KEY_LEN + 32,
	CM_DONE_LEN = CM_MSG_HDR_LEN + 8,
	CM_FROM_LEN = CM_MSG_HDR_LEN + 6,
	CM_PAGE_MIN_LEN = CM_MSG_HDR_LEN + 14 + 8 * AGENT_CM_COUNTER_COUNT,
};

/** Write the body of a CM_* message; header and descriptors are protocol.c's. @return the whole
 * length. */
size_t cm_msg_encode(const struct agent_msg *m, uint8_t *buf);

/** Read it; len is one that the type allows. @return 0, or -EBADMSG. */
int cm_msg_decode(const uint8_t *buf, size_t len, struct agent_msg *m);

enum cm_frame_type {
	CM_FRAME_DGRAM = 1, /* either way */
	CM_FRAME_WILL,	    /* client to agent; without datagram: taken back */
	CM_FRAME_UNREACHED, /* agent to client, without datagram */
};

enum { CM_FRAME_HDR_LEN = 56, CM_FRAME_MAX = CM_FRAME_HDR_LEN + AGENT_CM_DGRAM_LEN };

/** A packet of the second socket. */
struct cm_frame {
	enum cm_frame_type type;
	uint32_t comm_id;	 /* WILL; UNREACHED: of the request */
	uint16_t error;		 /* UNREACHED: errno */
	uint8_t cm_timeout;	 /* WILL: 5 bits, 4.096 us * 2^value */
	uint8_t retries;	 /* WILL: 4 bits */
	struct agent_cm_dgram d; /* d.len: AGENT_CM_DGRAM_LEN, or 0 in a WILL */
};

/** Write a frame to buf[0..CM_FRAME_MAX). @return its length. */
size_t cm_frame_encode(const struct cm_frame *f, uint8_t *buf);

/** Read a frame; any bytes are safe. f->d.data points into buf. @return 0, or -EBADMSG. */
int cm_frame_decode(const uint8_t *buf, size_t len, struct cm_frame *f);

#endif
