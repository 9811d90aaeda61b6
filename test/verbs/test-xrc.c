/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC through the API: domains by file, SRQs with a number, the two kinds of QP, shared targets. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev.h"

struct xrc {
	struct dev d;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *rcq;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *a, *b; /* initiator and target */
};

static void xrc_open(struct xrc *x, uint64_t ops)
{
	dev_open(&x->d);
	x->xrcd = dev_xrcd(&x->d, -1, O_CREAT);
	assert_non_null(x->xrcd);
	x->rcq = ibv_create_cq(x->d.ctx, DEV_CQE, NULL, x->d.channel, 0);
	assert_non_null(x->rcq);
	x->srq = dev_xrc_srq(&x->d, x->xrcd, x->rcq);
	assert_non_null(x->srq);
	assert_int_equal(ibv_get_srq_num(x->srq, &x->srqn), 0);
	x->a = dev_xrc_initiator(&x->d, ops);
	x->b = dev_xrc_target(&x->d, x->xrcd, x);
	assert_non_null(x->a);
	assert_non_null(x->b);
	dev_connect(x->a, x->b);
}

static void xrc_close(struct xrc *x)
{
	assert_int_equal(ibv_destroy_qp(x->a), 0);
	assert_int_equal(ibv_destroy_qp(x->b), 0);
	assert_int_equal(ibv_destroy_srq(x->srq), 0);
	assert_int_equal(ibv_destroy_cq(x->rcq), 0);
	assert_int_equal(ibv_close_xrcd(x->xrcd), 0);
	dev_close(&x->d);
}

static void post_recv(struct xrc *x, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = dev_sge(&x->d, off, len);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(x->srq, &wr, &bad), 0);
}

static void post_send(struct xrc *x, uint32_t srqn, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = dev_sge(&x->d, 0, len);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(77)},
			   *bad;

	wr.qp_type.xrc.remote_srqn = srqn;
	assert_int_equal(ibv_post_send(x->a, &wr, &bad), 0);
}

/* ---- domains ---- */

