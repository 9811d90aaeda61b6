/* SPDX-License-Identifier: BSD-2-Clause */
/* The ibv_wr_* interface: what is built is posted as a whole or not at all. */
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "dev.h"

#define RC_OPS                                                                            \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |                 \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)

struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex; /* of a */
};

static void pair_open(struct pair *p, uint64_t ops)
{
	dev_open(&p->d);
	p->a = dev_qp(&p->d, IBV_QPT_RC, ops);
	p->b = dev_qp(&p->d, IBV_QPT_RC, 0);
	p->ex = ibv_qp_to_qp_ex(p->a);
	assert_non_null(p->ex);
	dev_connect(p->a, p->b);
}

static void pair_close(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

static void build_write(struct pair *p, uint64_t wr_id, uint32_t from, uint32_t to, uint32_t length)
{
	p->ex->wr_id = wr_id;
	p->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(p->ex, p->d.mr->rkey, (uintptr_t)p->d.mem + to);
	ibv_wr_set_sge(p->ex, p->d.mr->lkey, (uintptr_t)p->d.mem + from, length);
}

static void expect_done(struct pair *p, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = dev_poll(p->d.cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, opcode);
}

/* The queue goes on working and what was thrown away never shows up. */
static void expect_only_a_sentinel(struct pair *p)
{
	struct ibv_wc wc;

	ibv_wr_start(p->ex);
	build_write(p, 99, 0, 32768, 8);
	assert_int_equal(ibv_wr_complete(p->ex), 0);
	expect_done(p, 99, IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_poll_cq(p->d.cq, 1, &wc), 0);
}

TEST(wr, aborted__nothing_posted)
{
	struct pair p;

	pair_open(&p, RC_OPS);
	ibv_wr_start(p.ex);
	build_write(&p, 1, 0, 1024, 64);
	ibv_wr_abort(p.ex);
	expect_only_a_sentinel(&p);
	pair_close(&p);
}

TEST(wr, last_of_batch_bad__nothing_posted)
{
	struct pair p;

	pair_open(&p, RC_OPS);
	ibv_wr_start(p.ex);
	build_write(&p, 1, 0, 1024, 64);
	ibv_wr_atomic_fetch_add(p.ex, p.d.mr->rkey, (uintptr_t)p.d.mem, 1);
	ibv_wr_set_sge(p.ex, p.d.mr->lkey, (uintptr_t)p.d.mem, 4); /* an atomic returns 8 bytes */
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	expect_only_a_sentinel(&p);
	pair_close(&p);
}

TEST(wr, operation_not_asked_for__eopnotsupp)
{
	struct pair p;

	pair_open(&p, IBV_QP_EX_WITH_RDMA_WRITE);
	ibv_wr_start(p.ex);
	build_write(&p, 1, 0, 1024, 64);
	ibv_wr_rdma_read(p.ex, p.d.mr->rkey, (uintptr_t)p.d.mem);
	ibv_wr_set_sge(p.ex, p.d.mr->lkey, (uintptr_t)p.d.mem, 8);
	assert_int_equal(ibv_wr_complete(p.ex), EOPNOTSUPP);
	ibv_wr_start(p.ex);
	ibv_wr_local_inv(p.ex, 1);
	assert_int_equal(ibv_wr_complete(p.ex), EOPNOTSUPP);
	expect_only_a_sentinel(&p);
	pair_close(&p);
}

TEST(wr, more_than_the_queue_has__enomem_and_nothing_posted)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair p;

	pair_open(&p, RC_OPS);
	assert_int_equal(ibv_query_qp(p.a, &attr, IBV_QP_CAP, &init), 0);
	ibv_wr_start(p.ex);
	for (unsigned i = 0; i <= attr.cap.max_send_wr; i++)
		build_write(&p, i, 0, 1024, 8);
	assert_int_equal(ibv_wr_complete(p.ex), ENOMEM);
	expect_only_a_sentinel(&p);
	pair_close(&p);
}

TEST(wr, sge_or_inline_too_much__einval)
{
	struct ibv_sge sge[64];
	struct pair p;

	pair_open(&p, RC_OPS);
	for (unsigned i = 0; i < 64; i++)
		sge[i] = dev_sge(&p.d, 0, 8);
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_sge_list(p.ex, 64, sge);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	ibv_wr_start(p.ex);
	ibv_wr_send(p.ex);
	ibv_wr_set_inline_data(p.ex, p.d.mem, 60000);
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	ibv_wr_start(p.ex);
	ibv_wr_set_sge(p.ex, 0, 0, 0); /* before any operation */
	assert_int_equal(ibv_wr_complete(p.ex), EINVAL);
	expect_only_a_sentinel(&p);
	pair_close(&p);
}

