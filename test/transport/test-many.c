/* SPDX-License-Identifier: BSD-2-Clause */
/* Many QPs on one endpoint: what a call looks at does not depend on their number. */
#include "test.h"

#include <string.h>

#include "transport/qp.h"
#include "transport/resp-int.h"

enum {
	QPS = 1000,
	LOOKED_AT = 3, /* QPs that a call may look at although they have nothing to send now */
};

static const struct rocemu_gid here = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

struct many {
	struct rocemu_ep *ep;
	struct rocemu_pd *pd;
	struct rocemu_cq *cq;
	struct rocemu_qp *qp[QPS];
};

static int to_state(struct rocemu_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr a = {
		.qp_state = state,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 7 << 14 | 77,
		.timeout = 14,
		.qkey = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	memcpy(a.ah_attr.grh.dgid.raw, here.raw, sizeof(here.raw));
	return rocemu_qp_modify(qp, 0, &a, mask | IBV_QP_STATE);
}

static void connect_qp(struct rocemu_qp *qp, enum ibv_qp_type type)
{
	const bool ud = type == IBV_QPT_UD;

	assert_int_equal(to_state(qp, IBV_QPS_INIT,
				  IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					  (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTR,
				  ud ? 0
				     : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
						  IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTS,
				  ud ? IBV_QP_SQ_PSN
				     : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void make_many(struct many *m, enum ibv_qp_type type)
{
	m->ep = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	assert_non_null(m->ep);
	assert_int_equal(rocemu_ep_set_slot(m->ep, 5, 100), 0);
	assert_int_equal(rocemu_ep_set_gid(m->ep, 0, &here), 0);
	m->pd = rocemu_pd_new(m->ep);
	assert_int_equal(rocemu_cq_create(m->ep, 4 * QPS, NULL, &m->cq), 0);
	for (unsigned i = 0; i < QPS; i++) {
		struct rocemu_qp_init init = {.pd = m->pd,
					      .send_cq = m->cq,
					      .recv_cq = m->cq,
					      .type = type,
					      .cap = {4, 4, 1, 1, 0}};

		assert_int_equal(rocemu_qp_create(m->ep, &init, &m->qp[i]), 0);
		connect_qp(m->qp[i], type);
	}
}

static unsigned length(const struct list *l)
{
	unsigned n = 0;

	list_for_each (it, l)
		n++;
	return n;
}

TEST(ep_output_kind, many_qps_with_nothing_to_send__looks_at_few)
{
	struct many m;

	make_many(&m, IBV_QPT_RC);
	assert_int_equal(rocemu_ep_output_kind(m.ep), ROCEMU_OUTPUT_NONE);
	assert_in_range(length(&m.ep->tx_ready), 0, LOOKED_AT);
	assert_false(rocemu_ep_has_output(m.ep));
	rocemu_ep_free(m.ep);
}

TEST(ep_output_kind, many_qps_owe_acks__looks_at_few_and_all_are_sent)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	bool acked[QPS] = {false};
	unsigned n, sent = 0;
	struct many m;

	make_many(&m, IBV_QPT_RC);
	for (unsigned i = 0; i < QPS; i++)
		resp_owe_ack(m.qp[i]);
	assert_int_equal(rocemu_ep_output_kind(m.ep), ROCEMU_OUTPUT_ACKS);
	assert_in_range(length(&m.ep->tx_ready), 0, LOOKED_AT);
	assert_int_equal(rocemu_ep_output_kind(m.ep), ROCEMU_OUTPUT_ACKS);
	while (rocemu_ep_has_output(m.ep)) {
		n = rocemu_ep_output(m.ep, 0, tx, ROCEMU_OUTPUT_BATCH);
		for (unsigned i = 0; i < n; i++)
			for (unsigned q = 0; q < QPS; q++)
				acked[q] |= tx[i].lqpn == rocemu_qp_num(m.qp[q]);
		sent += n;
	}
	assert_int_equal(sent, QPS);
	for (unsigned i = 0; i < QPS; i++)
		assert_true(acked[i]);
	rocemu_ep_free(m.ep);
}

TEST(ep_output_kind, one_of_many_that_owe_acks_is_posted_to__found)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct many m;

	make_many(&m, IBV_QPT_RC);
	for (unsigned i = 0; i < QPS; i++)
		resp_owe_ack(m.qp[i]);
	assert_int_equal(rocemu_ep_output_kind(m.ep), ROCEMU_OUTPUT_ACKS);
	assert_int_equal(rocemu_qp_post_send(m.qp[QPS / 2], 0, &wr, NULL), 0);
	assert_int_equal(rocemu_ep_output_kind(m.ep), ROCEMU_OUTPUT_NOW);
	rocemu_ep_free(m.ep);
}

/* A call with room for one packet does not look at all that wait. */
TEST(send_credits, many_qps_wait__those_that_there_is_room_for_are_woken)
{
	struct rocemu_path path = {.sgid = here, .dgid = here, .sport = 0xc000};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned sent = 0;
	struct many m;

	make_many(&m, IBV_QPT_UD);
	rocemu_ep_set_send_credits(m.ep, 0);
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(rocemu_qp_post_send(m.qp[i], 0, &wr, &path), 0);
	assert_int_equal(rocemu_ep_output(m.ep, 0, tx, ROCEMU_OUTPUT_BATCH), 0);
	assert_int_equal(length(&m.ep->room_waiting), QPS);
	rocemu_ep_set_send_credits(m.ep, 1);
	assert_in_range(length(&m.ep->tx_ready), 1, LOOKED_AT);
	assert_int_equal(rocemu_ep_output(m.ep, 0, tx, ROCEMU_OUTPUT_BATCH), 1);
	assert_int_equal(length(&m.ep->room_waiting), QPS - 1);
	rocemu_ep_set_send_credits(m.ep, UINT64_MAX);
	while (rocemu_ep_has_output(m.ep))
		sent += rocemu_ep_output(m.ep, 0, tx, ROCEMU_OUTPUT_BATCH);
	assert_int_equal(sent, QPS - 1);
	assert_int_equal(rocemu_cq_count(m.cq), 0); /* none was signaled */
	assert_false(rocemu_ep_wants_send_credits(m.ep));
	rocemu_ep_free(m.ep);
}
