/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH and ATOMIC WRITE as the requester has them: one packet, an answer of its own. */
#include "req-bench.h"

#include <errno.h>
#include <string.h>

#include "transport/qp.h"

static const enum ibv_wr_opcode atomic_write = (enum ibv_wr_opcode)ROCEMU_WR_ATOMIC_WRITE;

static struct ibv_send_wr flush_wr(struct bench *b, uint32_t feth, uint32_t len,
				   struct ibv_sge *sge)
{
	struct ibv_send_wr wr = bench_wr(b, (enum ibv_wr_opcode)ROCEMU_WR_FLUSH, 0, len, sge);

	sge->lkey = 0; /* nothing of the SGE is read but its length */
	wr.invalidate_rkey = feth;
	return wr;
}

static void post_flush(struct bench *b)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = flush_wr(b, ROCEMU_FLUSH_GLOBAL, 100, &sge);

	bench_post_wr(b, &wr);
}

static struct rocemu_hdrs last_sent(const struct bench *b)
{
	uint8_t buf[ROCEMU_MAX_HDR_LEN + 16] = {0};
	struct rocemu_packet p;

	memcpy(buf, b->last.hdr, b->last.hdr_len);
	assert_int_equal(
		rocemu_packet_decode(&p, buf, (size_t)b->last.hdr_len + b->last.payload_len + 4),
		0);
	return p.h;
}

static enum rocemu_drop answered(struct bench *b, int32_t psn)
{
	return bench_answer(b, ROCEMU_RC_READ_RESP_ONLY, psn, ROCEMU_AETH_NO_CREDITS, NULL, 0);
}

TEST(req_flush, one_request__headers_and_answer)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge;
	struct ibv_send_wr wr =
		flush_wr(b, ROCEMU_FLUSH_PERSISTENT | ROCEMU_FLUSH_MR << ROCEMU_FETH_LEVEL_SHIFT,
			 0xfffffff0, &sge);
	struct rocemu_hdrs h;

	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "FLUSH 0 A");
	h = last_sent(b);
	assert_int_equal(h.feth.raw, 0x12);
	assert_int_equal(h.reth.va, 0x1000);
	assert_int_equal(h.reth.rkey, BENCH_RKEY);
	assert_int_equal(h.reth.length, 0xfffffff0);
	assert_int_equal(b->last.payload_len, 0);
	assert_string_equal(bench_done(b), "");
	answered(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

TEST(req_atomic_write, one_request__eight_bytes_and_answer)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct rocemu_hdrs h;

	bench_post(b, atomic_write, 8);
	assert_string_equal(bench_out(b), "ATOMIC_WRITE 0 A");
	h = last_sent(b);
	assert_int_equal(h.reth.length, 8);
	assert_int_equal(h.reth.va, 0x1000);
	assert_int_equal(b->last.niov, 1);
	assert_ptr_equal(b->last.iov[0].iov_base, b->buf);
	answered(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

/* An ACK for what comes behind shows that the response was lost (IBTA 9.7.5). */
TEST(req_flush, ack_instead_of_its_response__asked_again)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_RDMA_WRITE, 4);
	post_flush(b);
	bench_post(b, IBV_WR_RDMA_WRITE, 4);
	assert_string_equal(bench_out(b), "WRITE_ONLY 0 A; FLUSH 1 A; WRITE_ONLY 2 A");
	bench_ack(b, 2);
	assert_string_equal(bench_done(b), "1 OK");
	assert_string_equal(bench_out(b), "FLUSH 1 A");
	answered(b, 1);
	assert_string_equal(bench_done(b), "2 OK; 3 OK");
	bench_free(b);
}

TEST(req_flush, counts_against_max_rd_atomic)
{
	struct bench *b = bench_new(&(struct bench_opts){.rd_atomic = 2});

	post_flush(b);
	bench_post(b, atomic_write, 8);
	post_flush(b);
	assert_string_equal(bench_out(b), "FLUSH 0 A; ATOMIC_WRITE 1 A");
	answered(b, 0);
	assert_string_equal(bench_out(b), "FLUSH 2 A");
	bench_free(b);
}

TEST(req_flush, no_rd_atomic__local_qp_error)
{
	struct bench *b = bench_new(&(struct bench_opts){.no_rd_atomic = true});

	post_flush(b);
	assert_string_equal(bench_out(b), "");
	bench_out(b);
	assert_string_equal(bench_done(b), "1 LOC_QP_OP");
	bench_free(b);
}

