/* SPDX-License-Identifier: BSD-2-Clause */
/* RC responder: what is to be sent, and descriptors of responses; test/scenario has the packets. */
#include "hostile.h"

static struct hostile h;

#define RC(name) TEST(rc_out, name)

static void send_read(uint32_t psn, uint64_t off, uint32_t len)
{
	hostile_send_reth(&h, ROCEMU_RC_READ_REQUEST, psn, 0, off, len);
}

RC(output_kind__only_a_positive_ack_waits)
{
	hostile_start(&h, IBV_QPT_RC);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 0, 8);
	assert_int_equal(rocemu_ep_output_kind(h.ep), ROCEMU_OUTPUT_ACKS);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 2, 8);
	assert_int_not_equal(rocemu_ep_output_kind(h.ep), ROCEMU_OUTPUT_ACKS);
	hostile_free(&h);
}

RC(output_kind__read_sent_and_ack_owed__as_has_output)
{
	hostile_start(&h, IBV_QPT_RC);
	send_read(0, 0, 3 * HOSTILE_MTU);
	hostile_output(&h, 2);
	hostile_send(&h, ROCEMU_RC_WRITE_ONLY, 3, 8);
	hostile_output(&h, 1);
	assert_int_equal(rocemu_ep_output_kind(h.ep) != ROCEMU_OUTPUT_NONE,
			 rocemu_ep_has_output(h.ep));
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
