/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A requester whose peer answers what no responder would: acknowledgements of the future, NAKs for
 * what was never sent, every syndrome, congestion notifications that are wrong or far too many.
 * Nothing of it completes a request that the peer cannot have, ends a QP that the standard does not
 * end, or makes memory grow.
 */
#include "req-bench.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum { REQUESTS = 3, FLOOD = 10000, CNP_LEN = 16 };

/** Bytes that malloc() has given out; 0 where it does not count (sanitizers). */
static size_t allocated(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

static struct bench *with_requests(void)
{
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 10, .retry_cnt = 7});

	for (int i = 0; i < REQUESTS; i++)
		bench_post(b, IBV_WR_RDMA_WRITE, 200);
	bench_out(b);
	return b;
}

/** Nothing is complete, and a right acknowledgement still completes all. */
static void expect_unharmed(struct bench *b)
{
	assert_string_equal(bench_done(b), "");
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_RTS);
	bench_out(b);
	bench_ack(b, REQUESTS - 1);
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK");
	bench_free(b);
}

TEST(hostile_req, ack_of_the_future__not_believed)
{
	static const int32_t ahead[] = {REQUESTS, REQUESTS + 1, 100,	 0x7ffff0,
					0x7fffff, 0x800000,	0xfffff0};
	struct bench *b = with_requests();

	for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++)
		bench_ack(b, ahead[i]);
	expect_unharmed(b);
}

TEST(hostile_req, nak_for_what_was_never_sent__ignored)
{
	static const uint8_t codes[] = {ROCEMU_NAK_PSN_SEQ, ROCEMU_NAK_INV_REQ,
					ROCEMU_NAK_REM_ACCESS, ROCEMU_NAK_REM_OP,
					ROCEMU_AETH_RNR | 1};
	struct bench *b = with_requests();

	for (size_t i = 0; i < sizeof(codes); i++) {
		bench_nak(b, REQUESTS + 1, codes[i]);
		bench_nak(b, 1000, codes[i]);
		bench_nak(b, 0x7ffff0, codes[i]);
	}
	expect_unharmed(b);
}

TEST(hostile_req, nak_for_what_is_complete__ignored)
{
	struct bench *b = with_requests();

	bench_ack(b, 1);
	assert_string_equal(bench_done(b), "1 OK; 2 OK");
	bench_nak(b, 0, ROCEMU_NAK_REM_ACCESS);
	bench_nak(b, 1, ROCEMU_NAK_INV_REQ);
	bench_nak(b, -100, ROCEMU_NAK_REM_OP);
	bench_nak(b, 0, ROCEMU_AETH_RNR | 31);
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_RTS);
	bench_ack(b, 2);
	assert_string_equal(bench_done(b), "3 OK");
	bench_free(b);
}

TEST(hostile_req, any_syndrome_nothing_under_way__ignored)
{
	struct bench *b = bench_new(&(struct bench_opts){0});

	for (int syndrome = 0; syndrome < 256; syndrome++)
		for (int32_t psn = -2; psn <= 2; psn++)
			bench_nak(b, psn, (uint8_t)syndrome);
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_RTS);
	assert_string_equal(bench_out(b), "");
	bench_post(b, IBV_WR_SEND, 10);
	bench_out(b);
	bench_ack(b, 0);
	assert_string_equal(bench_done(b), "1 OK");
	bench_free(b);
}

