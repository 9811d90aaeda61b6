/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives of a shared receive queue whose protection domain is not the QP's: their memory is the
 * SRQ's domain's, what an R_Key names is the QP's (IBTA 10.2.9).
 */
#include <errno.h>

#include "hostile.h"

static struct hostile h;

/* XRC is not among them: what packets of a target QP touch is all of the SRQ's domain. */
static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

/** Receives in the domain of the QP, the SRQ in another one. */
static void start(enum ibv_qp_type type)
{
	struct rocemu_pd *other;

	hostile_new(&h, type, true);
	other = rocemu_pd_new(h.ep);
	assert_non_null(other);
	h.srq->pd->refs--;
	h.srq->pd = other;
	other->refs++;
	hostile_connect(&h, IBV_QPS_RTS);
}

/** ... and the receives as well. */
static void start_same(enum ibv_qp_type type)
{
	start(type);
	assert_int_equal(rocemu_mr_reg(h.srq->pd, h.recv, sizeof(h.recv), (uintptr_t)h.recv,
				       IBV_ACCESS_LOCAL_WRITE, &h.recv_mr),
			 0);
}

static void send_one(enum ibv_qp_type type)
{
	static const uint8_t opcode[] = {[IBV_QPT_RC] = ROCEMU_RC_SEND_ONLY,
					 [IBV_QPT_UC] = ROCEMU_UC_SEND_ONLY,
					 [IBV_QPT_UD] = ROCEMU_UD_SEND_ONLY};

	hostile_send(&h, opcode[type], 0, 8);
}

TEST(resp_srq, memory_of_the_srqs_domain__received)
{
	static const char *const text[] = {"ack 0/1; recv 1 len 8", "recv 1 len 8",
					   "recv 1 len 48 grh from 1234"};

	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		start_same(types[i]);
		hostile_recv(&h, 1, 0, 64);
		send_one(types[i]);
		EXPECT(&h, text[i]);
		assert_memory_equal(h.recv + (types[i] == IBV_QPT_UD ? 40 : 0), h.payload, 8);
		hostile_free(&h);
	}
}

TEST(resp_srq, memory_of_the_qps_domain__protection_error)
{
	static const char *const text[] = {
		"drop ACCESS; nak 63 0/0; recv 1 LOC_PROT_ERR; event QP_LAST_WQE_REACHED; ERR",
		"drop ACCESS; recv 1 LOC_PROT_ERR; event QP_LAST_WQE_REACHED; ERR",
		"drop ACCESS; recv 1 LOC_PROT_ERR; event QP_LAST_WQE_REACHED; ERR"};

	for (unsigned i = 0; i < ARRAY_LEN(types); i++) {
		start(types[i]);
		hostile_recv(&h, 1, 0, 64);
		send_one(types[i]);
		EXPECT(&h, text[i]);
		assert_int_equal(h.recv[0], 0xee);
		hostile_free(&h);
	}
}

TEST(resp_srq, write_with_immediate__r_key_of_the_qps_domain)
{
	start_same(IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 64);
	hostile_recv(&h, 2, 0, 64);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY_IMM, 0, 8);
	EXPECT(&h, "ack 0/1; recv 1 len 8 imm 1020304 write");
	assert_memory_equal(h.mem, h.payload, 8);
	assert_int_equal(rocemu_mr_reg(h.srq->pd, h.mem, sizeof(h.mem), (uintptr_t)h.mem,
				       HOSTILE_ALL_ACCESS, &h.mr),
			 0);
	h.rkey = rocemu_mr_rkey(h.mr);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY_IMM, 1, 8);
	EXPECT(&h,
	       "drop ACCESS; nak 62 1/1; recv 2 LOC_ACCESS_ERR; event QP_LAST_WQE_REACHED; ERR");
	hostile_free(&h);
}

TEST(srq_move, with_receives__its_new_endpoint_has_them_and_its_events)
{
	struct rocemu_ep *from = rocemu_ep_new(&(struct rocemu_ep_config){.seed = 1});
	struct rocemu_ep *to =
		rocemu_ep_new(&(struct rocemu_ep_config){.seed = 2, .domains_of = from});
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1}, limit = {.srq_limit = 2};
	const struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct rocemu_pd *pd = rocemu_pd_new(from);
	struct rocemu_srq *srq;
	struct rocemu_event ev;

	assert_int_equal(rocemu_srq_create(pd, &attr, NULL, &srq), 0);
	assert_int_equal(rocemu_srq_post(srq, &wr, &bad), 0);
	srq->refs++;
	assert_int_equal(rocemu_srq_move(srq, to), -EBUSY);
	srq->refs--;
	assert_int_equal(rocemu_srq_move(srq, to), 0);
	assert_int_equal(rq_count(&srq->rq), 1);
	assert_int_equal(rocemu_srq_modify(srq, &limit, IBV_SRQ_LIMIT), 0);
	assert_false(rocemu_ep_next_event(from, &ev));
	assert_true(rocemu_ep_next_event(to, &ev));
	assert_int_equal(ev.async, IBV_EVENT_SRQ_LIMIT_REACHED);
	rocemu_ep_free(to);
	assert_int_equal(rocemu_pd_free(pd), 0);
	rocemu_ep_free(from);
}
