/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong arguments, and objects that others still need. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"

/* ---- memory ---- */

TEST(mr, unmapped_memory__efault)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p;
	struct dev d;

	dev_open(&d);
	p = dev_pages(3 * page, PROT_READ | PROT_WRITE, -1);
	munmap(p + page, page);
	assert_null(ibv_reg_mr(d.pd, p, 3 * page, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	assert_null(ibv_reg_mr(d.pd, p + page, 1, 0));
	assert_int_equal(errno, EFAULT);
	munmap(p, 3 * page);
	dev_close(&d);
}

TEST(mr, readonly_memory_for_writing__efault)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_mr *mr;
	uint8_t *p;
	struct dev d;

	dev_open(&d);
	p = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	assert_null(ibv_reg_mr(d.pd, p, page, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(d.pd, p, page, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, page);
	dev_close(&d);
}

static void expect_no_mr(struct dev *d, size_t length, unsigned access, int err)
{
	errno = 0;
	assert_null(ibv_reg_mr_iova2(d->pd, d->mem, length, (uintptr_t)d->mem, access));
	assert_int_equal(errno, err);
}

TEST(mr, bad_access_or_length__refused)
{
	struct dev d;

	dev_open(&d);
	expect_no_mr(&d, SIZE_MAX, 0, EINVAL);
	expect_no_mr(&d, 64, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	expect_no_mr(&d, 64, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	expect_no_mr(&d, 64, 1u << 12, EINVAL);
	dev_close(&d);
}

TEST(mr, optional_access__ignored)
{
	struct ibv_mr *mr;
	struct dev d;

	dev_open(&d);
	mr = ibv_reg_mr(d.pd, d.mem, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	dev_close(&d);
}

TEST(mr, rereg__takes_the_new_range_or_stays)
{
	struct ibv_mr *mr;
	struct dev d;

	dev_open(&d);
	mr = ibv_reg_mr(d.pd, d.mem, 64, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, d.mem + 64, 128, 0), 0);
	assert_ptr_equal(mr->addr, d.mem + 64);
	assert_int_equal(mr->length, 128);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
	/* What libibverbs refuses itself. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, d.mem, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, d.mem, 8,
				      IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(mr->length, 128);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	dev_close(&d);
}

/* ---- queues ---- */

TEST(cq, bad_depth_vector_or_channel__einval)
{
	struct dev d;

	dev_open(&d);
	assert_null(ibv_create_cq(d.ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(d.ctx, 1 << 30, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(d.ctx, 1, NULL, NULL, d.ctx->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(d.ctx, 1, NULL, NULL, -1));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_resize_cq(d.cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(d.cq, 500), 0);
	assert_true(d.cq->cqe >= 500);
	dev_close(&d);
}

static int qp_error(struct dev *d, struct ibv_qp_init_attr_ex attr)
{
	attr.pd = d->pd;
	attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
	errno = 0;
	assert_null(ibv_create_qp_ex(d->ctx, &attr));
	return errno;
}

TEST(qp, unsupported_or_bad_attributes__refused)
{
	struct ibv_qp_init_attr_ex ok = {.qp_type = IBV_QPT_RC,
					 .cap = {.max_send_wr = 1, .max_recv_wr = 1}},
				   a;
	struct dev d;

	dev_open(&d);
	ok.send_cq = ok.recv_cq = d.cq;
	a = ok;
	a.qp_type = IBV_QPT_RAW_PACKET;
	assert_int_equal(qp_error(&d, a), EOPNOTSUPP);
	a = ok;
	a.qp_type = (enum ibv_qp_type)77;
	assert_int_equal(qp_error(&d, a), EOPNOTSUPP);
	a = ok;
	a.send_cq = NULL;
	assert_int_equal(qp_error(&d, a), EINVAL);
	a = ok;
	a.cap.max_send_wr = 1 << 30;
	assert_int_equal(qp_error(&d, a), EINVAL);
	a = ok;
	a.cap.max_recv_sge = 1000;
	assert_int_equal(qp_error(&d, a), EINVAL);
	a = ok;
	a.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = IBV_QP_EX_WITH_TSO;
	assert_int_equal(qp_error(&d, a), EOPNOTSUPP);
	a.qp_type = IBV_QPT_UD;
	a.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	assert_int_equal(qp_error(&d, a), EOPNOTSUPP);
	a = ok;
	a.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
	a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_int_equal(qp_error(&d, a), EOPNOTSUPP);
	dev_close(&d);
}

TEST(qp, queried__real_capabilities)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *a, *b;
	struct dev d;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	assert_null(ibv_qp_to_qp_ex(a));
	dev_connect(a, b);
	assert_int_equal(a->state, IBV_QPS_RTS);
	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_query_qp(a, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, b->qp_num);
	assert_true(attr.cap.max_send_wr >= DEV_WR && attr.cap.max_inline_data >= 64);
	assert_int_equal(init.cap.max_send_wr, attr.cap.max_send_wr);
	assert_ptr_equal(init.send_cq, d.cq);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}

TEST(qp, posted_to_in_reset__einval_and_bad_wr)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_recv_wr rwr = {.num_sge = 0}, *rbad = NULL;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_RC, 0);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_post_recv(qp, &rwr, &rbad), EINVAL);
	assert_ptr_equal(rbad, &rwr);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(qp, queue_full__enomem_at_the_first_too_many)
{
	struct ibv_recv_wr wr[64], *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(qp, NULL);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_true(attr.cap.max_recv_wr < 64);
	memset(wr, 0, sizeof(wr));
	for (unsigned i = 0; i + 1 < 64; i++)
		wr[i].next = &wr[i + 1];
	assert_int_equal(ibv_post_recv(qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[attr.cap.max_recv_wr]);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(ah, no_grh_port_or_gid__einval_or_enodata)
{
	struct ibv_ah_attr a = {.port_num = 1, .dlid = 5};
	struct dev d;

	dev_open(&d);
	assert_null(ibv_create_ah(d.pd, &a));
	assert_int_equal(errno, EINVAL);
	a.is_global = 1;
	a.port_num = 2;
	assert_null(ibv_create_ah(d.pd, &a));
	a.port_num = 1;
	a.grh.sgid_index = 64;
	assert_null(ibv_create_ah(d.pd, &a));
	assert_int_equal(errno, EINVAL);
	a.grh.sgid_index = 63; /* in the table, and empty */
	assert_null(ibv_create_ah(d.pd, &a));
	assert_int_equal(errno, ENODATA);
	dev_close(&d);
}

/*
 * The 40 bytes in front of a received message are tested in test-wr.c; here: IPv6, and invalid
 * contents.
 */
TEST(ah, from_grh__answers_the_sender_or_refuses)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	uint8_t grh[40] = {0};
	struct ibv_grh *view = (struct ibv_grh *)(void *)grh;
	struct ibv_ah_attr attr;
	unsigned seed = 3;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_init_ah_from_wc(d.ctx, 1, &wc, view, &attr), -1);
	assert_int_equal(errno, EINVAL);
	grh[0] = 0x6a; /* version 6, traffic class 0xab, flow label 0x12345 */
	grh[1] = 0xb1;
	grh[2] = 0x23;
	grh[3] = 0x45;
	grh[8] = 0xfd; /* from fd00::7 to ::1, which is on lo */
	grh[23] = 7;
	grh[39] = 1;
	assert_int_equal(ibv_init_ah_from_wc(d.ctx, 1, &wc, view, &attr), 0);
	assert_int_equal(attr.grh.dgid.raw[0], 0xfd);
	assert_int_equal(attr.grh.dgid.raw[15], 7);
	assert_int_equal(attr.grh.traffic_class, 0xab);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	assert_int_equal(attr.grh.sgid_index, 1);
	grh[39] = 2;
	assert_int_equal(ibv_init_ah_from_wc(d.ctx, 1, &wc, view, &attr), -1);
	assert_int_equal(errno, ENOENT);
	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(d.ctx, 1, &wc, view, &attr), -1);
	wc.wc_flags = IBV_WC_GRH;
	for (int i = 0; i < 1000; i++) {
		for (size_t j = 0; j < sizeof(grh); j++)
			grh[j] = (uint8_t)rand_r(&seed);
		(void)ibv_init_ah_from_wc(d.ctx, 1, &wc, view, &attr);
	}
	dev_close(&d);
}

/* wr.rdma and wr.ud are the same bytes: what is an address for a READ is no address handle. */
TEST(ud, operation_that_it_does_not_have__completes_with_an_error)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
						 IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_send_wr wr = {.num_sge = 1}, *bad = NULL;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(qp, NULL);
	sge = dev_sge(&d, 0, 8);
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = 1;
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		wr.wr_id = i;
		wr.opcode = ops[i];
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		wc = dev_poll(d.cq);
		assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.qp_num, qp->qp_num);
		assert_int_equal(ibv_modify_qp(qp, &rts, IBV_QP_STATE), 0);
	}
	wr.opcode = (enum ibv_wr_opcode)99;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(ud, sent_without_address_handle__einval)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(qp, NULL);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

/* ---- as many as the device reports, and no more ---- */

static void *new_pd(struct dev *d)
{
	return ibv_alloc_pd(d->ctx);
}

static int free_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *new_cq(struct dev *d)
{
	return ibv_create_cq(d->ctx, 1, NULL, NULL, 0);
}

static int free_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *new_srq(struct dev *d)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(d->pd, &attr);
}

static int free_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *new_ah(struct dev *d)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	ibv_query_gid(d->ctx, 1, 0, &attr.grh.dgid);
	return ibv_create_ah(d->pd, &attr);
}

