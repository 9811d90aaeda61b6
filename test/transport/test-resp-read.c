/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests the RC responder: READ and atomics, executed once and answered as often as requested. */
#include "hostile.h"

#include <string.h>

static struct hostile h;

#define RC(name) TEST(rc_read, name)

static uint64_t *word(uint64_t off)
{
	return (uint64_t *)(void *)(h.mem + off);
}

static void send_read(uint32_t psn, uint64_t off, uint32_t len)
{
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, off, len);
}

RC(read__one_packet__only_with_the_bytes)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 33, 101);
	EXPECT(&h, "only 0+101");
	assert_memory_equal(h.answer, h.mem + 33, 101);
	hostile_free(&h);
}

RC(read__several_packets__first_middle_last_and_next_psn_behind_them)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 2 * HOSTILE_MTU + 1);
	EXPECT(&h, "first 0+256; middle 1+256; last 2+1");
	assert_int_equal(h.answer[0], h.mem[2 * HOSTILE_MTU]);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 3, 8);
	EXPECT(&h, "ack 3/2");
	hostile_free(&h);
}

RC(read__zero_length_with_a_bad_key__empty_only)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_RC_READ_REQUEST};

	hostile_start(&h, IBV_QPT_RC);
	hostile_send_hdrs(&h, &hdrs, 0);
	EXPECT(&h, "only 0+0");
	hostile_free(&h);
}

RC(read__beyond_max_dest_rd_atomic__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t i = 0; i <= HOSTILE_RD_ATOMIC; i++)
		send_read(i, 0, 8);
	EXPECT(&h, "drop SEQUENCE; only 0+8; only 1+8; nak 61 2/2; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_new(&h, IBV_QPT_RC, false);
	h.rd_atomic = 0;
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 0, 1, 0);
	EXPECT(&h, "drop SEQUENCE; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(read__bad_key_rights_length__nak)
{
	hostile_start(&h, IBV_QPT_RC);
	h.rkey++;
	send_read(0, 0, 8);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);

	hostile_new(&h, IBV_QPT_RC, false);
	h.qp_access = IBV_ACCESS_REMOTE_WRITE;
	hostile_connect(&h, IBV_QPS_RTS);
	send_read(0, 0, 8);
	EXPECT(&h, "drop ACCESS; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 0x80000000u);
	EXPECT(&h, "drop LENGTH; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_start(&h, IBV_QPT_RC);
	send_read(0, HOSTILE_MEM - 4, 8);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}

RC(duplicate_read__whole__answered_again_with_present_memory)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 300);
	EXPECT(&h, "first 0+256; last 1+44");
	h.mem[256] = 0x77;
	send_read(0, 0, 300);
	EXPECT(&h, "first 0+256; last 1+44");
	assert_int_equal(h.answer[0], 0x77);
	hostile_free(&h);
}

RC(duplicate_read__later_part__that_part_only_and_message_state_untouched)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 3 * HOSTILE_MTU);
	hostile_effects(&h);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 3, HOSTILE_MTU, 4096, HOSTILE_MTU + 4);
	send_read(1, HOSTILE_MTU, 2 * HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 4, 4);
	EXPECT(&h, "first 1+256; last 2+256; ack 4/2");
	send_read(1, HOSTILE_MTU, HOSTILE_MTU); /* a piece from the middle */
	EXPECT(&h, "only 1+256");
	hostile_free(&h);
}

RC(duplicate_read__longer_than_what_was_asked__dropped)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 300);
	hostile_effects(&h);
	send_read(1, 0, 300);
	EXPECT(&h, "drop STALE_READ");
	hostile_free(&h);
}

/* For a forger of READs any PSN of the half behind would do. */
RC(repeated_read__psn_that_no_read_had__dropped)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	send_read(1, 0, 8);
	hostile_effects(&h);
	send_read(0, 0, 8);		  /* a WRITE's */
	send_read(ROCEMU_PSN_MASK, 0, 8); /* before the first */
	send_read(0x900000, 0, 2 * HOSTILE_MTU);
	EXPECT(&h, "drop STALE_READ; drop STALE_READ; drop STALE_READ");
	send_read(1, 0, 8);
	EXPECT(&h, "only 1+8");
	hostile_free(&h);
}

RC(repeated_read__older_than_the_replay_ring__dropped)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn <= HOSTILE_RD_ATOMIC; psn++) {
		send_read(psn, 0, 8);
		hostile_effects(&h);
	}
	send_read(0, 0, 8);
	send_read(1, 0, 8);
	EXPECT(&h, "drop STALE_READ; only 1+8");
	hostile_free(&h);
}

