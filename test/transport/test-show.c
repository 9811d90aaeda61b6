/* SPDX-License-Identifier: BSD-2-Clause */
/* What an endpoint counts and shows in the caller's memory. */
#include "test.h"

#include <stdlib.h>

#include <rocemu/report.h>

#include "transport/qp.h"

struct fixture {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_ep_shown *shown;
};

static void setup(struct fixture *f)
{
	f->ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .active_mtu = IBV_MTU_1024});
	assert_non_null(f->ep);
	assert_int_equal(rocemu_ep_set_slot(f->ep, 5, 100), 0);
	f->pd = rocemu_pd_new(f->ep);
	assert_int_equal(rocemu_cq_create(f->ep, 16, NULL, &f->cq), 0);
	f->shown = calloc(1, sizeof(*f->shown));
	assert_non_null(f->shown);
}

static void teardown(struct fixture *f)
{
	rocemu_ep_free(f->ep);
	free(f->shown);
}

static struct rocemu_qp *new_qp(struct fixture *f)
{
	struct rocemu_qp_init init = {.pd = f->pd,
				      .send_cq = f->cq,
				      .recv_cq = f->cq,
				      .type = IBV_QPT_UD,
				      .cap = {4, 4, 2, 2, 32}};
	struct rocemu_qp *qp;

	assert_int_equal(rocemu_qp_create(f->ep, &init, &qp), 0);
	return qp;
}

static const struct rocemu_qp_info *info(const struct fixture *f, const struct rocemu_qp *qp)
{
	return &f->shown->qp[qp->qpn % QPN_COUNT];
}

TEST(count_in, memory_of_the_callers__gets_what_was_counted_and_what_will_be)
{
	struct rocemu_dgram junk = {.data = (const uint8_t *)"", .len = 1};
	struct rocemu_ep_stats mine;
	struct fixture f;

	setup(&f);
	rocemu_ep_input(f.ep, 0, &junk);
	rocemu_ep_count_in(f.ep, &mine);
	assert_ptr_equal(rocemu_ep_get_stats(f.ep), &mine);
	assert_int_equal(mine.drops[ROCEMU_DROP_SHORT], 1);
	rocemu_ep_input(f.ep, 0, &junk);
	assert_int_equal(mine.drops[ROCEMU_DROP_SHORT], 2);
	rocemu_ep_count_in(f.ep, &mine);
	assert_int_equal(mine.drops[ROCEMU_DROP_SHORT], 2);
	rocemu_ep_count_in(f.ep, NULL);
	rocemu_ep_input(f.ep, 0, &junk);
	assert_int_equal(mine.drops[ROCEMU_DROP_SHORT], 2);
	assert_int_equal(rocemu_ep_get_stats(f.ep)->drops[ROCEMU_DROP_SHORT], 3);
	teardown(&f);
}

TEST(count_in, flushed_requests__counted_as_errors)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct fixture f;
	struct rocemu_qp *qp;

	setup(&f);
	qp = new_qp(&f);
	assert_int_equal(
		rocemu_qp_modify(qp, 0, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	assert_int_equal(rocemu_qp_post_recv(qp, 0, &wr, &bad), 0);
	qp_fail(qp, 0);
	assert_int_equal(rocemu_ep_get_stats(f.ep)->resp_errors, 1);
	assert_int_equal(rocemu_ep_get_stats(f.ep)->resp_flushed, 1);
	assert_int_equal(rocemu_ep_get_stats(f.ep)->req_errors, 0);
	teardown(&f);
}

TEST(show, objects__counted_as_they_come_and_go)
{
	struct ibv_srq_attr attr = {.max_wr = 1, .max_sge = 1};
	struct fixture f;
	struct rocemu_qp *qp;
	struct rocemu_mr *mr;
	struct rocemu_cq *cq;
	struct rocemu_pd *pd;
	struct rocemu_srq *srq;
	uint8_t mem[8];

	setup(&f);
	rocemu_ep_show(f.ep, f.shown);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_PD], 1);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_CQ], 1);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_QP], 0);
	qp = new_qp(&f);
	assert_int_equal(rocemu_cq_create(f.ep, 16, NULL, &cq), 0);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_CQ], 2);
	assert_int_equal(rocemu_ep_object_count(f.ep, ROCEMU_OBJECT_CQ), 2);
	assert_int_equal(rocemu_cq_destroy(cq), 0);
	pd = rocemu_pd_new(f.ep);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_PD], 2);
	assert_int_equal(rocemu_srq_create(pd, &attr, NULL, &srq), 0);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_SRQ], 1);
	assert_int_equal(rocemu_srq_destroy(srq), 0);
	assert_int_equal(rocemu_pd_free(pd), 0);
	assert_int_equal(rocemu_mr_reg(f.pd, mem, sizeof(mem), 0, 0, &mr), 0);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_QP], 1);
	assert_int_equal(f.shown->objects[ROCEMU_OBJECT_MR], 1);
	assert_int_equal(rocemu_mr_dereg(mr), 0);
	assert_int_equal(rocemu_qp_destroy(qp), 0);
	assert_int_equal(rocemu_cq_destroy(f.cq), 0);
	assert_int_equal(rocemu_pd_free(f.pd), 0);
	for (unsigned i = 0; i < ROCEMU_OBJECT_COUNT; i++)
		assert_int_equal(f.shown->objects[i], 0);
	teardown(&f);
}

