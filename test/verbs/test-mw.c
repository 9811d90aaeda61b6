/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows and SEND with invalidate between two QPs over loopback. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "dev.h"

enum { WINDOW = 1024, LEN = 512, RW = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

#define OPS                                                                                    \
	(IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV | \
	 IBV_QP_EX_WITH_BIND_MW)

/** b owns a region for windows, the upper half of the memory; a is its peer. */
struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

static void pair_open(struct pair *p, enum ibv_mw_type type)
{
	dev_open(&p->d);
	p->a = dev_qp(&p->d, IBV_QPT_RC, OPS);
	p->b = dev_qp(&p->d, IBV_QPT_RC, OPS);
	dev_connect(p->a, p->b);
	p->mr = ibv_reg_mr(p->d.pd, p->d.mem + DEV_MEM / 2, DEV_MEM / 2,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	assert_non_null(p->mr);
	p->mw = ibv_alloc_mw(p->d.pd, type);
	assert_non_null(p->mw);
}

static void pair_close_on(struct pair *p, struct ibv_pd *other)
{
	assert_int_equal(ibv_dealloc_mw(p->mw), 0);
	assert_int_equal(ibv_dereg_mr(p->mr), 0);
	if (other)
		assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

static void pair_close(struct pair *p)
{
	pair_close_on(p, NULL);
}

static uint8_t *window(struct pair *p)
{
	return p->d.mem + DEV_MEM / 2 + WINDOW;
}

static struct ibv_mw_bind_info info(struct pair *p)
{
	return (struct ibv_mw_bind_info){p->mr, (uintptr_t)window(p), LEN, RW};
}

static struct ibv_wc expect(struct pair *p, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = dev_poll(p->d.cq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static int post_bind2_as(struct pair *p, struct ibv_qp *qp, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {p->mw, rkey, info(p)},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int post_bind2(struct pair *p, struct ibv_qp *qp, uint64_t wr_id)
{
	return post_bind2_as(p, qp, wr_id, ibv_inc_rkey(p->mw->rkey));
}

/** The same by ibv_wr_bind_mw(). */
static int build_bind2_as(struct pair *p, struct ibv_qp *qp, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw_bind_info i = info(p);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = wr_id;
	ibv_wr_bind_mw(ex, p->mw, rkey, &i);
	return ibv_wr_complete(ex);
}

/** Both ways to bind a window of type 2. */
static int (*const bind2[])(struct pair *, struct ibv_qp *, uint64_t, uint32_t) = {post_bind2_as,
										   build_bind2_as};

static void post_inv(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void post_write(struct pair *p, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_sge sge = dev_sge(&p->d, 0, LEN);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)window(p), rkey},
	};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(p->a, &wr, &bad), 0);
}

TEST(mw, device__says_what_it_has)
{
	struct ibv_device_attr attr;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_device(d.ctx, &attr), 0);
	assert_true(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	assert_true(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	assert_false(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	assert_true(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	assert_true(attr.max_mw > 0);
	errno = 0;
	assert_null(ibv_alloc_mw(d.pd, (enum ibv_mw_type)0));
	assert_int_equal(errno, EINVAL);
	dev_close(&d);
}

TEST(mw, type_1_bound__key_updated_and_write_arrives)
{
	struct pair p;
	struct ibv_mw_bind bind;
	uint32_t before;

	pair_open(&p, IBV_MW_TYPE_1);
	before = p.mw->rkey;
	bind = (struct ibv_mw_bind){7, IBV_SEND_SIGNALED, info(&p)};
	assert_int_equal(ibv_bind_mw(p.b, p.mw, &bind), 0);
	assert_int_not_equal(p.mw->rkey, before);
	assert_int_equal(expect(&p, 7, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	memset(p.d.mem, 0x5a, LEN);
	post_write(&p, 8, p.mw->rkey);
	expect(&p, 8, IBV_WC_SUCCESS);
	assert_memory_equal(window(&p), p.d.mem, LEN);
	assert_int_equal(ibv_dereg_mr(p.mr), EBUSY);
	bind.bind_info = (struct ibv_mw_bind_info){0};
	assert_int_equal(ibv_bind_mw(p.b, p.mw, &bind), 0);
	expect(&p, 7, IBV_WC_SUCCESS);
	post_write(&p, 9, p.mw->rkey);
	expect(&p, 9, IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
}

/* The program chooses 8 bits, the rest is the window's: so the new key is found in the window. */
TEST(mw, type_2_bound_with_any_key__low_8_bits_taken_and_write_arrives)
{
	for (unsigned i = 0; i < 2; i++) {
		struct pair p;
		uint32_t index;

		pair_open(&p, IBV_MW_TYPE_2);
		index = p.mw->rkey & ~0xffu;
		assert_int_equal(bind2[i](&p, p.b, 1, 0xdeadbec5), 0);
		expect(&p, 1, IBV_WC_SUCCESS);
		assert_int_equal(p.mw->rkey, index | 0xc5);
		memset(p.d.mem, 0x5a, LEN);
		post_write(&p, 2, p.mw->rkey);
		expect(&p, 2, IBV_WC_SUCCESS);
		assert_memory_equal(window(&p), p.d.mem, LEN);
		pair_close(&p);
	}
}

TEST(mw, type_2_bind_that_is_not_posted__key_as_before)
{
	struct pair p;
	struct ibv_mw_bind_info none = {0};
	uint32_t before;

	pair_open(&p, IBV_MW_TYPE_2);
	before = p.mw->rkey;
	none.mw_access_flags = IBV_ACCESS_MW_BIND;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p.b);
		struct ibv_send_wr *bad,
			wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {p.mw, before + 1, none}};

		if (i == 0) {
			assert_int_equal(ibv_post_send(p.b, &wr, &bad), EINVAL);
		} else {
			ibv_wr_start(ex);
			ibv_wr_bind_mw(ex, p.mw, before + 1, &none);
			assert_int_equal(ibv_wr_complete(ex), EINVAL);
		}
		assert_int_equal(p.mw->rkey, before);
	}
	pair_close(&p);
}

/* 10.6.7.2.2: window, region and QP have the same protection domain, or the bind fails. */
TEST(mw, bind_across_protection_domains__mw_bind_err)
{
	enum { WINDOW_OTHER = 1, REGION_OTHER = 2 };
	static const struct {
		enum ibv_mw_type type;
		unsigned other, way;
	} cases[] = {
		/* verbs.h refuses type 1 where window and region differ: EPERM. */
		{IBV_MW_TYPE_1, WINDOW_OTHER | REGION_OTHER, 0},
		{IBV_MW_TYPE_2, WINDOW_OTHER | REGION_OTHER, 0},
		{IBV_MW_TYPE_2, WINDOW_OTHER, 0},
		{IBV_MW_TYPE_2, REGION_OTHER, 0},
		{IBV_MW_TYPE_2, WINDOW_OTHER, 1},
		{IBV_MW_TYPE_2, REGION_OTHER, 1},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_mw_bind bind;
		struct ibv_pd *other;
		struct pair p;

		pair_open(&p, cases[i].type);
		other = ibv_alloc_pd(p.d.ctx);
		assert_non_null(other);
		if (cases[i].other & WINDOW_OTHER) {
			assert_int_equal(ibv_dealloc_mw(p.mw), 0);
			p.mw = ibv_alloc_mw(other, cases[i].type);
		}
		if (cases[i].other & REGION_OTHER) {
			assert_int_equal(ibv_dereg_mr(p.mr), 0);
			p.mr = ibv_reg_mr(other, p.d.mem + DEV_MEM / 2, DEV_MEM / 2,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		}
		bind = (struct ibv_mw_bind){1, IBV_SEND_SIGNALED, info(&p)};
		if (cases[i].type == IBV_MW_TYPE_1)
			assert_int_equal(ibv_bind_mw(p.b, p.mw, &bind), 0);
		else
			assert_int_equal(bind2[cases[i].way](&p, p.b, 1, 0x400), 0);
		expect(&p, 1, IBV_WC_MW_BIND_ERR);
		pair_close_on(&p, other);
	}
}

TEST(mw, wrong_type_for_the_call__einval)
{
	struct pair p;
	struct ibv_mw_bind bind;

	pair_open(&p, IBV_MW_TYPE_1);
	assert_int_equal(post_bind2(&p, p.b, 1), EINVAL);
	pair_close(&p);
	pair_open(&p, IBV_MW_TYPE_2);
	bind = (struct ibv_mw_bind){7, IBV_SEND_SIGNALED, info(&p)};
	assert_int_equal(ibv_bind_mw(p.b, p.mw, &bind), EINVAL);
	pair_close(&p);
}

TEST(mw, send_with_inv__receive_names_the_key_and_it_is_dead)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, IBV_MW_TYPE_2);
	assert_int_equal(post_bind2(&p, p.b, 1), 0);
	assert_int_equal(expect(&p, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	dev_post_recv(&p.d, p.b, 50, 4096, 64);
	memset(p.d.mem, 0x33, LEN);
	post_write(&p, 2, p.mw->rkey);
	expect(&p, 2, IBV_WC_SUCCESS);
	assert_memory_equal(window(&p), p.d.mem, LEN);
	post_inv(p.a, IBV_WR_SEND_WITH_INV, 3, p.mw->rkey);
	for (unsigned i = 0; i < 2; i++) {
		wc = dev_poll(p.d.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id != 50)
			continue;
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
		assert_int_equal(wc.invalidated_rkey, p.mw->rkey);
	}
	assert_int_equal(post_bind2(&p, p.b, 4), 0); /* it may be bound again */
	expect(&p, 4, IBV_WC_SUCCESS);
	post_inv(p.b, IBV_WR_LOCAL_INV, 5, p.mw->rkey);
	assert_int_equal(expect(&p, 5, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	post_write(&p, 6, p.mw->rkey);
	expect(&p, 6, IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
}

/* As programs leave it that set what the operation needs, and nothing else. */
TEST(mw, local_inv_with_a_list_that_does_not_count__list_not_followed)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_LOCAL_INV,
		.sg_list = (struct ibv_sge *)(uintptr_t)8,
		.num_sge = 1000,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	struct pair p;

	pair_open(&p, IBV_MW_TYPE_2);
	wr.invalidate_rkey = p.mw->rkey;
	assert_int_equal(ibv_post_send(p.b, &wr, &bad), 0);
	dev_poll(p.d.cq);
	pair_close(&p);
}

/* Of an operation that its service does not have, only the number of SGEs is looked at. */
TEST(mw, write_on_a_ud_qp_with_a_wrong_list__loc_qp_op_err)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = (struct ibv_sge *)(uintptr_t)8,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(qp, NULL);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(dev_poll(d.cq).status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(mw, send_with_inv_of_a_region__receive_in_error_and_no_answer)
{
	struct pair p;
	struct ibv_wc wc;

	pair_open(&p, IBV_MW_TYPE_2);
	dev_post_recv(&p.d, p.b, 50, 4096, 64);
	post_inv(p.a, IBV_WR_SEND_WITH_INV, 3, p.d.mr->rkey);
	for (unsigned i = 0; i < 2; i++) {
		wc = dev_poll(p.d.cq);
		assert_int_equal(wc.status,
				 wc.wr_id == 50 ? IBV_WC_MW_BIND_ERR : IBV_WC_RETRY_EXC_ERR);
	}
	pair_close(&p);
}

/* Everything in one batch of b's, in order: what stands behind the bind is sent after it. */
TEST(mw, wr_batch__bind_then_invalidate_in_order)
{
	struct pair p;
	struct ibv_qp_ex *ex;
	struct ibv_mw_bind_info i;
	uint32_t key;

	pair_open(&p, IBV_MW_TYPE_2);
	ex = ibv_qp_to_qp_ex(p.b);
	i = info(&p);
	key = ibv_inc_rkey(p.mw->rkey);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 1;
	ibv_wr_bind_mw(ex, p.mw, key, &i);
	ex->wr_id = 2;
	ibv_wr_rdma_write(ex, p.d.mr->rkey, (uintptr_t)p.d.mem);
	ibv_wr_set_sge(ex, p.d.mr->lkey, (uintptr_t)p.d.mem, 8);
	ex->wr_id = 3;
	ibv_wr_local_inv(ex, key);
	ex->wr_id = 4;
	ibv_wr_bind_mw(ex, p.mw, key, &i);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(expect(&p, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	assert_int_equal(expect(&p, 2, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(expect(&p, 3, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	assert_int_equal(expect(&p, 4, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);

	/* And from a: SEND with invalidate by the same interface. */
	dev_post_recv(&p.d, p.b, 50, 4096, 64);
	ex = ibv_qp_to_qp_ex(p.a);
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_send_inv(ex, key);
	ibv_wr_set_inline_data(ex, p.d.mem, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(expect(&p, 50, IBV_WC_SUCCESS).invalidated_rkey, key);
	pair_close(&p);
}

TEST(mw, bad_bind__completes_in_error)
{
	struct pair p;

	pair_open(&p, IBV_MW_TYPE_2);
	assert_int_equal(ibv_dereg_mr(p.mr), 0);
	p.mr = ibv_reg_mr(p.d.pd, p.d.mem + DEV_MEM / 2, DEV_MEM / 2, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(p.mr);
	assert_int_equal(post_bind2(&p, p.b, 1), 0);
	expect(&p, 1, IBV_WC_MW_BIND_ERR);
	pair_close(&p);
}

/* A failure that no packet and no poll brings to light: the event must come all the same. */
TEST(mw, local_request_and_event_wait__event_comes)
{
	static const enum ibv_wc_status status[] = {IBV_WC_SUCCESS, IBV_WC_MW_BIND_ERR};

	for (unsigned i = 0; i < 2; i++) {
		struct pair p;
		struct ibv_cq *cq;
		void *context;

		pair_open(&p, IBV_MW_TYPE_2);
		assert_int_equal(ibv_req_notify_cq(p.d.cq, 0), 0);
		if (i == 0)
			assert_int_equal(post_bind2(&p, p.b, 1), 0);
		else
			post_inv(p.b, IBV_WR_LOCAL_INV, 1, p.mw->rkey);
		assert_int_equal(ibv_get_cq_event(p.d.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		expect(&p, 1, status[i]);
		pair_close(&p);
	}
}
