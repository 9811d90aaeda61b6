/* SPDX-License-Identifier: BSD-2-Clause */
/* The ibv_wr_* interface. */
#ifndef VERBS_WR_H
#define VERBS_WR_H

#include "verbs/call.h"

struct vb_qp;

/**
 * Make the staging of the ibv_wr_* interface and set its entry points. ops: IBV_QP_EX_WITH_*.
 * -errno.
 */
int vb_wr_init(struct vb_qp *qp, uint64_t ops);
void vb_wr_fini(struct vb_qp *qp);

#endif
