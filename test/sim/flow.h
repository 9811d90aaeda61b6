/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Load on a fabric: connected QPs that always have a number of operations outstanding, and how
 * these ended.
 */
#ifndef TEST_SIM_FLOW_H
#define TEST_SIM_FLOW_H

#include "fabric.h"

enum flow_op { FLOW_WRITE, FLOW_SEND, FLOW_READ };

struct flow_config {
	unsigned from, to; /* hosts; from posts */
	enum flow_op op;
	uint32_t bytes; /* of a message */
	unsigned outstanding;
	uint64_t limit; /* messages in all; 0: no end */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rd_atomic;
};

/** 16 WRITEs of 1 MiB from host 0 to host 1; MTU 4096, timeout 14, 7 retries, 16 READs. */
struct flow_config flow_defaults(void);

struct flow {
	struct flow_config c;
	struct flow_set *set;
	struct rocemu_qp *qp, *target; /* target NULL: the other end is a scripted peer */
	uint64_t posted, done;	       /* messages */
	uint64_t failed;	       /* completions in error */
	enum ibv_wc_status status;     /* of the first of them */
	rocemu_ns_t done_at;	       /* of the last good completion */
	rocemu_ns_t longest_wait;      /* between two good completions */
	rocemu_ns_t *posted_at;	       /* owned; ring of c.outstanding */
	uint32_t *latency; /* owned, ns; of messages done since flow_set_mark(), latency_len of them
			    */
	size_t latency_len, latency_size;
	bool keep_latency;
	uint64_t done_at_mark;
};

struct flow_set {
	struct fabric *fabric;
	struct flow *flows; /* owned */
	unsigned n, size;
	struct flow_host *hosts; /* owned, one for each host of the fabric */
	uint8_t *memory; /* owned: all that is sent comes from here, all that is read or received
			    goes here */
	uint32_t memory_len;
};

/** For up to size flows of messages of up to bytes. */
struct flow_set *flow_set_new(struct fabric *f, unsigned size, uint32_t bytes);
void flow_set_free(struct flow_set *s);
/** Connect one more. */
struct flow *flow_add(struct flow_set *s, const struct flow_config *c);
/** One whose other end is a scripted peer with that QPN, which takes any key. */
struct flow *flow_add_half(struct flow_set *s, const struct flow_config *c, uint32_t dqpn);
/** The key by which all of the memory can be reached on a host, at its address. */
uint32_t flow_rkey(const struct flow_set *s, unsigned host);
/** Post for the first time. */
void flow_set_start(struct flow_set *s);
/** Measuring begins. */
void flow_set_mark(struct flow_set *s);
/** Since the mark: payload bytes of a flow; of all. */
uint64_t flow_bytes(const struct flow *fl);
uint64_t flow_set_bytes(const struct flow_set *s);
/** QPs that failed. */
unsigned flow_set_failed(const struct flow_set *s);
/** Jain's index of what the flows have got since the mark: 1 is fair, 1/n is one that has it all.
 */
double flow_set_jain(const struct flow_set *s);
/** A quantile (0..1) of the latencies kept, in ns; 0: there are none. */
uint32_t flow_latency(struct flow *fl, double quantile);

#endif
