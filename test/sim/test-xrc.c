/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between endpoints: receives shared by number, rights by the SRQ's protection domain, and what
 * a wrong number leads to (IBTA annex A14).
 */
#include <errno.h>
#include <string.h>

#include "duo.h"

static struct duo xrc_duo(const char *name)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.type = IBV_QPT_XRC_SEND;
	return duo_new(name, &o);
}

static void send_to(struct duo *d, uint32_t srqn, uint32_t off, uint32_t len)
{
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_wr_local(&w, d->ma, off, len);
	w.wr.qp_type.xrc.remote_srqn = srqn;
	sim_assert(d->s, sim_post(d->a, &w) == 0);
}

static enum ibv_qp_state state_of(const struct sim_qp *q)
{
	return rocemu_qp_state(q->qp);
}

TEST(xrc, one_connection_two_srqs__each_gets_its_messages)
{
	struct duo d = xrc_duo("two-srqs");
	struct sim_srq *first = d.b->srq, *second = sim_xrc_srq_new(d.s, 1, NULL, 8);
	uint32_t n1 = rocemu_srq_num(first->srq), n2 = rocemu_srq_num(second->srq);

	assert_int_not_equal(n1, n2);
	sim_srq_post(first, d.mb, 0, 100);
	sim_srq_post(second, d.mb, 1024, 1000);
	sim_srq_post(first, d.mb, 4096, 100);
	send_to(&d, n2, 1024, 700);
	send_to(&d, n1, 0, 100);
	send_to(&d, n1, 4096, 50);
	sim_want_copy(d.mb, 1024, d.ma, 1024, 700);
	sim_want_copy(d.mb, 0, d.ma, 0, 100);
	sim_want_copy(d.mb, 4096, d.ma, 4096, 50);
	sim_run(d.s);
	assert_int_equal(first->rq.good, 2);
	assert_int_equal(second->rq.good, 1);
	sim_end(d.s);
}

TEST(xrc, two_initiators_one_srq__receives_shared)
{
	struct sim_qp_opts o = SIM_QP_OPTS;
	struct duo d = xrc_duo("shared");
	struct sim_pair p;

	o.type = IBV_QPT_XRC_SEND;
	o.srq = d.b->srq;
	p = sim_connect(d.s, 0, 1, &o);
	for (uint32_t i = 0; i < 4; i++)
		sim_srq_post(d.b->srq, d.mb, i * 256, 256);
	sim_send(d.a, d.ma, 0, 0);
	sim_send(p.a, d.ma, 0, 0);
	sim_send(d.a, d.ma, 0, 0);
	sim_send(p.a, d.ma, 0, 0);
	sim_run(d.s);
	assert_int_equal(d.b->srq->rq.good, 4);
	sim_end(d.s);
}

TEST(xrc, srq_empty__rnr_nak_until_a_receive_is_posted)
{
	struct duo d = xrc_duo("rnr");

	sim_send(d.a, d.ma, 0, 8);
	sim_run_for(d.s, 12 * SIM_US);
	assert_string_equal(sim_effects(d.s), "A SEND_ONLY 100; B RNR 01 100");
	sim_srq_post(d.b->srq, d.mb, 0, 8);
	sim_want_copy(d.mb, 0, d.ma, 0, 8);
	sim_run(d.s);
	assert_string_equal(sim_effects(d.s), "A SEND_ONLY 100; B ACK 100");
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_NO_RECV;
	sim_end(d.s);
}

/** The request at PSN 100 was refused as invalid; both ends are in ERR. */
static void refused(struct duo *d)
{
	sim_run(d->s);
	assert_string_equal(sim_effects(d->s), "A SEND_ONLY 100; B NAK 61 100");
	assert_string_equal(sim_done(d->a), "send REM_INV_REQ");
	assert_int_equal(state_of(d->a), IBV_QPS_ERR);
	assert_int_equal(state_of(d->b), IBV_QPS_ERR);
	assert_int_equal(sim_count_events(d->s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_REQ_ERR), 1);
	assert_int_equal(sim_count_events(d->s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_LAST_WQE_REACHED),
			 1);
	assert_int_equal(duo_stats(d, 1)->drops[ROCEMU_DROP_XRC_SRQ], 1);
	d->s->allowed_drops |= 1ull << ROCEMU_DROP_XRC_SRQ;
	sim_end(d->s);
}

TEST(xrc, srq_number_nobody_has__invalid_request)
{
	struct duo d = xrc_duo("unknown");

	sim_srq_post(d.b->srq, d.mb, 0, 100);
	send_to(&d, rocemu_srq_num(d.b->srq->srq) + 1, 0, 100);
	refused(&d);
}

