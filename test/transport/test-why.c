/* SPDX-License-Identifier: BSD-2-Clause */
/* Which reason is given for what, with which values: requests of a peer that are refused, packets
 * that are dropped, calls. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "hostile.h"
#include "window.h"

enum { REASONS = 64 };

/** What an endpoint gave, in order. */
static struct {
	struct rocemu_why why[REASONS];
	unsigned given, taken;
	struct hostile *of;
	unsigned completions; /* that could be seen when the first one was given */
} reasons;

static void give(void *user, const struct rocemu_why *w)
{
	assert_ptr_equal(user, reasons.of);
	assert_true(reasons.given < REASONS);
	if (!reasons.given)
		reasons.completions = rocemu_cq_count(reasons.of->cq);
	reasons.why[reasons.given++] = *w;
}

static void ask(struct hostile *h)
{
	memset(&reasons, 0, sizeof(reasons));
	reasons.of = h;
	h->ep->cfg.why = give;
	h->ep->cfg.why_user = h;
}

/** The next reason, or one without a code. */
static struct rocemu_why next(const struct hostile *h)
{
	assert_ptr_equal(h, reasons.of);
	return reasons.taken < reasons.given ? reasons.why[reasons.taken++]
					     : (struct rocemu_why){0};
}

static void begin(struct hostile *h, enum ibv_qp_type type)
{
	hostile_start(h, type);
	ask(h);
}

static void gives(struct hostile *h, enum rocemu_why_code code)
{
	assert_int_equal(next(h).code, code);
	hostile_free(h);
}

#define WHY(name) TEST(why, name)

WHY(write_with_a_wrong_rkey__the_key_and_the_range)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	h.rkey ^= 0x100;
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 100, 8, 100);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_RKEY_UNKNOWN);
	assert_int_equal(w.qpn, h.qp->qpn);
	assert_int_equal(w.peer_qpn, h.qp->attr.dest_qp_num);
	assert_memory_equal(&w.peer, &h.peer, sizeof(w.peer));
	assert_int_equal(w.key, h.rkey);
	assert_int_equal(w.len, 100);
	assert_true(w.addr == (uintptr_t)h.mem + 8);
	assert_string_equal(w.what, "RC_WRITE_ONLY");
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(write_beyond_the_region__what_the_key_covers)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 100, HOSTILE_MEM - 50, 100);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_RKEY_BOUNDS);
	assert_true(w.lo == (uintptr_t)h.mem && w.hi == w.lo + HOSTILE_MEM);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(packet_longer_than_the_path_mtu__both_lengths)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 2048);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 2 * HOSTILE_MTU);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_PATH_MTU);
	assert_int_equal(w.n, 2 * HOSTILE_MTU);
	assert_int_equal(w.limit, HOSTILE_MTU);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(first_packet_shorter_than_the_path_mtu__path_mtu)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 2048);
	hostile_send(&h, ROCEMU_RC_SEND_FIRST, 0, HOSTILE_MTU / 2);
	gives(&h, ROCEMU_WHY_PATH_MTU);
}

WHY(write_of_another_length_than_announced__length)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 100, 0, 101);
	gives(&h, ROCEMU_WHY_LENGTH);
}

WHY(middle_without_first__place)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_SEND_MIDDLE, 0, HOSTILE_MTU);
	gives(&h, ROCEMU_WHY_PLACE);
}

WHY(operation_that_the_qp_does_not_allow__qp_right)
{
	struct hostile h = {0};

	hostile_new(&h, IBV_QPT_RC, false);
	ask(&h);
	h.qp_access = IBV_ACCESS_REMOTE_READ;
	hostile_connect(&h, IBV_QPS_RTS);
	hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, 0, 8, 0, 8);
	gives(&h, ROCEMU_WHY_QP_RIGHT);
}

WHY(atomic_that_is_not_aligned__alignment)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 4, 1, 0);
	gives(&h, ROCEMU_WHY_ALIGNMENT);
}

