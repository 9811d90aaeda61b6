/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that does pure go-back-N, as simple hardware does: written for the tests, it shares
 * nothing with the transport but the codec.
 *
 * As a responder it keeps nothing that comes early: one sequence NAK for each gap, and all that
 * follows is dropped until the packet that is missing has come. As a requester it sends
 * everything again from the packet that a NAK, a gap in READ responses or its timer names.
 */
#ifndef TEST_SIM_GBN_H
#define TEST_SIM_GBN_H

#include "fabric.h"

enum { GBN_READS = 16, GBN_QPN = (2 << ROCEMU_QPN_INDEX_BITS) + 77 };

enum gbn_role { GBN_RESPONDER, GBN_WRITES, GBN_READS_FROM };

struct gbn_config {
	enum gbn_role role;
	struct rocemu_path path; /* to the other host */
	uint32_t dqpn;
	uint32_t mtu; /* bytes */
	uint32_t psn; /* first one of both directions */
	uint64_t va;  /* requester: what it writes to or reads from */
	uint32_t rkey;
	uint32_t bytes;	      /* of its messages; a multiple of mtu */
	unsigned outstanding; /* messages; READs: at most GBN_READS */
	rocemu_ns_t timeout_ns;
};

/** READ responses that are due: n of them from psn on. */
struct gbn_job {
	uint32_t psn, n, done;
	uint32_t len;
};

struct gbn {
	struct gbn_config c;
	/* responder */
	uint32_t epsn, msn;
	bool nak_sent; /* for epsn */
	bool ack_due, nak_due;
	uint32_t ack_psn;
	struct gbn_job jobs[4 * GBN_READS]; /* ring */
	unsigned job_first, job_count;
	uint64_t taken_bytes;
	/* requester */
	uint64_t una, next, sent_max; /* packets since the beginning */
	uint64_t done_bytes;
	rocemu_ns_t deadline;
	bool gap_seen; /* READ: everything was requested again, no response since */
	/* for both */
	uint64_t rewinds, timeouts;
};

extern const struct fabric_peer_ops gbn_ops;

void gbn_init(struct gbn *g, const struct gbn_config *c);

#endif
