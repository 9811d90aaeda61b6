/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_attach_mcast() and what goes with it. That packets cross processes: test/prog. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "dev.h"

enum { GRH = 40, QKEY = 0x11111111, MCAST_QPN = 0xffffff, LID = 0xc001 };

static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, 239, 5, 5, 5}};

static void send_group(struct dev *d, struct ibv_qp *qp)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = group}};
	struct ibv_sge sge = dev_sge(d, 0, 100);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_ah *ah = ibv_create_ah(d->pd, &a);

	assert_non_null(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = MCAST_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static struct ibv_qp *ud_blocking_own(struct dev *d, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = d->pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};

	return ibv_create_qp_ex(d->ctx, &attr);
}

TEST(mcast, attach__wrong_qp_or_gid__einval)
{
	const union ibv_gid unicast = {.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	struct ibv_qp *rc, *ud;
	struct dev d;

	dev_open(&d);
	rc = dev_qp(&d, IBV_QPT_RC, 0);
	ud = dev_qp(&d, IBV_QPT_UD, 0);
	assert_int_equal(ibv_attach_mcast(rc, &group, LID), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud, &unicast, LID), EINVAL);
	assert_int_equal(ibv_detach_mcast(ud, &group, LID), EINVAL);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	dev_close(&d);
}

TEST(mcast, destroy_qp__attached__ebusy_until_detached)
{
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	assert_int_equal(ibv_attach_mcast(qp, &group, LID), 0);
	assert_int_equal(ibv_attach_mcast(qp, &group, LID), 0);
	assert_int_equal(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(qp, &group, LID), 0);
	assert_int_equal(ibv_detach_mcast(qp, &group, LID), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

static union ibv_gid nth(int n)
{
	union ibv_gid g = group;

	g.raw[14] = (uint8_t)(n >> 8);
	g.raw[15] = (uint8_t)n;
	return g;
}

TEST(mcast, limits__reported__enforced)
{
	struct ibv_device_attr a;
	union ibv_gid g;
	struct ibv_qp *qp;
	struct dev d;
	int n = 0;

	dev_open(&d);
	assert_int_equal(ibv_query_device(d.ctx, &a), 0);
	qp = dev_qp(&d, IBV_QPT_UD, 0);
	for (; n < a.max_mcast_grp; n++) {
		g = nth(n);
		assert_int_equal(ibv_attach_mcast(qp, &g, LID), 0);
	}
	assert_true(n > 0 && a.max_mcast_qp_attach > 0 &&
		    a.max_total_mcast_qp_attach >= a.max_mcast_qp_attach);
	g = nth(n);
	assert_int_equal(ibv_attach_mcast(qp, &g, LID), ENOSPC);
	while (n--) {
		g = nth(n);
		assert_int_equal(ibv_detach_mcast(qp, &g, LID), 0);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(mcast, send__to_own_group__comes_back_with_the_groups_address)
{
	struct ibv_qp *a, *b;
	struct ibv_ah_attr back;
	struct ibv_wc wc;
	struct dev d;

	dev_open(&d);
	a = dev_qp(&d, IBV_QPT_UD, 0);
	b = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(a, NULL);
	dev_connect(b, NULL);
	assert_int_equal(ibv_attach_mcast(a, &group, LID), 0);
	assert_int_equal(ibv_attach_mcast(b, &group, LID), 0);
	memset(d.mem, 0x5a, 100);
	dev_post_recv(&d, a, 1, 1024, GRH + 100);
	dev_post_recv(&d, b, 2, 2048, GRH + 100);
	send_group(&d, a);
	for (unsigned i = 1; i <= 2; i++) {
		wc = dev_poll(d.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.src_qp, a->qp_num);
		assert_int_equal(wc.wr_id, i);
		assert_memory_equal(d.mem + 1024 * i + GRH, d.mem, 100);
		assert_memory_equal(d.mem + 1024 * i + 36, group.raw + 12, 4);
	}
	/* Who answers, answers the sender. */
	assert_int_equal(
		ibv_init_ah_from_wc(d.ctx, 1, &wc, (struct ibv_grh *)(void *)(d.mem + 2048), &back),
		0);
	assert_int_equal(back.grh.dgid.raw[12], 127);
	assert_int_equal(ibv_detach_mcast(a, &group, LID), 0);
	assert_int_equal(ibv_detach_mcast(b, &group, LID), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}

TEST(mcast, send__loopback_to_self_blocked__only_others_get_it)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;
	struct dev d;

	dev_open(&d);
	errno = 0;
	assert_null(ud_blocking_own(&d, IBV_QPT_RC));
	assert_int_equal(errno, EINVAL);
	a = ud_blocking_own(&d, IBV_QPT_UD);
	assert_non_null(a);
	b = dev_qp(&d, IBV_QPT_UD, 0);
	dev_connect(a, NULL);
	dev_connect(b, NULL);
	assert_int_equal(ibv_attach_mcast(a, &group, LID), 0);
	assert_int_equal(ibv_attach_mcast(b, &group, LID), 0);
	dev_post_recv(&d, a, 1, 1024, GRH + 100);
	dev_post_recv(&d, b, 2, 2048, GRH + 100);
	send_group(&d, a);
	assert_int_equal(dev_poll(d.cq).wr_id, 2);
	dev_post_recv(&d, b, 3, 2048, GRH + 100);
	send_group(&d, b);
	wc = dev_poll(d.cq); /* the first one's turn: nothing of its own came before */
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.src_qp, b->qp_num);
	assert_int_equal(dev_poll(d.cq).wr_id, 3);
	assert_int_equal(ibv_detach_mcast(a, &group, LID), 0);
	assert_int_equal(ibv_detach_mcast(b, &group, LID), 0);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
	dev_close(&d);
}