TEST(xrcd, arguments__as_the_kernel_judges_them)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_RESERVED};
	struct ibv_xrcd *xrcd;
	struct dev d;

	dev_open(&d);
	errno = 0;
	assert_null(ibv_open_xrcd(d.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	assert_null(ibv_open_xrcd(d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	assert_null(dev_xrcd(&d, -1, O_CREAT | O_TRUNC));
	assert_int_equal(errno, EINVAL);
	assert_null(dev_xrcd(&d, 1 << 20, O_CREAT));
	assert_int_equal(errno, EBADF);
	xrcd = dev_xrcd(&d, -1, O_CREAT);
	assert_non_null(xrcd);
	assert_ptr_equal(xrcd->context, d.ctx);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	dev_close(&d);
}

TEST(xrcd, by_file__one_domain_for_one_inode)
{
	int fd = memfd_create("domain", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
	struct ibv_xrcd *first, *second, *third;
	struct dev d;
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && other >= 0 && again >= 0);
	dev_open(&d);
	assert_null(dev_xrcd(&d, fd, 0)); /* there is none yet, and none is requested */
	assert_int_equal(errno, EAGAIN);
	first = dev_xrcd(&d, fd, O_CREAT | O_EXCL);
	assert_non_null(first);
	close(fd); /* the domain does not need it */
	assert_null(dev_xrcd(&d, again, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	second = dev_xrcd(&d, again, 0);
	assert_non_null(second);
	third = dev_xrcd(&d, other, O_CREAT);
	assert_non_null(third);

	/* Of one domain: what was made with one handle is found with the other, but not beyond. */
	{
		struct ibv_qp *qp = dev_xrc_target(&d, first, NULL), *same;
		struct ibv_qp_open_attr attr = {
			.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				     IBV_QP_OPEN_ATTR_TYPE,
			.qp_num = qp->qp_num,
			.xrcd = second,
			.qp_type = IBV_QPT_XRC_RECV,
		};

		same = ibv_open_qp(d.ctx, &attr);
		assert_non_null(same);
		attr.xrcd = third;
		assert_null(ibv_open_qp(d.ctx, &attr));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(ibv_close_xrcd(first), EBUSY);
		assert_int_equal(ibv_close_xrcd(second), EBUSY);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_close_xrcd(first), 0);
		assert_int_equal(ibv_destroy_qp(same), 0);
	}
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_null(dev_xrcd(&d, again, 0)); /* gone with its last handle */
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_close_xrcd(third), 0);
	close(again);
	close(other);
	dev_close(&d);
}

TEST(xrcd, left_open__closed_with_the_device)
{
	int fd = memfd_create("domain", MFD_CLOEXEC);
	struct dev d, other = {0};
	struct ibv_xrcd *left;

	dev_open(&d);
	other.ctx = dev_open_named("rocemu_lo");
	left = dev_xrcd(&other, fd, O_CREAT);
	assert_non_null(left);
	assert_int_equal(ibv_close_device(other.ctx), 0);
	free(left); /* the handle, which cannot be closed any more */
	close(fd);
	dev_close(&d);
}

/* ---- SRQs ---- */

TEST(xrc_srq, arguments__refused_without_domain_or_cq)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
	};
	struct ibv_srq *basic;
	uint32_t num = 0;
	struct dev d;

	dev_open(&d);
	attr.pd = d.pd;
	assert_null(ibv_create_srq_ex(d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	assert_null(ibv_create_srq_ex(d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.srq_type = IBV_SRQT_TM;
	assert_null(ibv_create_srq_ex(d.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.srq_type = IBV_SRQT_BASIC;
	basic = ibv_create_srq_ex(d.ctx, &attr);
	assert_non_null(basic);
	assert_int_equal(ibv_get_srq_num(basic, &num), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_srq(basic), 0);
	dev_close(&d);
}

TEST(xrc_srq, limit__event)
{
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_async_event ev;
	struct xrc x;

	xrc_open(&x, 0);
	post_recv(&x, 1, 1024, 64);
	assert_int_equal(ibv_modify_srq(x.srq, &attr, IBV_SRQ_LIMIT), 0);
	post_send(&x, x.srqn, 2, 8);
	assert_int_equal(dev_poll(x.rcq).wr_id, 1);
	do {
		assert_int_equal(ibv_get_async_event(x.d.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	} while (ev.event_type == IBV_EVENT_COMM_EST);
	assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, x.srq);
	xrc_close(&x);
}

/* ---- messages ---- */

TEST(xrc, send__completes_in_the_srqs_cq)
{
	struct ibv_wc wc;
	struct xrc x;

	xrc_open(&x, 0);
	memcpy(x.d.mem, "over xrc", 8);
	post_recv(&x, 1, 1024, 64);
	post_send(&x, x.srqn, 2, 8);
	wc = dev_poll(x.d.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.qp_num, x.a->qp_num);
	wc = dev_poll(x.rcq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 77);
	assert_int_equal(wc.qp_num, x.b->qp_num);
	assert_int_equal(wc.src_qp, x.a->qp_num);
	assert_memory_equal(x.d.mem + 1024, "over xrc", 8);
	xrc_close(&x);
}

TEST(xrc, wr_interface__number_by_set_xrc_srqn)
{
	struct ibv_qp_ex *ex;
	struct xrc x;

	xrc_open(&x, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ);
	ex = ibv_qp_to_qp_ex(x.a);
	assert_non_null(ex);
	memcpy(x.d.mem, "12345678", 8);
	post_recv(&x, 1, 1024, 64);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, x.srqn);
	ibv_wr_set_sge(ex, x.d.mr->lkey, (uintptr_t)x.d.mem, 8);
	ex->wr_id = 4;
	ibv_wr_rdma_read(ex, x.d.mr->rkey, (uintptr_t)x.d.mem);
	ibv_wr_set_xrc_srqn(ex, x.srqn);
	ibv_wr_set_sge(ex, x.d.mr->lkey, (uintptr_t)x.d.mem + 2048, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(dev_poll(x.d.cq).wr_id, 3);
	assert_int_equal(dev_poll(x.d.cq).wr_id, 4);
	assert_int_equal(dev_poll(x.rcq).byte_len, 8);
	assert_memory_equal(x.d.mem + 2048, "12345678", 8);
	xrc_close(&x);
}

TEST(xrc, set_xrc_srqn_on_an_rc_qp__einval)
{
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 1);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(xrc, unknown_number__rem_inv_req_and_events_at_all_handles)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	unsigned req_err[2] = {0}, last_wqe[2] = {0};
	struct ibv_async_event ev;
	struct ibv_qp *second;
	struct xrc x;

	xrc_open(&x, 0);
	attr.qp_num = x.b->qp_num;
	attr.xrcd = x.xrcd;
	attr.qp_context = &ev;
	second = ibv_open_qp(x.d.ctx, &attr);
	assert_non_null(second);
	assert_int_equal(second->qp_num, x.b->qp_num);
	assert_ptr_equal(second->qp_context, &ev);
	assert_int_equal(second->state, IBV_QPS_RTS);
	post_send(&x, x.srqn + 1, 2, 8);
	assert_int_equal(dev_poll(x.d.cq).status, IBV_WC_REM_INV_REQ_ERR);
	while (req_err[0] + req_err[1] + last_wqe[0] + last_wqe[1] < 4) {
		bool first;

		assert_int_equal(ibv_get_async_event(x.d.ctx, &ev), 0);
		first = ev.element.qp == x.b;
		assert_true(first || ev.element.qp == second || ev.element.qp == x.a);
		if (ev.event_type == IBV_EVENT_QP_REQ_ERR)
			req_err[first]++;
		if (ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			last_wqe[first]++;
		ibv_ack_async_event(&ev);
	}
	assert_int_equal(req_err[0], 1);
	assert_int_equal(req_err[1], 1);
	assert_int_equal(last_wqe[0], 1);
	/* The one that made it goes first: the QP stays for the other. */
	assert_int_equal(ibv_destroy_qp(x.b), 0);
	x.b = second;
	xrc_close(&x);
}

TEST(xrc, shared_target__lives_as_long_as_a_handle)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *more[3];
	struct xrc x;

	xrc_open(&x, 0);
	attr.qp_num = x.b->qp_num;
	attr.xrcd = x.xrcd;
	for (unsigned i = 0; i < 3; i++) {
		more[i] = ibv_open_qp(x.d.ctx, &attr);
		assert_non_null(more[i]);
	}
	assert_int_equal(ibv_destroy_qp(x.b), 0);
	assert_int_equal(ibv_destroy_qp(more[1]), 0);
	assert_int_equal(ibv_destroy_qp(more[0]), 0);
	x.b = more[2];
	post_recv(&x, 1, 1024, 64);
	post_send(&x, x.srqn, 2, 8);
	assert_int_equal(dev_poll(x.rcq).qp_num, x.b->qp_num);
	assert_int_equal(ibv_destroy_qp(x.b), 0);
	assert_null(ibv_open_qp(x.d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	x.b = dev_xrc_target(&x.d, x.xrcd, NULL);
	xrc_close(&x);
}

TEST(open_qp, arguments__refused)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct xrc x;

	xrc_open(&x, 0);
	attr.xrcd = x.xrcd;
	attr.qp_num = x.a->qp_num;
	assert_null(ibv_open_qp(x.d.ctx, &attr)); /* of another type */
	assert_int_equal(errno, EINVAL);
	attr.qp_type = IBV_QPT_XRC_RECV;
	assert_null(ibv_open_qp(x.d.ctx, &attr)); /* not a target's number */
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD;
	assert_null(ibv_open_qp(x.d.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = IBV_QP_OPEN_ATTR_RESERVED;
	assert_null(ibv_open_qp(x.d.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	xrc_close(&x);
}

/* ---- objects ---- */

TEST(xrc, queues_it_has_not__einval)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {0}, *rbad;
	struct xrc x;

	xrc_open(&x, 0);
	assert_int_equal(ibv_post_send(x.b, &wr, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(x.b, &rwr, &rbad), EINVAL);
	assert_int_equal(ibv_post_recv(x.a, &rwr, &rbad), EINVAL);
	xrc_close(&x);
}

TEST(xrc, creation__what_it_needs_and_gives)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_device_attr dev_attr;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qa;
	struct ibv_qp *qp;
	struct xrc x;

	xrc_open(&x, 0);
	assert_int_equal(ibv_query_device(x.d.ctx, &dev_attr), 0);
	assert_true(dev_attr.device_cap_flags & IBV_DEVICE_XRC);
	assert_null(ibv_create_qp_ex(x.d.ctx, &attr)); /* no domain */
	assert_int_equal(errno, EINVAL);
	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = x.d.pd;
	assert_null(ibv_create_qp_ex(x.d.ctx, &attr)); /* no CQ */
	assert_int_equal(errno, EINVAL);
	/* A receive CQ and queue are passed over. */
	attr.send_cq = attr.recv_cq = x.d.cq;
	attr.cap = (struct ibv_qp_cap){.max_send_wr = 1, .max_recv_wr = 9, .max_recv_sge = 1};
	qp = ibv_create_qp_ex(x.d.ctx, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(ibv_query_qp(qp, &qa, IBV_QP_STATE, &init), 0);
	assert_null(init.recv_cq);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_SEND);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_query_qp(x.b, &qa, IBV_QP_STATE, &init), 0);
	assert_int_equal(qa.qp_state, IBV_QPS_RTS);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(init.cap.max_send_wr, 0);
	xrc_close(&x);
}

TEST(xrc, basic_qp_with_an_xrc_srq__einval)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
	struct xrc x;

	xrc_open(&x, 0);
	attr.send_cq = attr.recv_cq = x.d.cq;
	attr.srq = x.srq;
	assert_null(ibv_create_qp(x.d.pd, &attr));
	assert_int_equal(errno, EINVAL);
	xrc_close(&x);
}

TEST(xrc, in_use__ebusy)
{
	struct xrc x;

	xrc_open(&x, 0);
	assert_int_equal(ibv_close_xrcd(x.xrcd), EBUSY);
	assert_int_equal(ibv_destroy_cq(x.rcq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(x.d.pd), EBUSY);
	xrc_close(&x);
}

/* ---- ATOMIC WRITE, FLUSH ---- */

#ifdef HAVE_WR_ATOMIC_WRITE
TEST(atomic_write, ibv_wr__eight_bytes_at_once)
{
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex;
	uint64_t word = 0x1122334455667788;
	struct ibv_wc wc;
	struct dev d;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	ex = ibv_qp_to_qp_ex(a);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ex, d.mr->rkey, (uintptr_t)d.mem + 64, &word);
	word = 0; /* the request has it */
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = dev_poll(d.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	memcpy(&word, d.mem + 64, 8);
	assert_int_equal(word, 0x1122334455667788);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}
#endif

#ifdef HAVE_WR_FLUSH
TEST(flush, ibv_wr__completes_or_says_that_the_right_is_missing)
{
	struct ibv_qp_attr qa = {.qp_access_flags = IBV_ACCESS_FLUSH_GLOBAL};
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	struct dev d;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH);
	b = dev_qp(&d, IBV_QPT_RC, 0);
	dev_connect(a, b);
	assert_int_equal(ibv_modify_qp(b, &qa, IBV_QP_ACCESS_FLAGS), 0);
	mr = ibv_reg_mr(d.pd, d.mem, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	assert_non_null(mr);
	ex = ibv_qp_to_qp_ex(a);
	for (unsigned i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_flush(ex, i ? d.mr->rkey : mr->rkey, (uintptr_t)d.mem, 4096,
			     IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		assert_int_equal(ibv_wr_complete(ex), 0);
		assert_int_equal(dev_poll(d.cq).status, i ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}
#endif
