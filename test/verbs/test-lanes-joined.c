/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects that make lanes of a context use each other's: QPs whose CQs or SRQ are on several,
 * windows, XRC. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "engine/lane.h"
#include "lanes.h"
#include "verbs/qp.h"

enum { PATIENCE_MS = 20000 };

static struct dev d;

/* An end on each of two lanes, which are not connected. */
static void two_lanes(struct lanes_end *a, struct lanes_end *b)
{
	lanes_open(&d, 2);
	a->cq = lanes_cq(&d);
	b->cq = lanes_cq(&d);
	a->qp = lanes_qp(&d, a->cq, a->cq, NULL);
	b->qp = lanes_qp(&d, b->cq, b->cq, NULL);
	assert_int_not_equal(lanes_slot(a->qp), lanes_slot(b->qp));
}

static uint64_t joins(const struct lanes_end *e)
{
	struct lane_stats stats;

	lane_get_stats(vb_qp_of(e->qp)->lane, &stats);
	return stats.joins;
}

TEST(lanes_joined, qp_with_cqs_of_two_lanes__completes_on_both)
{
	struct lanes_end a, b, both;

	two_lanes(&a, &b);
	assert_true(joins(&a) == 0 && joins(&b) == 0);
	both.cq = a.cq;
	both.qp = lanes_qp(&d, a.cq, b.cq, NULL);
	assert_true(joins(&a) == 1 && joins(&b) == 1);
	dev_connect(both.qp, b.qp);
	for (unsigned i = 0; i < 20; i++) {
		lanes_check(&d, &both, &b);
		dev_post_recv(&d, both.qp, 3, 32768, 64);
		lanes_post_send(&d, &b);
		assert_int_equal(dev_poll(b.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(dev_poll(b.cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_cq(b.cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(both.qp), 0);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/* What is flushed by a call on one lane is an event of a CQ on another. */
TEST(lanes_joined, flushed_to_the_other_lane__event)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct lanes_end a, b;
	struct pollfd channel = {.events = POLLIN};
	struct ibv_cq *from;
	struct ibv_qp *qp;
	void *user;

	two_lanes(&a, &b);
	channel.fd = d.channel->fd;
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_int_equal(ibv_destroy_cq(b.cq), 0);
	b.cq = ibv_create_cq(d.ctx, 10, NULL, d.channel, 0);
	b.qp = lanes_qp(&d, b.cq, b.cq, NULL);
	assert_int_not_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	qp = lanes_qp(&d, a.cq, b.cq, NULL);
	dev_connect(qp, a.qp);
	assert_int_equal(ibv_modify_qp(qp, &err, IBV_QP_STATE), 0);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	dev_post_recv(&d, qp, 9, 0, 64);
	assert_int_equal(poll(&channel, 1, PATIENCE_MS), 1);
	assert_int_equal(ibv_get_cq_event(d.channel, &from, &user), 0);
	assert_ptr_equal(from, b.cq);
	ibv_ack_cq_events(from, 1);
	assert_int_equal(dev_poll(b.cq).wr_id, 9);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

TEST(lanes_joined, srq_of_qps_on_two_lanes__each_receives)
{
	struct ibv_qp *qa, *qb;
	struct lanes_end a, b;
	struct ibv_srq *srq;

	two_lanes(&a, &b);
	srq = lanes_srq(&d);
	qa = lanes_qp(&d, a.cq, a.cq, srq);
	qb = lanes_qp(&d, b.cq, b.cq, srq);
	assert_int_not_equal(lanes_slot(qa), lanes_slot(qb));
	dev_connect(a.qp, qb);
	dev_connect(b.qp, qa);
	for (uint64_t i = 0; i < 20; i++) {
		lanes_post_srq(&d, srq, 100 + i);
		lanes_post_send(&d, i % 2 ? &a : &b);
		assert_int_equal(dev_poll(i % 2 ? b.cq : a.cq).wr_id, 100 + i);
		assert_int_equal(dev_poll(i % 2 ? a.cq : b.cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qa), 0);
	assert_int_equal(ibv_destroy_qp(qb), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	lanes_end_free(&b);
	lanes_end_free(&a);
	dev_close(&d);
}

TEST(lanes_joined, closed_with_objects_left__all_freed)
{
	struct ibv_qp *first, *second;
	struct lanes_end a, b;
	struct ibv_srq *srq;

	two_lanes(&a, &b);
	srq = lanes_srq(&d);
	first = lanes_qp(&d, a.cq, b.cq, srq);
	second = lanes_qp(&d, b.cq, a.cq, srq);
	dev_connect(a.qp, b.qp);
	lanes_check(&d, &a, &b);
	assert_int_equal(ibv_close_device(d.ctx), 0);
	/* The handles alone are left. A leak checker finds what else there should be. */
	free(a.qp);
	free(b.qp);
	free(first);
	free(second);
	free(srq);
	free(a.cq);
	free(b.cq);
	free(d.cq);
	free(d.channel);
	free(d.mr);
	free(d.pd);
}

/* ---- memory windows ---- */

/* A window of type 1, bound by one end to 64 bytes that the other writes to. */
static void bind_and_write(struct lanes_end *binder, struct lanes_end *writer, struct ibv_mw *mw,
			   struct ibv_mr *mr)
{
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = mr,
			      .addr = (uintptr_t)d.mem + 32768,
			      .length = 64,
			      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE},
	};

	assert_int_equal(ibv_bind_mw(binder->qp, mw, &bind), 0);
	assert_int_equal(dev_poll(binder->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(lanes_write(&d, writer, mw->rkey), IBV_WC_SUCCESS);
}

TEST(lanes_joined, window_bound_on_one_lane__used_on_another)
{
	struct lanes_end a, b;
	struct ibv_mw *mw;
	struct ibv_mr *mr;

	two_lanes(&a, &b);
	dev_connect(a.qp, b.qp);
	mr = ibv_reg_mr(d.pd, d.mem, sizeof(d.mem), LANES_ACCESS);
	mw = ibv_alloc_mw(d.pd, IBV_MW_TYPE_1);
	assert_true(mr && mw);
	bind_and_write(&a, &b, mw, mr);
	bind_and_write(&b, &a, mw, mr);
	bind_and_write(&a, &a, mw, mr);
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

TEST(lanes_joined, windows_before_qps__one_lane)
{
	struct lanes_end a, b;
	struct ibv_mw *mw;

	lanes_open(&d, 2);
	mw = ibv_alloc_mw(d.pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	lanes_pair(&d, &a, &b);
	assert_int_equal(lanes_slot(a.qp), lanes_slot(b.qp));
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	lanes_end_free(&a);
	lanes_end_free(&b);
	dev_close(&d);
}

/* ---- XRC ---- */

TEST(lanes_joined, xrc_srq_with_a_cq_of_another_lane__received)
{
	struct ibv_qp *target, *initiator;
	struct ibv_xrcd *xrcd;
	struct lanes_end a, b;
	struct ibv_srq *srq;
	struct ibv_send_wr wr = {.send_flags = IBV_SEND_SIGNALED,
				 .opcode = IBV_WR_SEND,
				 .num_sge = 1},
			   *bad;
	struct ibv_sge sge;

	two_lanes(&a, &b);
	xrcd = dev_xrcd(&d, -1, O_CREAT);
	assert_non_null(xrcd);
	srq = dev_xrc_srq(&d, xrcd, b.cq);
	assert_non_null(srq);
	target = dev_xrc_target(&d, xrcd, NULL);
	initiator = dev_xrc_initiator(&d, 0);
	assert_true(target && initiator);
	dev_connect(initiator, target);
	lanes_post_srq(&d, srq, 55);
	sge = dev_sge(&d, 0, 64);
	wr.sg_list = &sge;
	assert_int_equal(ibv_get_srq_num(srq, &wr.qp_type.xrc.remote_srqn), 0);
	assert_int_equal(ibv_post_send(initiator, &wr, &bad), 0);
	assert_int_equal(dev_poll(b.cq).wr_id, 55);
	assert_int_equal(dev_poll(d.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(initiator), 0);
	assert_int_equal(ibv_destroy_qp(target), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	lanes_end_free(&b);
	lanes_end_free(&a);
	dev_close(&d);
}
