/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests memory windows: valid bind requests (IBTA 10.6.7), and a peer's access through one.
 */
#include "window.h"

#include <errno.h>

/* ---- what the peer reaches ---- */

TEST(mw_access, bound__its_part_with_its_rights)
{
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct window f;

		window_start(&f, type);
		window_bind_some(&f, RW);
		hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 128, 64, 128);
		EXPECT(&f.h, "ack 0/1");
		assert_memory_equal(f.h.mem + 64, f.h.payload, 128);
		hostile_send_reth(&f.h, ROCEMU_RC_READ_REQUEST, 1, 0, 191, 1);
		EXPECT(&f.h, "only 1+1");
		hostile_send_atomic(&f.h, ROCEMU_RC_FETCH_ADD, 2, 64, 1, 0);
		EXPECT(&f.h, "drop ACCESS; nak 62 2/2; event QP_ACCESS_ERR; ERR");
		window_end(&f);
	}
}

TEST(mw_access, one_byte_outside__remote_access_error)
{
	static const uint64_t off[] = {63, 64 + 128 - 7};

	for (unsigned i = 0; i < ARRAY_LEN(off); i++) {
		struct window f;

		window_start(&f, IBV_MW_TYPE_2);
		window_bind_some(&f, RW);
		window_refused_at(&f.h, 0, off[i]);
		window_end(&f);
	}
}

TEST(mw_access, never_bound__remote_access_error)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_1);
	f.h.rkey = rocemu_mw_rkey(f.mw);
	window_refused_at(&f.h, 0, 64);
	window_end(&f);
}

TEST(mw_access, rights_the_region_lacks__granted_by_the_window)
{
	struct window f;

	/* A region that peers cannot touch by its own key is what windows are for. */
	window_start(&f, IBV_MW_TYPE_2);
	f.mr = window_reg(&f.h, f.h.pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	window_bind_some(&f, RW);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "ack 0/1");
	window_end(&f);
}

TEST(mw_access, zero_based__addresses_count_from_its_start)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW | IBV_ACCESS_ZERO_BASED);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, -(uintptr_t)f.h.mem + 120, 8);
	EXPECT(&f.h, "ack 0/1");
	assert_memory_equal(f.h.mem + 64 + 120, f.h.payload, 8);
	window_refused_at(&f.h, 1, -(uintptr_t)f.h.mem + 121);
	window_end(&f);
}

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

TEST(mw_access, uc_write__placed)
{
	struct window f;

	hostile_start(&f.h, IBV_QPT_UC);
	f.mr = window_reg(&f.h, f.h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
	window_bind_some(&f, RW);
	hostile_send_reth(&f.h, ROCEMU_UC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "");
	assert_memory_equal(f.h.mem + 64, f.h.payload, 8);
	window_end(&f);
}

TEST(mw_access, invalidated_within_a_write__rest_refused)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	assert_int_equal(
		window_post_bind(&f.h, 1, &(struct window_bind){f.mw, f.mr, 0, 1024, RW, 0}), 0);
	EXPECT(&f.h, "bind 1");
	f.h.rkey = rocemu_mw_rkey(f.mw);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_FIRST, 0, 256, 0, 512);
	window_post_inval(&f.h, 2, f.h.rkey);
	EXPECT(&f.h, "inval 2");
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_LAST, 1, 256, 0, 512);
	EXPECT(&f.h, "drop ACCESS; nak 62 1/0; event QP_ACCESS_ERR; ERR");
	window_end(&f);
}

TEST(mw_access, as_a_local_key__refused)
{
	struct window f;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	window_start(&f, IBV_MW_TYPE_2);
	window_bind_some(&f, RW);
	sge = (struct ibv_sge){(uintptr_t)f.h.mem + 64, 64, f.h.rkey};
	assert_int_equal(rocemu_qp_post_recv(f.h.qp, 0, &wr, &bad), 0);
	hostile_send(&f.h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&f.h, "drop ACCESS; nak 63 0/0; recv 1 LOC_PROT_ERR; ERR");
	window_end(&f);
}

/* ---- binding ---- */

TEST(mw_bind, post_of_nonsense__einval)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_2);
	assert_int_equal(window_post_bind(&f.h, 1, &(struct window_bind){f.mw, NULL, 0, 8, RW, 0}),
			 -EINVAL);
	assert_int_equal(
		window_post_bind(&f.h, 1,
				 &(struct window_bind){f.mw, f.mr, 0, 8, IBV_ACCESS_MW_BIND, 0}),
		-EINVAL);
	EXPECT(&f.h, "");
	window_end(&f);
}

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

