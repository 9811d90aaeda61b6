/* SPDX-License-Identifier: BSD-2-Clause */
/* Reasons of calls on a QP that are refused, with their values; scenario-why has others. */
#include "qp-fixture.h"

#include <errno.h>

#include "base/util.h"

static void keep_reason(void *user, const struct rocemu_why *w)
{
	*(struct rocemu_why *)user = *w;
}

/** A transition that is refused. @return the reason. */
static struct rocemu_why refused(struct fixture *f, const struct ibv_qp_attr *a, int mask)
{
	struct rocemu_why w = {0};

	f->ep->cfg.why = keep_reason;
	f->ep->cfg.why_user = &w;
	assert_int_equal(rocemu_qp_modify(f->qp, 0, a, mask), -EINVAL);
	f->ep->cfg.why = NULL;
	return w;
}

TEST(why, modify__what_is_missing_and_what_is_too_much)
{
	struct ibv_qp_attr a = full_attr(IBV_QPS_RTR);
	const int missing = IBV_QP_AV | IBV_QP_MIN_RNR_TIMER;
	struct fixture f;
	struct rocemu_why w;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(refused(&f, &a, RC_RTR).code, ROCEMU_WHY_NO_TRANSITION);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	w = refused(&f, &a, RC_RTR & ~missing);
	assert_int_equal(w.code, ROCEMU_WHY_MISSING);
	assert_int_equal(w.n, missing);
	assert_int_equal(w.limit, RC_RTR & ~IBV_QP_STATE);
	w = refused(&f, &a, RC_RTR | IBV_QP_SQ_PSN);
	assert_int_equal(w.code, ROCEMU_WHY_NOT_ALLOWED);
	assert_int_equal(w.n, IBV_QP_SQ_PSN);
	rocemu_ep_free(f.ep);
}

TEST(why, modify_with_a_wrong_path__which_member_and_its_value)
{
	struct ibv_qp_attr a = full_attr(IBV_QPS_RTR);
	struct fixture f;
	struct rocemu_why w;

	setup(&f, IBV_QPT_RC);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	a.ah_attr.grh.dgid.raw[10] = 0;
	w = refused(&f, &a, RC_RTR);
	assert_int_equal(w.code, ROCEMU_WHY_PATH);
	assert_string_equal(w.what, "a dgid of another address family than sgid_index");
	a.ah_attr.grh.sgid_index = 1; /* not in the table */
	w = refused(&f, &a, RC_RTR);
	assert_string_equal(w.what, "sgid_index");
	assert_int_equal(w.n, 1);
	a.ah_attr.is_global = 0;
	w = refused(&f, &a, RC_RTR);
	assert_string_equal(w.what, "is_global");
	assert_int_equal(w.n, 0);
	a.ah_attr.port_num = 2;
	w = refused(&f, &a, RC_RTR);
	assert_string_equal(w.what, "port_num");
	assert_int_equal(w.n, 2);
	rocemu_ep_free(f.ep);
}

static void count_reason(void *user, const struct rocemu_why *w)
{
	assert_int_equal(w->code, ROCEMU_WHY_DEVICE_GONE);
	++*(unsigned *)user;
}

/* A QP in RESET has nothing to fail, and one in ERR has failed. */
TEST(ep_fail, qps_in_each_state__err_with_one_reason_each)
{
	struct rocemu_qp_init init = {.type = IBV_QPT_RC};
	struct rocemu_qp *reset;
	unsigned reasons = 0;
	struct fixture f;

	setup(&f, IBV_QPT_RC);
	init.pd = f.pd;
	init.send_cq = init.recv_cq = f.cq;
	assert_int_equal(rocemu_qp_create(f.ep, &init, &reset), 0);
	assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
	f.ep->cfg.why = count_reason;
	f.ep->cfg.why_user = &reasons;
	rocemu_ep_fail(f.ep, 0);
	assert_int_equal(rocemu_qp_state(f.qp), IBV_QPS_ERR);
	assert_int_equal(rocemu_qp_state(reset), IBV_QPS_RESET);
	assert_int_equal(reasons, 1);
	rocemu_ep_fail(f.ep, 0);
	assert_int_equal(reasons, 1);
	rocemu_ep_free(f.ep);
}

/** An attribute of the transition to that state: its largest value, and whether 0 may be. */
struct bound {
	enum ibv_qp_state to;
	int bit;
	const char *name;
	uint32_t most;
};

