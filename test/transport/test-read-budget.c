/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests how many bytes of READ responses all QPs of an endpoint together request. */
#include "req-bench.h"

#include "transport/peer.h"
#include "transport/qp.h"
#include "transport/read-budget.h"

enum { COST = 256 + 512, QPS = 3 };

static struct bench *start(uint32_t budget)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	rocemu_ep_set_read_budget(b->ep, budget);
	return b;
}

static void read_on(struct bench *b, struct rocemu_qp *qp, uint32_t len)
{
	b->qp = qp;
	bench_post(b, IBV_WR_RDMA_READ, len);
}

static void answer(struct bench *b, struct rocemu_qp *qp, int32_t psn)
{
	b->qp = qp;
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, psn, 1, 256);
}

TEST(read_budget, used_up__waits_for_responses_of_any_qp)
{
	struct bench *b = start(2 * COST);
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});

	read_on(b, first, 256);
	read_on(b, first, 256);
	read_on(b, second, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A; READ_REQUEST 1+256 A");
	assert_int_equal(req_hold(second), REQ_HOLD_BUDGET);
	answer(b, first, 0);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	answer(b, first, 1);
	answer(b, second, 0);
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK");
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

/* A request that exceeds it may go while there is room for any. */
TEST(read_budget, smaller_than_a_request__one_at_a_time)
{
	struct bench *b = start(1);

	read_on(b, b->qp, 512);
	read_on(b, b->qp, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+512 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	assert_string_equal(bench_out(b), "");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 1, 1, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 2+256 A");
	bench_free(b);
}

/* A QP connected before the endpoint had a large buffer, and one after. */
TEST(read_budget, of_a_large_buffer__more_in_a_request)
{
	struct bench *b = start(1 << 20);
	struct rocemu_qp *after = bench_qp(b, &(struct bench_opts){0});

	read_on(b, b->qp, 16384);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+8192 A; READ_REQUEST 32+8192 A");
	read_on(b, after, 65536);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+32768 A; READ_REQUEST 128+32768 A");
	bench_free(b);
}

/* What came early is there: it takes no room any more. */
TEST(read_budget, response_before_its_turn__gives_its_share_back)
{
	struct bench *b = start(2 * COST);

	read_on(b, b->qp, 512);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 1, 1, 256);
	assert_int_equal(b->ep->read_out, COST);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 1, 1, 256);
	assert_int_equal(b->ep->read_out, COST);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

/** There is room for one request at a time. */
static void expect_turns(struct bench *b)
{
	struct rocemu_qp *qps[QPS] = {b->qp};
	int sent[QPS] = {0}, done[QPS] = {0};

	for (int i = 1; i < QPS; i++)
		qps[i] = bench_qp(b, &(struct bench_opts){.timeout = 14});
	for (int i = 0; i < QPS; i++)
		for (int k = 0; k < 6; k++)
			read_on(b, qps[i], 256);
	for (int k = 0; k < 6 * QPS; k++) {
		int out = 0;

		assert_string_not_equal(bench_out(b), "");
		for (int i = 0; i < QPS; i++) {
			sent[i] = (int)((qps[i]->req.send_psn - BENCH_PSN) & ROCEMU_PSN_MASK);
			out += sent[i] - done[i];
		}
		assert_int_equal(out, 1);
		/* One that began earlier is a request ahead at most, and the first one's two. */
		for (int i = 1; i < QPS; i++)
			assert_in_range(sent[0] - sent[i] + 1, 0, 3);
		for (int i = 0; i < QPS; i++)
			if (sent[i] != done[i])
				answer(b, qps[i], done[i]++);
	}
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

TEST(read_budget, several_qps__in_turns)
{
	expect_turns(start(1));
}

TEST(read_budget, several_qps_and_window_of_one__in_turns)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = COST});

	rocemu_ep_set_read_budget(b->ep, 1);
	expect_turns(b);
	b = bench_new(&(struct bench_opts){.timeout = 14, .window = COST});
	rocemu_ep_set_read_budget(b->ep, 8 * COST);
	expect_turns(b);
}

/** Each QP notes what it waits for. */
static void nothing_goes(struct bench *b)
{
	struct rocemu_tx tx[QPS];

	assert_int_equal(rocemu_ep_output(b->ep, b->now, tx, QPS), 0);
}

/* The room that others of the lane give back is kept until the budget has some, too. */
TEST(read_budget, others_take_all_of_the_window__waiting_read_has_room)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = 2 * COST});
	struct rocemu_qp *writer = b->qp, *reader = bench_qp(b, &(struct bench_opts){0});

	rocemu_ep_set_read_budget(b->ep, 1);
	b->ep->read_out += COST; /* another QP's */
	read_on(b, reader, 256);
	nothing_goes(b);
	b->qp = writer;
	for (int i = 0; i < 4; i++)
		bench_post(b, IBV_WR_SEND, 256);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	b->ep->read_out -= COST;
	rocemu_ep_set_read_budget(b->ep, 1);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "SEND_ONLY 1 A");
	rocemu_qp_destroy(reader);
	assert_string_equal(bench_out(b), "SEND_ONLY 2 A");
	bench_free(b);
}

TEST(read_budget, waiting_qp_destroyed__its_room_in_the_window_is_free)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = COST});
	struct rocemu_qp *writer = b->qp, *reader = bench_qp(b, &(struct bench_opts){0});

	rocemu_ep_set_read_budget(b->ep, 1);
	b->ep->read_out += COST; /* another QP's */
	read_on(b, reader, 256);
	nothing_goes(b);
	b->qp = writer;
	bench_post(b, IBV_WR_SEND, 256);
	assert_string_equal(bench_out(b), "");
	rocemu_qp_destroy(reader);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	b->ep->read_out -= COST;
	bench_free(b);
}

