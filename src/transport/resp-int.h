/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared declarations of the responder's files. */
#ifndef TRANSPORT_RESP_INT_H
#define TRANSPORT_RESP_INT_H

#include "transport/qp.h"
#include "transport/xrc.h"

/* clang-format off */
/*
 * The verdicts on a request, and their effects on RC (IBTA 9.7.5.2 for the NAK codes, 9.9.3 for
 * what happens locally). X(VERDICT, NAK syndrome, drop reason, status of a receive in use, event
 * when none is in use). PASS and NO_RECV do not end the connection. Syndrome 0: nothing is answered
 * (class J). UC and UD take the drop reason only (see resp-uc.c).
 */
#define RESP_VERDICTS(X)                                                                                          \
	X(PASS,         0,                     NONE,     SUCCESS,          0)                                      \
	X(NO_RECV,      0,                     NO_RECV,  SUCCESS,          0)                /* RNR NAK */         \
	X(SEQUENCE,     ROCEMU_NAK_INV_REQ,    SEQUENCE, REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)                   \
	X(LENGTH,       ROCEMU_NAK_INV_REQ,    LENGTH,   REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)                   \
	X(UNSUPPORTED,  ROCEMU_NAK_INV_REQ,    OPCODE,   REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)                   \
	X(TOO_MANY,     ROCEMU_NAK_INV_REQ,    SEQUENCE, REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)  /* max_dest_rd_atomic */ \
	X(MISALIGNED,   ROCEMU_NAK_INV_REQ,    ACCESS,   REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)                   \
	X(NOT_ENABLED,  ROCEMU_NAK_INV_REQ,    ACCESS,   REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)  /* QP access flags */ \
	X(XRCETH,       ROCEMU_NAK_INV_REQ,    XRC_SRQ,  REM_INV_REQ_ERR,  IBV_EVENT_QP_REQ_ERR)                   \
	X(TOO_LONG,     ROCEMU_NAK_INV_REQ,    TOO_LONG, LOC_LEN_ERR,      IBV_EVENT_QP_REQ_ERR)                   \
	X(ACCESS,       ROCEMU_NAK_REM_ACCESS, ACCESS,   LOC_ACCESS_ERR,   IBV_EVENT_QP_ACCESS_ERR)                \
	X(INVALIDATE,   0,                     ACCESS,   MW_BIND_ERR,      IBV_EVENT_QP_ACCESS_ERR)                \
	X(LOCAL_PROT,   ROCEMU_NAK_REM_OP,     ACCESS,   LOC_PROT_ERR,     IBV_EVENT_QP_FATAL)
/* clang-format on */

enum resp_verdict {
#define X(name, syndrome, drop, status, event) RESP_##name,
	RESP_VERDICTS(X)
#undef X
};

enum resp_job_kind { RESP_JOB_READ, RESP_JOB_ATOMIC, RESP_JOB_NAK };

/** A response to make that is more than an ACK. */
struct resp_job {
	enum resp_job_kind kind;
	bool dup;	    /* for a repeated request: not counted against max_dest_rd_atomic */
	bool begun;	    /* READ: its first response went out */
	uint32_t psn, npsn; /* PSN of the next response packet, and how many there are to come */
	uint32_t msn;
	uint32_t srqn; /* READ over XRC: its request's SRQ, for the rights */
	uint32_t rkey; /* READ: what is left to send */
	uint32_t left;
	uint64_t va;
	uint64_t orig; /* atomic: the value before */
};

/** A READ or atomic that was executed, for a repetition of it. */
struct resp_replay {
	uint8_t opcode;
	uint32_t psn, npsn;
	uint32_t msn;
	uint32_t rkey, length; /* READ: the requested range */
	uint64_t va;
	uint64_t orig; /* atomic: the value before */
};

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCEMU_PSN_MASK;
}

/**
 * Does [psn, psn + n) lie in [from, from + count)? Not by rocemu_psn_diff(): one READ may take 2^23
 * PSNs (2 GiB in packets of 256 bytes), half of all there are.
 */
static inline bool psn_within(uint32_t psn, uint32_t n, uint32_t from, uint32_t count)
{
	return ((psn - from) & ROCEMU_PSN_MASK) + n <= count;
}

/** PSNs of a message of this many bytes. */
static inline uint32_t resp_npsn(const struct rocemu_qp *qp, uint32_t length)
{
	return length ? (length - 1) / qp->mtu + 1 : 1;
}

static inline bool resp_allows(const struct rocemu_qp *qp, unsigned access)
{
	return (qp->attr.qp_access_flags & access) != 0;
}

/**
 * Whose memory a request may touch: the QP's protection domain; over XRC that of the SRQ which the
 * request names (A14.2), NULL: there is no such SRQ.
 */
static inline const struct rocemu_pd *resp_pd(const struct rocemu_qp *qp, uint32_t srqn)
{
	const struct rocemu_srq *srq;

	if (likely(qp->type != IBV_QPT_XRC_RECV))
		return qp->pd;
	srq = xrc_srq_find(qp, srqn);
	return srq ? srq->pd : NULL;
}

