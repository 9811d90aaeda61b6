/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "scenario/setup.h"

#include "base/util.h"

uint8_t scenario_byte(enum scenario_area area, uint64_t i)
{
	return area == SCENARIO_RECV   ? 0xee
	       : area == SCENARIO_SEND ? (uint8_t)(7 * i + (i >> 8))
				       : (uint8_t)(13 * i + 5);
}

/* All of them repeat after that many bytes. */
#define PERIOD ((uint64_t)65536)

void scenario_fill(enum scenario_area area, uint8_t *bytes, uint64_t len)
{
	for (uint64_t i = 0; i < MIN(len, PERIOD); i++)
		bytes[i] = scenario_byte(area, i);
	for (uint64_t i = PERIOD; i < len; i += PERIOD)
		memcpy(bytes + i, bytes, MIN(len - i, PERIOD));
}

/** The smallest of at least that many bytes, or the largest there is. */
static enum ibv_mtu mtu_code(uint32_t bytes)
{
	for (enum ibv_mtu m = IBV_MTU_256; m < IBV_MTU_4096; m++)
		if (bytes <= 128u << m)
			return m;
	return IBV_MTU_4096;
}

struct ibv_qp_attr scenario_attr(const struct scenario_setup *s, unsigned end, enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.port_num = 1,
		.path_mtu = mtu_code(s->mtu),
		.rq_psn = end ? s->sq_psn : s->rq_psn,
		.sq_psn = end ? s->rq_psn : s->sq_psn,
		.qkey = s->qkey,
		.timeout = (uint8_t)s->timeout,
		.retry_cnt = (uint8_t)s->retry_cnt,
		.rnr_retry = (uint8_t)s->rnr_retry,
		.min_rnr_timer = (uint8_t)s->min_rnr_timer,
		.max_rd_atomic = (uint8_t)s->rd_atomic,
		.max_dest_rd_atomic = (uint8_t)s->dest_rd_atomic,
		.qp_access_flags = s->access,
		.en_sqd_async_notify = (uint8_t)s->sqd_notify,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
}

int scenario_attr_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const bool sends = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	const bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	int mask = IBV_QP_STATE;

	switch (to) {
	case IBV_QPS_INIT:
		return mask | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type == IBV_QPT_UD)
			return mask;
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		return mask | (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		if (from != IBV_QPS_RTR)
			return mask;
		mask |= IBV_QP_SQ_PSN | (type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : 0);
		if (sends)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC;
		return mask;
	default:
		return mask;
	}
}

void scenario_set_remote(const struct scenario_request *r, uint64_t addr, uint32_t rkey,
			 struct ibv_send_wr *wr)
{
	if (r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = addr;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.swap = r->swap_add;
		wr->wr.atomic.compare_add =
			r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? r->compare : r->swap_add;
		return;
	}
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}