RC(repeated_read__other_memory_than_the_first_time__dropped)
{
	struct rocemu_hdrs other = {.opcode = ROCEMU_RC_READ_REQUEST, .ackreq = true};

	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 512, 2 * HOSTILE_MTU);
	hostile_effects(&h);
	send_read(0, 511, 2 * HOSTILE_MTU);
	send_read(0, 513, 2 * HOSTILE_MTU);
	send_read(1, 512 + 2 * HOSTILE_MTU, 8);
	other.reth.va = (uintptr_t)h.mem + 512;
	other.reth.rkey = rocemu_mr_rkey(h.recv_mr);
	other.reth.length = 8;
	hostile_send_hdrs(&h, &other, 0);
	EXPECT(&h, "drop STALE_READ; drop STALE_READ; drop STALE_READ; drop STALE_READ");
	send_read(0, 512, 2 * HOSTILE_MTU);
	EXPECT(&h, "first 0+256; last 1+256");
	hostile_free(&h);
}

RC(duplicate_read__memory_gone__told_without_breaking_the_connection)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8);
	hostile_effects(&h);
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	send_read(0, 0, 8);
	EXPECT(&h, "nak 62 0/2");
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_RTS);
	hostile_free(&h);
}

RC(atomics__in_order__host_words_and_original_values)
{
	hostile_start(&h, IBV_QPT_RC);
	*word(64) = 100;
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 64, 5, 0);
	hostile_send_atomic(&h, ROCEMU_RC_CMP_SWAP, 1, 64, 7, 105);
	EXPECT(&h, "atomic 0/1 =100; atomic 1/2 =105");
	assert_true(*word(64) == 7);
	hostile_send_atomic(&h, ROCEMU_RC_CMP_SWAP, 2, 64, 9, 8);
	EXPECT(&h, "atomic 2/3 =7");
	assert_true(*word(64) == 7);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 3, 64, UINT64_MAX, 0);
	EXPECT(&h, "atomic 3/4 =7");
	assert_true(*word(64) == 6);
	hostile_free(&h);
}

RC(duplicate_atomic__held__same_answer_not_executed)
{
	hostile_start(&h, IBV_QPT_RC);
	*word(0) = 1;
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 0, 1, 0);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 1, 0, 1, 0);
	EXPECT(&h, "atomic 0/1 =1; atomic 1/2 =2");
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 0, 1, 0);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 1, 0, 1, 0);
	EXPECT(&h, "atomic 0/1 =1; atomic 1/2 =2");
	assert_true(*word(0) == 3);
	hostile_free(&h);
}

/* C9-105 */
RC(duplicate_atomic__no_longer_held__dropped_silently)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn <= HOSTILE_RD_ATOMIC; psn++) {
		hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, psn, 0, 1, 0);
		hostile_effects(&h);
	}
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 0, 1, 0);
	hostile_send_atomic(&h, ROCEMU_RC_CMP_SWAP, 1, 0, 1,
			    0); /* held, but was another operation */
	EXPECT(&h, "drop STALE_ATOMIC; drop STALE_ATOMIC");
	hostile_free(&h);
}

RC(atomic__unaligned__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 4, 1, 0);
	EXPECT(&h, "drop ACCESS; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(atomic__rights_of_qp_or_region_missing__nak)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 0, 1, 0);
	EXPECT(&h, "drop ACCESS; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);

	hostile_start(&h, IBV_QPT_RC);
	hostile_send_atomic(&h, ROCEMU_RC_CMP_SWAP, 0, HOSTILE_MEM, 1, 0);
	EXPECT(&h, "drop ACCESS; nak 62 0/0; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}

RC(atomic_write__aligned__stored_and_answered_empty_once_executed)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_ATOMIC_WRITE, 0, 8, 16, 8);
	EXPECT(&h, "only 0+0");
	assert_memory_equal(h.mem + 16, h.payload, 8);
	memset(h.mem + 16, 0, 8);
	hostile_send_reth(&h, ROCEMU_RC_ATOMIC_WRITE, 0, 8, 16, 8);
	EXPECT(&h, "only 0+0");
	assert_int_equal(h.mem[16], 0);
	hostile_free(&h);
}

RC(atomic_write__wrong_size__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_ATOMIC_WRITE, 0, 4, 16, 4);
	EXPECT(&h, "drop LENGTH; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}
