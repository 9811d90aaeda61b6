/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP of an endpoint, and the attributes of its transitions. */
#ifndef TEST_TRANSPORT_QP_FIXTURE_H
#define TEST_TRANSPORT_QP_FIXTURE_H

#include "test.h"

#include <string.h>

#include "transport/qp.h"

struct fixture {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp;
};

static const struct rocemu_gid gid4 = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

static inline void setup(struct fixture *f, enum ibv_qp_type type)
{
	struct rocemu_qp_init init;

	f->ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .active_mtu = IBV_MTU_2048});
	assert_int_equal(rocemu_ep_set_slot(f->ep, 5, 100), 0);
	assert_int_equal(rocemu_ep_set_gid(f->ep, 0, &gid4), 0);
	f->pd = rocemu_pd_new(f->ep);
	assert_int_equal(rocemu_cq_create(f->ep, 16, NULL, &f->cq), 0);
	init = (struct rocemu_qp_init){
		.pd = f->pd, .send_cq = f->cq, .recv_cq = f->cq, .type = type};
	init.cap = (struct ibv_qp_cap){4, 4, 2, 2, 32};
	assert_int_equal(rocemu_qp_create(f->ep, &init, &f->qp), 0);
}

static inline struct ibv_qp_attr full_attr(enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {
		.qp_state = to,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x123456,
		.rq_psn = 0x1abcdef,
		.sq_psn = 0x777777,
		.qkey = 0x11,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
	};

	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	memcpy(a.ah_attr.grh.dgid.raw, gid4.raw, 16);
	return a;
}

enum {
	RC_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	UD_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	RC_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RC_RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

static inline int move(struct fixture *f, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = full_attr(to);

	return rocemu_qp_modify(f->qp, 0, &a, mask);
}

static inline void to_rts(struct fixture *f)
{
	assert_int_equal(move(f, IBV_QPS_INIT, RC_INIT), 0);
	assert_int_equal(move(f, IBV_QPS_RTR, RC_RTR), 0);
	assert_int_equal(move(f, IBV_QPS_RTS, RC_RTS), 0);
}

#endif
