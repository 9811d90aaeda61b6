/* SPDX-License-Identifier: BSD-2-Clause */
/* A window that takes several messages of 64 KiB: fewer ACKs are requested, and messages stay
 * whole. */
#include "req-bench.h"

#include <string.h>

#include "transport/peer.h"
#include "transport/qp.h"

enum {
	MTU = 256,
	TWO = 2 * MTU, /* bytes of a message of two packets */
	WIDE = 512 << 10,
	NARROW = WIDE - 1,
	LARGE = 64 << 10, /* at most so many bytes stay whole */
	LARGE_COST = 16 * (4096 + 512),
};

static struct bench *with_window(uint32_t window, enum ibv_mtu mtu)
{
	struct bench *b = bench_new(&(struct bench_opts){.window = window, .mtu = mtu});

	b->qp->req.peer->cc.cwnd = window; /* as after many ACKs */
	return b;
}

/** "AckReq at the end" of n messages of two packets, as '-' and 'A'. */
static const char *ends(struct bench *b, char text[16])
{
	const char *out = bench_out(b);
	unsigned n = 0;

	for (const char *at = out; (at = strstr(at, "_LAST ")) && n < 15; at++)
		text[n++] = at[strcspn(at, ";") - 1] == 'A' ? 'A' : '-';
	text[n] = '\0';
	return text;
}

static void post_writes(struct bench *b, unsigned n, uint32_t len)
{
	while (n--)
		bench_post(b, IBV_WR_RDMA_WRITE, len);
}

TEST(req_wide, messages_in_a_row__those_with_three_behind_ask_for_no_ack)
{
	struct bench *b = with_window(WIDE, IBV_MTU_256);
	char text[16];

	post_writes(b, 6, TWO);
	assert_string_equal(ends(b, text), "---AAA");
	bench_ack(b, 11);
	assert_string_equal(bench_done(b), "1 OK; 2 OK; 3 OK; 4 OK; 5 OK; 6 OK");
	bench_free(b);
}

TEST(req_wide, narrow_window__each_asks)
{
	struct bench *b = with_window(NARROW, IBV_MTU_256);
	char text[16];

	post_writes(b, 6, TWO);
	assert_string_equal(ends(b, text), "AAAAAA");
	bench_free(b);
}

TEST(req_wide, single_packets__each_asks)
{
	struct bench *b = with_window(WIDE, IBV_MTU_256);

	post_writes(b, 5, MTU);
	assert_string_equal(bench_out(b), "WRITE_ONLY 0 A; WRITE_ONLY 1 A; WRITE_ONLY 2 A; "
					  "WRITE_ONLY 3 A; WRITE_ONLY 4 A");
	bench_free(b);
}

/* What is next may have to wait for the ACK. */
TEST(req_wide, next_one_of_another_kind__asks)
{
	struct bench *b = with_window(WIDE, IBV_MTU_256);
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	char text[16];

	bench_post(b, IBV_WR_RDMA_WRITE, TWO);
	bench_post(b, IBV_WR_SEND, TWO);
	wr = bench_wr(b, IBV_WR_SEND, 0, TWO, &sge);
	wr.send_flags = IBV_SEND_FENCE;
	bench_post_wr(b, &wr);
	bench_post(b, IBV_WR_SEND, TWO + MTU);
	post_writes(b, 4, TWO);
	assert_string_equal(ends(b, text), "AAAA-AAA");
	bench_free(b);
}

TEST(req_wide, long_message__asks_every_32_packets)
{
	struct bench *b = with_window(WIDE, IBV_MTU_256);

	bench_post(b, IBV_WR_SEND, 34 * MTU);
	assert_non_null(strstr(bench_out(b), "SEND_MIDDLE 15; SEND_MIDDLE 16; "));
	assert_non_null(strstr(b->out, "SEND_MIDDLE 30; SEND_MIDDLE 31 A; SEND_MIDDLE 32; "
				       "SEND_LAST 33 A"));
	bench_free(b);
}

/* With a message's first packets the window would be full. */
TEST(req_wide, room_for_a_part_of_a_message__waits_for_all)
{
	struct bench *b = with_window(8 * LARGE_COST - 1, IBV_MTU_4096);

	post_writes(b, 8, LARGE);
	assert_non_null(strstr(bench_out(b), "WRITE_LAST 111 A"));
	assert_null(strstr(b->out, "112"));
	bench_ack(b, 31);
	assert_non_null(strstr(bench_out(b), "WRITE_FIRST 112; "));
	assert_non_null(strstr(b->out, "WRITE_LAST 127 A"));
	bench_free(b);
}

TEST(req_wide, narrow_window_and_room_for_a_part__part_is_sent)
{
	struct bench *b = with_window(7 * LARGE_COST - 1, IBV_MTU_4096);

	post_writes(b, 7, LARGE);
	assert_non_null(strstr(bench_out(b), "WRITE_FIRST 96; "));
	assert_null(strstr(b->out, "WRITE_LAST 111"));
	bench_free(b);
}

TEST(req_wide, larger_than_64_kib_and_room_for_a_part__part_is_sent)
{
	struct bench *b = with_window(8 * LARGE_COST - 1, IBV_MTU_4096);

	post_writes(b, 5, LARGE + LARGE / 2);
	assert_non_null(strstr(bench_out(b), "WRITE_FIRST 96; "));
	bench_free(b);
}
