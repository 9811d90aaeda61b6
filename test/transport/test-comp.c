/* SPDX-License-Identifier: BSD-2-Clause */
/* What answers do: completions, their order, and answers that are wrong. */
#include "req-bench.h"

#include <string.h>

#include "transport/qp.h"

TEST(comp_ack, later_one__completes_all_before_in_order)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	for (int i = 0; i < 4; i++)
		bench_post(b, IBV_WR_SEND, 300);
	bench_out(b);
	assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "1 OK; 2 OK");
	assert_int_equal(bench_ack(b, 7), ROCEMU_DROP_NONE);
	assert_string_equal(bench_done(b), "3 OK; 4 OK");
	bench_free(b);
}

TEST(comp_ack, stale_or_never_sent__ghost)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	assert_int_equal(bench_ack(b, 0), ROCEMU_DROP_GHOST);
	bench_post(b, IBV_WR_SEND, 300);
	bench_out(b);
	assert_int_equal(bench_ack(b, 2), ROCEMU_DROP_GHOST);
	assert_int_equal(bench_ack(b, -1), ROCEMU_DROP_GHOST);
	bench_ack(b, 0);
	assert_int_equal(bench_ack(b, 0), ROCEMU_DROP_GHOST);
	assert_int_equal(bench_nak(b, 0, ROCEMU_NAK_REM_ACCESS), ROCEMU_DROP_GHOST);
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 1);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

TEST(comp_ack, unsignaled__complete_silently)
{
	struct bench *b = bench_new(&(struct bench_opts){.sig_none = true});
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_READ, 4);
	wr = bench_wr(b, IBV_WR_SEND, 0, 4, &sge);
	wr.send_flags = IBV_SEND_SIGNALED;
	bench_post_wr(b, &wr);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 1, 1, 4);
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 2);
	assert_string_equal(bench_done(b), "3 OK");
	bench_free(b);
}

/* A duplicate's ACK carries the newest PSN, while the READ's responses may still be under way. */
TEST(comp_ack, within_a_read__only_what_is_before_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_out(b);
	bench_ack(b, 3);
	assert_string_equal(bench_done(b), "1 OK");
	assert_string_equal(bench_out(b), "");
	bench_free(b);
}

TEST(comp_ack, beyond_a_read__implied_nak)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_ack(b, 4);
	assert_string_equal(bench_done(b), "1 OK");
	assert_string_equal(bench_out(b), "READ_REQUEST 1+600 A");
	bench_ack(b, 4);
	assert_string_equal(bench_out(b), "");
	/* The ACK holds for what is behind the READ. */
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 1, 1, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 2, 1, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 3, 1, 88);
	assert_string_equal(bench_done(b), "2 OK; 3 OK");
	bench_free(b);
}

TEST(comp_ack, beyond_an_atomic__implied_nak)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "");
	bench_ack(b, 1);
	assert_string_equal(bench_out(b), "FETCH_ADD 0 A");
	assert_string_equal(bench_done(b), "");
	bench_free(b);
}

TEST(comp_nak, fatal__request_fails_others_flushed)
{
	static const struct {
		uint8_t syndrome;
		const char *done;
	} cases[] = {
		{ROCEMU_NAK_INV_REQ, "1 OK; 2 REM_INV_REQ; 3 FLUSH"},
		{ROCEMU_NAK_REM_ACCESS, "1 OK; 2 REM_ACCESS; 3 FLUSH"},
		{ROCEMU_NAK_REM_OP, "1 OK; 2 REM_OP; 3 FLUSH"},
		{ROCEMU_NAK_INV_RD, "1 OK; 2 BAD_RESP; 3 FLUSH"},
		{ROCEMU_AETH_NAK | 0x1f, "1 OK; 2 BAD_RESP; 3 FLUSH"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		bench_post(b, IBV_WR_SEND, 4);
		bench_post(b, IBV_WR_RDMA_WRITE, 600);
		bench_post(b, IBV_WR_SEND, 4);
		bench_out(b);
		bench_nak(b, 2, cases[i].syndrome);
		assert_string_equal(bench_done(b), cases[i].done);
		assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_ERR);
		assert_string_equal(bench_out(b), "");
		assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
		assert_int_equal(bench_ack(b, 4), ROCEMU_DROP_STATE);
		bench_free(b);
	}
}

TEST(comp_nak, reserved_aeth_class__dropped)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	assert_int_equal(bench_nak(b, 0, 0x40), ROCEMU_DROP_SEQUENCE);
	assert_string_equal(bench_done(b), "");
	bench_free(b);
}

