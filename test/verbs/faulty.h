/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices with faults on purpose, and two QPs of one. */
#ifndef TEST_VERBS_FAULTY_H
#define TEST_VERBS_FAULTY_H

#include "dev.h"

/** Set ROCEMU_IMPAIR. The rules are read when a device is opened; each text is read once, so that
 * counts begin anew. */
void faulty_set_rules(const char *rules);
/** As dev_open(), with these rules. */
void faulty_open(struct dev *d, const char *rules);
/** The context's next asynchronous event is of this type. */
void faulty_expect_event(struct ibv_context *ctx, enum ibv_event_type type);

enum { PAIR_LEN = 32 }; /* bytes of a write */

/** Two connected RC QPs. */
struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
};

/** ops: of a, IBV_QP_EX_WITH_*, or 0. */
void pair_open(struct pair *p, uint64_t ops, const char *rules);
void pair_close(struct pair *p);
/** Post a signalled RDMA write. @return what ibv_post_send() returned. */
int pair_write(struct pair *p, struct ibv_qp *qp, uint64_t wr_id);
/** The next completion is this one. */
void pair_expect_wc(struct pair *p, uint64_t wr_id, enum ibv_wc_status status);
enum ibv_qp_state pair_state(struct ibv_qp *qp);

#endif
