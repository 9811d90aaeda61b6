/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a remote lane (address, slot): how many bytes may be in flight to it. Software peers
 * lose packets by overrunning a socket buffer that all QPs of a lane share, so the window is the
 * lane's, not the QP's.
 */
#ifndef TRANSPORT_PEER_H
#define TRANSPORT_PEER_H

#include "transport/cc.h"
#include "transport/ep.h"

struct peer {
	struct hash_node node; /* in ep->peers */
	struct list blocked;   /* of qp_req.peer_link: QPs that wait for the window */
	struct rocemu_gid gid;
	uint16_t slot;
	uint32_t refs;
	struct rocemu_ep *ep; /* borrowed */
	uint64_t inflight;    /* bytes charged */
	struct cc cc;	      /* how many may be */
	bool nearby; /* on this host: an unanswered packet waits for a thread, and is rarely lost */
	uint8_t goes_back; /* NAKs to answer by going back; then it is tried again whether it keeps
			    */
	uint8_t keeps;	   /* signs of go-back-N before it is assumed */
};

enum { PEER_GOES_BACK = 64, PEER_KEEPS = 4 };

/** A NAK came. Does the peer drop what comes early, so that all of it has to be sent again? */
static inline bool peer_wants_all(struct peer *p)
{
	if (!p->goes_back)
		return false;
	p->goes_back--;
	return true;
}

/** Only what was sent again was acknowledged: the peer had dropped what came early. */
static inline void peer_saw_drop(struct peer *p)
{
	if (p->keeps)
		p->keeps--;
	else
		p->goes_back = PEER_GOES_BACK;
}

/** More than what was sent again was acknowledged: the peer keeps what comes early. */
static inline void peer_saw_keep(struct peer *p)
{
	p->keeps = PEER_KEEPS;
	p->goes_back = 0;
}

/** The cell of an address in which its share of something bounded is counted (base/share.h). */
uint8_t peer_cell(const struct rocemu_ep *ep, const struct rocemu_gid *gid);
/** Find or make; -> ref. NULL: out of memory. */
struct peer *peer_get(struct rocemu_ep *ep, const struct rocemu_gid *gid, uint32_t dqpn);
void peer_put(struct peer *p);
/** A QP of this path MTU uses the lane: the largest one's full packet is the least window. */
void peer_use_mtu(struct peer *p, uint32_t mtu);

enum {
	/* What a packet costs a socket buffer on Linux beyond its payload, about. */
	PEER_COST_OVERHEAD = 512,
	PEER_COST_ROUND = 256, /* a power of two */
	PEER_WIDE_WINDOW = 512 << 10,
};

/** Bytes a packet is charged: its payload and what the kernel's buffers cost on top. */
static inline uint32_t peer_cost(uint32_t payload)
{
	return ((payload + PEER_COST_ROUND - 1) & ~(PEER_COST_ROUND - 1u)) + PEER_COST_OVERHEAD;
}

/** Is there room for cost bytes more? Not needed while nothing is in flight to the lane. */
static inline bool peer_may_send(const struct peer *p, uint64_t cost)
{
	return p->inflight + cost <= p->cc.cwnd;
}

/** Does the window take several messages of 64 KiB? */
static inline bool peer_is_wide(const struct peer *p)
{
	return p->cc.cwnd >= PEER_WIDE_WINDOW;
}

/**
 * Is there no room for cost bytes more of so short a message, though for a longer one there may be?
 * Messages of one QP share bursts because they wait for room. Where several QPs wait, all that
 * they have leaves in bursts, so the whole window is theirs.
 */
static inline bool peer_wants_longer(const struct peer *p, uint64_t cost, uint32_t length)
{
	return length < CC_LONG_MESSAGE && p->inflight + cost > p->cc.base_short_messages &&
	       !list_several(&p->blocked);
}

static inline void peer_on_send(struct peer *p, uint64_t cost)
{
	if (unlikely(!p->inflight))
		cc_on_idle(&p->cc, p->ep->now);
	p->inflight += cost;
}

/**
 * A QP waits for room: node is its req.peer_link. Only the first in the line may send, and it stays
 * there until it has sent.
 */
void peer_block(struct peer *p, struct list *node);
/** Wake the first in the line, if there is room. */
void peer_wake(struct peer *p);
/** peer_leave() of one that is in the line. */
void peer_leave_line(struct peer *p, struct list *node);

/** The QP has sent, or does not wait for room any more: it is the next one's turn. */
static inline void peer_leave(struct peer *p, struct list *node)
{
	if (unlikely(list_linked(node)))
		peer_leave_line(p, node);
}

/** cost bytes were acknowledged: window grows, blocked QPs are woken. */
void peer_on_ack(struct peer *p, rocemu_ns_t now, uint64_t cost);
/** The time from a packet to its acknowledgement; both were sent only once (Karn's rule). */
void peer_on_rtt(struct peer *p, rocemu_ns_t now, rocemu_ns_t rtt);
/**
 * Bytes given up without acknowledgement: QP stopped, going back, or silent while others of the
 * lane get answers (peer_heard_since()), whose window they must not use up. They are not released
 * again.
 */
void peer_on_forget(struct peer *p, uint64_t cost);
/** Was anything of this lane acknowledged after then? */
bool peer_heard_since(const struct peer *p, rocemu_ns_t then);
/** A congestion notification packet came for one of the peer's QPs. */
void peer_on_cnp(struct peer *p, rocemu_ns_t now);
/** A packet was lost, see cc_on_loss(): a burst lost by many QPs counts once. */
void peer_on_loss(struct peer *p, rocemu_ns_t now);

#endif
