/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair and its parts. qp.c owns the object, its attributes and its state; the requester
 * (req.c, retry.c), the completer (comp.c) and the responder (resp*.c) each own one of the structs
 * below and do not write another's: they call each other's functions.
 */
#ifndef TRANSPORT_QP_H
#define TRANSPORT_QP_H

#include <rocemu/report.h>

#include "base/timescale.h"
#include "transport/comp.h"
#include "transport/cq.h"
#include "transport/ep.h"
#include "transport/mw.h"
#include "transport/port.h"
#include "transport/req.h"
#include "transport/resp.h"
#include "transport/rq.h"
#include "transport/sq.h"

struct rocemu_qp {
	struct rocemu_ep *ep; /* borrowed */
	struct rocemu_pd *pd; /* ref, as are the CQs, the SRQ and the domain; XRC_RECV: NULL */
	struct rocemu_cq *send_cq, *recv_cq; /* XRC_SEND: the first only; XRC_RECV: none */
	struct rocemu_srq *srq;		     /* or NULL */
	struct rocemu_xrcd *xrcd;	     /* XRC_RECV */
	void *user;
	enum ibv_qp_type type;
	enum ibv_qp_state state;
	uint32_t qpn;
	uint32_t mtu; /* path MTU in bytes */
	bool sq_sig_all;
	bool block_own_mcast;	 /* see struct rocemu_qp_init */
	bool sq_draining;	 /* SQD: requests begun before it are still under way */
	uint8_t id_fits;	 /* see drive.c: bursts with IPv4 identification 0, in a row */
	struct peer_ports ports; /* RC and both kinds of XRC: where packets come from */
	struct ibv_qp_attr
		attr; /* as set by modify; ah_attr, psns, timers, limits, access flags, qkey */
	struct rocemu_path path; /* RC, UC: resolved from attr.ah_attr, with sport */
	struct sq sq;
	struct rq rq;	     /* empty with an SRQ */
	struct list tx_link; /* in ep->tx_ready while it may have something to send, or ep->tx_acks
			      */
	bool only_acks;	     /* it was found to have nothing but ACKs to send: see qp_wake() */
	struct timer timer;  /* the requester's */
	struct timer nak_timer; /* the responder's, for rocemu_traits::nak_delay */
	struct event_src ev;
	struct list groups;  /* of mcast_member.in_qp: multicast groups it is attached to */
	struct list windows; /* of rocemu_mw.link: type 2 memory windows bound to it */
	struct qp_req req;
	struct qp_comp comp;
	struct rocemu_qp_stats stats; /* the first four, of each packet, beside comp and resp */
	struct qp_resp resp;
};

/** As rocemu_qp_find(), for inlining. */
static inline struct rocemu_qp *qp_find(const struct rocemu_ep *ep, uint32_t qpn)
{
	if (!ep->qps || qpn >> ROCEMU_QPN_INDEX_BITS != ep->slot)
		return NULL;
	return ep->qps[qpn % QPN_COUNT];
}

/** Count in the endpoint and in the QP. */
#define QP_COUNT(qp, name) ((void)((qp)->stats.name++, (qp)->ep->stats->name++))