static int free_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static void *new_qp(struct dev *d)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .send_cq = d->cq, .recv_cq = d->cq};

	return ibv_create_qp(d->pd, &attr);
}

static int free_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void exhaust(struct dev *d, void *(*make)(struct dev *), int (*unmake)(void *), int max,
		    int had)
{
	void **list = calloc((size_t)max + 1, sizeof(*list));
	int n = 0;

	assert_non_null(list);
	while (n <= max && (list[n] = make(d)))
		n++;
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(n, max - had);
	/* One that goes makes room for another. */
	assert_int_equal(unmake(list[0]), 0);
	list[0] = make(d);
	assert_non_null(list[0]);
	while (n-- > 0)
		assert_int_equal(unmake(list[n]), 0);
	free(list);
}

TEST(limits, of_each_kind__as_many_as_the_device_says)
{
	struct ibv_device_attr attr;
	struct dev d;

	dev_open(&d); /* has a PD and a CQ */
	assert_int_equal(ibv_query_device(d.ctx, &attr), 0);
	exhaust(&d, new_pd, free_pd, attr.max_pd, 1);
	exhaust(&d, new_cq, free_cq, attr.max_cq, 1);
	exhaust(&d, new_srq, free_srq, attr.max_srq, 0);
	exhaust(&d, new_ah, free_ah, attr.max_ah, 0);
	exhaust(&d, new_qp, free_qp, attr.max_qp, 0);
	dev_close(&d);
}

/* ---- objects that are in use ---- */

TEST(busy, pd_cq_channel_and_srq_in_use__ebusy_until_freed)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	srq = ibv_create_srq(d.pd, &sattr);
	assert_non_null(srq);
	attr.send_cq = attr.recv_cq = d.cq;
	attr.srq = srq;
	qp = ibv_create_qp(d.pd, &attr);
	assert_non_null(qp);
	assert_int_equal(ibv_dealloc_pd(d.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(d.cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(d.channel), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	dev_close(&d);
}

TEST(parent_domain, made_of_pd_and_td__both_busy_until_it_goes)
{
	struct ibv_td_init_attr tattr = {0};
	struct ibv_parent_domain_init_attr pattr = {0};
	struct ibv_pd *pd;
	struct ibv_td *td;
	struct ibv_mr *mr;
	struct dev d;

	dev_open(&d);
	td = ibv_alloc_td(d.ctx, &tattr);
	assert_non_null(td);
	pattr.pd = d.pd;
	pattr.td = td;
	pd = ibv_alloc_parent_domain(d.ctx, &pattr);
	assert_non_null(pd);
	mr = ibv_reg_mr(pd, d.mem, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	dev_close(&d);
}
