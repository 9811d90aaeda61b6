/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: attaching and detaching, and which QPs a packet to a group goes to. */
#include "hostile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct hostile h;
static const struct rocemu_gid group4 = {{[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
static const struct rocemu_gid group6 = {{0xff, 0x0e, [15] = 7}};

#define GROUP(name) TEST(mcast, name)

/** Like the first UD QP, of the same queues; ready to receive. */
static struct rocemu_qp *another(uint32_t qkey, bool block_own)
{
	struct rocemu_qp_init init = {
		.pd = h.pd,
		.send_cq = h.cq,
		.recv_cq = h.cq,
		.type = IBV_QPT_UD,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.block_own_mcast = block_own,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	struct rocemu_qp *qp;

	assert_int_equal(rocemu_qp_create(h.ep, &init, &qp), 0);
	assert_int_equal(
		rocemu_qp_modify(qp, h.now, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rocemu_qp_modify(qp, h.now, &attr, IBV_QP_STATE), 0);
	return qp;
}

static void recv_on(struct rocemu_qp *qp, uint64_t wr_id, uint32_t off)
{
	struct ibv_sge sge = {.addr = (uintptr_t)h.recv + off, .length = 100};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	sge.lkey = rocemu_mr_lkey(h.recv_mr);
	assert_int_equal(rocemu_qp_post_recv(qp, h.now, &wr, &bad), 0);
}

/** The wr_ids of what has completed, all well, in order. */
static const char *received(void)
{
	static char text[128];
	struct rocemu_cqe cqe;
	size_t n = 0;

	text[0] = 0;
	while (rocemu_cq_poll(h.cq, &cqe, 1)) {
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu", n ? " " : "",
				      (unsigned long long)cqe.wr_id);
	}
	return text;
}

static uint64_t dropped(enum rocemu_drop why)
{
	return rocemu_ep_get_stats(h.ep)->drops[why];
}

static void start(const struct rocemu_gid *to)
{
	hostile_start(&h, IBV_QPT_UD);
	h.self = *to;
	h.dqpn = ROCEMU_MCAST_QPN;
}

GROUP(attach__not_ud_or_not_a_group__einval)
{
	static const struct rocemu_gid no_groups[] = {
		{{[10] = 0xff, [11] = 0xff, 223, 255, 255, 255}},
		{{[10] = 0xff, [11] = 0xff, 240, 0, 0, 0}},
		{{0xfe, 0x80, [15] = 1}},
		{{0}},
		{{0xff, 0x00, [15] = 7}}, /* scope 0: reserved */
		{{0xff, 0x10, [15] = 7}},
	};

	hostile_start(&h, IBV_QPT_RC);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), -EINVAL);
	hostile_free(&h);
	hostile_start(&h, IBV_QPT_UD);
	for (unsigned i = 0; i < sizeof(no_groups) / sizeof(no_groups[0]); i++)
		assert_int_equal(rocemu_qp_attach_mcast(h.qp, &no_groups[i]), -EINVAL);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group6), 0);
	hostile_free(&h); /* attached as it is */
}

GROUP(attach__twice__one_detach_undoes_it)
{
	hostile_start(&h, IBV_QPT_UD);
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &group4), -EINVAL);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	assert_true(rocemu_ep_has_mcast(h.ep, &group4));
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &group4), 0);
	assert_false(rocemu_ep_has_mcast(h.ep, &group4));
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &group4), -EINVAL);
	hostile_free(&h);
}

GROUP(attach__two_qps_to_two_groups__each_detach_ends_one)
{
	struct rocemu_qp *second;

	hostile_start(&h, IBV_QPT_UD);
	second = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(second, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(second, &group6), 0);
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &group6), -EINVAL);
	assert_int_equal(rocemu_qp_detach_mcast(second, &group6), 0);
	assert_false(rocemu_ep_has_mcast(h.ep, &group6));
	assert_true(rocemu_ep_has_mcast(h.ep, &group4));
	assert_int_equal(rocemu_qp_detach_mcast(second, &group4), 0);
	assert_true(rocemu_ep_has_mcast(h.ep, &group4));
	assert_int_equal(rocemu_qp_destroy(second), 0);
	assert_int_equal(rocemu_qp_destroy(h.qp), -EBUSY);
	hostile_free(&h);
}

