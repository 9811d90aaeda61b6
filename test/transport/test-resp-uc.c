/* SPDX-License-Identifier: BSD-2-Clause */
/* UC responder: what is wrong costs a message and nothing else; nothing is ever sent back. */
#include "hostile.h"

#include <string.h>

static struct hostile h;

#define UC(name) TEST(uc_resp, name)

UC(send_and_write__in_order__completed_without_answers)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_recv(&h, 2, 0, 0);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 1, 4);
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY, 2, 16);
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY_IMM, 3, 4);
	EXPECT(&h, "recv 1 len 260; recv 2 len 4 imm 1020304 write");
	assert_memory_equal(h.mem, h.payload, 16);
	hostile_free(&h);
}

UC(gap__in_a_send__message_dropped_and_receive_used_by_the_next)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_MIDDLE, 2, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 3, 4);
	EXPECT(&h, "drop PSN; drop SEQUENCE");
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 4, 12);
	EXPECT(&h, "recv 1 len 12");
	assert_memory_equal(h.recv, h.payload, 12);
	hostile_free(&h);
}

UC(gap__before_a_first_packet__message_taken)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 77, 12);
	EXPECT(&h, "recv 1 len 12");
	hostile_free(&h);
}

UC(last_packet_lost__next_message_taken_in_the_same_receive)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 2, 12);
	EXPECT(&h, "recv 1 len 12");
	hostile_free(&h);
}

UC(no_receive__message_dropped_to_its_end)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 1, 4);
	EXPECT(&h, "drop NO_RECV; drop SEQUENCE");
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 2, 4);
	EXPECT(&h, "recv 1 len 4");
	hostile_free(&h);
}

/* IBTA 9.9.3, class D. */
UC(rules_broken__dropped_silently_and_the_qp_goes_on)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 100);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 101);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 1, 4);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 2, 17);
	hostile_send_reth(&h, ROCEMU_UC_WRITE_ONLY, 3, 8, HOSTILE_MEM, 8);
	hostile_send_reth(&h, ROCEMU_UC_WRITE_ONLY, 4, 8, 0, 9);
	hostile_send(&h, ROCEMU_UC_SEND_MIDDLE, 5, HOSTILE_MTU);
	EXPECT(&h, "drop TOO_LONG; drop SEQUENCE; drop LENGTH; drop ACCESS; drop LENGTH; drop "
		   "SEQUENCE");
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 6, 100);
	EXPECT(&h, "recv 1 len 100");
	hostile_free(&h);
}

UC(receive_memory_gone__local_protection_error)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 100);
	hostile_recv(&h, 2, 0, 100);
	assert_int_equal(rocemu_mr_dereg(h.recv_mr), 0);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop ACCESS; recv 1 LOC_PROT_ERR; recv 2 WR_FLUSH_ERR; ERR");
	hostile_free(&h);
}

UC(first_packet__in_rtr__communication_established)
{
	hostile_new(&h, IBV_QPT_UC, false);
	hostile_connect(&h, IBV_QPS_RTR);
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "event COMM_EST");
	hostile_free(&h);
}

/* ---- what the network doubled ---- */

UC(message_of_one_packet__doubled__arrives_once)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 64);
	hostile_recv(&h, 2, 64, 64);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop PSN; recv 1 len 8");
	assert_int_equal(rocemu_ep_get_stats(h.ep)->duplicates, 1);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 1, 12);
	EXPECT(&h, "recv 2 len 12");
	hostile_free(&h);
}

UC(copy_overtaken_by_others__dropped_and_nothing_else)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 1024);
	for (uint32_t psn = 0; psn < 31; psn++)
		hostile_send(&h, ROCEMU_UC_WRITE_ONLY, psn, 8);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 31, HOSTILE_MTU);
	memset(h.mem, 0, 8);
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY, 0, 8);
	assert_int_equal(h.mem[0], 0);
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 31, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_MIDDLE, 32, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_MIDDLE, 32, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 33, 4);
	EXPECT(&h, "drop PSN; drop PSN; drop PSN; recv 1 len 516");
	hostile_free(&h);
}

/* UC does not promise order: what was overtaken and not seen is no copy. */
UC(late_message__between_others__taken_once_and_the_sequence_goes_on)
{
	hostile_start(&h, IBV_QPT_UC);
	for (uint64_t i = 1; i <= 4; i++)
		hostile_recv(&h, i, 0, 1024);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0xffffff, 1);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 1, 3);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 2);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 1, 3);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 2);
	EXPECT(&h, "drop PSN; drop PSN; recv 1 len 1; recv 2 len 3; recv 3 len 2");
	hostile_send(&h, ROCEMU_UC_SEND_FIRST, 2, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_UC_SEND_LAST, 3, 4);
	EXPECT(&h, "recv 4 len 260");
	hostile_free(&h);
}

UC(message_not_executed__its_copy_may_be)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; recv 1 len 8");
	hostile_free(&h);
}

UC(peer_starts_again__anywhere_else__everything_taken)
{
	static const uint32_t from[] = {0, 67, 5000, 0xfffff0};

	for (unsigned i = 0; i < ARRAY_LEN(from); i++) {
		hostile_start(&h, IBV_QPT_UC);
		for (uint32_t psn = 0; psn < 100; psn++)
			hostile_send(&h, ROCEMU_UC_WRITE_ONLY, psn, 8);
		hostile_recv(&h, 1, 0, 1024);
		hostile_recv(&h, 2, 0, 1024);
		hostile_send(&h, ROCEMU_UC_SEND_FIRST, from[i], HOSTILE_MTU);
		hostile_send(&h, ROCEMU_UC_SEND_LAST, from[i] + 1, 4);
		hostile_send(&h, ROCEMU_UC_SEND_ONLY, from[i] + 2, 4);
		EXPECT(&h, "recv 1 len 260; recv 2 len 4");
		hostile_free(&h);
	}
}

UC(peer_starts_again__just_behind__loses_what_would_be_copies)
{
	hostile_start(&h, IBV_QPT_UC);
	for (uint32_t psn = 0; psn < 100; psn++)
		hostile_send(&h, ROCEMU_UC_WRITE_ONLY, psn, 8);
	for (uint64_t i = 0; i < 3; i++)
		hostile_recv(&h, i, 0, 64);
	for (uint32_t psn = 97; psn < 103; psn++)
		hostile_send(&h, ROCEMU_UC_SEND_ONLY, psn, 4);
	EXPECT(&h, "drop PSN; drop PSN; drop PSN; recv 0 len 4; recv 1 len 4; recv 2 len 4");
	hostile_free(&h);
}

/* Nothing is used up by what is dropped: the receive waits for the next message. */
UC(write_imm__refused_memory__dropped_and_the_receive_stays)
{
	hostile_start(&h, IBV_QPT_UC);
	hostile_recv(&h, 1, 0, 64);
	h.rkey ^= 1;
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY_IMM, 0, 8);
	EXPECT(&h, "drop ACCESS");
	h.rkey ^= 1;
	hostile_send(&h, ROCEMU_UC_WRITE_ONLY_IMM, 1, 8);
	EXPECT(&h, "recv 1 len 8 imm 1020304 write");
	hostile_free(&h);
}
