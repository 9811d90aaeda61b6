/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair under test and a scripted peer: it sends right packets and wrong ones, in any order.
 * The effects are collected as text, so that a test is a list of packets and the expected string:
 *
 *	hostile_send(h, ROCEMU_RC_SEND_ONLY, 0, 8);
 *	hostile_send(h, ROCEMU_RC_SEND_ONLY, 0, 8);
 *	EXPECT(h, "ack 0/1; recv 1 len 8");
 *
 * The words, joined by "; ":
 *	drop WHY                   a packet was not taken
 *	ack PSN/MSN                positive acknowledgement
 *	nak SYNDROME PSN/MSN       (hexadecimal)
 *	rnr TIMER PSN/MSN
 *	first|middle|last|only PSN+LEN   READ responses
 *	cnp                        congestion notification
 *	atomic PSN/MSN =VALUE      atomic response
 *	recv ID len N [inv] [imm N] [grh from QPN] [sol] [write]    a receive completed
 *	bind ID, inval ID          a bind or local invalidate completed
 *	recv ID STATUS             ... in error, IBV_WC_ left out
 *	event NAME                 async event, IBV_EVENT_ left out
 *	ERR                        the QP is in the error state (once)
 * Drops come in order, then packets sent, completions, events.
 */
#ifndef TEST_TRANSPORT_HOSTILE_H
#define TEST_TRANSPORT_HOSTILE_H

#include "test.h"

#include "transport/qp.h"

enum {
	HOSTILE_QPN = 0x1234,
	HOSTILE_QKEY = 0x11,
	HOSTILE_MTU = 256,
	HOSTILE_MEM = 16384,
	HOSTILE_RD_ATOMIC = 2,
	HOSTILE_ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	HOSTILE_FLUSHABLE =
		HOSTILE_ALL_ACCESS | ROCEMU_ACCESS_FLUSH_GLOBAL | ROCEMU_ACCESS_FLUSH_PERSISTENT,
};

struct hostile {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_srq *srq;	  /* or NULL; XRC_RECV: the one whose number its packets bear */
	struct rocemu_xrcd *xrcd; /* XRC_RECV */
	struct rocemu_qp *qp;
	uint32_t srqn;		   /* what packets bear */
	struct rocemu_mr *mr;	   /* mem, all rights; iova is its address */
	struct rocemu_mr *recv_mr; /* recv, local write only */
	rocemu_ns_t now;
	uint32_t rkey;
	struct rocemu_gid peer, self;
	uint32_t dqpn;	      /* of what it sends; 0: the QP's */
	unsigned qp_access;   /* to be set before hostile_connect(); default all */
	uint32_t psn;	      /* rq_psn, default 0 */
	uint16_t sport;	      /* UDP source port of what it sends; 0: as the QP's own */
	uint16_t ip_id;	      /* IPv4 identification of what it sends, default 0 */
	uint8_t ecn;	      /* ECN bits of what it sends, default 0 */
	bool by_memory;	      /* what it sends comes by memory, see rocemu_dgram::body */
	bool congested;	      /* what it sends comes through a full buffer */
	uint8_t rd_atomic;    /* max_dest_rd_atomic, default HOSTILE_RD_ATOMIC */
	uint32_t invalidated; /* the key of the last receive with "inv" */
	bool told_err;
	char log[8192];
	char text[8192];
	uint8_t mem[HOSTILE_MEM] __attribute__((aligned(64)));
	uint8_t recv[HOSTILE_MEM] __attribute__((aligned(64)));
	uint8_t payload[ROCEMU_MAX_MTU]; /* what the next packet carries; a pattern by default */
	uint8_t answer[ROCEMU_MAX_MTU];	 /* what the last packet with payload that came back carried
					  */
};

/** Objects, QP in RESET, srq if requested or of the XRC kind. */
void hostile_new(struct hostile *h, enum ibv_qp_type type, bool srq);
/** The QP to RTR (0) or RTS. */
void hostile_connect(struct hostile *h, enum ibv_qp_state to);
/** Both: an RC, UC, UD or XRC_RECV QP in RTS with the defaults. */
void hostile_start(struct hostile *h, enum ibv_qp_type type);
void hostile_free(struct hostile *h);

/** Post a receive of len bytes at h->recv + off. */
void hostile_recv(struct hostile *h, uint64_t wr_id, uint32_t off, uint32_t len);

/** Send a packet with payload h->payload[0..len). Extension headers, AckReq: as the variants below.
 */
void hostile_send(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len);
/** All headers given; pad, dqpn, pkey are filled in. */
void hostile_send_hdrs(struct hostile *h, struct rocemu_hdrs *hdrs, uint32_t len);
/** With a RETH: off into h->mem, total bytes. */
void hostile_send_reth(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len, uint64_t off,
		       uint32_t total);
/** An atomic on the word at off in h->mem. */
void hostile_send_atomic(struct hostile *h, uint8_t opcode, uint32_t psn, uint64_t off,
			 uint64_t swap_add, uint64_t compare);

/** Let the endpoint send at most n packets; what they are is added to the log. */
void hostile_output(struct hostile *h, unsigned n);
/** Everything since the last call, after all output was made. Valid until the next call. */
const char *hostile_effects(struct hostile *h);

#define EXPECT(h, text) assert_string_equal(hostile_effects(h), text)

#endif
