/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests queue pairs from creation to end: attributes read back as set; stopped, failed, and used
 * again; left behind.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "dev.h"
#include "verbs/cq.h"

enum { LEN = 64, PATIENCE_S = 20 };

struct pair {
	struct dev d;
	struct ibv_qp *a, *b;
};

static void pair_open(struct pair *p, enum ibv_qp_type type)
{
	dev_open(&p->d);
	p->a = dev_qp(&p->d, type, 0);
	p->b = dev_qp(&p->d, type, 0);
	dev_connect(p->a, p->b);
}

static void pair_close(struct pair *p)
{
	assert_int_equal(ibv_destroy_qp(p->a), 0);
	assert_int_equal(ibv_destroy_qp(p->b), 0);
	dev_close(&p->d);
}

static int post(struct pair *p, struct ibv_sge *sge, unsigned flags)
{
	struct ibv_send_wr *bad, wr = {
					 .wr_id = 1,
					 .sg_list = sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = flags,
				 };

	return ibv_post_send(p->a, &wr, &bad);
}

/* One message a -> b, with both completions. */
static void message(struct pair *p)
{
	struct ibv_sge sge = dev_sge(&p->d, 0, LEN);

	memset(p->d.mem, 0x3c, LEN);
	memset(p->d.mem + 1024, 0, LEN);
	dev_post_recv(&p->d, p->b, 2, 1024, LEN);
	assert_int_equal(post(p, &sge, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(dev_poll(p->d.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(p->d.mem + 1024, p->d.mem, LEN);
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, qp->state);
	return attr.qp_state;
}

/* ---- attributes read back as set ---- */

/*
 * The state in struct ibv_qp is that of the last call that was about the state. UCX asserts that it
 * is RTS, after it has queried the address of a QP that failed.
 */
TEST(query_qp, of_something_else_than_the_state__state_in_struct_stays)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair p;

	pair_open(&p, IBV_QPT_RC);
	p.a->state = IBV_QPS_SQE;
	assert_int_equal(ibv_query_qp(p.a, &attr, IBV_QP_DEST_QPN | IBV_QP_AV, &init), 0);
	assert_int_equal(p.a->state, IBV_QPS_SQE);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(ibv_modify_qp(p.a, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(p.a->state, IBV_QPS_SQE);
	assert_int_equal(state_of(p.a), IBV_QPS_RTS);
	assert_int_equal(to_state(p.a, IBV_QPS_ERR), 0);
	assert_int_equal(p.a->state, IBV_QPS_ERR);
	pair_close(&p);
}

TEST(query_qp, rc_in_rts__all_attributes_as_set)
{
	struct ibv_qp_attr init_attr = {.qp_state = IBV_QPS_INIT,
					.port_num = 1,
					.qp_access_flags =
						IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_2048,
				  .dest_qp_num = 0x123456,
				  .rq_psn = 0xfedcba,
				  .max_dest_rd_atomic = 7,
				  .min_rnr_timer = 21,
				  .ah_attr = {.is_global = 1,
					      .port_num = 1,
					      .sl = 3,
					      .grh = {.hop_limit = 33, .traffic_class = 0x44}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .sq_psn = 0xabcdef,
				  .timeout = 19,
				  .retry_cnt = 5,
				  .rnr_retry = 3,
				  .max_rd_atomic = 9};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr got;
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	qp = dev_qp(&d, IBV_QPT_RC, 0);
	assert_int_equal(ibv_query_gid(d.ctx, 1, 0, &rtr.ah_attr.grh.dgid), 0);
	assert_int_equal(
		ibv_modify_qp(qp, &init_attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_modify_qp(qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	assert_int_equal(ibv_modify_qp(qp, &rts,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	assert_int_equal(ibv_query_qp(qp, &got, ~0, &init), 0);
	assert_int_equal(got.qp_state, IBV_QPS_RTS);
	assert_int_equal(got.cur_qp_state, IBV_QPS_RTS);
	assert_int_equal(got.port_num, 1);
	assert_int_equal(got.qp_access_flags, init_attr.qp_access_flags);
	assert_int_equal(got.path_mtu, rtr.path_mtu);
	assert_int_equal(got.dest_qp_num, rtr.dest_qp_num);
	assert_int_equal(got.rq_psn, rtr.rq_psn);
	assert_int_equal(got.max_dest_rd_atomic, 7);
	assert_int_equal(got.min_rnr_timer, 21);
	assert_memory_equal(&got.ah_attr.grh.dgid, &rtr.ah_attr.grh.dgid, 16);
	assert_int_equal(got.ah_attr.is_global, 1);
	assert_int_equal(got.ah_attr.sl, 3);
	assert_int_equal(got.ah_attr.grh.hop_limit, 33);
	assert_int_equal(got.ah_attr.grh.traffic_class, 0x44);
	assert_int_equal(got.sq_psn, rts.sq_psn);
	assert_int_equal(got.timeout, 19);
	assert_int_equal(got.retry_cnt, 5);
	assert_int_equal(got.rnr_retry, 3);
	assert_int_equal(got.max_rd_atomic, 9);
	assert_ptr_equal(init.send_cq, d.cq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_true(init.cap.max_send_wr >= DEV_WR && init.cap.max_recv_sge >= 2);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(create_qp, odd_sizes__rounded_up_and_told)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 5,
			.max_recv_wr = 3,
			.max_send_sge = 3,
			.max_recv_sge = 1,
			.max_inline_data = 13},
	};
	struct ibv_qp *qp;
	struct dev d;

	dev_open(&d);
	attr.send_cq = attr.recv_cq = d.cq;
	qp = ibv_create_qp(d.pd, &attr);
	assert_non_null(qp);
	assert_true(attr.cap.max_send_wr >= 5 && attr.cap.max_recv_wr >= 3 &&
		    attr.cap.max_send_sge >= 3 && attr.cap.max_recv_sge >= 1 &&
		    attr.cap.max_inline_data >= 13);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	dev_close(&d);
}

TEST(create_qp, sq_sig_all__every_request_completes)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_sge sge;
	struct pair p;

	dev_open(&p.d);
	attr.send_cq = attr.recv_cq = p.d.cq;
	p.a = ibv_create_qp(p.d.pd, &attr);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	assert_non_null(p.a);
	dev_connect(p.a, p.b);
	sge = dev_sge(&p.d, 0, LEN);
	dev_post_recv(&p.d, p.b, 2, 1024, LEN);
	assert_int_equal(post(&p, &sge, 0), 0);
	assert_int_equal(dev_poll(p.d.cq).wr_id + dev_poll(p.d.cq).wr_id, 3);
	pair_close(&p);
}

/* ---- stopped, broken, used again ---- */

TEST(qp, reset_and_connected_again__works_as_new)
{
	struct pair p;

	pair_open(&p, IBV_QPT_RC);
	for (unsigned round = 0; round < 3; round++) {
		message(&p);
		dev_post_recv(&p.d, p.b, 7, 2048, LEN); /* is dropped */
		assert_int_equal(to_state(p.a, IBV_QPS_RESET), 0);
		assert_int_equal(to_state(p.b, round ? IBV_QPS_ERR : IBV_QPS_RESET), 0);
		if (round)
			assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(to_state(p.b, IBV_QPS_RESET), 0);
		dev_connect(p.a, p.b);
	}
	message(&p);
	pair_close(&p);
}

/*
 * An acknowledgement that has reached this host counts, as it would with an adapter: when a program
 * detects that its peer is gone, it stops the QP at once, while the packet may still be unread.
 */
TEST(qp, stopped_when_the_ack_is_here__completed_and_not_flushed)
{
	enum { ROUNDS = 100, WARM = 40 };
	struct ibv_send_wr *bad;
	struct dev x, y;
	struct ibv_qp *a, *b;

	dev_open(&x);
	dev_open(&y);
	a = dev_qp(&x, IBV_QPT_RC, 0);
	b = dev_qp(&y, IBV_QPT_RC, 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		dev_connect(a, b);
		/* So many that the lane leaves receiving to those who poll. */
		for (unsigned n = 0; n < WARM; n++) {
			struct ibv_sge sge = dev_sge(&x, 0, LEN);
			struct ibv_send_wr wr = {.sg_list = &sge,
						 .num_sge = 1,
						 .opcode = IBV_WR_SEND,
						 .send_flags = IBV_SEND_SIGNALED};

			dev_post_recv(&y, b, 1, 0, LEN);
			assert_int_equal(ibv_post_send(a, &wr, &bad), 0);
			assert_int_equal(dev_poll(y.cq).status, IBV_WC_SUCCESS);
			if (n < WARM - 1)
				assert_int_equal(dev_poll(x.cq).status, IBV_WC_SUCCESS);
		}
		/* Sends what it owes. */
		assert_int_equal(to_state(b, IBV_QPS_ERR), 0);
		assert_int_equal(to_state(a, IBV_QPS_ERR), 0);
		assert_int_equal(dev_poll(x.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(to_state(a, IBV_QPS_RESET), 0);
		assert_int_equal(to_state(b, IBV_QPS_RESET), 0);
	}
	assert_int_equal(ibv_destroy_qp(a) || ibv_destroy_qp(b), 0);
	dev_close(&y);
	dev_close(&x);
}

TEST(qp, drained__what_was_posted_meanwhile_goes_afterwards)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, IBV_QPT_RC);
	message(&p);
	assert_int_equal(to_state(p.a, IBV_QPS_SQD), 0);
	sge = dev_sge(&p.d, 0, LEN);
	dev_post_recv(&p.d, p.b, 2, 1024, LEN);
	assert_int_equal(post(&p, &sge, IBV_SEND_SIGNALED), 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(ibv_poll_cq(p.d.cq, 1, &wc), 0);
	assert_int_equal(to_state(p.a, IBV_QPS_RTS), 0);
	assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_SUCCESS);
	pair_close(&p);
}

TEST(qp, uc_send_queue_error__receives_on_and_comes_back)
{
	struct ibv_sge bad = {.addr = 1, .length = 8, .lkey = 0xbad};
	struct pair p;

	pair_open(&p, IBV_QPT_UC);
	message(&p);
	assert_int_equal(post(&p, &bad, IBV_SEND_SIGNALED), 0);
	assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(state_of(p.a), IBV_QPS_SQE);
	/* The other direction is not touched. */
	{
		struct pair back = {.d = p.d, .a = p.b, .b = p.a};
		struct ibv_sge sge = dev_sge(&p.d, 0, LEN);

		dev_post_recv(&p.d, p.a, 2, 1024, LEN);
		assert_int_equal(post(&back, &sge, IBV_SEND_SIGNALED), 0);
		assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(dev_poll(p.d.cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(to_state(p.a, IBV_QPS_RTS), 0);
	message(&p);
	pair_close(&p);
}

/* The thread that polls has the CQ's lock already, which both calls need. */
TEST(qp, reset_and_destroyed_between_start_poll_and_end_poll__does_not_wait_for_itself)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_cq_init_attr_ex attr = {.cqe = DEV_CQE};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *ex;
	struct ibv_cq *plain;
	struct pair p;

	dev_open(&p.d);
	ex = ibv_create_cq_ex(p.d.ctx, &attr);
	assert_non_null(ex);
	plain = p.d.cq;
	p.d.cq = ibv_cq_ex_to_cq(ex);
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	for (unsigned i = 0; i < 3; i++)
		dev_post_recv(&p.d, p.b, i, 1024, LEN);
	assert_int_equal(
		ibv_modify_qp(p.b, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
		0);
	assert_int_equal(ibv_start_poll(ex, &none), 0);
	assert_int_equal(ex->wr_id, 0);
	alarm(PATIENCE_S);
	assert_int_equal(ibv_modify_qp(p.a, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 1);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	alarm(0);
	assert_int_equal(ex->status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_next_poll(ex), ENOENT); /* the last one went with the QP */
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_cq(p.d.cq), 0);
	p.d.cq = plain;
	dev_close(&p.d);
}

struct both {
	struct vb_cq *a, *b;
};

static void *lock_both(void *arg)
{
	const struct both *c = arg;

	vb_cq_lock_pair(c->a, c->b);
	vb_cq_unlock_pair(c->a, c->b);
	return NULL;
}

/* As ibv_destroy_qp() takes them, by two threads, of which one polls one of the CQs. */
TEST(cq, two_locked_by_two_threads_while_one_is_polled__none_waits_for_ever)
{
	enum { YIELDS = 1000 };
	struct ibv_cq_init_attr_ex attr = {.cqe = DEV_CQE};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *ex[2], *polled;
	struct ibv_cq *plain;
	struct both c;
	struct pair p;
	pthread_t t;

	dev_open(&p.d);
	plain = p.d.cq;
	for (unsigned i = 0; i < 2; i++) {
		ex[i] = ibv_create_cq_ex(p.d.ctx, &attr);
		assert_non_null(ex[i]);
	}
	c = (struct both){vb_cq_of(ibv_cq_ex_to_cq(ex[0])), vb_cq_of(ibv_cq_ex_to_cq(ex[1]))};
	/* The one that would be taken last, if they were taken by address. */
	polled = c.a > c.b ? ex[0] : ex[1];
	p.d.cq = ibv_cq_ex_to_cq(polled);
	p.a = dev_qp(&p.d, IBV_QPT_RC, 0);
	p.b = dev_qp(&p.d, IBV_QPT_RC, 0);
	dev_connect(p.a, p.b);
	dev_post_recv(&p.d, p.b, 1, 1024, LEN);
	assert_int_equal(to_state(p.b, IBV_QPS_ERR), 0);
	alarm(PATIENCE_S);
	assert_int_equal(ibv_start_poll(polled, &none), 0);
	assert_int_equal(pthread_create(&t, NULL, lock_both, &c), 0);
	for (unsigned j = 0; j < YIELDS; j++)
		sched_yield(); /* it has one, perhaps, and waits for the other */
	lock_both(&c);
	ibv_end_poll(polled);
	pthread_join(t, NULL);
	alarm(0);
	assert_int_equal(ibv_destroy_qp(p.a), 0);
	assert_int_equal(ibv_destroy_qp(p.b), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex[i])), 0);
	p.d.cq = plain;
	dev_close(&p.d);
}

/* ---- several CQs, one channel ---- */

TEST(channel, several_cqs__each_event_names_its_own)
{
	enum { CQS = 4 };
	struct ibv_cq *cqs[CQS], *got;
	struct ibv_qp *qps[CQS];
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.cap = {.max_recv_wr = 4, .max_recv_sge = 1}};
	bool seen[CQS] = {false};
	struct dev d;
	void *user;

	dev_open(&d);
	for (intptr_t i = 0; i < CQS; i++) {
		cqs[i] = ibv_create_cq(d.ctx, 8, (void *)i, d.channel, 0);
		assert_non_null(cqs[i]);
		attr.send_cq = attr.recv_cq = cqs[i];
		qps[i] = ibv_create_qp(d.pd, &attr);
		assert_non_null(qps[i]);
		dev_connect(qps[i], NULL);
		dev_post_recv(&d, qps[i], (uint64_t)i, 0, LEN);
		assert_int_equal(ibv_req_notify_cq(cqs[i], 0), 0);
	}
	for (unsigned i = 0; i < CQS; i += 2) /* flushes its receive */
		assert_int_equal(to_state(qps[i], IBV_QPS_ERR), 0);
	for (unsigned i = 0; i < CQS / 2; i++) {
		assert_int_equal(ibv_get_cq_event(d.channel, &got, &user), 0);
		assert_ptr_equal(got, cqs[(intptr_t)user]);
		seen[(intptr_t)user] = true;
		ibv_ack_cq_events(got, 1);
	}
	assert_true(seen[0] && seen[2]);
	assert_int_equal(fcntl(d.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(d.channel, &got, &user), -1);
	assert_int_equal(ibv_destroy_comp_channel(d.channel), EBUSY);
	for (unsigned i = 0; i < CQS; i++) {
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
		assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
	}
	dev_close(&d);
}

/* ---- left behind ---- */

TEST(close_device, objects_left__closes_and_opens_again)
{
	static struct pair left[3]; /* the program keeps the handles: not a leak of the library */

	for (unsigned i = 0; i < 3; i++) {
		struct pair *p = &left[i];
		struct ibv_sge sge;

		pair_open(p, IBV_QPT_RC);
		sge = dev_sge(&p->d, 0, LEN);
		assert_int_equal(post(p, &sge, IBV_SEND_SIGNALED),
				 0); /* finds no receive: is still under way */
		assert_int_equal(ibv_close_device(p->d.ctx), 0);
	}
}

/* ---- numbers as text, rates ---- */

TEST(rate, each__there_and_back)
{
	static const struct {
		enum ibv_rate rate;
		int mult, mbps;
	} known[] = {
		{IBV_RATE_2_5_GBPS, 1, 2500},	 {IBV_RATE_5_GBPS, 2, 5000},
		{IBV_RATE_10_GBPS, 4, 10000},	 {IBV_RATE_20_GBPS, 8, 20000},
		{IBV_RATE_40_GBPS, 16, 40000},	 {IBV_RATE_14_GBPS, 6, 14062},
		{IBV_RATE_25_GBPS, 10, 25781},	 {IBV_RATE_100_GBPS, 40, 103125},
		{IBV_RATE_200_GBPS, 80, 206250},
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(ibv_rate_to_mbps(known[i].rate), known[i].mbps);
		assert_int_equal(mbps_to_ibv_rate(known[i].mbps), known[i].rate);
		assert_int_equal(ibv_rate_to_mult(known[i].rate), known[i].mult);
		assert_int_equal(mult_to_ibv_rate(known[i].mult), known[i].rate);
	}
	assert_int_equal(ibv_rate_to_mult((enum ibv_rate)99), -1);
	assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)99), -1);
	assert_int_equal(mult_to_ibv_rate(7), IBV_RATE_MAX);
}