TEST(comp_read, responses__placed_and_complete)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_cqe c;

	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 0xa1, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 1, 0xa2, 256);
	assert_int_equal(bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 1, 0xff, 256),
			 ROCEMU_DROP_GHOST);
	assert_int_equal(rocemu_cq_count(b->cq), 0);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 2, 0xa3, 88);
	assert_int_equal(rocemu_cq_poll(b->cq, &c, 1), 1);
	assert_int_equal(c.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(c.byte_len, 600);
	assert_int_equal(b->buf[0], 0xa1);
	assert_int_equal(b->buf[255], 0xa1);
	assert_int_equal(b->buf[256], 0xa2);
	assert_int_equal(b->buf[512], 0xa3);
	assert_int_equal(b->buf[599], 0xa3);
	assert_int_equal(b->buf[600], (uint8_t)(600 * 7 + 2));
	bench_free(b);
}

/* Responders differ in how they number a repeated READ's responses: both ways are taken. */
TEST(comp_read, replay_from_the_middle__any_way_of_opening_it)
{
	static const enum rocemu_opcode ways[][2] = {
		{ROCEMU_RC_READ_RESP_MIDDLE, ROCEMU_RC_READ_RESP_LAST},
		{ROCEMU_RC_READ_RESP_FIRST, ROCEMU_RC_READ_RESP_LAST},
		{ROCEMU_RC_READ_RESP_FIRST, ROCEMU_RC_READ_RESP_ONLY},
	};

	for (unsigned i = 0; i < 3; i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		bench_post(b, IBV_WR_RDMA_READ, 600);
		bench_out(b);
		bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
		bench_wait(b, 8192);
		assert_string_equal(bench_out(b), "READ_REQUEST 1+344 A");
		bench_read_resp(b, ways[i][0], 1, 2, 256);
		bench_read_resp(b, ways[i][1], 2, 3, 88);
		assert_string_equal(bench_done(b), "1 OK");
		assert_int_equal(b->buf[256], 2);
		bench_free(b);
	}
}

TEST(comp_read, response__acknowledges_what_is_before_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_READ, 0);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 1, 1, 0);
	assert_string_equal(bench_done(b), "1 OK; 2 OK");
	bench_free(b);
}

TEST(comp_read, malformed_response__request_fails)
{
	static const struct {
		enum rocemu_opcode op;
		uint32_t len;
		const char *done;
	} cases[] = {
		{ROCEMU_RC_READ_RESP_FIRST, 252, "1 LOC_LEN"},
		{ROCEMU_RC_READ_RESP_FIRST, 512, "1 LOC_LEN"},
		{ROCEMU_RC_READ_RESP_LAST, 256, "1 BAD_RESP"},
		{ROCEMU_RC_READ_RESP_ONLY, 256, "1 BAD_RESP"},
		{ROCEMU_RC_ATOMIC_ACK, 0, "1 BAD_RESP"},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		bench_post(b, IBV_WR_RDMA_READ, 600);
		bench_out(b);
		bench_read_resp(b, cases[i].op, 0, 0xee, cases[i].len);
		assert_string_equal(bench_done(b), cases[i].done);
		assert_int_not_equal(b->buf[300], 0xee);
		bench_free(b);
	}
}

TEST(comp_read, response_to_a_send__request_fails)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 4);
	assert_string_equal(bench_done(b), "1 BAD_RESP");
	bench_free(b);
}

/* As adapters do: what is beyond the 8 bytes is the program's. */
TEST(comp_atomic, room_for_more_than_8_bytes__8_written)
{
	static const struct ibv_sge pieces[2][2] = {{{0, 9, 0}}, {{0, 3, 0}, {16, 20, 0}}};

	for (int i = 0; i < 2; i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});
		struct ibv_sge one, sge[2];
		struct ibv_send_wr wr = bench_wr(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, &one);

		for (int j = 0; j <= i; j++) {
			sge[j] = pieces[i][j];
			sge[j].lkey = one.lkey;
		}
		wr.sg_list = sge;
		wr.num_sge = i + 1;
		memset(b->buf, 0xee, 64);
		bench_post_wr(b, &wr);
		assert_string_equal(bench_out(b), "FETCH_ADD 0 A");
		bench_answer(b, ROCEMU_RC_ATOMIC_ACK, 0, ROCEMU_AETH_NO_CREDITS, NULL, 0);
		assert_string_equal(bench_done(b), "1 OK");
		assert_int_not_equal(b->buf[0], 0xee);
		assert_int_equal(b->buf[i ? 16 + 5 : 8], 0xee);
		bench_free(b);
	}
}

/* ---- READs and atomics whose own memory is not accessible ---- */

static const enum ibv_wr_opcode fetches[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};

/** Posted with a bad L_Key: sent all the same. */
static void send_bad_key(struct bench *b, enum ibv_wr_opcode op, const char *out)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, op, 0, 8, &sge);

	sge.lkey ^= 1;
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), out);
	assert_string_equal(bench_done(b), "");
}

