/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation, states and posting; what crosses the wire is tested with requester, responder and the
 * simulator. */
#include "qp-fixture.h"

#include <errno.h>

#include "base/util.h"

TEST(qp_create, number__slot_and_an_index_of_the_first_block)
{
	struct fixture f;
	uint32_t first;

	setup(&f, IBV_QPT_RC);
	first = rocemu_qp_num(f.qp);
	assert_in_range(first, 5u << 14 | 100, (5u << 14 | 100) + QPN_BLOCK - 1);
	assert_ptr_equal(rocemu_qp_find(f.ep, first), f.qp);
	assert_null(rocemu_qp_find(f.ep, first % QPN_COUNT));
	rocemu_ep_free(f.ep);
}

TEST(qp_create, numbers__each_once_before_any_again_and_at_random)
{
	static bool seen[QPN_COUNT];
	struct rocemu_qp_init init;
	struct rocemu_qp *qp;
	unsigned steps = 0;
	struct fixture f;
	uint32_t last;

	setup(&f, IBV_QPT_RC);
	last = rocemu_qp_num(f.qp);
	seen[last % QPN_COUNT] = true;
	for (unsigned i = 1; i < ROCEMU_MAX_QP; i++) {
		init = (struct rocemu_qp_init){
			.pd = f.pd, .send_cq = f.cq, .recv_cq = f.cq, .type = IBV_QPT_RC};
		assert_int_equal(rocemu_qp_create(f.ep, &init, &qp), 0);
		assert_false(seen[rocemu_qp_num(qp) % QPN_COUNT]);
		seen[rocemu_qp_num(qp) % QPN_COUNT] = true;
		steps += rocemu_qp_num(qp) == last + 1;
		last = rocemu_qp_num(qp);
		rocemu_qp_destroy(qp);
	}
	assert_false(seen[0] || seen[1] || seen[QPN_COUNT - 1]);
	/* About one in a block follows its neighbour by chance. */
	assert_true(steps < ROCEMU_MAX_QP / 32);
	rocemu_ep_free(f.ep);
}

static int make_qp(struct fixture *f, struct rocemu_qp **out)
{
	struct rocemu_qp_init init = {
		.pd = f->pd, .send_cq = f->cq, .recv_cq = f->cq, .type = IBV_QPT_RC};

	return rocemu_qp_create(f->ep, &init, out);
}

TEST(qp_create, all_numbers_of_a_slot_in_use__enomem_until_one_is_free)
{
	static struct rocemu_qp *qp[ROCEMU_MAX_QP];
	struct rocemu_qp *more;
	struct fixture f;
	uint32_t qpn;

	setup(&f, IBV_QPT_RC);
	for (unsigned i = 1; i < ROCEMU_MAX_QP; i++)
		assert_int_equal(make_qp(&f, &qp[i]), 0);
	for (unsigned i = 1; i < 100; i++) {
		assert_int_equal(make_qp(&f, &more), -ENOMEM);
		qpn = rocemu_qp_num(qp[i]);
		assert_int_equal(rocemu_qp_destroy(qp[i]), 0);
		assert_null(rocemu_qp_find(f.ep, qpn));
		assert_int_equal(make_qp(&f, &qp[i]), 0);
		assert_int_equal(rocemu_qp_num(qp[i]), qpn);
		assert_ptr_equal(rocemu_qp_find(f.ep, qpn), qp[i]);
	}
	rocemu_ep_free(f.ep);
}

TEST(qp_create, bad_arguments__errno)
{
	struct fixture f;
	struct rocemu_qp_init init = {.type = IBV_QPT_RC};
	struct rocemu_ep *no_slot = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_qp *qp;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(rocemu_qp_create(no_slot, &init, &qp), -ENXIO);
	assert_int_equal(rocemu_qp_create(f.ep, &init, &qp), -EINVAL);
	init = (struct rocemu_qp_init){
		.pd = f.pd, .send_cq = f.cq, .recv_cq = f.cq, .type = IBV_QPT_RAW_PACKET};
	assert_int_equal(rocemu_qp_create(f.ep, &init, &qp), -EOPNOTSUPP);
	init.type = IBV_QPT_UD;
	init.cap.max_send_sge = ROCEMU_MAX_SGE + 1;
	assert_int_equal(rocemu_qp_create(f.ep, &init, &qp), -EINVAL);
	rocemu_ep_free(no_slot);
	rocemu_ep_free(f.ep);
}

/** Of a QP with and without a receive queue of its own. */
struct grant {
	struct ibv_qp_cap requested, granted;
	int result;
};

