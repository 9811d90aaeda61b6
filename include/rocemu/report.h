/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP has counted, what is in its queues and what it waits for: a copy for people and
 * monitoring. The structs have no padding and no pointers, so that they may be passed to another
 * process of the same version.
 */
#ifndef ROCEMU_REPORT_H
#define ROCEMU_REPORT_H

#include <rocemu/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define ROCEMU_QP_STATS(X)                                                     \
	X(tx_packets,      "packets made, ACKs and those sent again included")  \
	X(rx_packets,      "packets received, duplicates included")             \
	X(tx_bytes,        "payload bytes made")                                \
	X(rx_bytes,        "payload bytes received")                            \
	X(retransmits,     "request packets sent again")                        \
	X(timeouts,        "ACK timeouts")                                      \
	X(probes,          "probe timers run out")                              \
	X(duplicates,      "duplicate requests received")                       \
	X(kept,            "request packets that came early and were kept")     \
	X(kept_full,       "request packets that came early and were not kept") \
	X(seq_naks_sent,   "NAKs sent: PSN sequence error")                     \
	X(inv_naks_sent,   "NAKs sent: invalid request")                        \
	X(access_naks_sent, "NAKs sent: remote access error")                   \
	X(op_naks_sent,    "NAKs sent: remote operational error")               \
	X(rnr_naks_sent,   "RNR NAKs sent")                                     \
	X(seq_naks_rcvd,   "NAKs received: PSN sequence error")                 \
	X(inv_naks_rcvd,   "NAKs received: invalid request")                    \
	X(access_naks_rcvd, "NAKs received: remote access error")               \
	X(op_naks_rcvd,    "NAKs received: remote operational error")           \
	X(rnr_naks_rcvd,   "RNR NAKs received")                                 \
	X(cnps_sent,       "congestion notification packets sent")              \
	X(cnps_rcvd,       "congestion notification packets received")
/* clang-format on */

/** Since the QP was created. NAKs with a reserved code count as operational errors. */
struct rocemu_qp_stats {
#define X(name, text) uint64_t name;
	ROCEMU_QP_STATS(X)
#undef X
};

/** Why the requester sends nothing just now. */
enum rocemu_wait {
	ROCEMU_WAIT_NOTHING, /* it may send, or has nothing to send */
	ROCEMU_WAIT_STATE,   /* requests are posted, and the QP's state does not send */
	ROCEMU_WAIT_ANSWER,  /* all is sent, and not yet acknowledged */
	ROCEMU_WAIT_RNR,     /* the peer had no receive: a pause */
	ROCEMU_WAIT_SILENT,  /* the peer does not answer: only probes are sent */
	ROCEMU_WAIT_READ,    /* fence, or max_rd_atomic requests are in flight */
	ROCEMU_WAIT_ROOM,    /* UC, UD: no room at the receiver */
	ROCEMU_WAIT_WINDOW,  /* the congestion window of the peer's host and process is full */
	ROCEMU_WAIT_BUDGET,  /* this endpoint's READ budget is used up */
	ROCEMU_WAIT_CREDIT,  /* the peer's ACKs report that it has no receive */
	ROCEMU_WAIT_EARLIER, /* a request that failed waits for those before it */
	ROCEMU_WAIT_COUNT
};

enum { ROCEMU_REPORT_WQES = 4 };

/** A send request that is not complete. */
struct rocemu_wqe_report {
	uint64_t wr_id;
	uint32_t length;
	uint32_t first_psn; /* of npkts packets; READ: responses. Nothing yet unless begun */
	uint32_t npkts;
	uint16_t opcode; /* enum ibv_wr_opcode, ROCEMU_WR_* */
	uint16_t begun;
};

/* Bits of rocemu_qp_report.flags. */
enum {
	ROCEMU_REPORT_PATH = 1,	   /* sgid, dgid, sport are those of a connection */
	ROCEMU_REPORT_SRQ = 2,	   /* recvs are those of an SRQ */
	ROCEMU_REPORT_MESSAGE = 4, /* a message has come in part */
	ROCEMU_REPORT_GAP = 8,	   /* a NAK requested rq_psn */
	ROCEMU_REPORT_RNR = 16,	   /* an RNR NAK was sent for rq_psn */
	ROCEMU_REPORT_TIMER = 32,  /* rnr_ns or timeout_ns and probe_ns are of a timer that runs */
};

struct rocemu_qp_report {
	uint32_t qpn, dest_qpn;
	uint8_t type, state; /* enum ibv_qp_type, ibv_qp_state */
	uint8_t wait;	     /* enum rocemu_wait */
	uint8_t flags;
	uint8_t retry_cnt, retry_left; /* of the ACK timeout */
	uint8_t rnr_retry, rnr_left;   /* 7: without limit */
	uint8_t sgid[16], dgid[16];
	uint32_t sport;
	uint32_t mtu; /* bytes */
	/* Send queue. */
	uint32_t sends, sends_begun, sends_max; /* not complete; of these begun */
	uint32_t reads, reads_max;		/* READs and atomics in flight */
	uint32_t acked_psn, send_psn,
		next_psn;	      /* oldest not acknowledged, next to send, next never sent */
	uint32_t unanswered;	      /* probes since the last answer */
	uint32_t responses;	      /* READ and atomic responses to be sent */
	uint64_t silent_ns;	      /* since the last answer that moved the timers; 0: none yet */
	uint64_t timeout_ns;	      /* until the ACK timeout; UINT64_MAX: no such timer */
	uint64_t probe_ns;	      /* until a probe */
	uint64_t rnr_ns;	      /* until the pause after an RNR NAK ends */
	uint64_t inflight;	      /* bytes of this QP in the window */
	uint64_t window, window_used; /* of the peer: bytes; 0: no window (UC, UD) */
	uint64_t srtt_ns, min_rtt_ns; /* 0: not measured */
	/* Receive queue. */
	uint32_t recvs, recvs_max; /* posted */
	uint32_t rq_psn;	   /* expected next */
	uint32_t early;		   /* packets kept that came before rq_psn */
	/* Completion queues: completions that were not polled. UINT32_MAX: no such CQ */
	uint32_t send_cqes, send_cqe_max, recv_cqes, recv_cqe_max;
	uint32_t nwqes; /* of wqe, the oldest first */
	uint32_t reserved;
	struct rocemu_wqe_report wqe[ROCEMU_REPORT_WQES];
	struct rocemu_qp_stats stats;
};

/** Of one QP. */
ROCEMU_PUBLIC void rocemu_qp_report(const struct rocemu_qp *qp, rocemu_ns_t now,
				    struct rocemu_qp_report *out);

/**
 * Of up to n QPs from *next on (0 at first), by the index in their numbers, so that a lock is not
 * held for long. *next: where to go on, UINT32_MAX at the end.
 */
ROCEMU_PUBLIC unsigned rocemu_ep_report(const struct rocemu_ep *ep, rocemu_ns_t now, uint32_t *next,
					struct rocemu_qp_report *out, unsigned n);

/** How many there are of a kind. */
ROCEMU_PUBLIC uint32_t rocemu_ep_object_count(const struct rocemu_ep *ep, enum rocemu_object kind);

#ifdef __cplusplus
}
#endif

#endif