/** A NAK with this syndrome: the endpoint's counters by kind, the QP's by code. */
#define QP_COUNT_NAK(qp, way, syndrome)                                     \
	do {                                                                \
		struct rocemu_qp_stats *const s_ = &(qp)->stats;            \
		struct rocemu_ep_stats *const e_ = (qp)->ep->stats;         \
                                                                            \
		if (((syndrome)&ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR) \
			s_->rnr_naks_##way++, e_->rnr_naks_##way++;         \
		else if ((syndrome) == ROCEMU_NAK_PSN_SEQ)                  \
			s_->seq_naks_##way++, e_->naks_##way++;             \
		else if ((syndrome) == ROCEMU_NAK_INV_REQ)                  \
			s_->inv_naks_##way++, e_->err_naks_##way++;         \
		else if ((syndrome) == ROCEMU_NAK_REM_ACCESS)               \
			s_->access_naks_##way++, e_->err_naks_##way++;      \
		else                                                        \
			s_->op_naks_##way++, e_->err_naks_##way++;          \
	} while (0)

/** It may have something to send, or something else: puts it on the endpoint's list. */
void qp_wake(struct rocemu_qp *qp);

/** Raise an asynchronous event of this QP. */
void qp_event(struct rocemu_qp *qp, enum ibv_event_type type);

/**
 * To the error state for a local reason (a request failed, the peer violated the protocol): flushes
 * both queues in order. The completion with the reason was pushed before. Does nothing in ERR.
 */
void qp_fail(struct rocemu_qp *qp, rocemu_ns_t now);

/** UC and UD: to the send queue error state (SQE): flushes the send queue only. */
void qp_fail_send(struct rocemu_qp *qp, rocemu_ns_t now);

/** Remove its completions from its CQs (not from those of XRC SRQs). Needs the consumers' locks
 * too. */
void qp_purge_cqs(struct rocemu_qp *qp);

/** The requester has nothing in flight any more: when the QP is draining (SQD), raise the event. */
void qp_check_drained(struct rocemu_qp *qp);

/** Are its requests acknowledged and sent again? RC and both kinds of XRC. */
static inline bool qp_is_reliable(const struct rocemu_qp *qp)
{
	return qp->type != IBV_QPT_UC && qp->type != IBV_QPT_UD;
}

/** The transport service: the upper three bits of its packets' opcodes; the lower five mean the
 * same in all. */
static inline uint8_t qp_service_bits(const struct rocemu_qp *qp)
{
	switch ((int)qp->type) {
	case IBV_QPT_UC:
		return ROCEMU_SVC_UC << 5;
	case IBV_QPT_UD:
		return ROCEMU_SVC_UD << 5;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCEMU_SVC_XRC << 5;
	default:
		return ROCEMU_SVC_RC << 5;
	}
}

/** Its ACK timeout, divided by the endpoint's time scale. 0: none. */
static inline rocemu_ns_t qp_ack_timeout_ns(const struct rocemu_qp *qp)
{
	uint64_t ns = rocemu_ack_timeout_ns(qp->attr.timeout);

	if (unlikely(ns < qp->ep->cfg.traits.ack_timeout_floor) && ns)
		ns = qp->ep->cfg.traits.ack_timeout_floor;
	return timescale_wait(qp->ep->cfg.time_scale, ns);
}

/** The wait of an RNR NAK's timer code, likewise. */
static inline rocemu_ns_t qp_rnr_wait_ns(const struct rocemu_qp *qp, uint8_t timer_code)
{
	return timescale_wait(qp->ep->cfg.time_scale, rocemu_rnr_timer_ns(timer_code));
}

/** May it receive requests / send requests in its present state? */
static inline bool qp_can_receive(const struct rocemu_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
	       qp->state == IBV_QPS_SQE;
}

/** Is a sweep of PSNs under way (see port.h)? Then received packets end no connection. */
static inline bool qp_is_guarded(const struct rocemu_qp *qp, rocemu_ns_t now)
{
	return unlikely(now < qp->ports.guard_until);
}

/** Nothing to send, whatever the state is: req_hold() is REQ_HOLD_IDLE. */
static inline bool req_is_empty(const struct rocemu_qp *qp)
{
	return qp->req.cur == qp->sq.head && !recover_due(&qp->req.again) && !qp->req.fault;
}

/**
 * Where nothing new may go, some of what is in flight may go again: see recover_fill(). hold:
 * req_hold().
 */
static inline bool req_may_fill(const struct rocemu_qp *qp, enum req_hold hold)
{
	return recover_can_fill(&qp->req.again) &&
	       (hold == REQ_HOLD_WINDOW || hold == REQ_HOLD_IDLE || hold == REQ_HOLD_READ);
}

/** A completion of this QP with the fields that all have in common. */
static inline struct rocemu_cqe qp_cqe(const struct rocemu_qp *qp, rocemu_ns_t now, uint64_t wr_id,
				       enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	return (struct rocemu_cqe){
		.wr_id = wr_id,
		.timestamp = now,
		.status = status,
		.opcode = opcode,
		.qpn = qp->qpn,
	};
}

#endif