TEST(qp_create, capacities__at_least_as_much_or_einval)
{
	enum { WR = ROCEMU_MAX_WR, SGE = ROCEMU_MAX_SGE, INL = ROCEMU_MAX_INLINE };
	static const struct grant t[] = {
		{{0}, {0, 0, 1, 1, sizeof(struct ibv_sge)}, 0},
		{{3, 5, 2, 4, 100}, {3, 5, 2, 4, 100}, 0},
		{{WR, WR, SGE, SGE, INL}, {WR, WR, SGE, SGE, INL}, 0},
		{{WR + 1, 1, 1, 1, 0}, {0}, -EINVAL},
		{{1, WR + 1, 1, 1, 0}, {0}, -EINVAL},
		{{1, 1, SGE + 1, 1, 0}, {0}, -EINVAL},
		{{1, 1, 1, SGE + 1, 0}, {0}, -EINVAL},
		{{1, 1, 1, 1, INL + 1}, {0}, -EINVAL},
	};
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		struct rocemu_qp_init init = {.pd = f.pd,
					      .send_cq = f.cq,
					      .recv_cq = f.cq,
					      .type = IBV_QPT_RC,
					      .cap = t[i].requested};
		const struct ibv_qp_cap *want = t[i].result ? &t[i].requested : &t[i].granted;
		struct rocemu_qp *qp;

		assert_int_equal(rocemu_qp_create(f.ep, &init, &qp), t[i].result);
		assert_memory_equal(&init.cap, want, sizeof(*want));
		if (!t[i].result)
			assert_int_equal(rocemu_qp_destroy(qp), 0);
	}
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, regular_way__attributes_kept)
{
	struct fixture f;
	struct ibv_qp_attr a;

	setup(&f, IBV_QPT_RC);
	to_rts(&f);
	rocemu_qp_query(f.qp, &a);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.dest_qp_num, 0x123456);
	assert_int_equal(a.rq_psn, 0xabcdef); /* 24 bits */
	assert_int_equal(a.sq_psn, 0x777777);
	assert_int_equal(a.path_mtu, IBV_MTU_1024);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.cap.max_send_wr, 4);
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, mask_incomplete_or_too_wide__einval_and_unchanged)
{
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT & ~IBV_QP_PORT), -EINVAL);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT | IBV_QP_QKEY), -EINVAL);
	assert_int_equal(move(&f, IBV_QPS_RTR, RC_RTR), -EINVAL);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_RESET);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	assert_int_equal(move(&f, IBV_QPS_RTS, RC_RTS), -EINVAL);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit *= 2)
		if ((RC_RTR & bit) && bit != IBV_QP_STATE)
			assert_int_equal(move(&f, IBV_QPS_RTR, RC_RTR & ~bit), -EINVAL);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_INIT);
	rocemu_ep_free(f.ep);
}

/* What every device of the kernel refuses (ib_modify_qp_is_ok); IBTA 10.3.1 leads from RESET to
 * INIT only. */
TEST(qp_modify, reset_to_error__einval)
{
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(move(&f, IBV_QPS_ERR, IBV_QP_STATE), -EINVAL);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_RESET);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	assert_int_equal(move(&f, IBV_QPS_ERR, IBV_QP_STATE), 0);
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, value_out_of_range__einval)
{
	struct fixture f;
	struct ibv_qp_attr a;

	setup(&f, IBV_QPT_RC);
	a = full_attr(IBV_QPS_INIT);
	a.port_num = 2;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_INIT), -EINVAL);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	a = full_attr(IBV_QPS_RTR);
	a.path_mtu = IBV_MTU_4096; /* above the interface's */
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), -EINVAL);
	a = full_attr(IBV_QPS_RTR);
	a.ah_attr.is_global = 0;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), -EINVAL);
	a = full_attr(IBV_QPS_RTR);
	a.ah_attr.grh.sgid_index = 1;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), -EINVAL);
	a = full_attr(IBV_QPS_RTR);
	a.max_dest_rd_atomic = ROCEMU_MAX_RD_ATOMIC + 1;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), -EINVAL);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_INIT);
	rocemu_ep_free(f.ep);
}

enum {
	UC_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	UC_RTS = IBV_QP_STATE | IBV_QP_SQ_PSN,
};

static void uc_to_rts(struct fixture *f)
{
	assert_int_equal(move(f, IBV_QPS_INIT, RC_INIT), 0);
	assert_int_equal(move(f, IBV_QPS_RTR, UC_RTR), 0);
	assert_int_equal(move(f, IBV_QPS_RTS, UC_RTS), 0);
}