TEST(xrc, srq_that_is_gone__invalid_request)
{
	struct duo d = xrc_duo("gone");
	struct sim_srq *gone = sim_xrc_srq_new(d.s, 1, NULL, 8);
	uint32_t srqn = rocemu_srq_num(gone->srq);
	struct sim_srq *next;

	sim_assert(d.s, rocemu_srq_destroy(gone->srq) == 0);
	gone->srq = NULL;
	/* The place in the table is soon used again; the number is not. */
	for (unsigned i = 0; i < 20; i++) {
		next = sim_xrc_srq_new(d.s, 1, NULL, 8);
		assert_int_not_equal(rocemu_srq_num(next->srq), srqn);
	}
	send_to(&d, srqn, 0, 100);
	refused(&d);
}

TEST(xrc, srq_of_another_domain__invalid_request)
{
	struct duo d = xrc_duo("other-domain");
	struct rocemu_xrcd *other = rocemu_xrcd_new(d.s->node[1].ep);
	struct sim_srq *srq = sim_xrc_srq_new(d.s, 1, other, 8);

	assert_int_equal(rocemu_xrcd_free(other), -EBUSY);
	sim_srq_post(srq, d.mb, 0, 100);
	send_to(&d, rocemu_srq_num(srq->srq), 0, 100);
	sim_run(d.s);
	sim_assert(d.s, rocemu_srq_destroy(srq->srq) == 0);
	srq->srq = NULL;
	assert_int_equal(rocemu_xrcd_free(other), 0);
	refused(&d);
}

/* The right to reach memory is the named SRQ's protection domain's, not the connection's. */
TEST(xrc, rdma_through_an_srq_of_another_pd__access_error)
{
	struct duo d = xrc_duo("other-pd");
	struct rocemu_pd *other = rocemu_pd_new(d.s->node[1].ep);
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1};
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	struct rocemu_srq *srq;

	assert_int_equal(
		rocemu_xrc_srq_create(other, d.s->node[1].xrcd, d.b->srq->cq, &attr, NULL, &srq),
		0);
	sim_wr_local(&w, d.ma, 0, 8);
	sim_wr_remote(&w, d.mb, 0);
	sim_want_copy(d.mb, 0, d.ma, 0, 8);
	sim_assert(d.s, sim_post(d.a, &w) == 0); /* the pair's SRQ: its PD is mb's */
	w.wr.qp_type.xrc.remote_srqn = rocemu_srq_num(srq);
	w.wr.wr_id = 0;
	sim_assert(d.s, sim_post(d.a, &w) == 0);
	sim_run(d.s);
	assert_string_equal(sim_done(d.a), "send OK; send REM_ACCESS");
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_ACCESS_ERR), 1);
	assert_int_equal(rocemu_srq_destroy(srq), 0);
	assert_int_equal(rocemu_pd_free(other), 0);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_ACCESS;
	sim_end(d.s);
}

TEST(xrc, srq_destroyed_within_a_message__receive_lost_and_connection_failed)
{
	struct duo d = xrc_duo("mid-message");
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_XRC_SEND_FIRST, 100);
	static const uint8_t bytes[256];

	h.xrceth.srqn = rocemu_srq_num(d.b->srq->srq);
	sim_srq_post(d.b->srq, d.mb, 0, 1000);
	sim_inject(d.s, 0, 1, NULL, &h, bytes, 256);
	memset(d.mb->want, 0, 256);
	sim_run(d.s);
	sim_assert(d.s, rocemu_srq_destroy(d.b->srq->srq) == 0);
	d.b->srq->srq = NULL;
	h.opcode = ROCEMU_XRC_SEND_LAST;
	h.psn = 101;
	sim_inject(d.s, 0, 1, NULL, &h, bytes, 100);
	sim_run(d.s);
	assert_int_equal(d.b->srq->rq.good + d.b->srq->rq.bad, 0);
	assert_int_equal(state_of(d.b), IBV_QPS_ERR);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_XRC_SRQ | 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

