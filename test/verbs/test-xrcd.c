/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain that several contexts of one device have opened by its file: a target QP in one of
 * them, SRQ, memory and CQ in another.
 */
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

#include "xrc-member.h"

/* ---- domains ---- */

TEST(xrcd_shared, by_file__one_domain_for_all_contexts_of_the_device)
{
	int fd = memfd_create("domain", MFD_CLOEXEC), again;
	struct ibv_xrcd *in_a, *in_b, *more;
	struct dev a, b;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && again >= 0);
	dev_open(&a);
	dev_open(&b);
	in_a = dev_xrcd(&a, fd, O_CREAT | O_EXCL);
	assert_non_null(in_a);
	assert_null(dev_xrcd(&b, fd, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_null(dev_xrcd(&b, again, O_EXCL));
	assert_int_equal(errno, EINVAL);
	in_b = dev_xrcd(&b, fd, 0);
	assert_non_null(in_b);
	assert_ptr_equal(in_b->context, b.ctx);
	more = dev_xrcd(&b, again, O_CREAT);
	assert_non_null(more);
	close(fd);

	/* It exists as long as there is a handle. */
	assert_int_equal(ibv_close_xrcd(in_a), 0);
	assert_int_equal(ibv_close_xrcd(in_b), 0);
	in_a = dev_xrcd(&a, again, 0);
	assert_non_null(in_a);
	assert_int_equal(ibv_close_xrcd(more), 0);
	assert_int_equal(ibv_close_xrcd(in_a), 0);
	assert_null(dev_xrcd(&a, again, 0));
	assert_int_equal(errno, EAGAIN);
	assert_null(dev_xrcd(&b, again, 0));
	assert_int_equal(errno, EAGAIN);
	close(again);
	dev_close(&a);
	dev_close(&b);
}

TEST(xrcd_shared, another_device__another_domain)
{
	int fd = memfd_create("domain", MFD_CLOEXEC);
	struct ibv_xrcd *first, *second;
	struct dev a = {0}, b = {0};

	dev_namespace();
	setenv("ROCEMU_DEVICES", "one=lo,two=lo", 1);
	a.ctx = dev_open_named("one");
	b.ctx = dev_open_named("two");
	unsetenv("ROCEMU_DEVICES");
	first = dev_xrcd(&a, fd, O_CREAT);
	assert_non_null(first);
	assert_null(dev_xrcd(&b, fd, 0));
	assert_int_equal(errno, EAGAIN);
	second = dev_xrcd(&b, fd, O_CREAT | O_EXCL);
	assert_non_null(second);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_int_equal(ibv_close_device(a.ctx), 0);
	assert_int_equal(ibv_close_device(b.ctx), 0);
	close(fd);
}

TEST(xrcd_shared, of_no_file__each_its_own)
{
	struct ibv_xrcd *none;
	struct two t;

	two_open(&t);
	none = dev_xrcd(&t.b.d, -1, O_CREAT);
	assert_non_null(none);
	{
		struct ibv_xrcd *shared = t.b.xrcd;

		t.b.xrcd = none;
		assert_null(member_share(&t.b, t.to->qp_num));
		assert_int_equal(errno, EINVAL);
		t.b.xrcd = shared;
	}
	assert_int_equal(ibv_close_xrcd(none), 0);
	two_close(&t);
}

TEST(xrcd_shared, in_use__ebusy_for_the_handle_that_is)
{
	struct ibv_xrcd *more;
	struct ibv_qp *qp;
	struct two t;

	two_open(&t);
	assert_int_equal(ibv_close_xrcd(t.a.xrcd), EBUSY); /* target and SRQ */
	assert_int_equal(ibv_close_xrcd(t.b.xrcd), EBUSY); /* SRQ */
	more = dev_xrcd(&t.b.d, t.fd, 0);
	assert_non_null(more);
	assert_int_equal(ibv_close_xrcd(more), 0); /* nothing was made with this one */
	assert_int_equal(ibv_destroy_srq(t.b.srq), 0);
	t.b.srq = NULL;
	qp = member_share(&t.b, t.to->qp_num);
	assert_non_null(qp);
	assert_int_equal(ibv_close_xrcd(t.b.xrcd), EBUSY); /* the other context's target */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(t.b.xrcd), 0);
	t.b.xrcd = NULL;
	two_close(&t);
}