static void ud_to_rts(struct fixture *f)
{
	assert_int_equal(move(f, IBV_QPS_INIT, UD_INIT), 0);
	assert_int_equal(move(f, IBV_QPS_RTR, IBV_QP_STATE), 0);
	assert_int_equal(move(f, IBV_QPS_RTS, UC_RTS), 0);
}

/** Packets that the endpoint sends now; the call after that completes requests of UC and UD. */
static unsigned output(struct fixture *f)
{
	struct rocemu_tx tx[8];
	unsigned n = rocemu_ep_output(f->ep, 0, tx, 8);

	assert_int_equal(rocemu_ep_output(f->ep, 0, tx + n, 8 - n), 0);
	return n;
}

TEST(qp_post_send, before_rts__einval)
{
	struct fixture f;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	setup(&f, IBV_QPT_UC);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL); /* RESET */
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	assert_int_equal(move(&f, IBV_QPS_RTR, UC_RTR), 0);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	wr.opcode = IBV_WR_RDMA_READ; /* which UC does not have */
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	rocemu_ep_free(f.ep);
}

TEST(qp_post_send, opcode_or_sges_that_there_are_not__einval)
{
	struct fixture f;
	struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)99};

	setup(&f, IBV_QPT_UC);
	uc_to_rts(&f);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	wr.opcode = IBV_WR_TSO;
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 3;
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	wr.opcode = IBV_WR_RDMA_READ; /* which UC does not have */
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -EINVAL);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 0;
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	rocemu_ep_free(f.ep);
}

/** A SEND, then wr, then a SEND, which is flushed: wr completes with status after the first one. */
static void expect_local_fault(struct fixture *f, struct ibv_send_wr *wr,
			       const struct rocemu_path *path, enum ibv_wc_status status)
{
	struct ibv_send_wr send = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct rocemu_cqe cqe[4];

	wr->wr_id = 2;
	assert_int_equal(rocemu_qp_post_send(f->qp, 0, &send, path), 0);
	assert_int_equal(rocemu_qp_check_send(f->qp, 0, wr, path), 0);
	assert_int_equal(rocemu_qp_post_send(f->qp, 0, wr, path), 0);
	send.wr_id = 3;
	assert_int_equal(rocemu_qp_post_send(f->qp, 0, &send, path), 0);
	assert_int_equal(output(f), 1);
	assert_int_equal(rocemu_cq_poll(f->cq, cqe, 4), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cqe[i].wr_id, i + 1);
	assert_int_equal(cqe[0].status, IBV_WC_SUCCESS);
	assert_int_equal(cqe[1].status, status);
	assert_int_equal(cqe[2].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rocemu_qp_state(f->qp), IBV_QPS_SQE);
	/* And the QP can be used again. */
	assert_int_equal(move(f, IBV_QPS_RTS, IBV_QP_STATE), 0);
	assert_int_equal(rocemu_qp_post_send(f->qp, 0, &send, path), 0);
	assert_int_equal(output(f), 1);
	assert_int_equal(rocemu_cq_poll(f->cq, cqe, 4), 1);
	assert_int_equal(cqe[0].status, IBV_WC_SUCCESS);
}

TEST(qp_post_send, uc_without_the_operation__completes_with_qp_operation_error)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD,
						 IBV_WR_ATOMIC_CMP_AND_SWP,
						 IBV_WR_SEND_WITH_INV,
						 (enum ibv_wr_opcode)ROCEMU_WR_FLUSH,
						 (enum ibv_wr_opcode)ROCEMU_WR_ATOMIC_WRITE};
	struct fixture f;

	setup(&f, IBV_QPT_UC);
	uc_to_rts(&f);
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		struct ibv_send_wr wr = {.opcode = ops[i]};

		expect_local_fault(&f, &wr, NULL, IBV_WC_LOC_QP_OP_ERR);
	}
	rocemu_ep_free(f.ep);
}

TEST(qp_post_send, ud_without_the_operation__completes_with_qp_operation_error)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE,	     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,	 IBV_WR_SEND_WITH_INV};
	const struct rocemu_path path = {.sgid = gid4, .dgid = gid4, .hop_limit = 1};
	struct fixture f;

	setup(&f, IBV_QPT_UD);
	ud_to_rts(&f);
	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		struct ibv_send_wr wr = {.opcode = ops[i]};

		expect_local_fault(&f, &wr, &path, IBV_WC_LOC_QP_OP_ERR);
	}
	rocemu_ep_free(f.ep);
}

