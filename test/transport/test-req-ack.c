/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP's requests and the ACK that it owes meanwhile: which of them goes out first. */
#include <string.h>

#include "req-bench.h"
#include "transport/peer.h"
#include "transport/qp.h"

/* A request of the peer comes, for which an ACK is owed. */
static void receive_one(struct bench *b)
{
	const struct ibv_recv_wr wr = {.wr_id = 99};

	assert_int_equal(rocemu_qp_post_recv(b->qp, b->now, &wr, NULL), 0);
	assert_int_equal(bench_answer(b, ROCEMU_RC_SEND_ONLY, -(int32_t)BENCH_PSN, 0, NULL, 0),
			 ROCEMU_DROP_NONE);
}

TEST(req_ack, message_of_several_outputs__ack_after_its_last_packet)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	const char *out;

	receive_one(b);
	bench_post(b, IBV_WR_SEND, 100 * 256);
	b->batch = 16;
	out = bench_out(b);
	assert_non_null(strstr(out, "SEND_LAST 99 A; ACK 2"));
	assert_string_equal(strstr(out, "ACK"), "ACK 2");
	bench_free(b);
}

TEST(req_ack, window_full__ack_does_not_wait_for_it)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = 3 * (256 + 512)});

	receive_one(b);
	bench_post(b, IBV_WR_SEND, 5 * 256);
	assert_string_equal(bench_out(b), "SEND_FIRST 0; SEND_MIDDLE 1; SEND_MIDDLE 2 A; ACK 2");
	bench_free(b);
}

TEST(req_ack, very_long_message__ack_within_it)
{
	struct bench *b = bench_new(&(struct bench_opts){0});
	const char *ack;

	b->qp->req.peer->cc.cwnd = UINT32_MAX;
	receive_one(b);
	bench_post(b, IBV_WR_SEND, 400 * 256);
	ack = strstr(bench_out(b), "ACK 2; SEND_MIDDLE");
	assert_non_null(ack);
	bench_free(b);
}
