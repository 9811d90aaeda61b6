/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of the bodies of the GSI_* messages, called by protocol.c. Integers in network order. The
 * second socket's: gsi-frame.h.
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

#endif
