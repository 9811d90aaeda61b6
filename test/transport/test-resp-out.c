/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: the order of what goes out, and that it goes out in bounded pieces and in bad
 * times. */
#include "hostile.h"

#include <string.h>

static struct hostile h;

#define RC(name) TEST(rc_out, name)

static void send_read(uint32_t psn, uint64_t off, uint32_t len)
{
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, off, len);
}

RC(ack__read_under_way__waits_for_its_end)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 3 * HOSTILE_MTU);
	hostile_output(&h, 2);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 3, 8);
	hostile_output(&h, 1);
	assert_int_equal(rocemu_ep_output_kind(h.ep) != ROCEMU_OUTPUT_NONE,
			 rocemu_ep_has_output(h.ep));
	EXPECT(&h, "first 0+256; middle 1+256; last 2+256; ack 3/2");
	hostile_free(&h);
}

RC(ack__before_a_read__the_response_says_it)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	send_read(1, 0, 8);
	EXPECT(&h, "only 1+8");
	assert_int_equal(rocemu_ep_get_stats(h.ep)->acks_sent, 0);
	hostile_free(&h);
}

RC(nak__read_under_way__waits_for_its_end)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 2 * HOSTILE_MTU);
	hostile_output(&h, 1);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 7, 8);
	EXPECT(&h, "first 0+256; last 1+256; nak 60 2/1");
	hostile_free(&h);
}

RC(fatal_nak__read_under_way__read_is_finished_first)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 2 * HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_WRITE_LAST, 2, 8);
	assert_int_equal(rocemu_qp_state(h.qp), IBV_QPS_ERR);
	EXPECT(&h, "drop SEQUENCE; first 0+256; last 1+256; nak 61 2/1; event QP_REQ_ERR; ERR");
	hostile_free(&h);
}

RC(is_acks__only_a_positive_ack_waits)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	assert_int_equal(rocemu_ep_output_kind(h.ep), ROCEMU_OUTPUT_ACKS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 2, 8);
	assert_int_not_equal(rocemu_ep_output_kind(h.ep), ROCEMU_OUTPUT_ACKS);
	hostile_free(&h);
}

RC(duplicate_read__earlier_than_one_under_way__answered_before_its_rest)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 8);
	hostile_effects(&h);
	send_read(1, 0, 2 * HOSTILE_MTU);
	hostile_output(&h, 1);
	send_read(0, 0, 8);
	EXPECT(&h, "first 1+256; only 0+8; last 2+256");
	hostile_free(&h);
}

RC(duplicate_write__newest_is_a_read__ack_names_no_psn_of_the_read)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/1");
	send_read(1, 0, 2 * HOSTILE_MTU);
	EXPECT(&h, "first 1+256; last 2+256");
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	EXPECT(&h, "ack 0/2");
	hostile_free(&h);
}

RC(duplicate_read__same_still_waiting__answered_once)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 8);
	send_read(0, 0, 8);
	EXPECT(&h, "only 0+8");
	hostile_free(&h);
}

RC(duplicate_read__same_under_way__begins_again_without_its_rest)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 3 * HOSTILE_MTU);
	hostile_output(&h, 2);
	send_read(0, 0, 3 * HOSTILE_MTU);
	EXPECT(&h, "first 0+256; middle 1+256; first 0+256; middle 1+256; last 2+256");
	hostile_free(&h);
}

/** Do the responses to a READ of len bytes go out from the region itself? */
static bool read_is_by_reference(uint32_t psn, uint32_t len)
{
	struct rocemu_tx tx[ROCEMU_OUTPUT_BATCH];
	unsigned n;

	send_read(psn, 0, len);
	n = rocemu_ep_output(h.ep, h.now, tx, ROCEMU_OUTPUT_BATCH);
	assert_true(n > 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(tx[i].niov, 1);
		if (tx[i].iov[0].iov_base != h.mem + i * ROCEMU_MAX_MTU)
			return false;
	}
	return true;
}

/* A program that writes all the time to what is READ must not spoil each try. */
RC(read__large__copied_once_a_read_was_repeated)
{
	hostile_start(&h, IBV_QPT_RC);
	h.qp->mtu = ROCEMU_MAX_MTU;
	assert_true(read_is_by_reference(0, 2 * ROCEMU_MAX_MTU));
	assert_false(read_is_by_reference(0, 2 * ROCEMU_MAX_MTU));
	assert_false(read_is_by_reference(2, ROCEMU_MAX_MTU));
	hostile_free(&h);
}

RC(read__small__copied)
{
	hostile_start(&h, IBV_QPT_RC);
	h.qp->mtu = ROCEMU_MAX_MTU;
	assert_false(read_is_by_reference(0, 512));
	hostile_free(&h);
}

RC(duplicates__more_than_there_is_room_for__dropped)
{
	enum { MANY = HOSTILE_MEM / HOSTILE_MTU };
	unsigned answers = 0;
	const char *s;

	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, HOSTILE_MEM);
	hostile_effects(&h);
	for (uint32_t psn = MANY; psn; psn--)
		send_read(psn - 1, (psn - 1) * HOSTILE_MTU, HOSTILE_MTU);
	for (s = hostile_effects(&h); (s = strstr(s, "only")); s++)
		answers++;
	assert_int_equal(answers, ROCEMU_MAX_RD_ATOMIC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, MANY, 8);
	EXPECT(&h, "ack 64/2");
	hostile_free(&h);
}

RC(read__region_deregistered_under_way__nak_in_place_of_the_rest)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_recv(&h, 1, 0, 8);
	send_read(0, 0, 3 * HOSTILE_MTU);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 3, 8);
	send_read(4, 0, 8);
	hostile_output(&h, 1);
	assert_int_equal(rocemu_mr_dereg(h.mr), 0);
	EXPECT(&h, "first 0+256; nak 62 1/3; recv 1 WR_FLUSH_ERR; event QP_ACCESS_ERR; ERR");
	hostile_free(&h);
}

RC(read__written_to_between_output_and_send__response_is_a_copy)
{
	struct rocemu_tx tx;

	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 8);
	assert_int_equal(rocemu_ep_output(h.ep, 0, &tx, 1), 1);
	h.mem[0] ^= 0xff;
	assert_int_equal(tx.niov, 1);
	assert_int_not_equal(*(uint8_t *)tx.iov[0].iov_base, h.mem[0]);
	hostile_free(&h);
}
