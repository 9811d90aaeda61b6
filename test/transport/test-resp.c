/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: PSNs, duplicates, gaps, RNR, and what a broken rule leads to. */
#include "hostile.h"

#include <string.h>

static struct hostile h;

#define RC(name) TEST(rc_resp, name)

RC(write__in_order__acked_and_placed)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 30, 64, 30);
	EXPECT(&h, "ack 0/1");
	assert_memory_equal(h.mem + 64, h.payload, 30);
	assert_int_equal(h.mem[94], (uint8_t)(94 * 13 + 5));
	hostile_free(&h);
}

RC(acks__one_batch_of_requests__one_ack_with_the_newest_psn)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn < 5; psn++)
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	EXPECT(&h, "ack 4/5");
	hostile_free(&h);
}

RC(acks__no_ackreq__none)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_RC_WRITE_ONLY};

	hostile_start(&h, IBV_QPT_RC);
	hostile_send_hdrs(&h, &hdrs, 0);
	EXPECT(&h, "");
	hostile_free(&h);
}

RC(acks__ackreq_inside_a_message__acked_without_msn)
{
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_RC_WRITE_FIRST, .ackreq = true};

	hostile_start(&h, IBV_QPT_RC);
	hdrs.reth.va = (uintptr_t)h.mem;
	hdrs.reth.rkey = h.rkey;
	hdrs.reth.length = 300;
	hostile_send_hdrs(&h, &hdrs, HOSTILE_MTU);
	EXPECT(&h, "ack 0/0");
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 1, 44);
	EXPECT(&h, "ack 1/1");
	hostile_free(&h);
}

RC(duplicate_write__any_number__acked_with_newest_not_executed)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 8, 0, 8);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 1, 8, 8, 8);
	EXPECT(&h, "ack 1/2");
	memset(h.mem, 0, 16);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 8, 0, 8);
	EXPECT(&h, "ack 1/2");
	assert_int_equal(h.mem[0], 0);
	assert_int_equal(rocemu_ep_get_stats(h.ep)->duplicates, 1);
	hostile_free(&h);
}

RC(duplicate_send__receive_posted__not_used)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 64);
	hostile_recv(&h, 2, 64, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1; recv 1 len 8");
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 1, 8);
	EXPECT(&h, "ack 1/2; recv 2 len 8");
	hostile_free(&h);
}

RC(duplicate__inside_a_message__message_goes_on)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_LAST, 1, 4);
	EXPECT(&h, "ack 1/1; recv 1 len 260");
	hostile_free(&h);
}

RC(gap__several_packets_behind_it__one_nak_then_silence_until_filled)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8);
	EXPECT(&h, "nak 60 0/0");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 2, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 3, 8);
	EXPECT(&h, "");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 3/4");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 5, 8);
	EXPECT(&h, "nak 60 4/4");
	assert_int_equal(rocemu_ep_get_stats(h.ep)->naks_sent, 2);
	hostile_free(&h);
}

RC(gap__filled_before_the_nak_went_out__no_nak)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 1/2");
	hostile_free(&h);
}

RC(psn__wraps__goes_on_and_knows_duplicates)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.psn = 0xffffff;
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0xffffff, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/2");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0xffffff, 8);
	EXPECT(&h, "ack 0/2");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 2, 8);
	EXPECT(&h, "nak 60 1/2");
	hostile_free(&h);
}

/* The valid region of duplicates is half of all PSNs (IBTA 9.7.1). */
RC(psn__half_the_space_away__border_between_duplicate_and_gap)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0x800000, 8);
	EXPECT(&h, "ack 16777215/0");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0x7fffff, 8);
	EXPECT(&h, "drop PSN; nak 60 0/0");
	hostile_free(&h);
}

