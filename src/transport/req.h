/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester: turns send work requests into request packets (RC, UC, UD), and decides what to send
 * again and when. Files: req.c (which packet next), req-build.c (how it is made), req-one.c (both,
 * for a small message alone), retry.c (timers,
 * RNR, going back), recover.c (missing packets alone), peer.c (the congestion window per remote
 * lane). The completer handles responses (comp.h).
 */
#ifndef TRANSPORT_REQ_H
#define TRANSPORT_REQ_H

#include <rocemu/endpoint.h>

#include "base/list.h"
#include "transport/credit.h"
#include "transport/recover.h"

struct peer;

/** Why the requester sends nothing just now. */
enum req_hold {
	REQ_GO,		 /* nothing holds it */
	REQ_HOLD_IDLE,	 /* nothing to send in this state */
	REQ_HOLD_RNR,	 /* RNR NAK: wait */
	REQ_HOLD_SILENT, /* the peer does not answer: only probes are sent */
	REQ_HOLD_READ,	 /* fence, or max_rd_atomic requests are in flight */
	REQ_HOLD_ROOM,	 /* UC, UD: no send credits */
	REQ_HOLD_WINDOW, /* the peer's congestion window is full */
	REQ_HOLD_BUDGET, /* the endpoint's READ budget is used up */
	REQ_HOLD_CREDIT, /* the peer has no receive for it */
	REQ_HOLD_FAULT,	 /* the next request cannot be executed; those before it are not done yet */
	REQ_FAULT,	 /* ... they are done: it is to be failed now */
};

/**
 * The send queue as the requester sees it, in PSNs (RC):
 *
 *     acked_psn ........ send_psn ......... next_psn
 *        in flight           sent before, given up by going back
 *
 * inflight and rd_atomic_out count what lies in [acked_psn, send_psn). UC and UD use send_psn ==
 * next_psn only. Only req.c, req-build.c and retry.c write these.
 */
struct qp_req {
	uint32_t acked_psn;	/* oldest PSN that is not acknowledged */
	uint32_t send_psn;	/* PSN of the next packet to send */
	uint32_t next_psn;	/* PSN of the next packet never sent before */
	uint32_t acked;		/* index of the send queue entry that acked_psn lies in */
	uint32_t cur;		/* index of the send queue entry that send_psn lies in */
	uint32_t rd_atomic_out; /* READ requests, atomics, FLUSHes and ATOMIC WRITEs in flight */
	uint32_t since_ackreq;	/* packets in flight behind the last one with AckReq */
	uint32_t mtu_shift;	/* log2 of the path MTU */
	uint32_t full_cost;	/* peer_cost() of a packet of path MTU */
	uint32_t read_shift;	/* 2^read_shift response packets per READ request */
	uint8_t retry_left;
	uint8_t extra_used; /* of rocemu_traits::extra_repetitions, while acked_psn is extra_psn */
	uint8_t rnr_left;
	bool rnr_wait;	 /* the timer is an RNR wait: send nothing until it ends */
	bool went_back;	 /* a retry was used since acked_psn moved last; losses use no other */
	uint8_t backoff; /* probes since acked_psn moved last: each doubles the delay */
	bool rtt_valid;	 /* rtt_psn was sent once, at rtt_at, and nothing was sent again since */
	uint32_t rtt_psn;
	rocemu_ns_t rtt_at;
	rocemu_ns_t srtt, rttvar, min_rtt; /* 0: not measured */
	rocemu_ns_t first_delay;	   /* of the probe timer until then; 0: no probe yet */
	rocemu_ns_t probe_at; /* as deadline: when a packet is sent to learn what arrived */
	struct req_again again;
	struct req_credit credit;
	enum ibv_wc_status fault; /* why the entry at cur cannot be executed; or success */
	rocemu_ns_t progress_at;  /* when an acknowledgement moved the timers last */
	/* Of the ACK timer; qp->timer may run out earlier and is then set anew. */
	rocemu_ns_t deadline;
	uint32_t extra_psn;
	struct peer *peer;    /* ref; RC and XRC_SEND only */
	uint64_t inflight;    /* bytes charged to the peer's window */
	uint32_t charged_psn; /* oldest packet charged; those before it were given back */
	uint32_t read_out;    /* bytes of READ responses charged to the endpoint's budget */
	uint32_t turn;	      /* packets that it may send before the next QP in the window's line */
	uint32_t read_turn; /* bytes that it may request before the next one in the READ budget's */
	uint64_t
		kept; /* bytes of the window kept while it waits for the READ budget; 0: does not */
	/* RC: in peer->blocked while the window is full, in ep->read_waiting while the READ budget
	 * is used up; UC, UD: in ep->room_waiting. */
	struct list peer_link;
	struct list tx_pending_link; /* in ep->tx_pending: see req_tx_done() */
};

