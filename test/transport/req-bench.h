/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester on the bench: one endpoint with one QP in RTS, memory, and a peer that is not there:
 * the test looks at what goes out and makes each answer by hand, the ones that no responder would
 * give too.
 */
#ifndef TEST_TRANSPORT_REQ_BENCH_H
#define TEST_TRANSPORT_REQ_BENCH_H

#include "test.h"

#include <rocemu/endpoint.h>

enum {
	BENCH_PSN = 0xfffffe, /* first PSN: every test wraps */
	BENCH_BUF = 256 * 1024,
	BENCH_RKEY = 0x4711,
	BENCH_QPN = 7 << 14 | 3, /* the peer's */
};

struct bench {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp;
	struct rocemu_mr *mr;
	rocemu_ns_t now;
	uint64_t next_wr;
	uint16_t sport;	       /* UDP source port of the peer's answers; 0: as the QP's own */
	bool stranger;	       /* the answers come from another address than the peer's */
	uint8_t ecn;	       /* ECN bits of the peer's answers */
	bool congested;	       /* they come through a full buffer */
	unsigned batch;	       /* descriptors requested in one output call */
	struct rocemu_tx last; /* the last packet that went out */
	char out[8192], done[4096];
	uint8_t buf[BENCH_BUF];
};

struct bench_opts {
	enum ibv_qp_type type;
	enum ibv_mtu mtu; /* 0: 256 */
	uint32_t window;
	uint8_t timeout, retry_cnt, rnr_retry, rd_atomic;
	double time_scale;
	bool no_rd_atomic;
	bool sig_none; /* only requests with IBV_SEND_SIGNALED complete visibly */
};

/** RC, MTU 256, timeout 4.096 us * 2, 2 retries, 2 RNR retries, 2 READs; what is not 0 in o counts
 * instead. */
struct bench *bench_new(const struct bench_opts *o);
void bench_free(struct bench *b);
/** Another QP of the same kind in RTS, towards the same peer. */
struct rocemu_qp *bench_qp(struct bench *b, const struct bench_opts *o);

/** A request over buf[off..off+len). */
struct ibv_send_wr bench_wr(struct bench *b, enum ibv_wr_opcode op, uint32_t off, uint32_t len,
			    struct ibv_sge *sge);
void bench_post_wr(struct bench *b, const struct ibv_send_wr *wr);
/** Post one from the start of buf, without flags. */
void bench_post(struct bench *b, enum ibv_wr_opcode op, uint32_t len);

/**
 * All that goes out now, as text: "SEND_FIRST 0; SEND_LAST 1 A": opcode, PSN counted from
 * BENCH_PSN, "A" for AckReq, "S" for the solicited event, "+bytes" of a READ.
 */
const char *bench_out(struct bench *b);
/** The completions since the last call: "1 OK; 2 OK": number of the request, counted from 1, and
 * status. */
const char *bench_done(struct bench *b);

/** An answer of the peer; psn counted from BENCH_PSN. */
enum rocemu_drop bench_answer(struct bench *b, enum rocemu_opcode op, int32_t psn, uint8_t syndrome,
			      const void *payload, uint32_t len);
enum rocemu_drop bench_ack(struct bench *b, int32_t psn);
enum rocemu_drop bench_nak(struct bench *b, int32_t psn, uint8_t syndrome);
/** A READ response whose bytes all are fill. */
enum rocemu_drop bench_read_resp(struct bench *b, enum rocemu_opcode op, int32_t psn, uint8_t fill,
				 uint32_t len);
/** Time goes on by ns, and timers run out. */
void bench_wait(struct bench *b, rocemu_ns_t ns);

#endif
