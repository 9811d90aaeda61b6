/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to requests of several pieces; scenario-comp has the others. */
#include "req-bench.h"

#include <string.h>

#include "transport/qp.h"

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
