/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests that the limits of ibv_query_device() and ibv_query_port() can be used, and no more.
 * (Numbers of objects: test-objects.c.)
 */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dev.h"

static struct ibv_device_attr device_attr(struct dev *d)
{
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(d->ctx, &attr), 0);
	return attr;
}

/* ---- keys ---- */

TEST(max_mr_and_mw, all_of_them__enomem_for_the_next_of_both_kinds)
{
	struct ibv_mw **mw;
	struct ibv_mr *mr;
	struct dev d;
	int max, n = 0;

	dev_open(&d);
	max = device_attr(&d).max_mw;
	assert_int_equal(device_attr(&d).max_mr, max);
	mw = calloc((size_t)max + 1, sizeof(*mw));
	assert_non_null(mw);
	while (n <= max && (mw[n] = ibv_alloc_mw(d.pd, IBV_MW_TYPE_2)))
		n++;
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(n, max - 1); /* they share the keys, and the device has a region */
	assert_null(ibv_reg_mr(d.pd, d.mem, 64, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_dealloc_mw(mw[--n]), 0);
	mr = ibv_reg_mr(d.pd, d.mem, 64, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	while (n-- > 0)
		assert_int_equal(ibv_dealloc_mw(mw[n]), 0);
	free(mw);
	dev_close(&d);
}

/* ---- sizes of queues ---- */

/* ok: made, with as much; else refused. */
static void expect_qp(struct dev *d, enum ibv_qp_type type, struct ibv_qp_cap cap, bool ok)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type, .send_cq = d->cq, .recv_cq = d->cq, .cap = cap};
	struct ibv_qp *qp;

	errno = 0;
	qp = ibv_create_qp(d->pd, &attr);
	if (!ok) {
		assert_null(qp);
		assert_int_equal(errno, EINVAL);
		return;
	}
	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= cap.max_send_wr &&
		    attr.cap.max_recv_wr >= cap.max_recv_wr);
	assert_true(attr.cap.max_send_sge >= cap.max_send_sge &&
		    attr.cap.max_recv_sge >= cap.max_recv_sge);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

TEST(max_qp_wr_and_sge, each__made_and_one_more_einval)
{
	const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_device_attr a;
	uint32_t wr, sge;
	struct dev d;

	dev_open(&d);
	a = device_attr(&d);
	wr = (uint32_t)a.max_qp_wr;
	sge = (uint32_t)a.max_sge;
	for (unsigned i = 0; i < 3; i++) {
		expect_qp(&d, types[i], (struct ibv_qp_cap){wr, wr, sge, sge, 0}, true);
		expect_qp(&d, types[i], (struct ibv_qp_cap){wr + 1, 1, 1, 1, 0}, false);
		expect_qp(&d, types[i], (struct ibv_qp_cap){1, wr + 1, 1, 1, 0}, false);
		expect_qp(&d, types[i], (struct ibv_qp_cap){1, 1, sge + 1, 1, 0}, false);
		expect_qp(&d, types[i], (struct ibv_qp_cap){1, 1, 1, sge + 1, 0}, false);
	}
	dev_close(&d);
}

