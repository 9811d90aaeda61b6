/* SPDX-License-Identifier: BSD-2-Clause */
/* What most tests of clients of connection management begin with: where clients are, and a peer
 * beyond the wire. */
#ifndef TEST_AGENT_GSI_SCENE_H
#define TEST_AGENT_GSI_SCENE_H

#include "gsi-peer.h"

extern struct rocemu_gid at, far; /* the clients' address, the peer's */
extern int wire;		  /* the peer's socket: wire_open() */

/** Have the wire, in the network namespace that was entered. */
void wire_up(void);
/** Enter a network namespace and have the wire. */
void enter(void);
void leave(void);

/** From a client to the peer. */
struct gsi_mail dreq(uint32_t ours, uint32_t theirs);

/** Returns when the agent has taken all that the client has sent so far: it answers in order. */
void fence(struct gsi_peer *p);

#endif