RC(send__no_receive__rnr_nak_then_taken_when_posted)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8); /* behind it: silence */
	EXPECT(&h, "drop NO_RECV; drop PSN; rnr 12 0/0");
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "drop NO_RECV; rnr 12 0/0");
	hostile_recv(&h, 1, 0, 64);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1; recv 1 len 8");
	assert_int_equal(rocemu_ep_get_stats(h.ep)->rnr_naks_sent, 2);
	hostile_free(&h);
}

RC(write_imm__no_receive_at_its_end__rnr_nak_and_nothing_written)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_FIRST, 0, HOSTILE_MTU, 0, HOSTILE_MTU + 8);
	memset(h.mem + HOSTILE_MTU, 0, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST_IMM, 1, 8);
	EXPECT(&h, "drop NO_RECV; rnr 12 1/0");
	assert_int_equal(h.mem[HOSTILE_MTU], 0);
	hostile_recv(&h, 7, 0, 0);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST_IMM, 1, 8);
	EXPECT(&h, "ack 1/1; recv 7 len 264 imm 1020304 write");
	assert_memory_equal(h.mem + HOSTILE_MTU, h.payload, 8);
	hostile_free(&h);
}

/* The order of opcodes within a message: IBTA 9.7.4.1. */
RC(opcode__out_of_order__nak_invalid_request_and_error)
{
	static const uint8_t after[][2] = {
		/* in a SEND */
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_SEND_FIRST},
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_SEND_ONLY},
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_WRITE_MIDDLE},
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_WRITE_LAST},
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_READ_REQUEST},
		{ROCEMU_RC_SEND_FIRST, ROCEMU_RC_FETCH_ADD},
		/* in a WRITE */
		{ROCEMU_RC_WRITE_FIRST, ROCEMU_RC_SEND_LAST},
		{ROCEMU_RC_WRITE_FIRST, ROCEMU_RC_SEND_ONLY},
		{ROCEMU_RC_WRITE_FIRST, ROCEMU_RC_WRITE_ONLY},
		{ROCEMU_RC_WRITE_FIRST, ROCEMU_RC_READ_REQUEST},
		/* in none */
		{ROCEMU_RC_WRITE_ONLY, ROCEMU_RC_SEND_MIDDLE},
		{ROCEMU_RC_WRITE_ONLY, ROCEMU_RC_SEND_LAST},
		{ROCEMU_RC_WRITE_ONLY, ROCEMU_RC_WRITE_MIDDLE},
		{ROCEMU_RC_WRITE_ONLY, ROCEMU_RC_WRITE_LAST_IMM},
	};

	for (size_t i = 0; i < ARRAY_LEN(after); i++) {
		bool full = rocemu_opcode_ops(after[i][1]) & ROCEMU_OP_PAYLOAD;

		hostile_start(&h, IBV_QPT_RC);
		hostile_recv(&h, 1, 0, 1024);
		hostile_send_reth(&h, after[i][0], 0, HOSTILE_MTU, 0, 4 * HOSTILE_MTU);
		if (after[i][0] == ROCEMU_RC_WRITE_ONLY) {
			hostile_effects(&h);
			hostile_free(&h);
			hostile_start(&h, IBV_QPT_RC);
			hostile_recv(&h, 1, 0, 1024);
			hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, HOSTILE_MTU);
		}
		hostile_effects(&h);
		hostile_send(&h, after[i][1], 1, full ? HOSTILE_MTU : 0);
		switch (after[i][0]) {
		case ROCEMU_RC_SEND_FIRST: /* the receive it had begun reports it */
			EXPECT(&h, "drop SEQUENCE; nak 61 1/0; recv 1 REM_INV_REQ_ERR; ERR");
			break;
		case ROCEMU_RC_WRITE_FIRST:
			EXPECT(&h, "drop SEQUENCE; nak 61 1/0; recv 1 WR_FLUSH_ERR; event "
				   "QP_REQ_ERR; ERR");
			break;
		default:
			EXPECT(&h, "drop SEQUENCE; nak 61 1/1; recv 1 WR_FLUSH_ERR; event "
				   "QP_REQ_ERR; ERR");
			break;
		}
		hostile_free(&h);
	}
}