/** An access to memory of resp_pd() found it missing. */
static inline void resp_missing(const struct rocemu_qp *qp, uint32_t srqn, const void *host,
				size_t len)
{
	mr_missing(resp_pd(qp, srqn)->ep->mrs, host, len);
}

/** The protection domain of the receive at hand: its SRQ's, else the QP's (IBTA 10.2.9). */
static inline const struct rocemu_pd *resp_recv_pd(const struct rocemu_qp *qp)
{
	return qp->resp.srq ? qp->resp.srq->pd : qp->pd;
}

/** Opcode against what went before in the message (IBTA 9.7.4.1). */
static inline enum resp_verdict resp_check_sequence(const struct rocemu_qp *qp, uint32_t ops)
{
	uint32_t message = qp->resp.message;

	if (ops & ROCEMU_OP_FIRST)
		return message ? RESP_SEQUENCE : RESP_PASS;
	return ops & message ? RESP_PASS : RESP_SEQUENCE;
}

/** Payload against the path MTU: FIRST and MIDDLE full, LAST not empty (IBTA 9.7.4.1). */
static inline enum resp_verdict resp_check_length(const struct rocemu_qp *qp, uint32_t ops,
						  uint32_t len)
{
	if (!(ops & ROCEMU_OP_LAST))
		return len == qp->mtu ? RESP_PASS : RESP_LENGTH;
	if (len > qp->mtu || (len == 0 && !(ops & ROCEMU_OP_FIRST)))
		return RESP_LENGTH;
	return RESP_PASS;
}

/** First packet taken in RTR (IBTA 11.6.3: communication established). */
static inline void resp_established(struct rocemu_qp *qp)
{
	if (likely(qp->resp.comm_est || qp->state != IBV_QPS_RTR))
		return;
	qp->resp.comm_est = true;
	qp_event(qp, IBV_EVENT_COMM_EST);
}

/* resp-exec.c */

/**
 * Execute a SEND or WRITE packet whose PSN, length and place in the message are right; when it
 * PASSes, the message's state has moved on. NO_RECV: it had no effect.
 */
enum resp_verdict resp_exec(struct rocemu_qp *qp, rocemu_ns_t now, const struct rocemu_packet *pkt,
			    uint32_t ops);
/** Take a receive: the one left over or a new one. False: none posted. */
bool resp_take(struct rocemu_qp *qp);
/** Complete the receive at hand in error. */
void resp_fail_recv(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_wc_status status,
		    uint32_t vendor_err);

/* resp-read.c */

/** The rights that a FLUSH needs of QP and region; 0: no such placement types or level. */
int resp_flush_access(uint32_t feth);

/** Execute a READ, atomic, FLUSH or ATOMIC WRITE with the expected PSN; npsn is how far the PSN
 * moves on. */
enum resp_verdict resp_exec_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				 uint32_t ops, uint32_t *npsn);
/** The same again: answer it, or drop it. */
enum rocemu_drop resp_repeat_read(struct rocemu_qp *qp, const struct rocemu_packet *pkt,
				  uint32_t ops);

/* resp-out.c */

/** Room for one more job; fresh: for a new request. */
bool resp_job_fits(const struct rocemu_qp *qp, bool fresh);
/**
 * Put it where its PSN belongs. The new job takes over what an older one has still to send of the
 * same.
 */
void resp_job_add(struct rocemu_qp *qp, const struct resp_job *job);
/** Does an existing job answer these PSNs? */
bool resp_job_covers(const struct rocemu_qp *qp, uint32_t psn, uint32_t npsn);
void resp_owe_ack(struct rocemu_qp *qp);
void resp_owe_nak(struct rocemu_qp *qp, uint8_t syndrome, uint32_t psn);

/* resp.c */

/** Why a packet with this verdict is not taken. */
enum rocemu_drop resp_drop(enum resp_verdict v);
/** RC: execute the packet with the expected PSN, or begin to refuse it. */
enum rocemu_drop resp_expected(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt, uint32_t ops);

/* resp-early.c */

/** A SEND or WRITE packet came that is kept already. */
void resp_repeated(struct qp_resp *r);

/** RC: a packet `ahead` PSNs beyond the expected one. */
enum rocemu_drop resp_early_input(struct rocemu_qp *qp, rocemu_ns_t now,
				  const struct rocemu_packet *pkt, const struct rocemu_dgram *d,
				  uint32_t ahead);
/** The expected packet came while others are kept or known to be lost: execute those whose turn it
 * is. ackreq: it had AckReq. */
void resp_early_fill(struct rocemu_qp *qp, rocemu_ns_t now, bool ackreq);

/* resp-uc.c, resp-ud.c */
enum rocemu_drop resp_uc_input(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt);
enum rocemu_drop resp_ud_input(struct rocemu_qp *qp, rocemu_ns_t now,
			       const struct rocemu_packet *pkt, const struct rocemu_dgram *d);

#endif
