/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues; what takes their receives is tested with the responder. */
#include "test.h"

#include <errno.h>

#include "base/util.h"
#include "transport/rq.h"

static struct rocemu_ep *new_ep(void)
{
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});

	assert_non_null(ep);
	return ep;
}

TEST(srq_move, with_receives__its_new_endpoint_has_them_and_its_events)
{
	struct rocemu_ep *from = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_ep *to =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 2, .domains_of = from});
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1}, limit = {.srq_limit = 2};
	const struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct rocemu_pd *pd = rocemu_pd_new(from);
	struct rocemu_srq *srq;
	struct rocemu_event ev;

	assert_int_equal(rocemu_srq_create(pd, &attr, NULL, &srq), 0);
	assert_int_equal(rocemu_srq_post(srq, &wr, &bad), 0);
	srq->refs++;
	assert_int_equal(rocemu_srq_move(srq, to), -EBUSY);
	srq->refs--;
	assert_int_equal(rocemu_srq_move(srq, to), 0);
	assert_int_equal(rq_count(&srq->rq), 1);
	assert_int_equal(rocemu_srq_modify(srq, &limit, IBV_SRQ_LIMIT), 0);
	assert_false(rocemu_ep_next_event(from, &ev));
	assert_true(rocemu_ep_next_event(to, &ev));
	assert_int_equal(ev.async, IBV_EVENT_SRQ_LIMIT_REACHED);
	rocemu_ep_free(to);
	assert_int_equal(rocemu_pd_free(pd), 0);
	rocemu_ep_free(from);
}

TEST(srq_create, limits__taken_and_einval_beyond)
{
	static const struct {
		uint32_t max_wr, max_sge;
		int result;
	} t[] = {
		{0, 1, -EINVAL},	{1, 0, 0},
		{1, ROCEMU_MAX_SGE, 0}, {1, ROCEMU_MAX_SGE + 1, -EINVAL},
		{ROCEMU_MAX_WR, 1, 0},	{ROCEMU_MAX_WR + 1, 1, -EINVAL},
	};
	struct rocemu_ep *ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_pd *pd = rocemu_pd_new(ep);

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct ibv_srq_attr attr = {.max_wr = t[i].max_wr, .max_sge = t[i].max_sge};
		struct rocemu_srq *srq;

		assert_int_equal(rocemu_srq_create(pd, &attr, NULL, &srq), t[i].result);
		if (!t[i].result)
			assert_int_equal(rocemu_srq_destroy(srq), 0);
	}
	assert_int_equal(rocemu_pd_free(pd), 0);
	rocemu_ep_free(ep);
}

static struct rocemu_srq *new_srq(struct rocemu_ep *ep, uint32_t max_wr, unsigned posted)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = 1};
	const struct ibv_recv_wr *bad;
	struct rocemu_srq *srq;

	assert_int_equal(rocemu_srq_create(rocemu_pd_new(ep), &attr, ep, &srq), 0);
	assert_ptr_equal(rocemu_srq_user(srq), ep);
	for (unsigned i = 0; i < posted; i++)
		assert_int_equal(
			rocemu_srq_post(srq, &(const struct ibv_recv_wr){.wr_id = i}, &bad), 0);
	return srq;
}

TEST(srq_modify, size_and_limit__taken_together_or_not_at_all)
{
	static const struct {
		uint32_t max_wr, limit;
		int mask, result;
		uint32_t has_wr, has_limit;
	} t[] = {
		{1, 0, IBV_SRQ_MAX_WR, -EINVAL, 8, 0}, /* two are posted */
		{0, 0, IBV_SRQ_MAX_WR, -EINVAL, 8, 0},
		{ROCEMU_MAX_WR + 1, 0, IBV_SRQ_MAX_WR, -EINVAL, 8, 0},
		{2, 9, IBV_SRQ_MAX_WR, 0, 2, 0}, /* the limit is not looked at */
		{ROCEMU_MAX_WR, 0, IBV_SRQ_MAX_WR, 0, ROCEMU_MAX_WR, 0},
		{1, 2, IBV_SRQ_LIMIT, 0, 8, 2}, /* the size is not looked at */
		{0, 9, IBV_SRQ_LIMIT, -EINVAL, 8, 0},
		{4, 5, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, -EINVAL, 8, 0},
		{4, 2, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 0, 4, 2},
		{16, 2, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT << 1, -EINVAL, 8, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct ibv_srq_attr attr = {.max_wr = t[i].max_wr, .srq_limit = t[i].limit};
		struct rocemu_ep *ep = new_ep();
		struct rocemu_srq *srq = new_srq(ep, 8, 2);

		assert_int_equal(rocemu_srq_modify(srq, &attr, t[i].mask), t[i].result);
		rocemu_srq_query(srq, &attr);
		assert_int_equal(attr.max_wr, t[i].has_wr);
		assert_int_equal(attr.srq_limit, t[i].has_limit);
		assert_int_equal(attr.max_sge, 1);
		assert_int_equal(rq_count(&srq->rq), 2);
		rocemu_ep_free(ep);
	}
}

TEST(srq_modify, size__receives_stay_in_order_and_more_fit)
{
	const struct ibv_srq_attr attr = {.max_wr = 5};
	const struct ibv_recv_wr more = {.wr_id = 3}, *bad;
	struct rocemu_ep *ep = new_ep();
	struct rocemu_srq *srq = new_srq(ep, 3, 3);
	struct rwqe w;

	assert_int_equal(rocemu_srq_post(srq, &more, &bad), -ENOMEM);
	assert_int_equal(rocemu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(rocemu_srq_post(srq, &more, &bad), 0);
	for (uint64_t i = 0; i < 4; i++) {
		assert_true(rq_take(&srq->rq, &w));
		assert_int_equal(w.wr_id, i);
	}
	assert_false(rq_take(&srq->rq, &w));
	rocemu_ep_free(ep);
}