/* IBTA 11.6.2 */
TEST(qp_post_send, longer_than_the_port_allows__completes_with_length_error)
{
	const struct rocemu_path path = {.sgid = gid4, .dgid = gid4, .hop_limit = 1};
	struct ibv_sge sge[2] = {{.length = 2048}, {.length = 1}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2};
	struct fixture f;

	setup(&f, IBV_QPT_UD);
	ud_to_rts(&f);
	expect_local_fault(&f, &wr, &path, IBV_WC_LOC_LEN_ERR);
	rocemu_ep_free(f.ep);

	sge[0].length = ROCEMU_MAX_MSG;
	wr.opcode = IBV_WR_RDMA_WRITE;
	setup(&f, IBV_QPT_UC);
	uc_to_rts(&f);
	expect_local_fault(&f, &wr, NULL, IBV_WC_LOC_LEN_ERR);
	rocemu_ep_free(f.ep);
}

TEST(qp_post_send, queue_full__enomem)
{
	struct fixture f;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	setup(&f, IBV_QPT_RC);
	to_rts(&f);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), -ENOMEM);
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, to_error__all_flushed_in_order)
{
	struct fixture f;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr rwr = {0};
	const struct ibv_recv_wr *bad;
	struct rocemu_cqe cqe[16];

	setup(&f, IBV_QPT_RC);
	to_rts(&f);
	for (uint64_t i = 0; i < 3; i++) {
		wr.wr_id = i;
		rwr.wr_id = 10 + i;
		assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
		assert_int_equal(rocemu_qp_post_recv(f.qp, 0, &rwr, &bad), 0);
	}
	assert_int_equal(move(&f, IBV_QPS_ERR, IBV_QP_STATE), 0);
	assert_int_equal(rocemu_cq_poll(f.cq, cqe, 16), 6);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(cqe[i].status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(cqe[i].wr_id, i < 3 ? i : 10 + i - 3);
	}
	/* What is posted now comes back at once. */
	wr.wr_id = 77;
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	rwr.wr_id = 78;
	assert_int_equal(rocemu_qp_post_recv(f.qp, 0, &rwr, &bad), 0);
	assert_int_equal(rocemu_cq_poll(f.cq, cqe, 16), 2);
	assert_int_equal(cqe[0].wr_id, 77);
	assert_int_equal(cqe[1].wr_id, 78);
	/* And after RESET it is as new. */
	assert_int_equal(move(&f, IBV_QPS_RESET, IBV_QP_STATE), 0);
	to_rts(&f);
	assert_int_equal(rocemu_cq_count(f.cq), 0);
	rocemu_ep_free(f.ep);
}

TEST(qp_destroy, refs__cq_and_pd_are_busy_until_then)
{
	struct fixture f;

	setup(&f, IBV_QPT_UD);
	assert_int_equal(rocemu_cq_destroy(f.cq), -EBUSY);
	assert_int_equal(rocemu_pd_free(f.pd), -EBUSY);
	assert_int_equal(rocemu_qp_destroy(f.qp), 0);
	assert_int_equal(rocemu_cq_destroy(f.cq), 0);
	assert_int_equal(rocemu_pd_free(f.pd), 0);
	rocemu_ep_free(f.ep);
}

TEST(qp_destroy, completions_and_timers__go_with_it)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct fixture f;
	uint32_t timers;

	setup(&f, IBV_QPT_RC);
	timers = f.ep->timers.reserved;
	to_rts(&f);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &err, IBV_QP_STATE), 0);
	assert_int_equal(rocemu_cq_count(f.cq), 1);
	assert_int_equal(rocemu_qp_destroy(f.qp), 0);
	assert_int_equal(rocemu_cq_count(f.cq), 0);
	assert_int_equal(f.ep->timers.reserved, timers - 1);
	assert_int_equal(f.ep->nqps, 0);
	rocemu_ep_free(f.ep);
}

TEST(qp_destroy, two_cqs_and_an_event__nothing_of_it_is_left)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	const struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct rocemu_qp_init init = {.type = IBV_QPT_RC, .cap = {4, 4, 2, 2, 32}};
	struct rocemu_event ev;
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(rocemu_qp_destroy(f.qp), 0);
	init.pd = f.pd;
	init.send_cq = f.cq;
	assert_int_equal(rocemu_cq_create(f.ep, 16, NULL, &init.recv_cq), 0);
	assert_int_equal(rocemu_qp_create(f.ep, &init, &f.qp), 0);
	to_rts(&f);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &send, NULL), 0);
	assert_int_equal(rocemu_qp_post_recv(f.qp, 0, &recv, &bad), 0);
	qp_fail(f.qp, 0);
	qp_event(f.qp, IBV_EVENT_QP_FATAL);
	assert_true(rocemu_ep_has_event(f.ep));
	assert_int_equal(rocemu_cq_count(f.cq), 1);
	assert_int_equal(rocemu_cq_count(init.recv_cq), 1);
	assert_int_equal(rocemu_qp_destroy(f.qp), 0);
	assert_int_equal(rocemu_cq_count(f.cq), 0);
	assert_int_equal(rocemu_cq_count(init.recv_cq), 0);
	assert_false(rocemu_ep_next_event(f.ep, &ev));
	rocemu_ep_free(f.ep);
}

