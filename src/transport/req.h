/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester: turns send work requests into request packets (RC, UC, UD), and decides what to send again and when.
 * Files: req.c (which packet next), req-build.c (how it is made), retry.c (timers, RNR, going back), peer.c (the
 * congestion window per remote lane). What responses mean is the completer's business (comp.h).
 */
#ifndef TRANSPORT_REQ_H
#define TRANSPORT_REQ_H

#include <rocemu/endpoint.h>

#include "base/list.h"

struct peer;

/** Fields: to be refined by req.c's author; only req.c, req-build.c, retry.c write them. */
struct qp_req {
	uint32_t next_psn;             /* PSN of the next packet never sent before */
	uint32_t send_psn;             /* PSN of the next packet to send; behind next_psn while going back */
	uint32_t cur;                  /* index of the send queue entry that send_psn lies in */
	uint32_t rd_atomic_out;        /* READs and atomics in flight */
	uint32_t unacked_since_ackreq; /* packets sent since the last one with AckReq */
	uint8_t retry_left;
	uint8_t rnr_left;
	bool rnr_wait;                 /* the timer is an RNR wait: send nothing until it ends */
	bool sq_psn_set;
	struct peer *peer;             /* ref; RC only */
	uint64_t inflight;             /* bytes charged to the peer's window */
	struct list peer_link;         /* in peer->blocked while the window is full */
};

/** RESET -> INIT and at creation: forget everything. Not the send queue's indices, which qp.c resets. */
void req_reset(struct rocemu_qp *qp);
/** RTR -> RTS: start at attr.sq_psn with fresh counters; attributes of the path are valid. */
void req_start(struct rocemu_qp *qp, rocemu_ns_t now);
/** The QP goes away or to RESET/ERR: stop the timer, leave the peer's window. */
void req_stop(struct rocemu_qp *qp);
/** Something was posted, or the state allows sending again (RTS after SQD/SQE, window open). */
void req_kick(struct rocemu_qp *qp, rocemu_ns_t now);
/** Fill tx[0..n); first is the index of tx[0] in the output call (for ep_scratch). @return how many. */
unsigned req_output(struct rocemu_qp *qp, rocemu_ns_t now, struct rocemu_tx *tx, unsigned n, unsigned first);
bool req_has_output(const struct rocemu_qp *qp);
/** The QP's timer is due (it was taken out of the heap). */
void req_expire(struct rocemu_qp *qp, rocemu_ns_t now);
/** True when nothing begun is unacknowledged (SQD drained). */
bool req_idle(const struct rocemu_qp *qp);

/* What the completer tells. */

/** Packets up to and including psn are acknowledged: moves the window, restarts or stops the timer. */
void req_acked(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);
/** Resend from psn on: sequence NAK or implied NAK. Consumes a retry; false: none was left (the caller fails the QP). */
bool req_go_back(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn);
/** RNR NAK for psn with this timer code. False: rnr_retry is used up. */
bool req_rnr(struct rocemu_qp *qp, rocemu_ns_t now, uint32_t psn, uint8_t timer_code);
/** A READ's or atomic's response is complete: one less in flight. */
void req_rd_atomic_done(struct rocemu_qp *qp);

#endif
