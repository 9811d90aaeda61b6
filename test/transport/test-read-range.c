/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests READ responses out of order: placed as they come, only the holes are requested again. */
#include "req-bench.h"

#include <string.h>

#include "transport/qp.h"

enum { TIMEOUT = 8192 };

/** Response psn of a READ whose packets are 256 bytes, none of them the last of a request. */
static enum rocemu_drop middle(struct bench *b, int32_t psn)
{
	const enum rocemu_opcode op = psn ? ROCEMU_RC_READ_RESP_MIDDLE : ROCEMU_RC_READ_RESP_FIRST;

	return bench_read_resp(b, op, psn, (uint8_t)(psn + 1), 256);
}

static void check(struct bench *b, unsigned packets)
{
	for (unsigned i = 0; i < packets * 256; i++)
		assert_int_equal(b->buf[i], i / 256 + 1);
}

TEST(read_range, one_missing__it_alone_is_asked_for)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 6 * 256);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	middle(b, 2);
	middle(b, 3);
	assert_string_equal(bench_out(b), ""); /* it may be merely late */
	middle(b, 4);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+256 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 5, 6, 256);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 1, 2, 256);
	assert_string_equal(bench_done(b), "1 OK");
	check(b, 6);
	assert_int_equal(b->qp->req.rd_atomic_out, 0);
	assert_int_equal(b->qp->req.inflight, 0);
	assert_int_equal(b->ep->read_out, 0);
	bench_free(b);
}

TEST(read_range, merely_late__not_asked_for)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 6 * 256);
	bench_out(b);
	middle(b, 1);
	middle(b, 2);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	middle(b, 4);
	middle(b, 3);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 5, 6, 256);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK");
	check(b, 6);
	bench_free(b);
}

TEST(read_range, several_holes__a_request_each)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 10 * 256);
	bench_out(b);
	middle(b, 2);
	middle(b, 5);
	middle(b, 6);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 9, 10, 256);
	assert_string_equal(bench_out(b),
			    "READ_REQUEST 0+512 A; READ_REQUEST 3+512 A; READ_REQUEST 7+512 A");
	for (int psn = 0; psn < 9; psn++)
		middle(b, psn);
	assert_string_equal(bench_done(b), "1 OK");
	check(b, 10);
	bench_free(b);
}

/* Never across the bound of an earlier request: rxe would not take it. */
TEST(read_range, hole_across_two_requests__two_requests)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 40 * 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+8192 A; READ_REQUEST 32+2048 A");
	for (int psn = 0; psn < 30; psn++)
		middle(b, psn);
	for (int psn = 34; psn < 37; psn++)
		middle(b, psn);
	assert_string_equal(bench_out(b), "READ_REQUEST 30+512 A; READ_REQUEST 32+512 A");
	bench_free(b);
}

/* One half of a request that the peer has not seen would take one of its READ resources, the other
 * half another. */
TEST(read_range, request_lost__asked_for_as_before)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 3});

	bench_post(b, IBV_WR_RDMA_READ, 96 * 256);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+8192 A");
	bench_free(b);
}

TEST(read_range, asked_again_and_lost_again__shown_by_a_later_request)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 3});

	bench_post(b, IBV_WR_RDMA_READ, 64 * 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+8192 A; READ_REQUEST 32+8192 A");
	middle(b, 0);
	for (int psn = 2; psn < 31; psn++)
		middle(b, psn);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+256 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 31, 32, 256);
	bench_post(b, IBV_WR_RDMA_READ, 4 * 256);
	assert_string_equal(bench_out(b), "READ_REQUEST 64+1024 A");
	for (int psn = 32; psn < 63; psn++)
		middle(b, psn);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 63, 64, 256);
	middle(b, 64);
	middle(b, 65);
	assert_string_equal(bench_out(b), "");
	middle(b, 66);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+256 A");
	bench_free(b);
}