/* A capacity of a queue that the QP does not have: IBTA 10.8.3.2, ibv_create_qp(3). */
static void expect_ignored(struct dev *d, struct ibv_qp_init_attr_ex a)
{
	struct ibv_qp_init_attr old = {.send_cq = a.send_cq,
				       .recv_cq = a.recv_cq,
				       .srq = a.srq,
				       .cap = a.cap,
				       .qp_type = a.qp_type};
	struct ibv_qp *qp = ibv_create_qp_ex(d->ctx, &a);

	assert_non_null(qp);
	assert_int_equal(a.cap.max_recv_wr, 0);
	assert_int_equal(a.cap.max_recv_sge, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	if (!a.pd)
		return;
	qp = ibv_create_qp(a.pd, &old);
	assert_non_null(qp);
	assert_int_equal(old.cap.max_recv_wr, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

TEST(max_recv_wr_and_sge, no_receive_queue__any_value_ignored)
{
	uint32_t values[] = {1, 0, 0, UINT32_MAX};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct dev d;

	dev_open(&d);
	values[1] = (uint32_t)device_attr(&d).max_sge + 1;
	values[2] = (uint32_t)device_attr(&d).max_qp_wr + 1;
	srq = ibv_create_srq(d.pd, &srq_attr);
	assert_non_null(srq);
	xrcd = ibv_open_xrcd(d.ctx, &xrcd_attr);
	assert_non_null(xrcd);
	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		const uint32_t v = values[i];
		struct ibv_qp_init_attr_ex a = {.send_cq = d.cq,
						.recv_cq = d.cq,
						.srq = srq,
						.cap = {1, v, 1, v, 0},
						.comp_mask = IBV_QP_INIT_ATTR_PD,
						.pd = d.pd};

		for (a.qp_type = IBV_QPT_RC; a.qp_type <= IBV_QPT_UD; a.qp_type++)
			expect_ignored(&d, a);
		a.srq = NULL;
		a.qp_type = IBV_QPT_XRC_SEND;
		expect_ignored(&d, a);
		a = (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV,
						 .cap = {v, v, v, v, v},
						 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
						 .xrcd = xrcd};
		expect_ignored(&d, a);
	}
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	dev_close(&d);
}

TEST(max_srq_wr_and_sge, each__made_and_one_more_einval)
{
	struct ibv_srq_init_attr attr = {0};
	struct ibv_device_attr a;
	struct ibv_srq *srq;
	struct dev d;

	dev_open(&d);
	a = device_attr(&d);
	attr.attr.max_wr = (uint32_t)a.max_srq_wr;
	attr.attr.max_sge = (uint32_t)a.max_srq_sge;
	srq = ibv_create_srq(d.pd, &attr);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	attr.attr.max_wr = (uint32_t)a.max_srq_wr + 1;
	assert_null(ibv_create_srq(d.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.attr.max_wr = 1;
	attr.attr.max_sge = (uint32_t)a.max_srq_sge + 1;
	assert_null(ibv_create_srq(d.pd, &attr));
	assert_int_equal(errno, EINVAL);
	dev_close(&d);
}

TEST(max_cqe, as_many__made_and_one_more_einval)
{
	struct ibv_cq *cq;
	struct dev d;
	int max;

	dev_open(&d);
	max = device_attr(&d).max_cqe;
	cq = ibv_create_cq(d.ctx, max, NULL, NULL, 0);
	assert_non_null(cq);
	assert_true(cq->cqe >= max);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_null(ibv_create_cq(d.ctx, max + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	dev_close(&d);
}

TEST(cq_mod_caps, largest__taken)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	struct ibv_device_attr_ex a;
	struct dev d;

	dev_open(&d);
	assert_int_equal(ibv_query_device_ex(d.ctx, NULL, &a), 0);
	attr.moderate.cq_count = a.cq_mod_caps.max_cq_count;
	attr.moderate.cq_period = a.cq_mod_caps.max_cq_period;
	assert_int_equal(ibv_modify_cq(d.cq, &attr), 0);
	dev_close(&d);
}

/* ---- requests ---- */

static enum ibv_wc_status run(struct dev *d, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
			      struct ibv_sge *sge, int n, uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
					 .sg_list = sge,
					 .num_sge = n,
					 .opcode = opcode,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {.remote_addr = remote, .rkey = rkey},
				 };

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	return dev_poll(d->cq).status;
}

static struct ibv_qp *sge_qp(struct dev *d, uint32_t sge)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = d->cq,
					.recv_cq = d->cq,
					.cap = {4, 4, sge, sge, 0}};

	return ibv_create_qp(d->pd, &attr);
}

TEST(max_sge, in_one_request__all_of_them_used)
{
	struct ibv_device_attr a;
	struct ibv_sge sge[64];
	struct ibv_qp *qp, *to;
	struct dev d;

	dev_open(&d);
	a = device_attr(&d);
	assert_in_range(a.max_sge, 1, 64);
	assert_in_range(a.max_sge_rd, 1, a.max_sge);
	qp = sge_qp(&d, (uint32_t)a.max_sge);
	to = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(qp, to);
	for (unsigned i = 0; i < (unsigned)a.max_sge; i++) {
		sge[i] = dev_sge(&d, 64 * i, 32);
		memset(d.mem + 64 * i, (int)i + 1, 32);
	}
	assert_int_equal(run(&d, qp, IBV_WR_RDMA_WRITE, sge, a.max_sge, (uintptr_t)d.mem + 32768,
			     d.mr->rkey),
			 IBV_WC_SUCCESS);
	for (int i = 0; i < a.max_sge; i++)
		assert_int_equal(d.mem[32768 + 32 * i + 31], i + 1);
	memset(d.mem, 0, 64 * (size_t)a.max_sge);
	assert_int_equal(run(&d, qp, IBV_WR_RDMA_READ, sge, a.max_sge_rd, (uintptr_t)d.mem + 32768,
			     d.mr->rkey),
			 IBV_WC_SUCCESS);
	for (int i = 0; i < a.max_sge_rd; i++)
		assert_int_equal(d.mem[64 * i + 31], i + 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(to), 0);
	dev_close(&d);
}

/* What fits goes on (a READ of so much takes long: only that it is taken is looked at), a byte more
 * is too long. */
TEST(max_msg_sz, a_byte_more__local_length_error)
{
	struct ibv_port_attr port;
	struct ibv_sge sge[2];
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;
	struct dev d;
	size_t len;
	void *mem;

	dev_open(&d);
	assert_int_equal(ibv_query_port(d.ctx, 1, &port), 0);
	len = (size_t)port.max_msg_sz + 1;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (mem == MAP_FAILED) {
		print_message("skipped: no address space of 2 GiB here\n");
		dev_close(&d);
		skip();
	}
	mr = ibv_reg_mr(d.pd, mem, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(mr);
	a = dev_qp(&d, IBV_QPT_RC, 0);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	sge[0] = (struct ibv_sge){(uintptr_t)mem, port.max_msg_sz, mr->lkey};
	sge[1] = (struct ibv_sge){(uintptr_t)mem, 1, mr->lkey};
	assert_int_equal(run(&d, a, IBV_WR_RDMA_WRITE, sge, 2, (uintptr_t)mem, mr->rkey),
			 IBV_WC_LOC_LEN_ERR);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(mem, len);
	dev_close(&d);
}

TEST(max_rd_atomic, as_many__taken_and_one_more_einval)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_device_attr a;
	struct ibv_qp *one, *two;
	struct dev d;

	dev_open(&d);
	a = device_attr(&d);
	assert_int_equal(a.max_res_rd_atom, a.max_qp_rd_atom * a.max_qp);
	one = dev_qp(&d, IBV_QPT_RC, 0);
	two = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(one, two);
	assert_int_equal(ibv_query_qp(one, &attr, IBV_QP_AV, &init), 0);
	attr = (struct ibv_qp_attr){.max_dest_rd_atomic = (uint8_t)(a.max_qp_rd_atom + 1),
				    .qp_access_flags = IBV_ACCESS_REMOTE_READ,
				    .ah_attr = attr.ah_attr,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = two->qp_num,
				    .min_rnr_timer = 12,
				    .port_num = 1,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = (uint8_t)(a.max_qp_init_rd_atom + 1)};
	attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(ibv_modify_qp(one, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(
		ibv_modify_qp(one, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	for (int too_many = 1; too_many >= 0; too_many--) {
		attr.qp_state = IBV_QPS_RTR;
		attr.max_dest_rd_atomic = (uint8_t)(a.max_qp_rd_atom + too_many);
		assert_int_equal(ibv_modify_qp(one, &attr,
					       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						       IBV_QP_MAX_DEST_RD_ATOMIC |
						       IBV_QP_MIN_RNR_TIMER),
				 too_many ? EINVAL : 0);
	}
	for (int too_many = 1; too_many >= 0; too_many--) {
		attr.qp_state = IBV_QPS_RTS;
		attr.max_rd_atomic = (uint8_t)(a.max_qp_init_rd_atom + too_many);
		assert_int_equal(ibv_modify_qp(one, &attr,
					       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						       IBV_QP_MAX_QP_RD_ATOMIC),
				 too_many ? EINVAL : 0);
	}
	assert_int_equal(ibv_destroy_qp(one), 0);
	assert_int_equal(ibv_destroy_qp(two), 0);
	dev_close(&d);
}

/* ---- multicast ---- */

TEST(max_mcast_qp_attach, of_one_group__enomem_or_enospc_for_the_next)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	struct ibv_device_attr a;
	struct ibv_qp **qp;
	struct dev d;
	int n, ret = 0;

	dev_open(&d);
	a = device_attr(&d);
	assert_int_equal(a.max_total_mcast_qp_attach, a.max_mcast_qp_attach * a.max_mcast_grp);
	qp = calloc((size_t)a.max_mcast_qp_attach + 1, sizeof(*qp));
	assert_non_null(qp);
	for (n = 0; n <= a.max_mcast_qp_attach && !ret; n++) {
		qp[n] = dev_qp(&d, IBV_QPT_UD, 0);
		dev_connect(qp[n], NULL);
		ret = ibv_attach_mcast(qp[n], &group, 0);
	}
	assert_int_equal(n, a.max_mcast_qp_attach + 1);
	assert_true(ret == ENOMEM || ret == ENOSPC);
	while (n-- > 0) {
		if (n < a.max_mcast_qp_attach)
			assert_int_equal(ibv_detach_mcast(qp[n], &group, 0), 0);
		assert_int_equal(ibv_destroy_qp(qp[n]), 0);
	}
	free(qp);
	dev_close(&d);
}