TEST(read_budget, qp_destroyed__gives_its_share_back)
{
	struct bench *b = start(COST);
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});

	read_on(b, first, 256);
	read_on(b, second, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	rocemu_qp_destroy(first);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_free(b);
}

TEST(read_budget, waiting_qp_destroyed__the_next_gets_its_turn)
{
	struct bench *b = start(COST);
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});
	struct rocemu_qp *third = bench_qp(b, &(struct bench_opts){0});

	read_on(b, first, 256);
	read_on(b, second, 256);
	read_on(b, third, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	answer(b, first, 0); /* wakes the second, which has not sent yet */
	rocemu_qp_destroy(second);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	assert_int_equal(third->req.read_out, COST);
	bench_free(b);
}

TEST(read_budget, peer_is_silent__share_given_back_at_the_second_probe)
{
	struct bench *b = start(COST);
	struct rocemu_qp *silent = b->qp;
	struct rocemu_qp *other = bench_qp(b, &(struct bench_opts){.timeout = 14});

	read_on(b, silent, 256);
	read_on(b, other, 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_wait(b, rocemu_ep_deadline(b->ep) - b->now);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	assert_int_equal(other->req.read_out, 0);
	bench_wait(b, rocemu_ep_deadline(b->ep) - b->now);
	bench_out(b);
	assert_int_equal(other->req.read_out, COST);
	answer(b, silent, 0);
	answer(b, other, 0);
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

/*
 * The window opens while the budget is used up: QPs that waited for the window then wait for the
 * budget.
 */
TEST(read_budget, window_too__neither_is_forgotten)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = 2 * COST});
	struct rocemu_qp *first = b->qp, *second = bench_qp(b, &(struct bench_opts){0});

	rocemu_ep_set_read_budget(b->ep, 2 * COST);
	bench_post(b, IBV_WR_SEND, 512);
	bench_out(b);
	read_on(b, second, 256);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(req_hold(second), REQ_HOLD_WINDOW);
	rocemu_ep_set_read_budget(b->ep, 1);
	b->ep->read_out += COST; /* another QP's */
	b->qp = first;
	bench_ack(b, 1);
	assert_string_equal(bench_out(b), "");
	assert_int_equal(req_hold(second), REQ_HOLD_BUDGET);
	b->ep->read_out -= COST;
	rocemu_ep_set_read_budget(b->ep, 2 * COST);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_free(b);
}

/** Every 10 us a response of 10 bytes: 1000 bytes in a millisecond. */
static void come(struct read_path *p, rocemu_ns_t *now, rocemu_ns_t time, rocemu_ns_t rtt)
{
	const rocemu_ns_t end = *now + time;

	for (; *now < end; *now += 10000)
		read_path_came(p, *now, 10, rtt);
}

TEST(read_path, responses_come__those_of_a_round_trip_were_on_the_path)
{
	struct read_path p = {0};
	rocemu_ns_t now = 1000000;

	read_path_idle(&p, now);
	come(&p, &now, 10000000, 1000000);
	assert_in_range(p.bytes, 990, 1010);
	come(&p, &now, 20000000, 100000);
	assert_in_range(p.bytes, 99, 101);
	come(&p, &now, 20000000, 0);
	assert_in_range(p.bytes, 0, 7);
}

TEST(read_path, congested_or_idle__the_budget_alone)
{
	struct read_path p = {0};
	rocemu_ns_t now = 1000000;

	read_path_idle(&p, now);
	come(&p, &now, 10000000, 1000000);
	for (int i = 0; i < 5; i++) {
		p.congested = true;
		come(&p, &now, 2000000, 1000000);
	}
	assert_in_range(p.bytes, 0, 100);
	come(&p, &now, 10000000, 1000000);
	assert_in_range(p.bytes, 990, 1010);
	read_path_idle(&p, now);
	assert_int_equal(p.bytes, 0);
}

TEST(read_path, very_much__is_bounded)
{
	struct read_path p = {0};

	read_path_idle(&p, 1000000);
	for (int i = 1; i < 100; i++)
		read_path_came(&p, 1000000 + (rocemu_ns_t)i * 100000, 100 * COST, 50000000);
	read_path_came(&p, 200000000, COST, 50000000);
	assert_int_equal(p.bytes, READ_PATH_MAX);
}

/* With a budget of two responses, as many more are requested as the path holds. */
TEST(read_budget, far_peer__grows_by_what_the_path_holds)
{
	enum { RTT = 1000000, STEP = 50000, READS = 64 };
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .rd_atomic = 16});
	rocemu_ns_t sent_at[READS];
	int sent = 0, done = 0, most = 0;

	rocemu_ep_set_read_budget(b->ep, 2 * COST);
	for (int i = 0; i < READS; i++)
		read_on(b, b->qp, 256);
	while (done < READS) {
		bench_out(b);
		while (sent < (int)((b->qp->req.send_psn - BENCH_PSN) & ROCEMU_PSN_MASK))
			sent_at[sent++] = b->now;
		most = sent - done > most ? sent - done : most;
		bench_wait(b, STEP);
		if (done < sent && b->now >= sent_at[done] + RTT)
			answer(b, b->qp, done++);
	}
	assert_in_range(most, 4, 16);
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

/* Its responses come one by one. */
TEST(read_budget, window_has_room_for_one_response__the_whole_read_goes)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .window = 4 * COST});

	read_on(b, b->qp, 3 * 256);
	read_on(b, b->qp, 3 * 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+768 A; READ_REQUEST 3+768 A");
	bench_free(b);
}