TEST(wr, batch_of_all_kinds__done_in_order)
{
	struct pair p;
	uint64_t *word;
	char text[] = "inline";
	struct ibv_data_buf bufs[] = {{text, 3}, {text + 3, 4}};
	struct ibv_wc wc;

	pair_open(&p, RC_OPS);
	word = (uint64_t *)(void *)(p.d.mem + 8192);
	*word = 40;
	memset(p.d.mem, 0x5a, 3000);
	dev_post_recv(&p.d, p.b, 50, 16384, 64);
	ibv_wr_start(p.ex);
	build_write(&p, 1, 0, 4096, 3000);
	p.ex->wr_id = 2;
	ibv_wr_atomic_fetch_add(p.ex, p.d.mr->rkey, (uintptr_t)word, 2);
	ibv_wr_set_sge(p.ex, p.d.mr->lkey, (uintptr_t)(p.d.mem + 8200), 8);
	p.ex->wr_id = 3;
	ibv_wr_rdma_read(p.ex, p.d.mr->rkey, (uintptr_t)word);
	ibv_wr_set_sge(p.ex, p.d.mr->lkey, (uintptr_t)(p.d.mem + 8208), 8);
	p.ex->wr_id = 4;
	p.ex->wr_flags = 0;
	ibv_wr_send_imm(p.ex, htonl(7));
	ibv_wr_set_inline_data_list(p.ex, 2, bufs);
	memset(text, 'x', sizeof(text)); /* the program's again after the setter */
	assert_int_equal(ibv_wr_complete(p.ex), 0);
	for (unsigned seen = 0, last = 0; seen < 4; seen++) {
		wc = dev_poll(p.d.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 50) {
			assert_int_equal(wc.imm_data, htonl(7));
			assert_int_equal(wc.byte_len, 7);
		} else {
			assert_int_equal(wc.wr_id, ++last);
		}
	}
	assert_memory_equal(p.d.mem, p.d.mem + 4096, 3000);
	assert_string_equal((char *)p.d.mem + 16384, "inline");
	assert_int_equal(*word, 42);
	assert_int_equal(word[1], 40);
	assert_int_equal(word[2], 42);
	pair_close(&p);
}

TEST(wr, ud_address__reaches_the_peer_with_its_qpn)
{
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	struct ibv_ah *ah;
	struct dev d;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	b = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(a, NULL);
	dev_connect(b, NULL);
	ah = dev_self_ah(&d);
	dev_post_recv(&d, b, 5, 1024, 40 + 16);
	ex = ibv_qp_to_qp_ex(a);
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, b->qp_num, 0x11111111);
	ibv_wr_set_sge(ex, d.mr->lkey, (uintptr_t)d.mem, 16);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = dev_poll(d.cq);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.byte_len, 56);
	assert_int_equal(wc.src_qp, a->qp_num);
	assert_true(wc.wc_flags & IBV_WC_GRH);

	/* And the answer's address can be made of what came. */
	struct ibv_ah_attr back;

	assert_int_equal(
		ibv_init_ah_from_wc(d.ctx, 1, &wc, (struct ibv_grh *)(void *)(d.mem + 1024), &back),
		0);
	assert_int_equal(back.is_global, 1);
	assert_int_equal(back.grh.dgid.raw[12], 127);
	assert_int_equal(back.grh.sgid_index, 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}

TEST(wr, ud_longer_than_the_mtu__completes_with_length_error)
{
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct ibv_ah *ah;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	dev_connect(qp, NULL);
	ah = dev_self_ah(&d);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	for (uint32_t i = 0; i < 2; i++) {
		ex->wr_id = i + 1;
		ibv_wr_send(ex);
		ibv_wr_set_ud_addr(ex, ah, qp->qp_num, 0x11111111);
		ibv_wr_set_sge(ex, d.mr->lkey, (uintptr_t)d.mem, 4097 - i);
	}
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = dev_poll(d.cq);
	assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(wc.wr_id, 1);
	wc = dev_poll(d.cq);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}