static void set_value(struct ibv_qp_attr *a, int bit, uint32_t v)
{
	switch (bit) {
	case IBV_QP_MIN_RNR_TIMER:
		a->min_rnr_timer = (uint8_t)v;
		break;
	case IBV_QP_MAX_DEST_RD_ATOMIC:
		a->max_dest_rd_atomic = (uint8_t)v;
		break;
	case IBV_QP_DEST_QPN:
		a->dest_qp_num = v;
		break;
	case IBV_QP_TIMEOUT:
		a->timeout = (uint8_t)v;
		break;
	case IBV_QP_RETRY_CNT:
		a->retry_cnt = (uint8_t)v;
		break;
	case IBV_QP_RNR_RETRY:
		a->rnr_retry = (uint8_t)v;
		break;
	default:
		a->max_rd_atomic = (uint8_t)v;
		break;
	}
}

TEST(why, modify_with_a_value__up_to_the_largest_taken_beyond_reported)
{
	static const struct bound t[] = {
		{IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", 31},
		{IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic",
		 ROCEMU_MAX_RD_ATOMIC},
		{IBV_QPS_RTR, IBV_QP_DEST_QPN, "dest_qp_num", ROCEMU_QPN_MASK},
		{IBV_QPS_RTS, IBV_QP_TIMEOUT, "timeout", 31},
		{IBV_QPS_RTS, IBV_QP_RETRY_CNT, "retry_cnt", 7},
		{IBV_QPS_RTS, IBV_QP_RNR_RETRY, "rnr_retry", 7},
		{IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", ROCEMU_MAX_RD_ATOMIC},
	};

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		const int mask = t[i].to == IBV_QPS_RTR ? RC_RTR : RC_RTS;
		struct ibv_qp_attr a = full_attr(t[i].to);
		struct fixture f;
		struct rocemu_why w;

		setup(&f, IBV_QPT_RC);
		assert_int_equal(move(&f, IBV_QPS_INIT, RC_INIT), 0);
		if (t[i].to == IBV_QPS_RTS)
			assert_int_equal(move(&f, IBV_QPS_RTR, RC_RTR), 0);
		set_value(&a, t[i].bit, t[i].most + 1);
		w = refused(&f, &a, mask);
		assert_int_equal(w.code, ROCEMU_WHY_VALUE);
		assert_string_equal(w.what, t[i].name);
		assert_int_equal(w.n, t[i].most + 1);
		assert_int_equal(w.addr, 0);
		assert_int_equal(w.limit, t[i].most);
		set_value(&a, t[i].bit, t[i].most);
		assert_int_equal(rocemu_qp_modify(f.qp, 0, &a, mask), 0);
		rocemu_ep_free(f.ep);
	}
}

/** A request that may not be posted. @return the reason. */
static struct rocemu_why not_posted(struct fixture *f, const struct ibv_send_wr *wr)
{
	struct rocemu_why w = {0};

	f->ep->cfg.why = keep_reason;
	f->ep->cfg.why_user = &w;
	assert_int_equal(rocemu_qp_post_send(f->qp, 0, wr, NULL), -EINVAL);
	f->ep->cfg.why = NULL;
	return w;
}

TEST(why, post_send_of_what_there_is_not__its_value_and_the_limit)
{
	static const enum ibv_wr_opcode unknown[] = {(enum ibv_wr_opcode)12, (enum ibv_wr_opcode)16,
						     (enum ibv_wr_opcode)1000};
	struct ibv_sge sge[3] = {{0}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 3};
	struct fixture f;
	struct rocemu_why w;

	setup(&f, IBV_QPT_RC);
	to_rts(&f);
	w = not_posted(&f, &wr);
	assert_int_equal(w.code, ROCEMU_WHY_SEND_SGES);
	assert_int_equal(w.n, 3);
	assert_int_equal(w.limit, 2);
	wr.num_sge = 0;
	for (unsigned i = 0; i < ARRAY_LEN(unknown); i++) {
		wr.opcode = unknown[i];
		w = not_posted(&f, &wr);
		assert_int_equal(w.code, ROCEMU_WHY_SEND_OPCODE);
		assert_int_equal(w.n, unknown[i]);
		assert_string_equal(w.what, "unknown operation");
	}
	rocemu_ep_free(f.ep);
}
