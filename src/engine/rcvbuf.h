/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computes how much UC and UD may send, by the fill level of receive buffers. These services have
 * no acknowledgements, and a hardware fabric loses little; but an emulated sender fills a
 * receiver's socket buffer in less than a millisecond. When the receiver is on this host, the
 * kernel reports the fill level of its buffer, and the sender waits. Sending to other hosts is not
 * limited.
 *
 * The agent provides a copy of the receiver's socket. The lane's thread requests it
 * (rcvbuf-query.c), without the lane's lock, and only for receivers that were sent more than
 * RCVBUF_QUERY_AFTER bytes. Until the answer comes a receiver is sent RCVBUF_FIRST bytes at most,
 * for RCVBUF_TIMEOUT_NS.
 */
#ifndef ENGINE_RCVBUF_H
#define ENGINE_RCVBUF_H

#include <stdbool.h>
#include <stdint.h>

#include <rocemu/endpoint.h>

#define RCVBUF_RETRY_NS 50000u /* a full buffer is checked again after this long */
#define RCVBUF_TIMEOUT_NS                                                    \
	10000000u /* an agent that does not answer delays a sender no longer \
		   */
/* A receiver that is full and has read nothing for this long does not limit the sender. */
#define RCVBUF_STILL_NS 1000000000u

enum {
	RCVBUF_WAYS = 4,
	RCVBUF_BUCKETS = 64, /* of RCVBUF_WAYS receivers; beyond that, the least recently used one
				is dropped */
	RCVBUF_SOCKETS = 16, /* receivers whose buffers are checked */
	RCVBUF_WAITING = 8,  /* receivers whose sockets are to be requested */
	RCVBUF_QUERY_AFTER = 16 * 1024, /* bytes to a receiver before its socket is requested */
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
	RCVBUF_TO_QUERY, /* the socket is to be requested */
	RCVBUF_QUERIED,
	RCVBUF_KNOWN, /* fd is its socket, or -1: it is not on this host, or another user's */
};

struct rcvbuf_dest {
	struct rcvbuf_addr addr;
	enum rcvbuf_state state;
	int fd;		  /* copy of its receive socket, owned, or -1 */
	uint32_t sent;	  /* bytes, before it was known */
	rocemu_ns_t used; /* when it was sent to last */
	/* The buffer's fill level, and when that last changed, or there was room. */
	uint32_t filled;
	rocemu_ns_t filled_at;
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

/**
 * Bytes, as rocemu_ep_set_send_credits() counts them, that the fullest of the receivers in use can
 * take. One that stands still does not count: what is sent to it is lost.
 */
uint64_t rcvbuf_room(struct rcvbuf *p, rocemu_ns_t now);

/** UC and UD packets are being sent: count them. @return true: rcvbuf_next_query() has something
 * new. */
bool rcvbuf_sending(struct rcvbuf *p, uint32_t scope_id, rocemu_ns_t now,
		    struct rocemu_tx *const *pkt, unsigned n);

/** The next receiver whose socket is to be requested. @return false: there is none. */
bool rcvbuf_next_query(struct rcvbuf *p, struct rcvbuf_addr *addr);
/** The answer: fd is owned from then on, or -1: none, not to be requested again soon. */
void rcvbuf_set(struct rcvbuf *p, const struct rcvbuf_addr *addr, int fd);

#endif