WHY(atomic_with_a_wrong_rkey__the_key_and_the_word)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	h.rkey ^= 0x100;
	hostile_send_atomic(&h, ROCEMU_RC_FETCH_ADD, 0, 16, 1, 0);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_RKEY_UNKNOWN);
	assert_int_equal(w.key, h.rkey);
	assert_true(w.addr == (uintptr_t)h.mem + 16);
	assert_int_equal(w.len, 8);
	assert_int_equal(rocemu_ep_get_stats(h.ep)->access_errors, 1);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(more_reads_than_allowed__how_many)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	for (uint32_t psn = 0; psn <= HOSTILE_RD_ATOMIC; psn++)
		hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, 0, 8);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_TOO_MANY_READS);
	assert_int_equal(w.limit, HOSTILE_RD_ATOMIC);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(send_longer_than_its_receive__the_receive)
{
	struct hostile h = {0};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	hostile_recv(&h, 7, 0, 99);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 100);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_RECEIVE_SHORT);
	assert_int_equal(w.id, 7);
	assert_int_equal(w.len, 99);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(send_without_receive__rnr_and_a_gap__sequence)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	assert_int_equal(next(&h).code, ROCEMU_WHY_RNR_SENT);
	hostile_recv(&h, 1, 0, 100);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	for (uint32_t psn = 2; psn < 6; psn++)
		hostile_send_reth(&h, ROCEMU_RC_WRITE_ONLY, psn, 8, 0, 8);
	gives(&h, ROCEMU_WHY_SEQUENCE_SENT);
}

WHY(receive_with_a_wrong_lkey__key_unknown)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 100);
	assert_int_equal(rocemu_mr_dereg(h.recv_mr), 0);
	h.recv_mr = NULL;
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	gives(&h, ROCEMU_WHY_KEY_UNKNOWN);
}

WHY(memory_of_a_read_goes_before_it_is_sent__rkey_and_counted)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, 0, 0, 0, 8);
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	h.mr = NULL;
	hostile_output(&h, ROCEMU_OUTPUT_BATCH);
	assert_int_equal(next(&h).code, ROCEMU_WHY_RKEY_UNKNOWN);
	assert_int_equal(rocemu_ep_get_stats(h.ep)->access_errors, 1);
	hostile_free(&h);
}

WHY(dropped_packets__why_and_none_for_what_networks_do)
{
	struct hostile h = {0};
	struct rocemu_hdrs ack = {.opcode = ROCEMU_RC_ACK, .psn = 77};

	begin(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_UC_SEND_ONLY, 0, 8);
	assert_int_equal(next(&h).code, ROCEMU_WHY_DROP_SERVICE);
	h.dqpn = h.qp->qpn ^ 1;
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	assert_int_equal(next(&h).code, ROCEMU_WHY_DROP_QPN);
	hostile_send_hdrs(&h, &ack, 0);
	h.dqpn = 0;
	hostile_send_hdrs(&h, &ack, 0);
	hostile_recv(&h, 1, 0, 100);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 8);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(udp_message_with_a_wrong_qkey__both)
{
	struct hostile h = {0};
	struct rocemu_hdrs hdrs = {.opcode = ROCEMU_UD_SEND_ONLY,
				   .deth = {.qkey = HOSTILE_QKEY + 1, .sqpn = 5}};
	struct rocemu_why w;

	begin(&h, IBV_QPT_UD);
	hostile_send_hdrs(&h, &hdrs, 8);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_DROP_QKEY);
	assert_int_equal(w.key, HOSTILE_QKEY + 1);
	assert_int_equal(w.hi, HOSTILE_QKEY);
	assert_int_equal(w.peer_qpn, 5);
	hdrs.deth.qkey = HOSTILE_QKEY;
	hostile_send_hdrs(&h, &hdrs, 8);
	gives(&h, ROCEMU_WHY_DROP_NO_RECEIVE);
}

WHY(modify__what_is_missing_and_what_is_too_much)
{
	struct hostile h = {0};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256};
	const int mask = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			 IBV_QP_MAX_DEST_RD_ATOMIC;
	struct rocemu_why w;

	hostile_new(&h, IBV_QPT_RC, false);
	ask(&h);
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &a, mask), -EINVAL);
	assert_int_equal(next(&h).code, ROCEMU_WHY_NO_TRANSITION);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &a,
					  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS),
			 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &a, mask), -EINVAL);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_MISSING);
	assert_int_equal(w.n, IBV_QP_AV | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(w.limit, (mask & ~IBV_QP_STATE) | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &a,
					  mask | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN),
			 -EINVAL);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_NOT_ALLOWED);
	assert_int_equal(w.n, IBV_QP_SQ_PSN);
	assert_int_equal(rocemu_qp_modify(h.qp, 0, &a, mask | IBV_QP_AV | IBV_QP_MIN_RNR_TIMER),
			 -EINVAL);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_PATH);
	assert_string_equal(w.what, "is_global");
	gives(&h, ROCEMU_WHY_NONE);
}