/* Repeated requests are answered in order. */
TEST(read_range, lost_again__shown_by_the_answer_to_the_next_hole)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 10 * 256);
	bench_out(b);
	middle(b, 0);
	middle(b, 2);
	middle(b, 3);
	middle(b, 5);
	middle(b, 6);
	middle(b, 7);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+256 A; READ_REQUEST 4+256 A");
	middle(b, 4);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+256 A");
	middle(b, 1);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 8, 9, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 9, 10, 256);
	assert_string_equal(bench_done(b), "1 OK");
	check(b, 10);
	bench_free(b);
}

TEST(read_range, silence__only_the_holes_of_the_oldest_request)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14});

	bench_post(b, IBV_WR_RDMA_READ, 40 * 256);
	bench_out(b);
	for (int psn = 0; psn < 28; psn++)
		middle(b, psn);
	middle(b, 30);
	bench_wait(b, 20000000);
	assert_string_equal(bench_out(b), "READ_REQUEST 28+512 A; READ_REQUEST 31+256 A");
	bench_free(b);
}

TEST(read_range, timeout__all_of_the_rest_is_asked_for)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 40 * 256);
	bench_out(b);
	middle(b, 0);
	middle(b, 2);
	bench_wait(b, TIMEOUT);
	assert_string_equal(bench_out(b), "READ_REQUEST 1+7936 A; READ_REQUEST 32+2048 A");
	assert_int_equal(b->qp->req.rd_atomic_out, 2);
	bench_free(b);
}

TEST(read_range, twice__placed_once)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 3 * 256);
	bench_out(b);
	middle(b, 1);
	assert_int_equal(bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 1, 0xee, 256),
			 ROCEMU_DROP_GHOST);
	assert_int_equal(b->buf[256], 2);
	bench_free(b);
}

/* Before its turn it fails nothing, and writes nothing. */
TEST(read_range, wrong_and_early__left_alone)
{
	static const struct {
		enum rocemu_opcode op;
		uint32_t len;
	} cases[] = {
		{ROCEMU_RC_READ_RESP_MIDDLE, 252}, {ROCEMU_RC_READ_RESP_MIDDLE, 512},
		{ROCEMU_RC_READ_RESP_LAST, 256},   {ROCEMU_RC_READ_RESP_ONLY, 256},
		{ROCEMU_RC_ATOMIC_ACK, 0},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		bench_post(b, IBV_WR_RDMA_READ, 4 * 256);
		bench_out(b);
		memset(b->buf, 0, 1024 + 256);
		assert_int_equal(bench_read_resp(b, cases[i].op, 1, 0xee, cases[i].len),
				 ROCEMU_DROP_SEQUENCE);
		for (int k = 0; k < 1024 + 256; k++)
			assert_int_equal(b->buf[k], 0);
		assert_string_equal(bench_done(b), "");
		bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
		middle(b, 1);
		middle(b, 2);
		bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 3, 4, 256);
		assert_string_equal(bench_done(b), "1 OK");
		bench_free(b);
	}
}

/* A request that was sent again in pieces may be answered so, however late. */
TEST(read_range, end_of_a_piece_after_the_timeout__taken)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 6 * 256);
	bench_out(b);
	for (int psn = 1; psn < 5; psn++)
		middle(b, psn);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_wait(b, TIMEOUT);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 256);
	assert_string_equal(bench_done(b), "");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_RTS);
	for (int psn = 1; psn < 5; psn++)
		middle(b, psn);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 5, 6, 256);
	assert_string_equal(bench_done(b), "1 OK");
	check(b, 6);
	bench_free(b);
}

TEST(read_range, atomic_behind_a_hole__completes_after_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 256);
	bench_post(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A; FETCH_ADD 1 A; SEND_ONLY 2 A");
	bench_answer(b, ROCEMU_RC_ATOMIC_ACK, 1, ROCEMU_AETH_NO_CREDITS, NULL, 0);
	bench_ack(b, 2);
	assert_string_equal(bench_done(b), "");
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 256);
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK");
	bench_free(b);
}

TEST(read_range, sequence_nak_behind_a_hole__both_again)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 256);
	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_nak(b, 1, ROCEMU_NAK_PSN_SEQ);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+256 A; SEND_ONLY 1 A");
	bench_free(b);
}