TEST(mw_bind, ud__einval)
{
	struct window f;

	hostile_start(&f.h, IBV_QPT_UD);
	f.mr = window_reg(&f.h, f.h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
	assert_int_equal(window_post_bind(&f.h, 1, &(struct window_bind){f.mw, f.mr, 0, 8, RW, 0}),
			 -EINVAL);
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

/* C10-72 to C10-75. */
TEST(mw_bind, region_does_not_allow_it__mw_bind_err)
{
	static const struct {
		int region;
		uint64_t off, length;
		unsigned access;
	} bad[] = {
		{HOSTILE_ALL_ACCESS, 0, 8, RW}, /* no IBV_ACCESS_MW_BIND */
		{IBV_ACCESS_MW_BIND, 0, 8, IBV_ACCESS_REMOTE_WRITE},
		{IBV_ACCESS_MW_BIND, 0, 8, IBV_ACCESS_REMOTE_ATOMIC},
		{BINDABLE, HOSTILE_MEM - 8, 9, RW},
		{BINDABLE, 8, UINT64_MAX - 4, RW},
		{BINDABLE, UINT64_MAX, 8, RW}, /* a byte before it */
	};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
			struct window f;

			window_start(&f, type);
			bind_fails(&f, (struct window_bind){
					       .mr = window_reg(&f.h, f.h.pd, bad[i].region),
					       .off = bad[i].off,
					       .length = bad[i].length,
					       .access = bad[i].access});
		}
}

TEST(mw_bind, other_pd__mw_bind_err)
{
	for (unsigned i = 0; i < 2; i++) {
		struct window f;
		struct rocemu_pd *other;

		window_start(&f, IBV_MW_TYPE_1);
		other = rocemu_pd_new(f.h.ep);
		if (i == 0)
			f.mr = window_reg(&f.h, other, BINDABLE);
		else
			assert_int_equal(rocemu_mw_new(other, IBV_MW_TYPE_1, &f.mw), 0);
		bind_fails(&f, (struct window_bind){.mr = f.mr, .length = 8, .access = RW});
	}
}

TEST(mw_bind, rules_of_its_type__mw_bind_err)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_1);
	bind_fails(&f,
		   (struct window_bind){.mr = f.mr, .length = 8, .access = IBV_ACCESS_ZERO_BASED});
	window_start(&f, IBV_MW_TYPE_2);
	bind_fails(&f, (struct window_bind){0});
	window_start(&f, IBV_MW_TYPE_2);
	bind_fails(&f, (struct window_bind){.mr = f.mr, .access = RW});
	window_start(&f, IBV_MW_TYPE_2); /* o10-37.2.30: bound already */
	window_bind_some(&f, RW);
	bind_fails(&f, (struct window_bind){.mr = f.mr, .length = 8, .access = RW});
}

TEST(mw_bind, window_or_nothing_named_as_region__mw_bind_err)
{
	struct window f;
	struct rocemu_mw *another;
	struct ibv_mr mr;
	struct ibv_mw mw;

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW};

		window_start(&f, IBV_MW_TYPE_2);
		window_bind_some(&f, RW);
		assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &another), 0);
		mw.rkey = rocemu_mw_rkey(another);
		mr.lkey = i ? f.h.rkey : 0x77777777;
		wr.bind_mw.mw = &mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw.rkey);
		wr.bind_mw.bind_info =
			(struct ibv_mw_bind_info){&mr, (uintptr_t)f.h.mem + 64, 8, RW};
		assert_int_equal(rocemu_qp_post_send(f.h.qp, 0, &wr, NULL), 0);
		EXPECT(&f.h, "bind 1 MW_BIND_ERR; ERR");
		window_end(&f);
	}
}

TEST(mw_bind, type_1_bound_again__old_key_dead)
{
	struct window f;
	uint32_t old;

	window_start(&f, IBV_MW_TYPE_1);
	window_bind_some(&f, RW);
	old = f.h.rkey;
	window_bind_some(&f, RW);
	assert_int_not_equal(f.h.rkey, old);
	assert_int_equal(f.mr->windows, 1);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "ack 0/1");
	f.h.rkey = old;
	window_refused_at(&f.h, 1, 64);
	window_end(&f);
}

TEST(mw_bind, type_1_with_length_0__unbound)
{
	struct window f;

	window_start(&f, IBV_MW_TYPE_1);
	window_bind_some(&f, RW);
	assert_int_equal(window_post_bind(&f.h, 1, &(struct window_bind){.mw = f.mw}), 0);
	EXPECT(&f.h, "bind 1");
	f.h.rkey = rocemu_mw_rkey(f.mw);
	window_refused_at(&f.h, 0, 64);
	window_end(&f);
}
