/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much UC and UD may send. These services have no acknowledgements, and a hardware fabric loses
 * little; but a sender of ours fills a receiver's socket buffer in less than a millisecond. When
 * the receiver is on this host, the kernel tells how full its buffer is, and the sender waits.
 * Towards other hosts nothing is known and nothing is held back.
 *
 * The receiver's socket is the agent's to give. The lane's thread asks for it (pace-ask.c), without
 * the lane's lock, and only for receivers that were sent more than a little; until the answer comes
 * a receiver is sent PACE_FIRST bytes at most, for PACE_PATIENCE_NS.
 */
#ifndef ENGINE_PACE_H
#define ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#define PACE_RETRY_NS 50000u /* a full buffer is looked at again after this long */
#define PACE_PATIENCE_NS                                                        \
	10000000u /* an agent that does not answer holds nobody back for longer \
		   */

enum {
	PACE_WAYS = 4,
	PACE_BUCKETS =
		64, /* of PACE_WAYS receivers; of more, the one not used longest is forgotten */
	PACE_SOCKETS = 16,	/* receivers whose buffers are looked at */
	PACE_WAITING = 8,	/* receivers that the agent is to be asked for */
	PACE_ASK = 16 * 1024,	/* bytes to a receiver before the agent is asked for it */
	PACE_FIRST = 64 * 1024, /* bytes to a receiver before the answer */
};

/** A receiver: a slot at an address. */
struct pace_who {
	struct rocemu_gid gid;
	uint32_t scope_id;
	uint16_t slot;
};

enum pace_state {
	PACE_FREE,
	PACE_NEW,    /* sent less than PACE_ASK so far */
	PACE_WANTED, /* the agent is to be asked */
	PACE_ASKED,
	PACE_KNOWN, /* fd is its socket, or -1: it is not on this host, or another user's */
};

struct pace_dest {
	struct pace_who who;
	enum pace_state state;
	int fd;		    /* copy of its receive socket, owned, or -1 */
	uint32_t sent;	    /* bytes, before it was known */
	rocemu_ns_t used;   /* when it was sent to last */
	rocemu_ns_t wanted; /* since when the answer is waited for */
};

/** Guarded by the lane's lock. */
struct pace {
	rocemu_ns_t used; /* of the receiver used last */
	unsigned nsockets, nwaiting;
	struct pace_dest *socket[PACE_SOCKETS], *waiting[PACE_WAITING];
	struct pace_dest dest[PACE_BUCKETS][PACE_WAYS];
};

void pace_fini(struct pace *p);

/** Bytes, as rocemu_ep_set_datagram_room() counts them, that the fullest of the receivers in use
 * can take. */
uint64_t pace_room(const struct pace *p, rocemu_ns_t now);

/** UC and UD packets are being sent: count them. @return true: pace_want() has something new. */
bool pace_sending(struct pace *p, uint32_t scope_id, rocemu_ns_t now, struct rocemu_tx *const *pkt,
		  unsigned n);

/** The next receiver to ask the agent for. @return false: there is none. */
bool pace_want(struct pace *p, struct pace_who *who);
/** The answer: fd is owned from then on, or -1: none, not to be asked for again soon. */
void pace_known(struct pace *p, const struct pace_who *who, int fd);

#endif
