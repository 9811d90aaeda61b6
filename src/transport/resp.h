/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder: executes request packets (RC, UC, UD) and makes the responses (RC). Files: resp.c (RC:
 * PSN, duplicates, protocol violations), resp-early.c (early packets), resp-exec.c (SEND, WRITE),
 * resp-read.c (READ and atomics, new and repeated), resp-out.c (ACKs, NAKs, READ and atomic
 * responses), resp-uc.c, resp-ud.c. Shared declarations are in resp-int.h.
 */
#ifndef TRANSPORT_RESP_H
#define TRANSPORT_RESP_H

#include <rocemu/endpoint.h>

#include "transport/keep.h"
#include "transport/rq.h"

struct resp_job;
struct resp_replay;

enum { READ_COPIES_MAX = 1 << 16 };

/** Only resp*.c write these. */
struct qp_resp {
	uint32_t epsn;	  /* PSN expected next */
	uint32_t ack_psn; /* RC: newest PSN of a SEND or WRITE, which an ACK may name */
	uint32_t msn;	  /* requests completed */
	uint32_t message; /* ROCEMU_OP_SEND or _WRITE while inside of a message (FIRST seen), else 0
			   */
	bool skip;	  /* UC: the rest of this message is dropped */
	uint32_t seen;	  /* UC: bit i: epsn - 1 - i was executed */
	bool comm_est;	  /* IBV_EVENT_COMM_EST was raised (first packet in RTR) */
	bool have_rwqe;	  /* rwqe is taken and not completed yet */
	bool rnr_on_purpose; /* fault injection hid the receive, for which the next RNR NAK is sent
			      */
	/* Set to 0 by each packet that is expected; side by side, so that one store does it. */
	bool nak_sent;	/* the gap at epsn was reported: no further NAK until it is filled */
	bool rnr_sent;	/* RNR NAK sent: no answer, and nothing is kept, until epsn arrives */
	bool went_back; /* the peer repeats what is kept: the NAK for this gap may be repeated */
	uint8_t nak;	/* syndrome of the NAK owed, or 0 */
	uint8_t ahead; /* packets beyond epsn since epsn moved, up to the number that means a gap */
	uint8_t repeats; /* packets in a row that came before */
	/* Where receives come from, or NULL: the QP's own queue. XRC: the SRQ that the message
	 * under way names, see resp_forget_srq(). */
	struct rocemu_srq *srq;
	struct list srq_link; /* XRC: in srq->users */
	struct rwqe rwqe;
	uint64_t offset; /* bytes of the message so far */

	/*
	 * The current WRITE. The key is looked up for every packet: the region may be deregistered
	 * meanwhile.
	 */
	uint64_t write_va;
	uint32_t write_rkey;
	uint32_t write_length;

	/* RC: what is owed to the peer, in the order in which it goes out: jobs, then the NAK or
	 * else the ACK. */
	bool ack_owed;
	uint32_t ack_behind;   /* packets of requests sent since then */
	uint32_t nak_psn;      /* of the NAK owed */
	bool cnp_owed;	       /* a congestion notification, which goes first */
	rocemu_ns_t cnp_at;    /* when the last one was owed; 0: never */
	struct resp_job *jobs; /* owned ring of 2 * room, by PSN: responses of READs and atomics */
	struct resp_replay *replay; /* owned ring of room: the last READs and atomics */
	uint32_t room;		    /* most READs and atomics this QP can be set up for */
	uint32_t limit;		    /* attr.max_dest_rd_atomic, at most room; may change */
	uint32_t job_head, njobs;
	uint32_t nfresh; /* jobs that are not for duplicates */
	uint32_t replay_next, nreplay;
	int32_t copies; /* large READ responses to copy; below 0: so many went by reference since */
	int32_t copies_run; /* how many were to be copied the last time */

	/* RC: what came before its turn. */
	struct keep_queue early;
	uint32_t ahead_psn; /* of the last packet beyond epsn */
	uint8_t steps; /* NAKs in a row for gaps that follow one another without a packet between
			  them */
	/* RC: the newest gap behind the one at epsn, see watch_gaps(). */
	uint32_t top_psn; /* the newest packet kept */
	bool top_fetch;	  /* it is a READ or an atomic */
	uint32_t gap_psn;
	uint8_t gap_behind; /* packets that came behind gap_psn, while it is watched; else 0 */
	uint8_t gaps_alone; /* gaps in a row that the peer filled without repeating what is kept */
	bool far;	    /* enough was kept that several gaps may be in a round trip */
	bool hint_owed;	    /* send the peer a hint that hint_psn is missing */
	uint32_t hint_psn;
};

/** Is anything owed? */
static inline bool resp_owes(const struct qp_resp *r)
{
	return r->njobs | r->nak | r->ack_owed | r->cnp_owed | r->hint_owed;
}

/** Nothing, or an ACK alone. */
static inline bool resp_owes_ack_at_most(const struct qp_resp *r)
{
	return !(r->njobs | r->nak | r->cnp_owed | r->hint_owed);
}

/** At creation: allocate what depends on nothing but limits. -ENOMEM. */
int resp_init(struct rocemu_qp *qp);
void resp_fini(struct rocemu_qp *qp);
void resp_reset(struct rocemu_qp *qp);
/** INIT -> RTR: start at attr.rq_psn. */
void resp_start(struct rocemu_qp *qp);
/** attr.max_dest_rd_atomic was set. */
void resp_limit_changed(struct rocemu_qp *qp);
/** A request packet came for this QP (checked: form, ICRC, service, address, P_Key, state
 * receives). */
enum rocemu_drop resp_input(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt,
			    const struct rocemu_dgram *d);
/**
 * Fill tx[0..n) with responses; first is the index of tx[0] in the output call. To be called in ERR
 * too: earlier responses, and the NAK with the reason, are still sent.
 */
unsigned resp_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n,
		     unsigned first);
/** The NAK or else the ACK that is owed. @return 1; 0: none is. */
unsigned resp_output_ack(struct rocemu_qp *qp, struct rocemu_tx *tx);
/** The delay of a sequence NAK is over (rocemu_traits::nak_delay). */
void resp_nak_expire(struct rocemu_qp *qp);
/** A packet for this QP met congestion: send a CNP to its sender, one per CC_INTERVAL_NS, or as the
 * traits have it. */
void resp_owe_cnp(struct rocemu_qp *qp, rocemu_ns_t now);
/** True when all of it is a positive ACK, which may be delayed. */
bool resp_output_is_acks(const struct rocemu_qp *qp);
/**
 * To ERR: complete the receive under way and all posted ones with IBV_WC_WR_FLUSH_ERR (an SRQ's
 * stay). Pending responses are still sent: their requests were executed, which the peer cannot find
 * out otherwise.
 */
void resp_flush(struct rocemu_qp *qp, rocemu_ns_t now);
/** XRC: the SRQ is destroyed, and with it the receive in use if it came from there. */
void resp_forget_srq(struct rocemu_qp *qp);

#endif