TEST(show, qps__with_their_state_until_they_are_destroyed)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct fixture f;
	const struct rocemu_qp_info *at;
	struct rocemu_qp *before, *qp;

	setup(&f);
	before = new_qp(&f);
	rocemu_ep_show(f.ep, f.shown);
	qp = new_qp(&f);
	rocemu_ep_show_part(f.ep, before->qpn);
	rocemu_ep_show_part(f.ep, qp->qpn);
	assert_int_equal(info(&f, before)->qpn, before->qpn);
	assert_int_equal(info(&f, qp)->qpn, qp->qpn);
	assert_int_equal(info(&f, qp)->type, IBV_QPT_UD);
	assert_int_equal(info(&f, qp)->state, IBV_QPS_RESET);
	assert_int_equal(
		rocemu_qp_modify(qp, 0, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	assert_int_equal(info(&f, qp)->state, IBV_QPS_INIT);
	qp_fail(qp, 0);
	assert_int_equal(info(&f, qp)->state, IBV_QPS_ERR);
	assert_int_equal(info(&f, before)->state, IBV_QPS_RESET);
	at = info(&f, qp);
	assert_int_equal(rocemu_qp_destroy(qp), 0);
	assert_int_equal(at->qpn, 0);
	rocemu_ep_show(f.ep, NULL);
	assert_int_equal(rocemu_qp_destroy(before), 0);
	teardown(&f);
}

TEST(show, part_not_shown__not_written)
{
	struct fixture f;
	struct rocemu_qp *qp;
	unsigned in_part = 0;
	const struct rocemu_qp_info *at;

	setup(&f);
	rocemu_ep_show(f.ep, f.shown);
	qp = new_qp(&f);
	at = info(&f, qp);
	assert_false(rocemu_ep_shows_part(f.ep, qp->qpn));
	assert_int_equal(at->qpn, 0);
	rocemu_ep_show_part(f.ep, qp->qpn);
	assert_true(rocemu_ep_shows_part(f.ep, qp->qpn));
	assert_false(rocemu_ep_shows_part(f.ep, qp->qpn + ROCEMU_SHOWN_PART));
	assert_int_equal(at->qpn, qp->qpn);
	for (unsigned i = 0; i < 64; i++) {
		struct rocemu_qp *later = new_qp(&f);
		const bool shown = rocemu_ep_shows_part(f.ep, later->qpn);

		assert_int_equal(info(&f, later)->qpn, shown ? later->qpn : 0);
		in_part += shown;
		assert_int_equal(rocemu_qp_destroy(later), 0);
	}
	assert_int_not_equal(in_part, 0);
	rocemu_ep_show(f.ep, NULL);
	assert_false(rocemu_ep_shows_part(f.ep, qp->qpn));
	assert_int_equal(rocemu_qp_destroy(qp), 0);
	teardown(&f);
}

TEST(report, walk__finds_each_qp_once_and_ends)
{
	struct rocemu_qp_report r[2];
	struct rocemu_qp *qps[5];
	uint32_t next = 0;
	unsigned seen[5] = {0}, calls = 0;
	struct fixture f;

	setup(&f);
	for (unsigned i = 0; i < 5; i++)
		qps[i] = new_qp(&f);
	while (next != UINT32_MAX) {
		const unsigned got = rocemu_ep_report(f.ep, 0, &next, r, 2);

		assert_in_range(got, 0, 2);
		for (unsigned i = 0; i < got; i++)
			for (unsigned k = 0; k < 5; k++)
				seen[k] += r[i].qpn == qps[k]->qpn;
		assert_in_range(++calls, 1, 100);
	}
	for (unsigned k = 0; k < 5; k++)
		assert_int_equal(seen[k], 1);
	assert_int_equal(rocemu_ep_report(f.ep, 0, &next, r, 2), 0);
	teardown(&f);
}

TEST(report, no_slot__ends_at_once)
{
	struct rocemu_ep *ep =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1, .active_mtu = IBV_MTU_1024});
	struct rocemu_qp_report r;
	uint32_t next = 0;

	assert_int_equal(rocemu_ep_report(ep, 0, &next, &r, 1), 0);
	assert_int_equal(next, UINT32_MAX);
	rocemu_ep_free(ep);
}