TEST(xrc, srq_number_changes_within_a_message__invalid_request)
{
	struct duo d = xrc_duo("number-changes");
	struct sim_srq *second = sim_xrc_srq_new(d.s, 1, NULL, 8);
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_XRC_SEND_FIRST, 100);
	static const uint8_t bytes[256];

	h.xrceth.srqn = rocemu_srq_num(d.b->srq->srq);
	sim_srq_post(d.b->srq, d.mb, 0, 1000);
	sim_srq_post(second, d.mb, 2048, 1000);
	sim_inject(d.s, 0, 1, NULL, &h, bytes, 256);
	memset(d.mb->want, 0, 256);
	h.opcode = ROCEMU_XRC_SEND_LAST;
	h.psn = 101;
	h.xrceth.srqn = rocemu_srq_num(second->srq);
	sim_inject(d.s, 0, 1, NULL, &h, bytes, 100);
	sim_run(d.s);
	/* The receive in use completes with the reason; the other queue has lost nothing. */
	assert_int_equal(d.b->srq->rq.bad, 1);
	assert_int_equal(d.b->srq->rq.e[0].cqe.status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(second->rq.good + second->rq.bad, 0);
	assert_int_equal(state_of(d.b), IBV_QPS_ERR);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_XRC_SRQ | 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

TEST(xrc, target_to_err_within_a_message__receive_flushed_to_the_srqs_cq)
{
	struct duo d = xrc_duo("flush");
	struct rocemu_hdrs h = duo_request(&d, ROCEMU_XRC_SEND_FIRST, 100);
	static const uint8_t bytes[256];

	h.xrceth.srqn = rocemu_srq_num(d.b->srq->srq);
	sim_srq_post(d.b->srq, d.mb, 0, 1000);
	sim_srq_post(d.b->srq, d.mb, 2048, 1000);
	sim_inject(d.s, 0, 1, NULL, &h, bytes, 256);
	memset(d.mb->want, 0, 256);
	sim_run(d.s);
	sim_qp_state(d.b, IBV_QPS_ERR);
	sim_run(d.s);
	assert_int_equal(d.b->srq->rq.bad, 1); /* and the one that waits stays */
	assert_int_equal(d.b->srq->rq.e[0].cqe.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(sim_count_events(d.s, 1, ROCEMU_EVENT_QP, IBV_EVENT_QP_LAST_WQE_REACHED),
			 1);
	d.s->allowed_drops |= 1ull << ROCEMU_DROP_GHOST;
	sim_end(d.s);
}

/* ---- who may be sent what ---- */

/** A packet that must have no effect but to be dropped for its service. */
static void dropped(struct duo *d, unsigned to, struct rocemu_hdrs h)
{
	uint64_t before = duo_stats(d, to)->drops[ROCEMU_DROP_SERVICE];

	sim_inject(d->s, !to, to, NULL, &h, "evil",
		   rocemu_opcode_ops(h.opcode) & ROCEMU_OP_PAYLOAD ? 4 : 0);
	sim_run(d->s);
	assert_string_equal(sim_effects(d->s), "");
	assert_int_equal(duo_stats(d, to)->drops[ROCEMU_DROP_SERVICE], before + 1);
	d->s->allowed_drops |= 1ull << ROCEMU_DROP_SERVICE;
}

TEST(xrc, wrong_service_or_direction__dropped)
{
	static const uint8_t at_target[] = {ROCEMU_RC_SEND_ONLY, ROCEMU_UC_SEND_ONLY,
					    ROCEMU_UD_SEND_ONLY, ROCEMU_XRC_ACK, ROCEMU_RC_ACK};
	static const uint8_t at_initiator[] = {ROCEMU_XRC_SEND_ONLY, ROCEMU_XRC_WRITE_ONLY,
					       ROCEMU_RC_ACK, ROCEMU_RC_SEND_ONLY};
	struct duo d = xrc_duo("service");

	for (unsigned i = 0; i < sizeof(at_target); i++)
		dropped(&d, 1, duo_request(&d, at_target[i], 100));
	for (unsigned i = 0; i < sizeof(at_initiator); i++)
		dropped(&d, 0, duo_response(&d, at_initiator[i], 500, 0x1f));
	assert_int_equal(state_of(d.b), IBV_QPS_RTS);
	sim_srq_post(d.b->srq, d.mb, 0, 8);
	sim_send(d.a, d.ma, 0, 8);
	sim_want_copy(d.mb, 0, d.ma, 0, 8);
	sim_run(d.s);
	sim_end(d.s);
}

TEST(xrc, posting_where_there_is_no_queue__einval)
{
	struct duo d = xrc_duo("posting");
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	assert_int_equal(sim_post(d.b, &w), -EINVAL);
	assert_int_equal(sim_post_recv(d.a, d.ma, 0, 8), -EINVAL);
	assert_int_equal(sim_post_recv(d.b, d.mb, 0, 8), -EINVAL);
	sim_end(d.s);
}

TEST(xrc, refs__busy_until_the_last_goes)
{
	struct duo d = xrc_duo("refs");

	assert_int_equal(rocemu_cq_destroy(d.b->srq->cq), -EBUSY);
	assert_int_equal(rocemu_xrcd_free(d.s->node[1].xrcd), -EBUSY);
	assert_ptr_equal(rocemu_qp_xrcd(d.b->qp), d.s->node[1].xrcd);
	assert_null(rocemu_qp_xrcd(d.a->qp));
	sim_end(d.s);
}