TEST(req_flush, response_with_bytes_or_of_another_kind__request_fails)
{
	static const struct {
		enum rocemu_opcode op;
		uint32_t len;
		const char *done;
	} rows[] = {
		{ROCEMU_RC_READ_RESP_ONLY, 4, "1 LOC_LEN"},
		{ROCEMU_RC_READ_RESP_FIRST, 256, "1 BAD_RESP"},
		{ROCEMU_RC_READ_RESP_LAST, 0, "1 BAD_RESP"},
		{ROCEMU_RC_ATOMIC_ACK, 0, "1 BAD_RESP"},
	};
	static const uint8_t bytes[256];

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct bench *b = bench_new(&(struct bench_opts){0});

		post_flush(b);
		bench_out(b);
		bench_answer(b, rows[i].op, 0, ROCEMU_AETH_NO_CREDITS, bytes, rows[i].len);
		assert_string_equal(bench_done(b), rows[i].done);
		bench_free(b);
	}
}

TEST(req_flush, nak__status_as_for_other_requests)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	post_flush(b);
	bench_out(b);
	bench_nak(b, 0, ROCEMU_NAK_REM_ACCESS);
	assert_string_equal(bench_done(b), "1 REM_ACCESS");
	bench_free(b);
}

TEST(req_atomic_write, memory_not_its_own__local_protection_error)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge;
	struct ibv_send_wr wr = bench_wr(b, atomic_write, 0, 8, &sge);

	sge.lkey ^= 0x100;
	bench_post_wr(b, &wr);
	assert_string_equal(bench_out(b), "");
	bench_out(b);
	assert_string_equal(bench_done(b), "1 LOC_PROT");
	bench_free(b);
}

TEST(req_flush, what_cannot_be_posted__einval)
{
	static const uint32_t bad[] = {0, 4, 0x21, 0x31, 0x41, 0xffffffff};
	struct bench *b = bench_new(&(struct bench_opts){0});
	struct ibv_sge sge[2] = {{.length = 4}, {.length = 4}};
	struct ibv_send_wr wr;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		wr = flush_wr(b, bad[i], 8, sge);
		assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, NULL), -EINVAL);
	}
	wr = flush_wr(b, ROCEMU_FLUSH_GLOBAL, 8, sge);
	wr.num_sge = 2;
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, NULL), -EINVAL);
	wr = flush_wr(b, ROCEMU_FLUSH_GLOBAL, 8, sge);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, NULL), -EINVAL);
	for (uint32_t len = 7; len <= 9; len += 2) {
		wr = bench_wr(b, atomic_write, 0, len, sge);
		assert_int_equal(rocemu_qp_post_send(b->qp, b->now, &wr, NULL), -EINVAL);
	}
	bench_free(b);
}

/* ---- failing on purpose ---- */

TEST(req_fail_last, in_its_turn__never_sent_and_the_rest_flushed)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	bench_post(b, IBV_WR_SEND, 4);
	bench_post(b, IBV_WR_RDMA_WRITE, 600);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_ACCESS_ERR);
	bench_post(b, IBV_WR_SEND, 4);
	assert_string_equal(bench_out(b), "SEND_ONLY 0 A");
	assert_string_equal(bench_done(b), "");
	bench_ack(b, 0);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 OK; 2 REM_ACCESS; 3 FLUSH");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_ERR);
	/* In the error state: flushed, whatever the request. */
	bench_post(b, IBV_WR_SEND, 4);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_ACCESS_ERR);
	assert_string_equal(bench_done(b), "4 FLUSH");
	bench_free(b);
}

TEST(req_fail_last, queue_entry_used_again__as_usual)
{
	struct bench *b = bench_new(&(struct bench_opts){.type = IBV_QPT_UC});
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	bench_post(b, IBV_WR_SEND, 4);
	rocemu_qp_fail_last(b->qp, IBV_WC_REM_OP_ERR);
	assert_string_equal(bench_out(b), "");
	assert_string_equal(bench_done(b), "1 REM_OP");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_SQE);
	assert_int_equal(rocemu_qp_modify(b->qp, b->now, &rts, IBV_QP_STATE), 0);
	for (int i = 0; i < 64; i++) {
		bench_post(b, IBV_WR_SEND, 4);
		bench_out(b);
		assert_null(strstr(bench_done(b), "REM_OP"));
	}
	bench_free(b);
}
