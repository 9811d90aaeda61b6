/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs that measure share which use verbs. */
#ifndef BENCH_CONNECT_QP_H
#define BENCH_CONNECT_QP_H

#include <infiniband/verbs.h>

/**
 * Bring an RC QP from RESET to RTS. Of attr count dest_qp_num, path_mtu, the destination GID,
 * qp_access_flags, max_rd_atomic (for both directions), min_rnr_timer and timeout. @return 0, or
 * another value: errno is set.
 */
int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr);

#endif
