/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect-qp.h"

int connect_qp(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} steps[] = {
		{IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
		{IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
		{IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC},
	};

	attr.port_num = attr.ah_attr.port_num = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.hop_limit = 64;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_dest_rd_atomic = attr.max_rd_atomic;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		attr.qp_state = steps[i].state;
		if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | steps[i].mask))
			return -1;
	}
	return 0;
}