/**
 * Probes without an answer after which a QP gives back its share of the window and of the READ
 * budget, and takes no other: others wait for it.
 */
enum { REQ_SILENT_PROBES = 2 };

static inline bool req_is_silent(const struct qp_req *req)
{
	return req->backoff >= REQ_SILENT_PROBES;
}

/** At creation and in RESET: forget everything but the send queue's indices, which qp.c resets. */
void req_reset(struct rocemu_qp *qp);
/** Before RTR -> RTS: find the peer that qp->path and attr.dest_qp_num name. -ENOMEM. */
int req_attach(struct rocemu_qp *qp);
/**
 * Before the QP's address changes (SQD): what is in flight counts against the new peer's window,
 * and QPs that wait for the old one's are woken. Does nothing before req_attach(). -ENOMEM.
 */
int req_move(struct rocemu_qp *qp, const struct ibv_ah_attr *ah);
/** The attributes that mask names, or the state, changed: those of the requester hold from now on.
 */
void req_changed(struct rocemu_qp *qp, rocemu_ns_t now, int mask);
/** RTR -> RTS, after req_attach(): start at attr.sq_psn; the send queue is empty. */
void req_start(struct rocemu_qp *qp, rocemu_ns_t now);
/** The QP is destroyed or goes to RESET/ERR: stop the timer, leave the peer's window. */
void req_stop(struct rocemu_qp *qp);
/** Something was posted, or the state allows sending again (RTS after SQD/SQE, window open). */
void req_kick(struct rocemu_qp *qp, rocemu_ns_t now);
/**
 * Fill tx[0..n). To be called, if with n = 0, before the QP leaves ep->tx_ready: it notes what it
 * waits for. *more: it could send more.
 * @return how many.
 */
unsigned req_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n,
		    bool *more);
/**
 * The packet of the only message that is to be sent, if it has one packet, and nothing was lost.
 * @return 1; 0: nothing was done, req_output() is to be called.
 */
unsigned req_output_one(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx);
/** What keeps it from sending. */
enum req_hold req_hold(const struct rocemu_qp *qp);
/**
 * The packets of the last output call were sent: complete the UC and UD requests among them, fail
 * requests that could not be executed. An application may write to its buffers as soon as it sees a
 * completion, so they complete only now. Called first in each output call.
 */
void req_tx_done(struct rocemu_ep *ep, rocemu_ns_t now);
/** Packets of an RC QP went out: its timers run from now on, if they do not already. */
void req_sent(struct rocemu_qp *qp, rocemu_ns_t now);
/** The QP's timer is due (it was taken out of the heap). */
void req_expire(struct rocemu_qp *qp, rocemu_ns_t now);
/** True when nothing begun is unacknowledged (SQD drained). */
bool req_idle(const struct rocemu_qp *qp);

/* Calls of the completer. */

/** Packets up to and including psn are acknowledged: moves window and timer on. */
void req_acked(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);
/** As req_acked(), if the only packet in flight is, and its entry is the last one begun. */
void req_acked_one(struct rocemu_qp *qp, rocemu_ns_t now);
/**
 * A loss was seen. Consumes a retry, unless one was consumed since the last progress.
 * @return false: none was left (the caller fails the QP).
 */
bool req_use_retry(struct rocemu_qp *qp);
/** Give up what is in flight, and send it again from the oldest unacknowledged packet on. */
void req_rewind(struct rocemu_qp *qp, rocemu_ns_t now);
/** The ACK timer starts anew, with the present timeout. */
void req_timeout_restart(struct rocemu_qp *qp, rocemu_ns_t now);
/** An answer came to what was acknowledged before: was the probe that it answers too early? */
void req_answered_twice(struct rocemu_qp *qp, rocemu_ns_t now);
/** The probe timer starts anew: something was sent that is answered soon. */
void req_probe_restart(struct rocemu_qp *qp, rocemu_ns_t now);
/** RNR NAK with this timer code for the oldest unacknowledged PSN. False: rnr_retry is used up. */
bool req_rnr(struct rocemu_qp *qp, rocemu_ns_t now, uint8_t timer_code);
/** The send queue was flushed: nothing is begun, nothing in flight. */
void req_flushed(struct rocemu_qp *qp);

#endif
