/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much UC and UD may send. These services have no acknowledgements, and a hardware fabric loses
 * little; but a sender of ours fills a receiver's socket buffer in less than a millisecond. When
 * the receiver is on this host, the kernel tells how full its buffer is, and the sender waits.
 * Towards other hosts nothing is known and nothing is held back.
 *
 * The receiver's socket is the agent's to give. The lane's thread asks for it (rcvbuf-query.c),
 * without the lane's lock, and only for receivers that were sent more than a little; until the
 * answer comes a receiver is sent RCVBUF_FIRST bytes at most, for RCVBUF_TIMEOUT_NS.
 */
#ifndef ENGINE_RCVBUF_H
#define ENGINE_RCVBUF_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#define RCVBUF_RETRY_NS 50000u /* a full buffer is looked at again after this long */
#define RCVBUF_TIMEOUT_NS                                                       \
	10000000u /* an agent that does not answer holds nobody back for longer \
		   */

enum {
	RCVBUF_WAYS = 4,
	RCVBUF_BUCKETS =
		64, /* of RCVBUF_WAYS receivers; of more, the one not used longest is forgotten */
	RCVBUF_SOCKETS = 16,		/* receivers whose buffers are looked at */
	RCVBUF_WAITING = 8,		/* receivers that the agent is to be asked for */
	RCVBUF_QUERY_AFTER = 16 * 1024, /* bytes to a receiver before the agent is asked for it */
	RCVBUF_FIRST = 64 * 1024,	/* bytes to a receiver before the answer */
};

/** A receiver: a slot at an address. */
struct rcvbuf_addr {
	struct rocemu_gid gid;
	uint32_t scope_id;
	uint16_t slot;
};

enum rcvbuf_state {
	RCVBUF_FREE,
	RCVBUF_NEW,	 /* sent less than RCVBUF_QUERY_AFTER so far */
	RCVBUF_TO_QUERY, /* the agent is to be asked */
	RCVBUF_QUERIED,
	RCVBUF_KNOWN, /* fd is its socket, or -1: it is not on this host, or another user's */
};

struct rcvbuf_dest {
	struct rcvbuf_addr addr;
	enum rcvbuf_state state;
	int fd;		    /* copy of its receive socket, owned, or -1 */
	uint32_t sent;	    /* bytes, before it was known */
	rocemu_ns_t used;   /* when it was sent to last */
	rocemu_ns_t wanted; /* since when the answer is waited for */
};

/** Guarded by the lane's lock. */
struct rcvbuf {
	rocemu_ns_t used; /* of the receiver used last */
	unsigned nsockets, nwaiting;
	struct rcvbuf_dest *socket[RCVBUF_SOCKETS], *waiting[RCVBUF_WAITING];
	struct rcvbuf_dest dest[RCVBUF_BUCKETS][RCVBUF_WAYS];
};

void rcvbuf_fini(struct rcvbuf *p);

/** Bytes, as rocemu_ep_set_send_credits() counts them, that the fullest of the receivers in use
 * can take. */
uint64_t rcvbuf_room(const struct rcvbuf *p, rocemu_ns_t now);

/** UC and UD packets are being sent: count them. @return true: rcvbuf_next_query() has something
 * new. */
bool rcvbuf_sending(struct rcvbuf *p, uint32_t scope_id, rocemu_ns_t now,
		    struct rocemu_tx *const *pkt, unsigned n);

/** The next receiver to ask the agent for. @return false: there is none. */
bool rcvbuf_next_query(struct rcvbuf *p, struct rcvbuf_addr *addr);
/** The answer: fd is owned from then on, or -1: none, not to be asked for again soon. */
void rcvbuf_set(struct rcvbuf *p, const struct rcvbuf_addr *addr, int fd);

#endif