TEST(xrcd_shared, srq_numbers__all_different)
{
	enum { EACH = 600 };
	struct ibv_srq *srq[2][EACH];
	static bool seen[1 << 24];
	struct two t;

	memset(seen, 0, sizeof(seen));
	two_open(&t);
	for (unsigned i = 0; i < EACH; i++)
		for (unsigned k = 0; k < 2; k++) {
			struct member *m = k ? &t.b : &t.a;
			uint32_t num = 0;

			srq[k][i] = dev_xrc_srq(&m->d, m->xrcd, m->rcq);
			assert_non_null(srq[k][i]);
			assert_int_equal(ibv_get_srq_num(srq[k][i], &num), 0);
			assert_true(num && num < 1 << 24 && !seen[num]);
			seen[num] = true;
		}
	for (unsigned i = 0; i < EACH; i++)
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(ibv_destroy_srq(srq[k][i]), 0);
	two_close(&t);
}

/* ---- messages ---- */

TEST(xrcd_shared, send__to_memory_and_cq_of_the_other_context)
{
	struct ibv_wc wc;
	struct two t;

	two_open(&t);
	memcpy(t.a.d.mem, "over xrc", 8);
	member_post_recv(&t.b, 1, 1024, 64);
	two_post_send(&t, t.b.srqn, 2, 8);
	wc = dev_poll(t.b.rcq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(ntohl(wc.imm_data), 77);
	assert_int_equal(wc.qp_num, t.to->qp_num);
	assert_int_equal(wc.src_qp, t.from->qp_num);
	assert_memory_equal(t.b.d.mem + 1024, "over xrc", 8);
	assert_int_equal(dev_poll(t.a.d.cq).wr_id, 2);
	assert_int_equal(ibv_poll_cq(t.a.rcq, 1, &wc), 0);
	/* The target's own context is as good. */
	two_expect_message(&t, &t.a, 3);
	assert_memory_equal(t.a.d.mem + 1024, "over xrc", 8);
	two_close(&t);
}

TEST(xrcd_shared, event__on_the_other_contexts_channel)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct two t;
	void *user;

	two_open(&t);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(ibv_req_notify_cq(t.b.rcq, 0), 0);
		member_post_recv(&t.b, i, 1024, 64);
		two_post_send(&t, t.b.srqn, i, 8);
		assert_int_equal(ibv_get_cq_event(t.b.d.channel, &cq, &user), 0);
		assert_ptr_equal(cq, t.b.rcq);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		dev_poll(t.a.d.cq);
	}
	two_close(&t);
}

/* The deadline is set by the target's lane, and kept by that of the CQ. */
TEST(xrcd_shared, moderated_event__comes_after_its_time)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = 10, .cq_period = 2000},
	};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct two t;
	void *user;

	two_open(&t);
	assert_int_equal(ibv_modify_cq(t.b.rcq, &attr), 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(t.b.rcq, 0), 0);
		member_post_recv(&t.b, i, 1024, 64);
		two_post_send(&t, t.b.srqn, i, 8);
		assert_int_equal(ibv_get_cq_event(t.b.d.channel, &cq, &user), 0);
		ibv_ack_cq_events(cq, 1);
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
		dev_poll(t.a.d.cq);
	}
	two_close(&t);
}

TEST(xrcd_shared, srq_limit__event_at_the_srqs_context)
{
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_async_event ev;
	struct two t;

	two_open(&t);
	member_post_recv(&t.b, 1, 1024, 64);
	assert_int_equal(ibv_modify_srq(t.b.srq, &attr, IBV_SRQ_LIMIT), 0);
	two_post_send(&t, t.b.srqn, 2, 8);
	ev = member_next_event(t.b.d.ctx);
	assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, t.b.srq);
	two_close(&t);
}

TEST(xrcd_shared, cq_overrun__event_at_the_cqs_context)
{
	struct ibv_async_event ev;
	struct ibv_cq *small;
	struct ibv_srq *srq;
	struct ibv_wc wc;
	struct two t;

	two_open(&t);
	small = ibv_create_cq(t.b.d.ctx, 1, NULL, NULL, 0);
	srq = dev_xrc_srq(&t.b.d, t.b.xrcd, small);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(t.b.srq), 0);
	t.b.srq = srq;
	assert_int_equal(ibv_get_srq_num(srq, &t.b.srqn), 0);
	for (uint64_t i = 0; i < 2; i++) {
		member_post_recv(&t.b, i, 1024, 64);
		two_post_send(&t, t.b.srqn, i, 8);
		dev_poll(t.a.d.cq);
	}
	ev = member_next_event(t.b.d.ctx);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, small);
	while (ibv_poll_cq(small, 1, &wc) > 0)
		;
	assert_int_equal(ibv_destroy_srq(srq), 0);
	t.b.srq = NULL;
	assert_int_equal(ibv_destroy_cq(small), 0);
	two_close(&t);
}

