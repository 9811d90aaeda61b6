/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XRC target: states, creation, and a domain in two endpoints. test/scenario/resp-xrc.scenario
 * has its packets.
 */
#include <errno.h>
#include <string.h>

#include "hostile.h"

static struct hostile h;
#define XRC(name) TEST(resp_xrc, name)

/* ---- states and creation ---- */

static int move(enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = {.qp_state = to, .port_num = 1, .path_mtu = IBV_MTU_256};

	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	memcpy(a.ah_attr.grh.dgid.raw, h.peer.raw, 16);
	return rocemu_qp_modify(h.qp, 0, &a, mask | IBV_QP_STATE);
}

enum {
	INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RTR = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	RTR_TARGET = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RTS = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
	RTS_INITIATOR = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
};

XRC(target_states__a_responders_attributes)
{
	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	assert_int_equal(move(IBV_QPS_INIT, INIT & ~IBV_QP_ACCESS_FLAGS), -EINVAL);
	assert_int_equal(move(IBV_QPS_INIT, INIT), 0);
	assert_int_equal(move(IBV_QPS_RTR, RTR), -EINVAL);
	assert_int_equal(move(IBV_QPS_RTR, RTR | RTR_TARGET), 0);
	assert_int_equal(move(IBV_QPS_RTS, RTS | RTS_INITIATOR), -EINVAL);
	assert_int_equal(move(IBV_QPS_RTS, IBV_QP_SQ_PSN), -EINVAL);
	assert_int_equal(move(IBV_QPS_RTS, RTS), 0);
	assert_int_equal(move(IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(move(IBV_QPS_SQD, 0), 0);
	assert_int_equal(move(IBV_QPS_SQD, IBV_QP_RETRY_CNT), -EINVAL);
	assert_int_equal(move(IBV_QPS_SQD, IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	assert_int_equal(move(IBV_QPS_ERR, 0), 0);
	assert_int_equal(move(IBV_QPS_RESET, 0), 0);
	hostile_free(&h);
}

XRC(initiator_states__a_requesters_attributes)
{
	struct rocemu_qp_init init = {.type = IBV_QPT_XRC_SEND, .cap.max_send_wr = 1};
	struct rocemu_qp *target;

	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	target = h.qp;
	init.pd = h.pd;
	init.send_cq = h.cq;
	assert_int_equal(rocemu_qp_create(h.ep, &init, &h.qp), 0);
	assert_int_equal(move(IBV_QPS_INIT, INIT), 0);
	assert_int_equal(move(IBV_QPS_RTR, RTR | RTR_TARGET), -EINVAL);
	assert_int_equal(move(IBV_QPS_RTR, RTR), 0);
	assert_int_equal(move(IBV_QPS_RTS, RTS), -EINVAL);
	assert_int_equal(move(IBV_QPS_RTS, RTS | RTS_INITIATOR), 0);
	assert_int_equal(move(IBV_QPS_RTS, IBV_QP_MIN_RNR_TIMER), -EINVAL);
	assert_int_equal(move(IBV_QPS_SQD, 0), 0);
	assert_int_equal(move(IBV_QPS_SQD, IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT), 0);
	assert_int_equal(move(IBV_QPS_RTS, 0), 0);
	h.qp = target;
	hostile_free(&h);
}

XRC(creation__an_object_too_few_or_too_many__einval)
{
	struct ibv_srq_attr attr = {.max_wr = 1};
	struct rocemu_qp_init ini, tgt;
	struct rocemu_srq *srq;
	struct rocemu_qp *qp;

	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	ini = (struct rocemu_qp_init){.type = IBV_QPT_XRC_SEND, .pd = h.pd, .send_cq = h.cq};
	tgt = (struct rocemu_qp_init){.type = IBV_QPT_XRC_RECV, .xrcd = h.xrcd};
#define REFUSED(init, field, value)                                           \
	do {                                                                  \
		struct rocemu_qp_init bad = init;                             \
		bad.field = value;                                            \
		assert_int_equal(rocemu_qp_create(h.ep, &bad, &qp), -EINVAL); \
	} while (0)
	REFUSED(ini, pd, NULL);
	REFUSED(ini, send_cq, NULL);
	REFUSED(ini, recv_cq, h.cq);
	REFUSED(ini, xrcd, h.xrcd);
	REFUSED(tgt, xrcd, NULL);
	REFUSED(tgt, pd, h.pd);
	REFUSED(tgt, send_cq, h.cq);
	REFUSED(tgt, srq, h.srq);
	assert_int_equal(rocemu_xrc_srq_create(h.pd, NULL, h.cq, &attr, NULL, &srq), -EINVAL);
	assert_int_equal(rocemu_xrc_srq_create(h.pd, h.xrcd, NULL, &attr, NULL, &srq), -EINVAL);
	hostile_free(&h);
}

XRC(refs__busy_until_the_last_goes)
{
	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	assert_int_equal(rocemu_cq_destroy(h.cq), -EBUSY);
	assert_int_equal(rocemu_xrcd_free(h.xrcd), -EBUSY);
	assert_ptr_equal(rocemu_qp_xrcd(h.qp), h.xrcd);
	hostile_free(&h);
}

XRC(domain_of_an_srq__busy_until_that_is_gone)
{
	struct ibv_srq_attr attr = {.max_wr = 1};
	struct rocemu_xrcd *other;
	struct rocemu_srq *srq;

	hostile_new(&h, IBV_QPT_XRC_RECV, false);
	other = rocemu_xrcd_new(h.ep);
	assert_int_equal(rocemu_xrc_srq_create(h.pd, other, h.cq, &attr, NULL, &srq), 0);
	assert_int_equal(rocemu_xrcd_free(other), -EBUSY);
	assert_int_equal(rocemu_srq_destroy(srq), 0);
	assert_int_equal(rocemu_xrcd_free(other), 0);
	hostile_free(&h);
}

/* ---- a domain in two endpoints ---- */

/* What another endpoint has of h's domain; its region is h.recv's. */
struct part {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_xrcd *xrcd;
	struct rocemu_srq *srq;
	struct rocemu_mr *mr;
};

static void part_new(struct part *p, uint64_t seed)
{
	struct ibv_srq_attr attr = {.max_wr = 16, .max_sge = 4};

	p->ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = seed});
	assert_non_null(p->ep);
	p->pd = rocemu_pd_new(p->ep);
	assert_int_equal(rocemu_cq_create(p->ep, 16, NULL, &p->cq), 0);
	p->xrcd = rocemu_xrcd_part_new(p->ep, h.xrcd);
	assert_non_null(p->xrcd);
	assert_int_equal(rocemu_xrc_srq_create(p->pd, p->xrcd, p->cq, &attr, NULL, &p->srq), 0);
	assert_int_equal(rocemu_mr_reg(p->pd, h.recv, HOSTILE_MEM, (uintptr_t)h.recv,
				       HOSTILE_ALL_ACCESS, &p->mr),
			 0);
}

static void part_recv(struct part *p, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)h.recv, len, rocemu_mr_lkey(p->mr)};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	assert_int_equal(rocemu_srq_post(p->srq, &wr, &bad), 0);
}

