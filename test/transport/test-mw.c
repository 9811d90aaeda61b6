/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests memory windows: several QPs and protection domains, keys, and the ends of objects.
 * test/scenario/mw.scenario has the rest.
 */
#include "window.h"

#include <errno.h>
#include <stdio.h>

/** Bind f->mw to [64, 64+128) and make the peer use its key. */
static void window_bind_some(struct window *f, unsigned access)
{
	struct window_bind b = {f->mw, f->mr, 64, 128, access, 0};

	assert_int_equal(window_post_bind(&f->h, 100, &b), 0);
	EXPECT(&f->h, "bind 100");
	f->h.rkey = rocemu_mw_rkey(f->mw);
}

/** The peer sends a request that invalidates a key. */
static void window_send_inv(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len,
			    uint32_t rkey)
{
	struct rocemu_hdrs hdrs = {.opcode = opcode, .psn = psn, .ackreq = true, .ieth = rkey};

	hostile_send_hdrs(h, &hdrs, len);
}

/** A WRITE of the peer to off by h->rkey that must be refused. */
static void window_refused_at(struct hostile *h, uint32_t psn, uint64_t off)
{
	char text[80];

	hostile_send_reth(h, ROCEMU_RC_WRITE_ONLY, psn, 8, off, 8);
	snprintf(text, sizeof(text), "drop ACCESS; nak 62 %u/%u; event QP_ACCESS_ERR; ERR", psn,
		 psn);
	EXPECT(h, text);
}

/* ---- what the peer reaches ---- */

/* Type 2 is of kind 2B: a key for one QP; type 1 serves all of the protection domain. */
TEST(mw_access, bound_by_another_qp__type_2_refused_type_1_not)
{
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct window f;
		struct rocemu_qp *first;
		struct rocemu_qp_init init;

		window_start(&f, type);
		first = f.h.qp;
		init = (struct rocemu_qp_init){
			.pd = f.h.pd,
			.send_cq = f.h.cq,
			.recv_cq = f.h.cq,
			.type = IBV_QPT_RC,
			.cap = {16, 16, 4, 4, 64},
		};
		assert_int_equal(rocemu_qp_create(f.h.ep, &init, &f.h.qp), 0);
		hostile_connect(&f.h, IBV_QPS_RTS);
		window_bind_some(&f, RW);
		f.h.qp = first;
		if (type == IBV_MW_TYPE_1) {
			hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
			EXPECT(&f.h, "ack 0/1");
		} else {
			window_refused_at(&f.h, 0, 64);
		}
		window_end(&f);
	}
}

TEST(mw_access, window_of_another_pd__remote_access_error)
{
	struct window f;
	struct rocemu_pd *other;

	window_start(&f, IBV_MW_TYPE_1);
	window_bind_some(&f, RW);
	other = rocemu_pd_new(f.h.ep);
	f.mw->entry.pd = other; /* no bind can make it so: the bind checks the domains as well */
	window_refused_at(&f.h, 0, 64);
	window_end(&f);
}

/* ---- binding ---- */

/* The window has the index; of the key that a program chooses, the low 8 bits count. */
TEST(mw_bind, any_24_bits_asked_for__index_of_the_window)
{
	struct window f;
	uint32_t index;

	window_start(&f, IBV_MW_TYPE_2);
	index = rocemu_mw_rkey(f.mw) & ~0xffu;
	assert_int_equal(
		window_post_bind(&f.h, 1,
				 &(struct window_bind){f.mw, f.mr, 64, 128, RW, 0xdeadbec5}),
		0);
	EXPECT(&f.h, "bind 1");
	assert_int_equal(rocemu_mw_rkey(f.mw), index | 0xc5);
	f.h.rkey = index | 0xc5;
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "ack 0/1");
	window_end(&f);
}

static void bind_fails(struct window *f, struct window_bind b)
{
	uint32_t key = rocemu_mw_rkey(f->mw);

	b.mw = f->mw;
	assert_int_equal(window_post_bind(&f->h, 1, &b), 0);
	EXPECT(&f->h, "bind 1 MW_BIND_ERR; ERR");
	assert_int_equal(rocemu_mw_rkey(f->mw), key);
	window_end(f);
}

/* C10-75. */
TEST(mw_bind, range_that_wraps_or_begins_before_the_region__mw_bind_err)
{
	static const struct {
		uint64_t off, length;
	} bad[] = {
		{8, UINT64_MAX - 4}, {UINT64_MAX, 8}, /* a byte before it */
	};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
			struct window f;

			window_start(&f, type);
			bind_fails(&f, (struct window_bind){.mr = f.mr,
							    .off = bad[i].off,
							    .length = bad[i].length,
							    .access = RW});
		}
}

TEST(mw_bind, window_named_as_region__mw_bind_err)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW};
	struct rocemu_mw *another;
	struct window f;
	struct ibv_mr mr;
	struct ibv_mw mw;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &another), 0);
	mw.rkey = rocemu_mw_rkey(another);
	mr.lkey = f.h.rkey;
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){&mr, (uintptr_t)f.h.mem + 64, 8, RW};
	assert_int_equal(rocemu_qp_post_send(f.h.qp, 0, &wr, NULL), 0);
	EXPECT(&f.h, "bind 1 MW_BIND_ERR; ERR");
	window_end(&f);
}

/* ---- invalidating ---- */

TEST(send_inv, key_of_this_qp__completion_has_it)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	hostile_recv(&f.h, 1, 0, 64);
	window_send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	assert_int_equal(f.h.invalidated, f.h.rkey);
	window_end(&f);
}

/* ---- ends ---- */

TEST(mw_life, qp_destroyed__unbound_and_region_free)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	assert_int_equal(rocemu_mr_dereg(f.mr), -EBUSY);
	assert_int_equal(rocemu_qp_destroy(f.h.qp), 0);
	assert_null(f.mw->mr);
	assert_int_equal(rocemu_mr_dereg(f.mr), 0);
	window_end(&f);
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