TEST(xrcd_shared, write_read_atomic__memory_of_the_srqs_pd)
{
	uint64_t word = 40;
	struct ibv_wc wc;
	struct two t;

	two_open(&t);
	memcpy(t.a.d.mem, "12345678", 8);
	two_post(&t, IBV_WR_RDMA_WRITE, t.b.srqn, 1, 8, member_at(&t.b, 512), t.b.d.mr->rkey);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(t.b.d.mem + 512, "12345678", 8);

	member_post_recv(&t.b, 9, 0, 0);
	two_post(&t, IBV_WR_RDMA_WRITE_WITH_IMM, t.b.srqn, 2, 8, member_at(&t.b, 1024),
		 t.b.d.mr->rkey);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_SUCCESS);
	wc = dev_poll(t.b.rcq);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wr_id, 9);

	/* Several packets of response. */
	for (unsigned i = 0; i < 8192; i++)
		t.b.d.mem[16384 + i] = (uint8_t)(i * 7);
	two_post(&t, IBV_WR_RDMA_READ, t.b.srqn, 3, 8192, member_at(&t.b, 16384), t.b.d.mr->rkey);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(t.a.d.mem, t.b.d.mem + 16384, 8192);

	memcpy(t.b.d.mem + 2048, &word, 8);
	two_post(&t, IBV_WR_ATOMIC_FETCH_AND_ADD, t.b.srqn, 4, 8, member_at(&t.b, 2048),
		 t.b.d.mr->rkey);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_SUCCESS);
	memcpy(&word, t.a.d.mem, 8);
	assert_int_equal(word, 40);
	memcpy(&word, t.b.d.mem + 2048, 8);
	assert_int_equal(word, 43);

	/* The SRQ's PD and no other: not that of the target's context. */
	two_post(&t, IBV_WR_RDMA_WRITE, t.b.srqn, 5, 8, member_at(&t.a, 512), t.a.d.mr->rkey);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_REM_ACCESS_ERR);
	two_close(&t);
}

/* ---- target QPs ---- */

TEST(xrcd_shared, open_qp__a_handle_of_the_other_contexts_target)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *second;
	struct two t;

	two_open(&t);
	second = member_share(&t.b, t.to->qp_num);
	assert_non_null(second);
	assert_ptr_equal(second->context, t.b.d.ctx);
	assert_int_equal(second->qp_num, t.to->qp_num);
	assert_int_equal(second->state, IBV_QPS_RTS);
	assert_null(member_share(&t.b, t.from->qp_num)); /* not a target */
	assert_int_equal(errno, EINVAL);
	attr = (struct ibv_qp_attr){.min_rnr_timer = 9};
	assert_int_equal(ibv_modify_qp(second, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_int_equal(ibv_query_qp(t.to, &attr, IBV_QP_MIN_RNR_TIMER, &init), 0);
	assert_int_equal(attr.min_rnr_timer, 9);
	two_expect_message(&t, &t.b, 1);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR};
	assert_int_equal(ibv_modify_qp(second, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_query_qp(t.to, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(second), 0);
	two_close(&t);
}

TEST(xrcd_shared, made_in_the_other_context__connected_by_the_handle)
{
	struct ibv_qp *handle;
	struct two t;

	two_open(&t);
	assert_int_equal(ibv_destroy_qp(t.from), 0);
	assert_int_equal(ibv_destroy_qp(t.to), 0);
	t.from = dev_xrc_initiator(&t.a.d, 0);
	t.to = dev_xrc_target(&t.b.d, t.b.xrcd, NULL);
	handle = member_share(&t.a, t.to->qp_num);
	assert_non_null(handle);
	dev_connect(t.from, handle);
	two_expect_message(&t, &t.a, 1);
	two_expect_message(&t, &t.b, 3);
	assert_int_equal(ibv_destroy_qp(handle), 0);
	two_close(&t);
}

TEST(xrcd_shared, async_events__at_each_handle_in_its_own_context)
{
	struct ibv_async_event ev;
	struct ibv_qp *second;
	struct two t;

	two_open(&t);
	second = member_share(&t.b, t.to->qp_num);
	assert_non_null(second);
	assert_int_equal(ibv_destroy_srq(t.b.srq), 0);
	t.b.srq = NULL;
	two_post_send(&t, t.b.srqn, 1, 8);
	assert_int_equal(dev_poll(t.a.d.cq).status, IBV_WC_REM_INV_REQ_ERR);
	ev = member_next_event(t.b.d.ctx);
	assert_int_equal(ev.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(ev.element.qp, second);
	ev = member_next_event(t.a.d.ctx);
	assert_int_equal(ev.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(ev.element.qp, t.to);
	assert_int_equal(ibv_destroy_qp(second), 0);
	two_close(&t);
}
