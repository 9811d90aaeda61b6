/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts of one device that have opened an XRC domain by its file. Errors end the test.
 */
#ifndef TEST_VERBS_XRC_MEMBER_H
#define TEST_VERBS_XRC_MEMBER_H

#include "dev.h"

/* A context's share of the domain. */
struct member {
	struct dev d;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *rcq; /* of srq, on d.channel */
	struct ibv_srq *srq;
	uint32_t srqn;
};

/* a has initiator and target, b the SRQ that most tests send to. */
struct two {
	struct member a, b;
	int fd;
	struct ibv_qp *from, *to;
};

/** A context that opens the domain of the file, with an SRQ. */
void member_open(struct member *m, int fd);
void member_close(struct member *m);
/** The context goes with all that the program has in it: nothing of it was destroyed. */
void member_abandon(struct member *m);
/** At m->srq. */
void member_post_recv(struct member *m, uint64_t wr_id, uint32_t off, uint32_t len);
/** A handle of the domain's target of that number; NULL with errno. */
struct ibv_qp *member_share(struct member *m, uint32_t qpn);
void two_open(struct two *t);
void two_close(struct two *t);
/** From a's memory at 0; remote: where WRITE, READ and atomics go to, by key. */
void two_post(struct two *t, enum ibv_wr_opcode op, uint32_t srqn, uint64_t wr_id, uint32_t len,
	      uint64_t remote, uint32_t key);
void two_post_send(struct two *t, uint32_t srqn, uint64_t wr_id, uint32_t len);
uint64_t member_at(struct member *m, uint32_t off);
/** The next event of the context that is not about an established connection; acknowledged. */
struct ibv_async_event member_next_event(struct ibv_context *ctx);
/** One message to m's SRQ arrives there. */
void two_expect_message(struct two *t, struct member *m, uint64_t wr_id);

#endif
