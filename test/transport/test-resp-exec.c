/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: execution of SEND and WRITE: lengths, rights, placing, completions. */
#include "hostile.h"

#include <string.h>

static struct hostile h;

#define RC(name) TEST(rc_exec, name)

RC(send__three_packets__placed_in_one_receive)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 9, 128, 1024);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_MIDDLE, 1, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_LAST_IMM, 2, 5);
	EXPECT(&h, "ack 2/1; recv 9 len 517 imm 1020304");
	assert_memory_equal(h.recv + 128, h.payload, HOSTILE_MTU);
	assert_memory_equal(h.recv + 128 + HOSTILE_MTU, h.payload, HOSTILE_MTU);
	assert_memory_equal(h.recv + 128 + 2 * HOSTILE_MTU, h.payload, 5);
	assert_int_equal(h.recv[128 + 517], 0xee);
	hostile_free(&h);
}

RC(send__receive_of_several_pieces__scattered)
{
	struct ibv_sge sge[3];
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = 3};
	const struct ibv_recv_wr *bad;

	hostile_start(&h, IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)h.recv + 100 * i, i == 1 ? 0 : 10,
					  rocemu_mr_lkey(h.recv_mr)};
	assert_int_equal(rocemu_qp_post_recv(h.qp, 0, &wr, &bad), 0);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 15);
	EXPECT(&h, "ack 0/1; recv 1 len 15");
	assert_memory_equal(h.recv, h.payload, 10);
	assert_memory_equal(h.recv + 200, h.payload + 10, 5);
	assert_int_equal(h.recv[10], 0xee);
	hostile_free(&h);
}

RC(send__zero_length_and_solicited__completes_solicited)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_RC_SEND_ONLY, .se = true, .ackreq = true};

	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 0);
	hostile_send_hdrs(&h, &hdrs, 0);
	EXPECT(&h, "ack 0/1; recv 1 len 0 sol");
	hostile_free(&h);
}

/* IBTA 9.7.4.1: a packet's length must fit its place in the message and the path MTU. */
RC(length__not_fitting_the_opcode__nak_invalid_request)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} bad[] = {
		{ROCEMU_RC_SEND_FIRST, HOSTILE_MTU - 1},
		{ROCEMU_RC_SEND_FIRST, HOSTILE_MTU + 4},
		{ROCEMU_RC_SEND_FIRST, 0},
		{ROCEMU_RC_SEND_ONLY, HOSTILE_MTU + 1},
		{ROCEMU_RC_WRITE_FIRST, HOSTILE_MTU - 4},
		{ROCEMU_RC_WRITE_ONLY, HOSTILE_MTU + 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		hostile_start(&h, IBV_QPT_RC);
		hostile_send_reth(&h, bad[i].opcode, 0, bad[i].len, 0, 4 * HOSTILE_MTU);
		EXPECT(&h, "drop LENGTH; nak 61 0/0; event QP_REQ_ERR; ERR");
		hostile_free(&h);
	}
}

RC(length__middle_or_last_wrong__nak_and_receive_in_error)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} bad[] = {
		{ROCEMU_RC_SEND_MIDDLE, HOSTILE_MTU - 1},
		{ROCEMU_RC_SEND_LAST, 0},
		{ROCEMU_RC_SEND_LAST, HOSTILE_MTU + 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		hostile_start(&h, IBV_QPT_RC);
		hostile_recv(&h, 1, 0, 2048);
		hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
		hostile_send(&h, bad[i].opcode, 1, bad[i].len);
		EXPECT(&h, "drop LENGTH; nak 61 1/0; recv 1 REM_INV_REQ_ERR; ERR");
		hostile_free(&h);
	}
}

RC(send__longer_than_the_receive__local_length_error_and_nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 300);
	hostile_recv(&h, 2, 0, 300);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_LAST, 1, 45);
	EXPECT(&h, "drop TOO_LONG; nak 61 1/0; recv 1 LOC_LEN_ERR; recv 2 WR_FLUSH_ERR; ERR");
	assert_int_equal(h.recv[HOSTILE_MTU], 0xee);
	hostile_free(&h);
}

RC(send__receive_key_not_valid__local_protection_error_and_nak_operational)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 300);
	assert_int_equal(rocemu_mr_dereg(h.recv_mr), 0);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 45);
	EXPECT(&h, "drop ACCESS; nak 63 0/0; recv 1 LOC_PROT_ERR; ERR");
	hostile_free(&h);
}

RC(send_inv__no_such_window__no_answer_and_nothing_placed)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 300);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY_INV, 0, 45);
	EXPECT(&h, "drop ACCESS; recv 1 MW_BIND_ERR; ERR");
	assert_int_equal(h.recv[0], 0xee);
	hostile_free(&h);
}

RC(write__every_tail_and_alignment__exact_bytes)
{
	for (uint32_t off = 0; off < 9; off++) {
		for (uint32_t len = 0; len < 20; len++) {
			hostile_start(&h, IBV_QPT_RC);
			memset(h.mem, 0, 64);
			hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, len, 8 + off, len);
			EXPECT(&h, "ack 0/1");
			assert_memory_equal(h.mem + 8 + off, h.payload, len);
			assert_int_equal(h.mem[7 + off], 0);
			assert_int_equal(h.mem[8 + off + len], 0);
			hostile_free(&h);
		}
	}
}

RC(write__three_packets__placed_and_counted_once)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 100, 2 * HOSTILE_MTU + 3);
	hostile_send(&h, ROCEMU_RC_WRITE_MIDDLE, 1, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 2, 3);
	EXPECT(&h, "ack 2/1");
	assert_memory_equal(h.mem + 100, h.payload, HOSTILE_MTU);
	assert_memory_equal(h.mem + 100 + HOSTILE_MTU, h.payload, HOSTILE_MTU);
	assert_memory_equal(h.mem + 100 + 2 * HOSTILE_MTU, h.payload, 3);
	hostile_free(&h);
}