GROUP(attach__more_than_the_limit__enospc_until_one_leaves)
{
	struct rocemu_gid g = group4;

	hostile_start(&h, IBV_QPT_UD);
	for (unsigned i = 0; i < ROCEMU_MAX_MCAST_GROUPS; i++) {
		g.raw[15] = (uint8_t)i;
		assert_int_equal(rocemu_qp_attach_mcast(h.qp, &g), 0);
	}
	g.raw[14]++;
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &g), -ENOSPC);
	g.raw[14]--;
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &g), 0);
	g.raw[14]++;
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &g), 0);
	hostile_free(&h);
}

GROUP(destroy__attached__ebusy)
{
	struct rocemu_qp *qp;

	hostile_start(&h, IBV_QPT_UD);
	qp = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(qp, &group4), 0);
	assert_int_equal(rocemu_qp_destroy(qp), -EBUSY);
	assert_int_equal(rocemu_qp_detach_mcast(qp, &group4), 0);
	assert_int_equal(rocemu_qp_destroy(qp), 0);
	hostile_free(&h);
}

GROUP(packet__several_qps_attached__each_gets_it_with_the_groups_grh)
{
	struct rocemu_qp *second, *outside;

	start(&group4);
	second = another(HOSTILE_QKEY, false);
	outside = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(second, &group4), 0);
	hostile_recv(&h, 1, 0, 100);
	recv_on(second, 2, 100);
	recv_on(outside, 3, 200);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 10);
	assert_string_equal(received(), "1 2");
	assert_memory_equal(h.recv + 40, h.payload, 10);
	assert_memory_equal(h.recv + 140, h.payload, 10);
	assert_memory_equal(h.recv + 36, group4.raw + 12, 4);
	assert_string_equal(h.log, "");
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &group4), 0);
	recv_on(second, 4, 100);
	hostile_recv(&h, 5, 0, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 1, 10);
	assert_string_equal(received(), "4");
	hostile_free(&h);
}

/* Its packets travel to another group, which a program may use as well. */
GROUP(packet__interface_local_group__grh_has_the_programs_address)
{
	static const struct rocemu_gid local = {{0xff, 0x01, [15] = 7}},
				       on_wire = {{0xff, 0x82, [15] = 7}};
	struct rocemu_qp *other;
	const char *got;

	start(&on_wire);
	h.peer = (struct rocemu_gid){{0xfd, [15] = 2}};
	other = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &local), 0);
	assert_true(rocemu_ep_has_mcast(h.ep, &on_wire));
	assert_false(rocemu_ep_has_mcast(h.ep, &local));
	hostile_recv(&h, 1, 0, 100);
	recv_on(other, 2, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 10);
	assert_string_equal(received(), "1");
	assert_memory_equal(h.recv + 24, local.raw, 16);
	assert_int_equal(rocemu_qp_attach_mcast(other, &on_wire), 0);
	hostile_recv(&h, 3, 0, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 1, 10);
	got = received();
	assert_true(!strcmp(got, "3 2") || !strcmp(got, "2 3")); /* groups have no order */
	assert_memory_equal(h.recv + 24, local.raw, 16);
	assert_memory_equal(h.recv + 124, on_wire.raw, 16);
	assert_int_equal(rocemu_qp_detach_mcast(h.qp, &local), 0);
	assert_true(rocemu_ep_has_mcast(h.ep, &on_wire));
	hostile_free(&h);
}

GROUP(packet__group_of_ipv6__taken)
{
	start(&group6);
	h.peer = (struct rocemu_gid){{0xfd, [15] = 2}};
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group6), 0);
	hostile_recv(&h, 1, 0, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "recv 1 len 44 grh from 1234");
	assert_memory_equal(h.recv + 24, group6.raw, 16);
	hostile_free(&h);
}

