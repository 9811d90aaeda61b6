/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps early packets: copies of requests that came before the expected one, until the gap before
 * them is filled. One slab per endpoint, a queue per QP.
 *
 * The slab's memory is mapped when a slot is first used, and released slots are used again first,
 * so that a network without loss costs nothing. A queue may hold twice as many slots as are free: a
 * QP alone gets two thirds of the slab, a window of 2.7 MiB, n of them 2/(2n+1) each. All queues of
 * a peer may hold four times as many: one that leaves gaps on thousands of QPs leaves a fifth to
 * others. Peers are counted in cells, by a hash of their addresses. A queue that has made no
 * progress for KEEP_STUCK_NS loses its packets when another needs room.
 */
#ifndef TRANSPORT_KEEP_H
#define TRANSPORT_KEEP_H

#include <rocemu/endpoint.h>

#include "base/list.h"
#include "base/share.h"

enum {
	KEEP_SLOTS = 1024,
	KEEP_SLOT_BYTES = (ROCEMU_MAX_PACKET + 63) / 64 * 64,
	/* PSNs beyond the expected one. READs take many: 16 of 64 KiB at an MTU of 256. */
	KEEP_AHEAD = 4096,
	/* Longer than a loss and its retransmission take. A slower peer retransmits all. */
	KEEP_STUCK_NS = 100 * 1000 * 1000,
};

struct keep_slot {
	struct list link; /* in keep_queue.slots by PSN, or in keep.free */
	uint32_t psn;
	uint32_t len;
};

struct keep {
	struct keep_slot *slots;  /* owned, KEEP_SLOTS */
	uint8_t *data;		  /* owned, KEEP_SLOT_BYTES per slot */
	uint32_t fresh;		  /* slots from here on were never used */
	uint32_t nfree;		  /* slots not in use, fresh ones included */
	uint32_t of[SHARE_CELLS]; /* slots in queues of the cell's peers */
	struct list free;	  /* of keep_slot.link, the last one used first */
	struct list holders; /* of keep_queue.link: queues with slots, the longest without progress
				first */
};

/** Of one QP. */
struct keep_queue {
	struct list slots; /* of keep_slot.link */
	struct list link;  /* in keep.holders while count != 0 */
	rocemu_ns_t since; /* the last progress */
	uint32_t count;
	uint8_t cell; /* of the peer; may change while count is 0 */
	/*
	 * The newest packet that was seen and is not kept (no room, or taken away): packets before
	 * it have to come again.
	 */
	bool lost;
	uint32_t lost_psn;
};

enum keep_result {
	KEEP_DONE,
	KEEP_DOUBLE, /* this PSN is kept already */
	KEEP_FULL,
};

/** -ENOMEM. */
int keep_init(struct keep *k);
void keep_fini(struct keep *k);

void keep_queue_init(struct keep_queue *q);
/** Keep a copy of a packet: its headers, and the rest up to the ICRC. psn is at most KEEP_AHEAD
 * beyond the expected one. */
enum keep_result keep_add(struct keep *k, struct keep_queue *q, rocemu_ns_t now, uint32_t psn,
			  const uint8_t *hdr, uint32_t hdr_len, const uint8_t *rest,
			  uint32_t rest_len);
/**
 * The packet with this PSN, which is expected next, or NULL. It leaves the queue; the caller
 * releases it with keep_give(). Packets before this PSN are dropped.
 */
struct keep_slot *keep_take(struct keep *k, struct keep_queue *q, rocemu_ns_t now, uint32_t psn);
void keep_give(struct keep *k, struct keep_slot *s);
const uint8_t *keep_data(const struct keep *k, const struct keep_slot *s);
/** Drop all packets of this queue. */
void keep_clear(struct keep *k, struct keep_queue *q);

/** Nothing is kept, and no loss is known. */
static inline bool keep_empty(const struct keep_queue *q)
{
	return !q->count && !q->lost;
}

#endif
