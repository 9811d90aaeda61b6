/* SPDX-License-Identifier: BSD-2-Clause */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { SRC = 0, DST = 32768, LEN = 64, QPN_INDEX_BITS = 14 };

void lanes_open(struct dev *d, unsigned most)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", most);
	setenv("ROCEMU_LANES", text, 1);
	dev_open(d);
	unsetenv("ROCEMU_LANES");
}

struct ibv_cq *lanes_cq(struct dev *d)
{
	struct ibv_cq *cq = ibv_create_cq(d->ctx, DEV_CQE, NULL, NULL, 0);

	assert_non_null(cq);
	return cq;
}

struct ibv_srq *lanes_srq(struct dev *d)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = DEV_WR, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(d->pd, &attr);

	assert_non_null(srq);
	return srq;
}

struct ibv_qp *lanes_qp(struct dev *d, struct ibv_cq *send, struct ibv_cq *recv,
			struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send,
		.recv_cq = recv,
		.srq = srq,
		.cap = {.max_send_wr = DEV_WR,
			.max_recv_wr = DEV_WR,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(d->pd, &attr);

	assert_non_null(qp);
	return qp;
}

uint32_t lanes_slot(const struct ibv_qp *qp)
{
	return qp->qp_num >> QPN_INDEX_BITS;
}

void lanes_pair(struct dev *d, struct lanes_end *a, struct lanes_end *b)
{
	a->cq = lanes_cq(d);
	b->cq = lanes_cq(d);
	a->qp = lanes_qp(d, a->cq, a->cq, NULL);
	b->qp = lanes_qp(d, b->cq, b->cq, NULL);
	dev_connect(a->qp, b->qp);
}

void lanes_end_reconnect(struct lanes_end *a, struct lanes_end *b)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	assert_int_equal(ibv_modify_qp(a->qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(b->qp, &reset, IBV_QP_STATE), 0);
	dev_connect(a->qp, b->qp);
}

void lanes_end_free(struct lanes_end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
}

static void post(struct dev *d, struct lanes_end *from, enum ibv_wr_opcode op, uint32_t len,
		 uint32_t rkey)
{
	struct ibv_sge sge = dev_sge(d, SRC, len);
	struct ibv_send_wr wr = {.wr_id = op,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)d->mem + DST;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)d->mem + DST;
		wr.wr.rdma.rkey = rkey;
	}
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
}

void lanes_post_write(struct dev *d, struct lanes_end *from, uint32_t rkey)
{
	post(d, from, IBV_WR_RDMA_WRITE, LEN, rkey);
}

enum ibv_wc_status lanes_write(struct dev *d, struct lanes_end *from, uint32_t rkey)
{
	lanes_post_write(d, from, rkey);
	return dev_poll(from->cq).status;
}

void lanes_post_send(struct dev *d, struct lanes_end *from)
{
	post(d, from, IBV_WR_SEND, LEN, 0);
}

void lanes_post_srq(struct dev *d, struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = dev_sge(d, DST, LEN);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void expect(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc = dev_poll(cq);

	assert_string_equal(ibv_wc_status_str(wc.status), "success");
	assert_int_equal(wc.wr_id, wr_id);
}

void lanes_check(struct dev *d, struct lanes_end *from, struct lanes_end *to)
{
	static uint8_t fill;
	uint64_t before, after;

	memset(d->mem + SRC, ++fill, LEN);
	dev_post_recv(d, to->qp, 77, DST, LEN);
	post(d, from, IBV_WR_SEND, LEN, 0);
	expect(to->cq, 77);
	expect(from->cq, IBV_WR_SEND);
	assert_memory_equal(d->mem + SRC, d->mem + DST, LEN);

	memset(d->mem + SRC, ++fill, LEN);
	post(d, from, IBV_WR_RDMA_WRITE, LEN, d->mr->rkey);
	expect(from->cq, IBV_WR_RDMA_WRITE);
	assert_memory_equal(d->mem + SRC, d->mem + DST, LEN);

	memset(d->mem + DST, ++fill, LEN);
	post(d, from, IBV_WR_RDMA_READ, LEN, d->mr->rkey);
	expect(from->cq, IBV_WR_RDMA_READ);
	assert_memory_equal(d->mem + SRC, d->mem + DST, LEN);

	memcpy(&before, d->mem + DST, sizeof(before));
	post(d, from, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, d->mr->rkey);
	expect(from->cq, IBV_WR_ATOMIC_FETCH_AND_ADD);
	memcpy(&after, d->mem + DST, sizeof(after));
	assert_int_equal(after, before + 1);
}

int lanes_poll_once(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return ibv_poll_cq(cq, 1, &wc);
}
