/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects on several lanes of one context, over dev.h. Errors end the test. */
#ifndef TEST_VERBS_LANES_H
#define TEST_VERBS_LANES_H

#include "dev.h"

enum {
	LANES_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

/** A QP and the CQ that it alone uses. */
struct lanes_end {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
};

/** As dev_open(), with so many lanes at most. */
void lanes_open(struct dev *d, unsigned most);
struct ibv_cq *lanes_cq(struct dev *d);
struct ibv_srq *lanes_srq(struct dev *d);
struct ibv_qp *lanes_qp(struct dev *d, struct ibv_cq *send, struct ibv_cq *recv,
			struct ibv_srq *srq);
/** Which lane's slot a QP is in. */
uint32_t lanes_slot(const struct ibv_qp *qp);

/** Two ends, connected with each other. */
void lanes_pair(struct dev *d, struct lanes_end *a, struct lanes_end *b);
/** The same two once more, from RESET. */
void lanes_end_reconnect(struct lanes_end *a, struct lanes_end *b);
void lanes_end_free(struct lanes_end *e);

/** Post 64 bytes from mem[0..) to mem[32768..). */
void lanes_post_write(struct dev *d, struct lanes_end *from, uint32_t rkey);
/** The same, and its completion's status. */
enum ibv_wc_status lanes_write(struct dev *d, struct lanes_end *from, uint32_t rkey);
void lanes_post_send(struct dev *d, struct lanes_end *from);
void lanes_post_srq(struct dev *d, struct ibv_srq *srq, uint64_t wr_id);
/** SEND, WRITE, READ and an atomic from one end to the other, with data compared. */
void lanes_check(struct dev *d, struct lanes_end *from, struct lanes_end *to);
/** ibv_poll_cq() of one. */
int lanes_poll_once(struct ibv_cq *cq);

#endif