/* IBTA table 45: the class 10 and the NAK codes from 5 on are reserved. */
TEST(hostile_req, any_syndrome_for_a_request__what_it_stands_for)
{
	for (int syndrome = 0; syndrome < 256; syndrome++) {
		struct bench *b = bench_new(
			&(struct bench_opts){.timeout = 10, .retry_cnt = 7, .rnr_retry = 7});
		const char *done;

		bench_post(b, IBV_WR_SEND, 10);
		bench_out(b);
		bench_nak(b, 0, (uint8_t)syndrome);
		done = bench_done(b);
		if ((syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_ACK) {
			assert_string_equal(done, "1 OK");
		} else {
			assert_null(strstr(done, "OK"));
			if ((syndrome & ROCEMU_AETH_CLASS_MASK) == ROCEMU_AETH_RNR ||
			    syndrome == ROCEMU_NAK_PSN_SEQ)
				assert_string_equal(done, "");
		}
		bench_free(b);
	}
}

/* Without progress a retry is used up at most for each: the QP ends as after timeouts, or goes on.
 */
TEST(hostile_req, nak_flood__ends_as_retries_do_or_goes_on)
{
	struct bench *b = with_requests();
	size_t before = allocated();
	const char *done;

	for (int i = 0; i < FLOOD && rocemu_qp_state(b->qp) == IBV_QPS_RTS; i++) {
		bench_nak(b, 0, ROCEMU_NAK_PSN_SEQ);
		bench_out(b);
	}
	assert_true(allocated() <= before);
	if (rocemu_qp_state(b->qp) == IBV_QPS_RTS) {
		expect_unharmed(b);
		return;
	}
	done = bench_done(b);
	assert_string_equal(done, "1 RETRY_EXC; 2 FLUSH; 3 FLUSH");
	bench_free(b);
}

TEST(hostile_req, responses_to_no_read__ignored)
{
	static const enum rocemu_opcode ops[] = {
		ROCEMU_RC_READ_RESP_FIRST, ROCEMU_RC_READ_RESP_MIDDLE, ROCEMU_RC_READ_RESP_LAST,
		ROCEMU_RC_READ_RESP_ONLY};
	struct bench *b = with_requests();
	uint8_t before[BENCH_BUF];

	memcpy(before, b->buf, sizeof(before));
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		bench_read_resp(b, ops[i], REQUESTS + 1, 0xee, 200);
		bench_read_resp(b, ops[i], -1, 0xee, 200);
		bench_read_resp(b, ops[i], 0x7ffff0, 0xee, 200);
	}
	assert_memory_equal(before, b->buf, sizeof(before));
	expect_unharmed(b);
}

/* ---- congestion notifications ---- */

static void cnp(struct bench *b, int32_t psn, const uint8_t *payload, uint32_t len)
{
	bench_answer(b, ROCEMU_CNP, psn, 0, payload, len);
}

TEST(hostile_req, malformed_cnp__no_harm)
{
	static const uint32_t lengths[] = {0, 1, CNP_LEN - 1, CNP_LEN + 1, 64, 4096};
	uint8_t payload[4096] = {0};
	struct bench *b = with_requests();

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		cnp(b, 0, payload, lengths[i]);
	memset(payload, 0xff, sizeof(payload));
	cnp(b, 0, payload, CNP_LEN);
	cnp(b, 12345, payload, CNP_LEN);
	expect_unharmed(b);
}

TEST(hostile_req, cnp_flood__slower_not_dead)
{
	static const uint8_t zero[CNP_LEN];
	struct bench *b = bench_new(&(struct bench_opts){.timeout = 14, .retry_cnt = 7});
	size_t before = allocated();
	int32_t acked = -1;

	for (int i = 0; i < 20; i++)
		bench_post(b, IBV_WR_RDMA_WRITE, 256);
	for (int i = 0; i < FLOOD; i++)
		cnp(b, 0, zero, CNP_LEN);
	/* The window has a floor: each acknowledgement makes room, if need be after a pause. */
	for (int i = 0; i < FLOOD && acked < 19; i++) {
		const char *out = bench_out(b);

		cnp(b, 0, zero, CNP_LEN);
		for (const char *p = out; (p = strstr(p, "WRITE_ONLY ")); p++)
			acked = MAX(acked, atoi(p + strlen("WRITE_ONLY ")));
		if (acked >= 0)
			bench_ack(b, acked);
		bench_wait(b, 50000);
	}
	assert_int_equal(acked, 19);
	assert_int_equal(rocemu_qp_state(b->qp), IBV_QPS_RTS);
	assert_null(strstr(bench_done(b), "RETRY"));
	assert_true(allocated() <= before);
	bench_free(b);
}