/* A consumer that needs no lock of the endpoint may take the completion at once, and end. */
WHY(receive_that_is_too_short__reason_before_the_completion)
{
	struct hostile h = {0};

	begin(&h, IBV_QPT_RC);
	hostile_recv(&h, 7, 0, 99);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 100);
	assert_int_equal(reasons.completions, 0);
	assert_int_equal(rocemu_cq_count(h.cq), 1);
	assert_int_equal(next(&h).code, ROCEMU_WHY_RECEIVE_SHORT);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(request_that_fails__reason_before_the_completion)
{
	struct hostile h = {0};
	struct ibv_sge sge = {.addr = (uintptr_t)h.mem, .length = 8};
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};
	struct rocemu_why w;

	begin(&h, IBV_QPT_RC);
	sge.lkey = rocemu_mr_lkey(h.mr) ^ 0x100;
	assert_int_equal(rocemu_qp_post_send(h.qp, h.now, &wr, NULL), 0);
	hostile_output(&h, ROCEMU_OUTPUT_BATCH);
	assert_int_equal(reasons.completions, 0);
	assert_int_equal(rocemu_cq_count(h.cq), 1);
	w = next(&h);
	assert_int_equal(w.code, ROCEMU_WHY_KEY_UNKNOWN);
	assert_int_equal(w.id, 3);
	gives(&h, ROCEMU_WHY_NONE);
}

WHY(nak_of_each_kind__its_code_and_its_counter)
{
	static const struct {
		uint8_t syndrome;
		enum rocemu_why_code code;
		unsigned access, invalid;
	} t[] = {
		{ROCEMU_NAK_INV_REQ, ROCEMU_WHY_NAK_INVALID, 0, 1},
		{ROCEMU_NAK_REM_ACCESS, ROCEMU_WHY_NAK_ACCESS, 1, 0},
		{ROCEMU_NAK_REM_OP, ROCEMU_WHY_NAK_OPERATION, 0, 0},
	};

	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		struct hostile h = {0};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct rocemu_hdrs nak = {.opcode = ROCEMU_RC_ACK,
					  .aeth = {.syndrome = t[i].syndrome}};

		begin(&h, IBV_QPT_RC);
		assert_int_equal(rocemu_qp_post_send(h.qp, h.now, &wr, NULL), 0);
		hostile_output(&h, ROCEMU_OUTPUT_BATCH);
		hostile_send_hdrs(&h, &nak, 0);
		assert_int_equal(next(&h).code, t[i].code);
		assert_int_equal(rocemu_ep_get_stats(h.ep)->req_rem_access, t[i].access);
		assert_int_equal(rocemu_ep_get_stats(h.ep)->req_rem_invalid, t[i].invalid);
		gives(&h, ROCEMU_WHY_NONE);
	}
}

WHY(bind_that_fails__its_key_and_its_range)
{
	struct window f;
	struct rocemu_why w;
	uint32_t key;

	window_start(&f, IBV_MW_TYPE_2);
	ask(&f.h);
	key = ibv_inc_rkey(rocemu_mw_rkey(f.mw));
	assert_int_equal(
		window_post_bind(&f.h, 1,
				 &(struct window_bind){f.mw, f.mr, HOSTILE_MEM - 8, 9, RW, key}),
		0);
	hostile_output(&f.h, ROCEMU_OUTPUT_BATCH);
	w = next(&f.h);
	assert_int_equal(w.code, ROCEMU_WHY_BIND);
	assert_int_equal(w.key, key);
	assert_true(w.addr == (uintptr_t)f.h.mem + HOSTILE_MEM - 8);
	assert_int_equal(w.len, 9);
	window_end(&f);
}

WHY(local_invalidate_that_fails__its_key)
{
	enum { UNKNOWN = 0x7fffff00 };
	struct window f;
	struct rocemu_why w;

	window_start(&f, IBV_MW_TYPE_2);
	ask(&f.h);
	window_post_inval(&f.h, 1, UNKNOWN);
	hostile_output(&f.h, ROCEMU_OUTPUT_BATCH);
	w = next(&f.h);
	assert_int_equal(w.code, ROCEMU_WHY_INVALIDATE);
	assert_int_equal(w.key, UNKNOWN);
	assert_true(w.addr == 0 && w.len == 0);
	window_end(&f);
}

WHY(nobody_asked__no_reasons_but_codes_in_completions)
{
	struct hostile h = {0};
	struct rocemu_cqe cqe;

	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 7, 0, 99);
	hostile_send(&h, ROCEMU_RC_SEND_ONLY, 0, 100);
	assert_int_equal(rocemu_cq_poll(h.cq, &cqe, 1), 1);
	assert_int_equal(cqe.vendor_err, ROCEMU_WHY_RECEIVE_SHORT);
	hostile_free(&h);
}