/* IBTA 9.7.4.1: the packets of a WRITE add up to its RETH's length. */
RC(write__packets_do_not_add_up_to_the_reth__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 16, 0, 17);
	EXPECT(&h, "drop LENGTH; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	hostile_send(&h, ROCEMU_RC_WRITE_MIDDLE, 1, HOSTILE_MTU);
	EXPECT(&h, "drop LENGTH; nak 61 1/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 1, 7);
	EXPECT(&h, "drop LENGTH; nak 61 1/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(write__length_beyond_the_largest_message__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, 0x80000000u);
	EXPECT(&h, "drop LENGTH; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(write__not_allowed_by_the_qp__nak_invalid_request)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "drop ACCESS; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(write__key_bounds_rights_or_domain_wrong__nak_access_and_nothing_written)
{
	for (unsigned what = 0; what < 6; what++) {
		struct rocemu_hdrs hdrs = {
			.opcode = ROCEMU_RC_WRITE_ONLY, .ackreq = true, .reth.length = 8};
		struct rocemu_pd *pd;
		struct rocemu_mr *mr;

		hostile_start(&h, IBV_QPT_RC);
		hdrs.reth.va = (uintptr_t)h.mem;
		hdrs.reth.rkey = h.rkey;
		switch (what) {
		case 0:
			hdrs.reth.rkey ^= 1;
			break;
		case 1:
			hdrs.reth.va = (uintptr_t)h.mem + HOSTILE_MEM - 7;
			break;
		case 2:
			hdrs.reth.va--;
			break;
		case 3:
			hdrs.reth.va = UINT64_MAX - 3;
			break;
		case 4: /* local write only */
			hdrs.reth.va = (uintptr_t)h.recv;
			hdrs.reth.rkey = rocemu_mr_rkey(h.recv_mr);
			break;
		default:
			pd = rocemu_pd_new(h.ep);
			assert_int_equal(rocemu_mr_reg(pd, h.mem, 64, (uintptr_t)h.mem,
						       HOSTILE_ALL_ACCESS, &mr),
					 0);
			hdrs.reth.rkey = rocemu_mr_rkey(mr);
			break;
		}
		hostile_send_hdrs(&h, &hdrs, 8);
		EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
		assert_int_equal(h.mem[0], 5);
		assert_int_equal(h.recv[0], 0xee);
		hostile_free(&h);
	}
}

RC(write__end_beyond_the_region__nothing_of_the_first_packet_written)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, HOSTILE_MEM - HOSTILE_MTU,
			  HOSTILE_MTU + 1);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	assert_int_equal(h.mem[HOSTILE_MEM - 1], (uint8_t)((HOSTILE_MEM - 1) * 13 + 5));
	hostile_free(&h);
}

RC(write__region_deregistered_between_packets__nak_access)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 1, 8);
	EXPECT(&h, "drop ACCESS; nak 62 1/0; event QP_ACCESS_ERR; ERR");
	assert_int_equal(h.mem[HOSTILE_MTU], (uint8_t)(HOSTILE_MTU * 13 + 5));
	hostile_free(&h);
}

/* C9-88: the key of an operation of length 0 is not looked at. */
RC(write__zero_length_with_a_bad_key__taken)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_RC_WRITE_ONLY_IMM, .ackreq = true, .imm = 3};

	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 0);
	hostile_send_hdrs(&h, &hdrs, 0);
	EXPECT(&h, "ack 0/1; recv 1 len 0 imm 3 write");
	hostile_free(&h);
}

/* The receive that it takes reports the error of its memory; later ones are flushed. */
RC(write_imm__refused_memory__its_receive_in_error)
{
	static const struct {
		uint8_t opcode;
		uint32_t len, total;
		const char *text;
	} bad[] = {
		{ROCEMU_RC_WRITE_ONLY_IMM, 8, 8,
		 "drop ACCESS; nak 62 0/0; recv 1 LOC_ACCESS_ERR; recv 2 WR_FLUSH_ERR; ERR"},
		{ROCEMU_RC_WRITE_ONLY_IMM, 8, 9,
		 "drop LENGTH; nak 61 0/0; recv 1 REM_INV_REQ_ERR; recv 2 WR_FLUSH_ERR; ERR"},
		/* No immediate yet, so no receive is its. */
		{ROCEMU_RC_WRITE_FIRST, HOSTILE_MTU, HOSTILE_MTU + 8,
		 "drop ACCESS; nak 62 0/0; recv 1 WR_FLUSH_ERR; recv 2 WR_FLUSH_ERR; "
		 "event QP_ACCESS_ERR; ERR"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		hostile_start(&h, IBV_QPT_RC);
		hostile_recv(&h, 1, 0, 64);
		hostile_recv(&h, 2, 0, 64);
		h.rkey ^= 1;
		hostile_send_reth(&h, bad[i].opcode, 0, bad[i].len, 0, bad[i].total);
		EXPECT(&h, bad[i].text);
		hostile_free(&h);
	}
}

RC(write_imm__region_gone_before_its_last_packet__its_receive_in_error)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 64);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST_IMM, 1, 8);
	EXPECT(&h, "drop ACCESS; nak 62 1/0; recv 1 LOC_ACCESS_ERR; ERR");
	hostile_free(&h);
}

RC(write_imm__refused_memory_and_no_receive__event)
{
	hostile_start(&h, IBV_QPT_RC);
	h.rkey ^= 1;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY_IMM, 0, 8);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}