TEST(ep_set_slot, while_there_are_qps__ebusy)
{
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(rocemu_ep_set_slot(f.ep, 6, 0), -EBUSY);
	assert_int_equal(rocemu_qp_destroy(f.qp), 0);
	assert_int_equal(rocemu_ep_set_slot(f.ep, 6, 0), 0);
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, ud_way__short_masks)
{
	struct fixture f;

	setup(&f, IBV_QPT_UD);
	assert_int_equal(move(&f, IBV_QPS_INIT, UD_INIT), 0);
	assert_int_equal(move(&f, IBV_QPS_RTR, IBV_QP_STATE), 0);
	assert_int_equal(move(&f, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_int_equal(move(&f, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY), 0);
	rocemu_ep_free(f.ep);
}

TEST(send_credits, used_up__requests_wait_until_there_is_more)
{
	struct fixture f;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct rocemu_tx tx[8];

	setup(&f, IBV_QPT_UC);
	uc_to_rts(&f);
	rocemu_ep_set_send_credits(f.ep, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	assert_true(rocemu_ep_has_output(f.ep));
	assert_int_equal(rocemu_ep_output(f.ep, 0, tx, 8), 0);
	assert_false(rocemu_ep_has_output(f.ep));
	assert_true(rocemu_ep_wants_send_credits(f.ep));
	/*
	 * Any credit releases one request: a request must not wait for more than a buffer can have.
	 */
	rocemu_ep_set_send_credits(f.ep, 1);
	assert_int_equal(rocemu_ep_output(f.ep, 0, tx, 8), 1);
	assert_true(rocemu_ep_wants_send_credits(f.ep));
	rocemu_ep_set_send_credits(f.ep, UINT64_MAX);
	assert_int_equal(rocemu_ep_output(f.ep, 0, tx, 8), 2);
	assert_false(rocemu_ep_wants_send_credits(f.ep));
	rocemu_ep_free(f.ep);
}

TEST(qp_in_flight, sent_and_not_acknowledged__true)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct rocemu_tx tx[2];
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	to_rts(&f);
	assert_int_equal(rocemu_qp_post_send(f.qp, 0, &wr, NULL), 0);
	assert_false(rocemu_qp_in_flight(f.qp));
	assert_int_equal(rocemu_ep_output(f.ep, 0, tx, 2), 1);
	assert_true(rocemu_qp_in_flight(f.qp));
	rocemu_ep_free(f.ep);
}

TEST(qp_modify, state_that_there_is_not__einval)
{
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(move(&f, (enum ibv_qp_state)(IBV_QPS_ERR + 1), IBV_QP_STATE), -EINVAL);
	assert_int_equal(move(&f, (enum ibv_qp_state) - 1, IBV_QP_STATE), -EINVAL);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_RESET);
	rocemu_ep_free(f.ep);
}

/* The responder has room for as many as the device allows. */
TEST(qp_modify, device_with_fewer_reads_at_a_time__its_limit)
{
	struct rocemu_ep_config cfg = {.seed = 1, .active_mtu = IBV_MTU_2048, .max_rd_atomic = 4};
	struct ibv_qp_attr a = full_attr(IBV_QPS_RTR);
	struct fixture f = {.ep = rocemu_ep_new(&cfg)};
	struct rocemu_qp_init init = {.type = IBV_QPT_RC, .cap = {4, 4, 2, 2, 32}};

	assert_int_equal(rocemu_ep_set_slot(f.ep, 5, 100), 0);
	assert_int_equal(rocemu_ep_set_gid(f.ep, 0, &gid4), 0);
	init.pd = rocemu_pd_new(f.ep);
	assert_int_equal(rocemu_cq_create(f.ep, 16, NULL, &f.cq), 0);
	init.send_cq = init.recv_cq = f.cq;
	assert_int_equal(rocemu_qp_create(f.ep, &init, &f.qp), 0);
	assert_int_equal(f.qp->resp.room, 4);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	a.max_dest_rd_atomic = 5;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), -EINVAL);
	a.max_dest_rd_atomic = 4;
	assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, RC_RTR), 0);
	assert_int_equal(f.qp->resp.limit, 4);
	rocemu_ep_free(f.ep);
}
