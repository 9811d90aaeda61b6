/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the ends of a memory window's binding: by the peer, by a local request, by the end of its
 * objects.
 */
#include "window.h"

#include <errno.h>

/* ---- invalidating ---- */

TEST(send_inv, key_of_this_qp__receive_says_so_and_access_ends)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	hostile_recv(&f.h, 1, 0, 64);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	assert_int_equal(f.h.invalidated, f.h.rkey);
	assert_memory_equal(f.h.recv, f.h.payload, 8);
	window_refused_at(&f.h, 1, 64);
	window_end(&f);
}

TEST(send_inv, last_of_three__invalidates_at_the_last)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	hostile_recv(&f.h, 1, 0, 1024);
	hostile_send(&f.h, ROCEMU_RC_SEND_FIRST, 0, 256);
	hostile_send(&f.h, ROCEMU_RC_SEND_MIDDLE, 1, 256);
	assert_non_null(f.mw->mr);
	window_send_inv(&f.h, ROCEMU_RC_SEND_LAST_INV, 2, 8, f.h.rkey);
	assert_null(f.mw->mr);
	EXPECT(&f.h, "ack 2/1; recv 1 len 520 inv");
	window_end(&f);
}

/* Bound anew with the same key, so that a second execution would be seen. */
TEST(send_inv, duplicate__acked_not_executed)
{
	struct window f;
	uint32_t key;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	key = f.h.rkey;
	hostile_recv(&f.h, 1, 0, 64);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	assert_int_equal(
		window_post_bind(&f.h, 2, &(struct window_bind){f.mw, f.mr, 64, 128, RW, key}), 0);
	EXPECT(&f.h, "bind 2");
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
	EXPECT(&f.h, "ack 0/1");
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 1, 8, 64, 8);
	EXPECT(&f.h, "ack 1/2");
	window_end(&f);
}

TEST(send_inv, no_receive__rnr_and_still_bound)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "drop NO_RECV; rnr 12 0/0");
	assert_non_null(f.mw->mr);
	hostile_recv(&f.h, 1, 0, 64);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	window_end(&f);
}

/** Keys that a peer or a local request must not invalidate. */
enum bad_key { REGION, TYPE_1, UNBOUND, OTHER_TAG, UNKNOWN, BAD_KEYS };

static uint32_t bad_key(struct window *f, enum bad_key which)
{
	window_start(f, which == TYPE_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	switch (which) {
	case REGION:
		return rocemu_mr_rkey(f->mr);
	case TYPE_1:
		window_bind_some(f, RW);
		return rocemu_mw_rkey(f->mw);
	case UNBOUND:
		return rocemu_mw_rkey(f->mw);
	case OTHER_TAG:
		window_bind_some(f, RW);
		return rocemu_mw_rkey(f->mw) ^ 1;
	default:
		return 0xffffff00;
	}
}

/* Class J (9.9.6.3): no answer; the receive has the reason. */
TEST(send_inv, key_not_to_be_invalidated__receive_in_error_and_no_answer)
{
	for (enum bad_key k = 0; k < BAD_KEYS; k++) {
		struct window f;
		uint32_t key = bad_key(&f, k);

		hostile_recv(&f.h, 1, 0, 64);
		window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
		EXPECT(&f.h, "drop ACCESS; recv 1 MW_BIND_ERR; ERR");
		window_end(&f);
	}
}

TEST(send_inv, bad_key_behind_requests_without_ackreq__those_are_acknowledged)
{
	struct rocemu_hdrs send = {.opcode = ROCEMU_RC_SEND_ONLY};
	struct window f;
	uint32_t key = bad_key(&f, UNKNOWN);

	hostile_recv(&f.h, 1, 0, 64);
	hostile_recv(&f.h, 2, 0, 64);
	hostile_send_hdrs(&f.h, &send, 8);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 1, 8, key);
	EXPECT(&f.h, "drop ACCESS; ack 0/1; recv 1 len 8; recv 2 MW_BIND_ERR; ERR");
	window_end(&f);
}

TEST(local_inv, key_not_to_be_invalidated__mw_bind_err)
{
	for (enum bad_key k = 0; k < BAD_KEYS; k++) {
		struct window f;
		uint32_t key = bad_key(&f, k);

		window_post_inval(&f.h, 1, key);
		EXPECT(&f.h, "inval 1 MW_BIND_ERR; ERR");
		window_end(&f);
	}
}

TEST(local_inv, bound__access_ends_and_it_can_be_bound_again)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	for (unsigned i = 0; i < 300; i++) {
		window_bind_some(&f, RW);
		hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, i, 0, 64, 0);
		(void)hostile_effects(&f.h);
		window_post_inval(&f.h, 2, f.h.rkey);
		EXPECT(&f.h, "inval 2");
	}
	window_refused_at(&f.h, 300, 64);
	window_end(&f);
}

/* ---- ends ---- */

TEST(mw_life, region_with_a_window__dereg_ebusy_until_unbound)
{
	for (unsigned how = 0; how < 3; how++) {
		struct window f;

		window_start(&f, IBV_MW_TYPE_2);
		window_bind_some(&f, RW);
		assert_int_equal(rocemu_mr_dereg(f.mr), -EBUSY);
		if (how == 0) {
			rocemu_mw_free(f.mw);
		} else if (how == 1) {
			assert_int_equal(rocemu_qp_destroy(f.h.qp), 0);
			assert_null(f.mw->mr);
		} else {
			window_post_inval(&f.h, 1, f.h.rkey);
			EXPECT(&f.h, "inval 1");
		}
		assert_int_equal(rocemu_mr_dereg(f.mr), 0);
		window_end(&f);
	}
}

TEST(mw_life, freed__key_stays_dead)
{
	struct window f;
	uint32_t key;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	key = f.h.rkey;
	rocemu_mw_free(f.mw);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
		assert_int_not_equal(rocemu_mw_rkey(f.mw), key);
		rocemu_mw_free(f.mw);
	}
	window_refused_at(&f.h, 0, 64);
	window_end(&f);
}

TEST(mw_life, type_and_pd__checked_and_counted)
{
	struct window f;
	struct rocemu_pd *pd;
	struct rocemu_mw *mw;

	window_start(&f, IBV_MW_TYPE_1);
	assert_int_equal(rocemu_mw_new(f.h.pd, (enum ibv_mw_type)3, &mw), -EINVAL);
	pd = rocemu_pd_new(f.h.ep);
	assert_int_equal(rocemu_mw_new(pd, IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(rocemu_pd_free(pd), -EBUSY);
	rocemu_mw_free(mw);
	assert_int_equal(rocemu_pd_free(pd), 0);
	window_end(&f);
}
