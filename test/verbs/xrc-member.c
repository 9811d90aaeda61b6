/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc-member.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

void member_open(struct member *m, int fd)
{
	dev_open(&m->d);
	m->xrcd = dev_xrcd(&m->d, fd, O_CREAT);
	assert_non_null(m->xrcd);
	m->rcq = ibv_create_cq(m->d.ctx, DEV_CQE, NULL, m->d.channel, 0);
	assert_non_null(m->rcq);
	m->srq = dev_xrc_srq(&m->d, m->xrcd, m->rcq);
	assert_non_null(m->srq);
	assert_int_equal(ibv_get_srq_num(m->srq, &m->srqn), 0);
}

void member_close(struct member *m)
{
	if (m->srq)
		assert_int_equal(ibv_destroy_srq(m->srq), 0);
	assert_int_equal(ibv_destroy_cq(m->rcq), 0);
	if (m->xrcd)
		assert_int_equal(ibv_close_xrcd(m->xrcd), 0);
	dev_close(&m->d);
}

void member_abandon(struct member *m)
{
	void *left[] = {m->srq, m->rcq, m->xrcd, m->d.cq, m->d.channel, m->d.mr, m->d.pd};

	assert_int_equal(ibv_close_device(m->d.ctx), 0);
	for (unsigned i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		free(left[i]);
}

void member_post_recv(struct member *m, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = dev_sge(&m->d, off, len);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(m->srq, &wr, &bad), 0);
}

struct ibv_qp *member_share(struct member *m, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = m->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	errno = 0;
	return ibv_open_qp(m->d.ctx, &attr);
}

void two_open(struct two *t)
{
	t->fd = memfd_create("domain", MFD_CLOEXEC);
	assert_true(t->fd >= 0);
	member_open(&t->a, t->fd);
	member_open(&t->b, t->fd);
	t->from = dev_xrc_initiator(&t->a.d, 0);
	t->to = dev_xrc_target(&t->a.d, t->a.xrcd, NULL);
	assert_non_null(t->from);
	assert_non_null(t->to);
	dev_connect(t->from, t->to);
}

void two_close(struct two *t)
{
	assert_int_equal(ibv_destroy_qp(t->from), 0);
	assert_int_equal(ibv_destroy_qp(t->to), 0);
	member_close(&t->a);
	member_close(&t->b);
	close(t->fd);
}

void two_post(struct two *t, enum ibv_wr_opcode op, uint32_t srqn, uint64_t wr_id, uint32_t len,
	      uint64_t remote, uint32_t key)
{
	struct ibv_sge sge = dev_sge(&t->a.d, 0, len);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(77)},
			   *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = 3;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = key;
	}
	wr.qp_type.xrc.remote_srqn = srqn;
	assert_int_equal(ibv_post_send(t->from, &wr, &bad), 0);
}

void two_post_send(struct two *t, uint32_t srqn, uint64_t wr_id, uint32_t len)
{
	two_post(t, IBV_WR_SEND_WITH_IMM, srqn, wr_id, len, 0, 0);
}

uint64_t member_at(struct member *m, uint32_t off)
{
	return (uintptr_t)m->d.mem + off;
}

struct ibv_async_event member_next_event(struct ibv_context *ctx)
{
	struct ibv_async_event ev;

	do {
		assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	} while (ev.event_type == IBV_EVENT_COMM_EST);
	return ev;
}

void two_expect_message(struct two *t, struct member *m, uint64_t wr_id)
{
	struct ibv_wc wc;

	member_post_recv(m, wr_id, 1024, 64);
	two_post_send(t, m->srqn, wr_id + 1, 8);
	wc = dev_poll(m->rcq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	wc = dev_poll(t->a.d.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id + 1);
}