static const char *const fetch_out[] = {"READ_REQUEST 0+8 A", "FETCH_ADD 0 A"};

TEST(comp_fetch, bad_l_key__fails_when_the_response_comes)
{
	for (unsigned i = 0; i < 2; i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		send_bad_key(b, fetches[i], fetch_out[i]);
		if (fetches[i] == IBV_WR_RDMA_READ)
			bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 8);
		else
			bench_answer(b, ROCEMU_RC_ATOMIC_ACK, 0, ROCEMU_AETH_NO_CREDITS, NULL, 0);
		assert_string_equal(bench_done(b), "1 LOC_PROT");
		assert_int_equal(b->buf[1], 7);
		bench_free(b);
	}
}

TEST(comp_fetch, bad_l_key_and_refused_by_the_peer__remote_error)
{
	for (unsigned i = 0; i < 2; i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		send_bad_key(b, fetches[i], fetch_out[i]);
		bench_nak(b, 0, ROCEMU_NAK_REM_ACCESS);
		assert_string_equal(bench_done(b), "1 REM_ACCESS");
		bench_free(b);
	}
}

/* What comes before the bad piece is placed. */
TEST(comp_read, second_piece_with_a_bad_l_key__fails_at_its_packet)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = bench_wr(b, IBV_WR_RDMA_READ, 0, 256, &sge[0]);

	sge[1] = sge[0];
	sge[1].addr += 256;
	sge[1].lkey ^= 1;
	wr.sg_list = sge;
	wr.num_sge = 2;
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "READ_REQUEST 0+512 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	assert_string_equal(bench_done(b), "");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 1, 2, 256);
	assert_string_equal(bench_done(b), "1 LOC_PROT");
	assert_int_equal(b->buf[255], 1);
	assert_int_not_equal(b->buf[256], 2);
	bench_free(b);
}

/* A response that cannot be placed shows a lost one as any other does. */
TEST(comp_read, bad_l_key_behind_a_lost_response__both_asked_for_and_completed_in_order)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_out(b);
	send_bad_key(b, IBV_WR_RDMA_READ, "READ_REQUEST 1+8 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 1, 2, 8);
	assert_string_equal(bench_done(b), "");
	assert_string_equal(bench_out(b), "READ_REQUEST 0+4 A");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 4);
	assert_string_equal(bench_done(b), "1 OK");
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 1, 2, 8);
	assert_string_equal(bench_done(b), "2 LOC_PROT");
	bench_free(b);
}

TEST(comp_read, region_gone__local_protection_error)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_out(b);
	rocemu_mr_dereg(b->mr);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 4);
	assert_string_equal(bench_done(b), "1 LOC_PROT");
	assert_int_equal(b->buf[1], 7);
	bench_free(b);
}

TEST(comp_read, nak_in_a_response__request_fails)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	bench_nak(b, 1, ROCEMU_NAK_REM_OP);
	assert_string_equal(bench_done(b), "1 REM_OP");
	bench_free(b);
}

TEST(comp_read, late_original_after_going_back__taken_and_not_asked_again)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_READ, 600);
	bench_out(b);
	bench_wait(b, 8192);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_FIRST, 0, 1, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_MIDDLE, 1, 2, 256);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_LAST, 2, 3, 88);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK");
	assert_int_equal(b->qp->req.rd_atomic_out, 0);
	assert_int_equal(b->qp->req.inflight, 0);
	bench_free(b);
}

TEST(comp_atomic, response__value_in_host_order)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	uint64_t value;
	struct rocemu_cqe c;

	bench_post(b, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	bench_out(b);
	bench_answer(b, ROCEMU_RC_ATOMIC_ACK, 0, ROCEMU_AETH_NO_CREDITS, NULL, 0);
	memcpy(&value, b->buf, sizeof(value));
	assert_int_equal(value, 0x1122334455667788);
	assert_int_equal(rocemu_cq_poll(b->cq, &c, 1), 1);
	assert_int_equal(c.opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(c.byte_len, 8);
	bench_free(b);
}

TEST(comp_atomic, read_response__request_fails)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	bench_out(b);
	bench_read_resp(b, ROCEMU_RC_READ_RESP_ONLY, 0, 1, 8);
	assert_string_equal(bench_done(b), "1 BAD_RESP");
	bench_free(b);
}

TEST(comp_flush, error_state__all_requests_in_order)
{
	struct bench *b = bench_new(&(struct bench_opts){.sig_none = true});
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_READ, 4);
	bench_out(b);
	bench_post(b, IBV_WR_SEND, 4);
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &err, IBV_QP_STATE), 0);
	assert_string_equal(bench_done(b), "1 FLUSH; 2 FLUSH; 3 FLUSH");
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_done(b), "4 FLUSH");
	assert_int_equal(rocemu_ep_deadline(b->ep), ROCEMU_NEVER);
	bench_free(b);
}
