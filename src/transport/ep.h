/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint: tables of QPs and keys, the list of QPs that have something to send, the heap of
 * timers, the list of pending events, counters. It owns every object made on it. Protocol lives in
 * req/comp/resp/ud.
 */
#ifndef TRANSPORT_EP_H
#define TRANSPORT_EP_H

#include <rocemu/endpoint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/prf.h"
#include "base/rng.h"
#include "transport/keep.h"
#include "transport/mr.h"
#include "transport/qpn.h"
#include "transport/read-path.h"
#include "transport/timer.h"
#include "transport/xrc.h"
#include "wire/icrc.h"

enum {
	EP_DEFAULT_READ_BUDGET = 212992 / 2, /* half of a socket's receive buffer as Linux has it */
};

/** Something with pending events: embedded in CQ, QP and SRQ; on ep->events while pending != 0. */
struct event_src {
	struct list link;
	uint32_t pending; /* bits: defined by the owner */
	enum rocemu_event_type type;
};

/** Bits of a CQ's event_src. */
enum { CQ_PEND_COMP = 1u << 0, CQ_PEND_ERR = 1u << 1 };
/* Bits of a QP's and an SRQ's event_src: 1u << (enum ibv_event_type), all below 32. */

enum { EP_ID_SENDERS = 64 };

/** A sender of datagrams over IPv4; see drive.c. */
struct id_sender {
	struct rocemu_gid gid;
	uint16_t sport;
	uint8_t fits; /* bursts with IPv4 identification 0, in a row */
};

struct rocemu_ep {
	struct rocemu_ep_config cfg;
	bool traits_in_headers; /* cfg.traits change headers: see traits_put() */
	uint32_t slot;		/* UINT32_MAX: none yet */
	uint32_t nqps;
	struct rocemu_qp **qps; /* owned, QPN_COUNT entries by index; NULL without a slot */
	struct qpns *qpns;	/* owned; NULL without a slot */
	struct mr_table *mrs;	/* own_mrs, or another endpoint's: borrowed */
	struct mr_table own_mrs;
	struct rocemu_ep *home; /* the endpoint whose protection domains and keys these are; perhaps
				   this one */
	struct timer_heap timers;
	struct list tx_ready;	    /* of rocemu_qp.tx_link, round robin: they may have output */
	struct list tx_acks;	    /* of rocemu_qp.tx_link: had nothing but ACKs to send */
	struct list tx_pending;	    /* of qp_req.tx_pending_link: see req_tx_done() */
	struct list events;	    /* of event_src.link */
	struct list room_waiting;   /* of qp_req.peer_link: UC and UD requests that wait for
				       send_credits */
	uint64_t send_credits;	    /* see rocemu_ep_set_send_credits() */
	struct list read_waiting;   /* of qp_req.peer_link: QPs that wait for the READ budget */
	uint64_t read_out;	    /* bytes of READ responses requested and not received yet */
	struct read_path read_path; /* what the READ budget may be exceeded by */
	struct hash peers;	    /* of peer.node (see peer.h) */
	struct hash mcast_groups;   /* of mcast_group.node, by on_wire (see mcast.h) */
	struct hash mcast_members;  /* of mcast_member.node, by GID and QP */
	struct list pds, cqs, srqs, xrcds; /* every object, for rocemu_ep_free() */
	struct slot_table xrc_srqs;	   /* entries borrowed: they are in srqs */
	struct rocemu_ep_stats *stats;	   /* own_stats, or borrowed: rocemu_ep_count_in() */
	struct rocemu_ep_shown *shown;	   /* borrowed, or NULL: see show.h */
	/* Bits of the parts of *shown that are written. */
	uint64_t shown_parts[QPN_COUNT / ROCEMU_SHOWN_PART / 64];
	uint32_t objects[ROCEMU_OBJECT_COUNT];
	uint8_t *
		scratch; /* owned, ROCEMU_OUTPUT_BATCH * ROCEMU_MAX_MTU: copies of READ responses */
	struct keep keep;    /* early request packets of all QPs */
	rocemu_ns_t now;     /* of the last output call */
	struct prf prf;	     /* of keys and numbers */
	struct rng rnr_dice; /* of cfg.rnr_chance alone */
	struct icrc_memo icrc_sent, icrc_received;
	struct id_sender id_senders[EP_ID_SENDERS];
	struct rocemu_gid gids[ROCEMU_MAX_GID];
	bool gid_valid[ROCEMU_MAX_GID];
	struct rocemu_ep_stats own_stats;
};

struct rocemu_pd {
	struct rocemu_ep *ep; /* its home; borrowed */
	struct list link;     /* in ep->pds */
	uint32_t refs; /* MRs, memory windows, QPs, SRQs; atomic: those may be of several endpoints
			*/
};

static inline void pd_refer(struct rocemu_pd *pd, int by)
{
	__atomic_fetch_add(&pd->refs, (uint32_t)by, __ATOMIC_ACQ_REL);
}

/** The piece of scratch that belongs to descriptor i of the output call under way. */
static inline uint8_t *ep_scratch(struct rocemu_ep *ep, unsigned i)
{
	return ep->scratch + (size_t)i * ROCEMU_MAX_MTU;
}

void event_src_init(struct event_src *s, enum rocemu_event_type type);
/** Note an event; a second one of the same bit before it was taken is one event. */
void event_raise(struct rocemu_ep *ep, struct event_src *s, uint32_t bit);
/** Its object is another endpoint's from now on, to which its events go. */
void event_src_move(struct rocemu_ep *to, struct event_src *s);
/** Take the source out of the ring (its object goes away). */
void event_src_fini(struct event_src *s);

/** Index of the local GID, or -1. */
int ep_find_gid(const struct rocemu_ep *ep, const struct rocemu_gid *gid);

#endif