GROUP(packet__some_cannot_take_it__the_others_do_and_it_is_counted)
{
	struct rocemu_qp *other_key, *last;

	start(&group4);
	other_key = another(HOSTILE_QKEY + 1, false);
	last = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0); /* without receive */
	assert_int_equal(rocemu_qp_attach_mcast(other_key, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(last, &group4), 0);
	recv_on(other_key, 1, 0);
	recv_on(last, 2, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	assert_string_equal(received(), "2");
	assert_string_equal(h.log, "");
	assert_int_equal(dropped(ROCEMU_DROP_NO_RECV), 1);
	assert_int_equal(dropped(ROCEMU_DROP_QKEY), 1);
	/* Now no QP has a receive for it. */
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 1, 4);
	assert_string_equal(h.log, "drop NO_RECV");
	assert_int_equal(dropped(ROCEMU_DROP_NO_RECV), 3);
	assert_int_equal(dropped(ROCEMU_DROP_QKEY), 2);
	hostile_free(&h);
}

/* IBTA 9.6.1.2: a multicast address goes with the multicast QPN, and with nothing else. */
GROUP(packet__address_and_qpn_do_not_match__dropped)
{
	start(&group4);
	hostile_recv(&h, 1, 0, 100);
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "drop QPN"); /* not attached */
	assert_int_equal(rocemu_qp_attach_mcast(h.qp, &group4), 0);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 4);
	EXPECT(&h, "drop SERVICE");
	h.dqpn = 0;
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "drop SOURCE");
	h.self = (struct rocemu_gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
	h.dqpn = ROCEMU_MCAST_QPN;
	hostile_send(&h, ROCEMU_UD_SEND_ONLY, 0, 4);
	EXPECT(&h, "drop QPN");
	hostile_free(&h);
}

GROUP(packet__own_one__comes_back_unless_blocked)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_UD_SEND_ONLY, .deth = {.qkey = HOSTILE_QKEY}};
	struct rocemu_qp *blocking, *plain;

	start(&group4);
	blocking = another(HOSTILE_QKEY, true);
	plain = another(HOSTILE_QKEY, false);
	assert_int_equal(rocemu_qp_attach_mcast(blocking, &group4), 0);
	assert_int_equal(rocemu_qp_attach_mcast(plain, &group4), 0);
	recv_on(blocking, 1, 0);
	recv_on(plain, 2, 100);
	recv_on(plain, 3, 200);
	h.peer = h.ep->gids[0];
	hdrs.deth.sqpn = rocemu_qp_num(blocking);
	hostile_send_hdrs(&h, &hdrs, 4);
	assert_string_equal(received(), "2");
	/* From the same QPN of another host it is another QP's. */
	h.peer.raw[15] ^= 0x40;
	hostile_send_hdrs(&h, &hdrs, 4);
	assert_string_equal(received(), "1 3");
	recv_on(plain, 4, 100);
	h.peer = h.ep->gids[0];
	hdrs.deth.sqpn = rocemu_qp_num(plain);
	hostile_send_hdrs(&h, &hdrs, 4);
	assert_string_equal(received(), "4");
	hostile_free(&h);
}

GROUP(qpn__of_the_groups__never_given_to_a_qp)
{
	struct rocemu_ep_config cfg = {.seed = 1};
	struct rocemu_ep *ep = rocemu_ep_new(&cfg);
	struct rocemu_qp_init init = {.type = IBV_QPT_UD, .cap = {.max_recv_wr = 1}};
	struct rocemu_qp *qp;

	assert_non_null(ep);
	assert_int_equal(rocemu_ep_set_slot(ep, 1023, QPN_COUNT - QPN_BLOCK), 0);
	init.pd = rocemu_pd_new(ep);
	assert_int_equal(rocemu_cq_create(ep, 4, NULL, &init.send_cq), 0);
	init.recv_cq = init.send_cq;
	for (unsigned i = 1; i < QPN_BLOCK; i++) {
		assert_int_equal(rocemu_qp_create(ep, &init, &qp), 0);
		assert_in_range(rocemu_qp_num(qp), ROCEMU_MCAST_QPN + 1 - QPN_BLOCK,
				ROCEMU_MCAST_QPN - 1);
	}
	/* Only its own number is left of the block. */
	assert_int_equal(rocemu_qp_create(ep, &init, &qp), 0);
	assert_in_range(rocemu_qp_num(qp), (1023 << ROCEMU_QPN_INDEX_BITS) + 2,
			(1023 << ROCEMU_QPN_INDEX_BITS) + QPN_BLOCK - 1);
	rocemu_ep_free(ep);
}