RC(flush__no_rights_for_it_exist__nak_invalid_request)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_FLUSH, 0, 0);
	EXPECT(&h, "drop OPCODE; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(error_state__more_packets__not_taken)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 0, 8);
	EXPECT(&h, "drop SEQUENCE; nak 61 0/0; event QP_REQ_ERR; ERR");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "drop STATE");
	hostile_free(&h);
}

RC(first_packet__in_rtr__communication_established_once)
{
	hostile_new(&h, IBV_QPT_RC, false);
	hostile_connect(&h, IBV_QPS_RTR);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1; event COMM_EST");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8);
	EXPECT(&h, "ack 1/2");
	hostile_free(&h);
}

RC(modify_to_error__receives_posted__flushed_in_order_and_owed_ack_sent)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_recv(&h, 2, 0, 1024);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 1, HOSTILE_MTU);
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &attr, IBV_QP_STATE), 0);
	EXPECT(&h, "ack 1/1; recv 1 WR_FLUSH_ERR; recv 2 WR_FLUSH_ERR; ERR");
	hostile_free(&h);
}

RC(reset__in_a_message__starts_afresh)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 1024);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_READ_REQUEST, 2, 0);
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &attr, IBV_QP_STATE), 0);
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 1, 8);
	EXPECT(&h, "ack 1/2");
	hostile_free(&h);
}

RC(srq__error_in_a_message__only_the_receive_in_use_completes)
{
	hostile_new(&h, IBV_QPT_RC, true);
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_recv(&h, 1, 0, 1024);
	hostile_recv(&h, 2, 0, 1024);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 1, HOSTILE_MTU);
	EXPECT(&h,
	       "drop SEQUENCE; nak 61 1/0; recv 1 REM_INV_REQ_ERR; event QP_LAST_WQE_REACHED; ERR");
	assert_int_equal(rq_count(&h.srq->rq), 1);
	hostile_free(&h);
}

/* The socket hides the identification: any that makes the ICRC right will do, at first. */
RC(ip_identification__unlike_what_the_peer_always_had__dropped)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn < 32; psn++)
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	EXPECT(&h, "ack 31/32");
	/* A place in a GSO burst. */
	h.ip_id = 5;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 32, 8);
	EXPECT(&h, "ack 32/33");
	h.ip_id = 1000;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 33, 8);
	EXPECT(&h, "drop ICRC");
	/* The peer's kernel has changed how it numbers packets: only one is lost. */
	h.ip_id = 1001;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 33, 8);
	EXPECT(&h, "ack 33/34");
	hostile_free(&h);
}

/* A sender at this address: its socket connects after a few bursts, and its packets then count. */
static void send_from_here(unsigned bursts, const char *then)
{
	hostile_new(&h, IBV_QPT_RC, false);
	h.peer = h.self;
	hostile_connect(&h, IBV_QPS_RTS);
	for (uint32_t psn = 0; psn < bursts; psn++)
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	hostile_effects(&h);
	h.ip_id = 1000;
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, bursts, 8);
	EXPECT(&h, then);
	hostile_free(&h);
}

TEST(ip_identification, of_a_sender_at_this_address_changes_early__taken)
{
	send_from_here(16 - 1 + ROCEMU_OUTPUT_BATCH, "ack 143/144");
}

TEST(ip_identification, of_a_sender_at_this_address_changes_late__dropped)
{
	send_from_here(200, "drop ICRC");
}

RC(ip_identification__counts_up__taken)
{
	hostile_start(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn < 100; psn++) {
		h.ip_id = (uint16_t)(65500 + psn);
		hostile_send(&h, ROCEMU_RC_WRITE_ONLY, psn, 8);
	}
	EXPECT(&h, "ack 99/100");
	hostile_free(&h);
}