XRC(srq_in_another_endpoint__memory_completion_and_events_there)
{
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct rocemu_event ev;
	struct rocemu_cqe cqe;
	struct part p;

	hostile_start(&h, IBV_QPT_XRC_RECV);
	part_new(&p, 2);
	part_recv(&p, 7, 1000);
	assert_int_equal(rocemu_srq_modify(p.srq, &limit, IBV_SRQ_LIMIT), 0);
	h.srqn = rocemu_srq_num(p.srq);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1");
	assert_int_equal(rocemu_cq_poll(p.cq, &cqe, 1), 1);
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	assert_memory_equal(h.recv, h.payload, 8);
	assert_true(rocemu_ep_next_event(p.ep, &ev));
	assert_int_equal(ev.async, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.u.srq, p.srq);

	/* Keys are those of the SRQ's PD, whatever the target's endpoint has under the number. */
	h.rkey = rocemu_mr_rkey(p.mr);
	hostile_send_reth(&h, ROCEMU_XRC_READ_REQUEST, 1, 0,
			  (uint64_t)((uintptr_t)h.recv - (uintptr_t)h.mem), 300);
	EXPECT(&h, "first 1+256; last 2+44");
	assert_memory_equal(h.answer, h.recv + 256, 44);

	/* Its own SRQs are there as before. */
	h.srqn = rocemu_srq_num(h.srq);
	hostile_recv(&h, 9, 0, 8);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 3, 8);
	EXPECT(&h, "ack 3/3; recv 9 len 8");
	rocemu_ep_free(p.ep);
	hostile_free(&h);
}

XRC(srq_in_another_endpoint__gone_within_a_message__invalid_request)
{
	struct rocemu_cqe cqe;
	struct part p;

	hostile_start(&h, IBV_QPT_XRC_RECV);
	part_new(&p, 2);
	part_recv(&p, 7, 1000);
	h.srqn = rocemu_srq_num(p.srq);
	hostile_send(&h, ROCEMU_XRC_SEND_FIRST, 0, HOSTILE_MTU);
	assert_int_equal(rocemu_xrcd_free(p.xrcd), -EBUSY);
	assert_int_equal(rocemu_srq_destroy(p.srq), 0);
	assert_int_equal(rocemu_xrcd_free(p.xrcd), 0);
	hostile_send(&h, ROCEMU_XRC_SEND_LAST, 1, 8);
	EXPECT(&h, "drop XRC_SRQ; nak 61 1/0; event QP_REQ_ERR; "
		   "event QP_LAST_WQE_REACHED; ERR");
	assert_int_equal(rocemu_cq_poll(p.cq, &cqe, 1), 0);
	rocemu_ep_free(p.ep);
	hostile_free(&h);
}

XRC(srq_in_another_endpoint__that_ends__invalid_request)
{
	struct part p;

	hostile_start(&h, IBV_QPT_XRC_RECV);
	part_new(&p, 2);
	h.srqn = rocemu_srq_num(p.srq);
	rocemu_ep_free(p.ep);
	hostile_send(&h, ROCEMU_XRC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop XRC_SRQ; nak 61 0/0; event QP_REQ_ERR; event QP_LAST_WQE_REACHED; ERR");
	hostile_free(&h);
}

XRC(srq_in_another_endpoint__its_number_is_another)
{
	enum { SEEDS = 2000, INDICES = 1 << 16 };
	unsigned moved = 0;

	hostile_start(&h, IBV_QPT_XRC_RECV);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct part p;

		part_new(&p, seed);
		assert_int_not_equal(rocemu_srq_num(p.srq), rocemu_srq_num(h.srq));
		/* The first SRQ of an endpoint has its first index, unless that number is taken. */
		moved += rocemu_srq_num(p.srq) % INDICES != rocemu_srq_num(h.srq) % INDICES;
		rocemu_ep_free(p.ep);
	}
	assert_true(moved > 0);
	hostile_free(&h);
}
