/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much UC and UD may send. These services have no acknowledgements, and a hardware fabric loses
 * little; but a sender of ours fills a receiver's socket buffer in less than a millisecond. When
 * the receiver is on this host, its buffer can be looked at, and the sender waits. Towards other
 * hosts nothing is known and nothing is held back.
 */
#ifndef ENGINE_PACE_H
#define ENGINE_PACE_H

#include <stdint.h>

#include <rocemu/endpoint.h>

struct agent_client;

#define PACE_RETRY_NS 50000u /* a full buffer is looked at again after this long */

enum {
	PACE_DESTS = 16, /* receivers remembered; of more, the one not used longest is forgotten */
	PACE_FIRST = 64 * 1024, /* room towards a receiver that is not known yet */
};

struct pace_dest {
	struct rocemu_gid gid;
	uint16_t slot;
	int fd; /* copy of its receive socket, owned; -1: not on this host */
	rocemu_ns_t used;
};

/** Guarded by the lane's lock. */
struct pace {
	unsigned n;
	struct pace_dest dest[PACE_DESTS];
};

void pace_fini(struct pace *p);

/** Bytes, as rocemu_ep_set_datagram_room() counts them, that the fullest of the receivers in use
 * can take. */
uint64_t pace_room(struct pace *p, rocemu_ns_t now);

/** UC and UD packets are being sent: remember to whom. Asks the agent for receivers not known yet.
 */
void pace_sending(struct pace *p, const struct agent_client *agent, uint32_t scope_id,
		  rocemu_ns_t now, struct rocemu_tx *const *pkt, unsigned n);

#endif
