/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: what a bind request may say (IBTA 10.6.7), what a peer reaches through one, and
 * what ends it.
 */
#include "hostile.h"

#include <errno.h>
#include <stdio.h>

enum { BINDABLE = HOSTILE_ALL_ACCESS | IBV_ACCESS_MW_BIND };
enum { RW = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

/** A peer, a region over its memory that windows may be bound to, and one window. */
struct fixture {
	struct hostile h;
	struct rocemu_mr *mr;
	struct rocemu_mw *mw;
};

static struct rocemu_mr *reg(struct hostile *h, struct rocemu_pd *pd, int access)
{
	struct rocemu_mr *mr;

	assert_int_equal(rocemu_mr_reg(pd, h->mem, sizeof(h->mem), (uintptr_t)h->mem, access, &mr),
			 0);
	return mr;
}

static void start(struct fixture *f, enum ibv_mw_type type)
{
	hostile_start(&f->h, IBV_QPT_RC);
	f->mr = reg(&f->h, f->h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f->h.pd, type, &f->mw), 0);
}

static void end(struct fixture *f)
{
	hostile_free(&f->h);
}

/** What a bind request says; as ibv_post_send() would be given it. */
struct bind {
	struct rocemu_mw *mw;
	struct rocemu_mr *mr; /* or NULL */
	uint64_t off, length; /* of h->mem */
	unsigned access;
	uint32_t rkey; /* 0: the next one */
};

static int post_bind(struct hostile *h, uint64_t wr_id, const struct bind *b)
{
	struct ibv_mw mw = {.rkey = rocemu_mw_rkey(b->mw)};
	struct ibv_mr mr = {.lkey = b->mr ? rocemu_mr_lkey(b->mr) : 0};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw.mw = &mw,
		.bind_mw.rkey = b->rkey ? b->rkey : ibv_inc_rkey(mw.rkey),
		.bind_mw.bind_info = {.mr = b->mr ? &mr : NULL,
				      .addr = b->mr ? (uintptr_t)h->mem + b->off : 0,
				      .length = b->length,
				      .mw_access_flags = b->access},
	};

	return rocemu_qp_post_send(h->qp, h->now, &wr, NULL);
}

/** Bind f->mw to [64, 64+128) and make the peer use its key. */
static void bind_some(struct fixture *f, unsigned access)
{
	struct bind b = {f->mw, f->mr, 64, 128, access, 0};

	assert_int_equal(post_bind(&f->h, 100, &b), 0);
	EXPECT(&f->h, "bind 100");
	f->h.rkey = rocemu_mw_rkey(f->mw);
}

static void post_inval(struct hostile *h, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};

	assert_int_equal(rocemu_qp_post_send(h->qp, h->now, &wr, NULL), 0);
}

static void send_inv(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len, uint32_t rkey)
{
	struct rocemu_hdrs hdrs = {.opcode = opcode, .psn = psn, .ackreq = true, .ieth = rkey};

	hostile_send_hdrs(h, &hdrs, len);
}

/** A WRITE to off by h->rkey that must be refused. */
static void refused_at(struct hostile *h, uint32_t psn, uint64_t off)
{
	char text[80];

	hostile_send_reth(h, ROCEMU_RC_WRITE_ONLY, psn, 8, off, 8);
	snprintf(text, sizeof(text), "drop ACCESS; nak 62 %u/%u; event QP_ACCESS_ERR; ERR", psn,
		 psn);
	EXPECT(h, text);
}

/* ---- what the peer reaches ---- */

TEST(mw_access, bound__its_part_with_its_rights)
{
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct fixture f;

		start(&f, type);
		bind_some(&f, RW);
		hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 128, 64, 128);
		EXPECT(&f.h, "ack 0/1");
		assert_memory_equal(f.h.mem + 64, f.h.payload, 128);
		hostile_send_reth(&f.h, ROCEMU_RC_READ_REQUEST, 1, 0, 191, 1);
		EXPECT(&f.h, "only 1+1");
		hostile_send_atomic(&f.h, ROCEMU_RC_FETCH_ADD, 2, 64, 1, 0);
		EXPECT(&f.h, "drop ACCESS; nak 62 2/2; event QP_ACCESS_ERR; ERR");
		end(&f);
	}
}

TEST(mw_access, one_byte_outside__remote_access_error)
{
	static const uint64_t off[] = {63, 64 + 128 - 7};

	for (unsigned i = 0; i < ARRAY_LEN(off); i++) {
		struct fixture f;

		start(&f, IBV_MW_TYPE_2);
		bind_some(&f, RW);
		refused_at(&f.h, 0, off[i]);
		end(&f);
	}
}

TEST(mw_access, never_bound__remote_access_error)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_1);
	f.h.rkey = rocemu_mw_rkey(f.mw);
	refused_at(&f.h, 0, 64);
	end(&f);
}

TEST(mw_access, rights_the_region_lacks__granted_by_the_window)
{
	struct fixture f;

	/* A region that peers cannot touch by its own key is what windows are for. */
	start(&f, IBV_MW_TYPE_2);
	f.mr = reg(&f.h, f.h.pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	bind_some(&f, RW);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "ack 0/1");
	end(&f);
}

TEST(mw_access, zero_based__addresses_count_from_its_start)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW | IBV_ACCESS_ZERO_BASED);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, -(uintptr_t)f.h.mem + 120, 8);
	EXPECT(&f.h, "ack 0/1");
	assert_memory_equal(f.h.mem + 64 + 120, f.h.payload, 8);
	refused_at(&f.h, 1, -(uintptr_t)f.h.mem + 121);
	end(&f);
}

/* Type 2 is of kind 2B: a key for one QP; type 1 serves all of the protection domain. */
TEST(mw_access, bound_by_another_qp__type_2_refused_type_1_not)
{
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct fixture f;
		struct rocemu_qp *first;
		struct rocemu_qp_init init;

		start(&f, type);
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
		bind_some(&f, RW);
		f.h.qp = first;
		if (type == IBV_MW_TYPE_1) {
			hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
			EXPECT(&f.h, "ack 0/1");
		} else {
			refused_at(&f.h, 0, 64);
		}
		end(&f);
	}
}

TEST(mw_access, window_of_another_pd__remote_access_error)
{
	struct fixture f;
	struct rocemu_pd *other;

	start(&f, IBV_MW_TYPE_1);
	bind_some(&f, RW);
	other = rocemu_pd_new(f.h.ep);
	f.mw->entry.pd = other; /* no bind can make it so: the bind checks the domains as well */
	refused_at(&f.h, 0, 64);
	end(&f);
}

TEST(mw_access, uc_write__placed)
{
	struct fixture f;

	hostile_start(&f.h, IBV_QPT_UC);
	f.mr = reg(&f.h, f.h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
	bind_some(&f, RW);
	hostile_send_reth(&f.h, ROCEMU_UC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "");
	assert_memory_equal(f.h.mem + 64, f.h.payload, 8);
	end(&f);
}

TEST(mw_access, invalidated_within_a_write__rest_refused)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	assert_int_equal(post_bind(&f.h, 1, &(struct bind){f.mw, f.mr, 0, 1024, RW, 0}), 0);
	EXPECT(&f.h, "bind 1");
	f.h.rkey = rocemu_mw_rkey(f.mw);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_FIRST, 0, 256, 0, 512);
	post_inval(&f.h, 2, f.h.rkey);
	EXPECT(&f.h, "inval 2");
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_LAST, 1, 256, 0, 512);
	EXPECT(&f.h, "drop ACCESS; nak 62 1/0; event QP_ACCESS_ERR; ERR");
	end(&f);
}

TEST(mw_access, as_a_local_key__refused)
{
	struct fixture f;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	sge = (struct ibv_sge){(uintptr_t)f.h.mem + 64, 64, f.h.rkey};
	assert_int_equal(rocemu_qp_post_recv(f.h.qp, 0, &wr, &bad), 0);
	hostile_send(&f.h, ROCEMU_RC_SEND_ONLY, 0, 8);
	EXPECT(&f.h, "drop ACCESS; nak 63 0/0; recv 1 LOC_PROT_ERR; ERR");
	end(&f);
}

/* ---- binding ---- */

TEST(mw_bind, post_of_nonsense__einval)
{
	struct fixture f;
	uint32_t key;

	start(&f, IBV_MW_TYPE_2);
	key = rocemu_mw_rkey(f.mw);
	assert_int_equal(post_bind(&f.h, 1, &(struct bind){f.mw, f.mr, 0, 8, RW, key + 0x100}),
			 -EINVAL);
	assert_int_equal(post_bind(&f.h, 1, &(struct bind){f.mw, NULL, 0, 8, RW, 0}), -EINVAL);
	assert_int_equal(
		post_bind(&f.h, 1, &(struct bind){f.mw, f.mr, 0, 8, IBV_ACCESS_MW_BIND, 0}),
		-EINVAL);
	EXPECT(&f.h, "");
	end(&f);
}

TEST(mw_bind, ud__einval)
{
	struct fixture f;

	hostile_start(&f.h, IBV_QPT_UD);
	f.mr = reg(&f.h, f.h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
	assert_int_equal(post_bind(&f.h, 1, &(struct bind){f.mw, f.mr, 0, 8, RW, 0}), -EINVAL);
	end(&f);
}

static void bind_fails(struct fixture *f, struct bind b)
{
	uint32_t key = rocemu_mw_rkey(f->mw);

	b.mw = f->mw;
	assert_int_equal(post_bind(&f->h, 1, &b), 0);
	EXPECT(&f->h, "bind 1 MW_BIND_ERR; ERR");
	assert_int_equal(rocemu_mw_rkey(f->mw), key);
	end(f);
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
			struct fixture f;

			start(&f, type);
			bind_fails(&f, (struct bind){.mr = reg(&f.h, f.h.pd, bad[i].region),
						     .off = bad[i].off,
						     .length = bad[i].length,
						     .access = bad[i].access});
		}
}

TEST(mw_bind, other_pd__mw_bind_err)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fixture f;
		struct rocemu_pd *other;

		start(&f, IBV_MW_TYPE_1);
		other = rocemu_pd_new(f.h.ep);
		if (i == 0)
			f.mr = reg(&f.h, other, BINDABLE);
		else
			assert_int_equal(rocemu_mw_new(other, IBV_MW_TYPE_1, &f.mw), 0);
		bind_fails(&f, (struct bind){.mr = f.mr, .length = 8, .access = RW});
	}
}

TEST(mw_bind, rules_of_its_type__mw_bind_err)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_1);
	bind_fails(&f, (struct bind){.mr = f.mr, .length = 8, .access = IBV_ACCESS_ZERO_BASED});
	start(&f, IBV_MW_TYPE_2);
	bind_fails(&f, (struct bind){0});
	start(&f, IBV_MW_TYPE_2);
	bind_fails(&f, (struct bind){.mr = f.mr, .access = RW});
	start(&f, IBV_MW_TYPE_2); /* o10-37.2.30: bound already */
	bind_some(&f, RW);
	bind_fails(&f, (struct bind){.mr = f.mr, .length = 8, .access = RW});
}

TEST(mw_bind, window_or_nothing_named_as_region__mw_bind_err)
{
	struct fixture f;
	struct rocemu_mw *another;
	struct ibv_mr mr;
	struct ibv_mw mw;

	for (unsigned i = 0; i < 2; i++) {
		struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW};

		start(&f, IBV_MW_TYPE_2);
		bind_some(&f, RW);
		assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &another), 0);
		mw.rkey = rocemu_mw_rkey(another);
		mr.lkey = i ? f.h.rkey : 0x77777777;
		wr.bind_mw.mw = &mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw.rkey);
		wr.bind_mw.bind_info =
			(struct ibv_mw_bind_info){&mr, (uintptr_t)f.h.mem + 64, 8, RW};
		assert_int_equal(rocemu_qp_post_send(f.h.qp, 0, &wr, NULL), 0);
		EXPECT(&f.h, "bind 1 MW_BIND_ERR; ERR");
		end(&f);
	}
}

TEST(mw_bind, type_1_bound_again__old_key_dead)
{
	struct fixture f;
	uint32_t old;

	start(&f, IBV_MW_TYPE_1);
	bind_some(&f, RW);
	old = f.h.rkey;
	bind_some(&f, RW);
	assert_int_not_equal(f.h.rkey, old);
	assert_int_equal(f.mr->windows, 1);
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 0, 8, 64, 8);
	EXPECT(&f.h, "ack 0/1");
	f.h.rkey = old;
	refused_at(&f.h, 1, 64);
	end(&f);
}

TEST(mw_bind, type_1_with_length_0__unbound)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_1);
	bind_some(&f, RW);
	assert_int_equal(post_bind(&f.h, 1, &(struct bind){.mw = f.mw}), 0);
	EXPECT(&f.h, "bind 1");
	f.h.rkey = rocemu_mw_rkey(f.mw);
	refused_at(&f.h, 0, 64);
	end(&f);
}

/* ---- invalidating ---- */

TEST(send_inv, key_of_this_qp__receive_says_so_and_access_ends)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	hostile_recv(&f.h, 1, 0, 64);
	send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	assert_int_equal(f.h.invalidated, f.h.rkey);
	assert_memory_equal(f.h.recv, f.h.payload, 8);
	refused_at(&f.h, 1, 64);
	end(&f);
}

TEST(send_inv, last_of_three__invalidates_at_the_last)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	hostile_recv(&f.h, 1, 0, 1024);
	hostile_send(&f.h, ROCEMU_RC_SEND_FIRST, 0, 256);
	hostile_send(&f.h, ROCEMU_RC_SEND_MIDDLE, 1, 256);
	assert_non_null(f.mw->mr);
	send_inv(&f.h, ROCEMU_RC_SEND_LAST_INV, 2, 8, f.h.rkey);
	assert_null(f.mw->mr);
	EXPECT(&f.h, "ack 2/1; recv 1 len 520 inv");
	end(&f);
}

/* Bound anew with the same key, so that a second execution would be seen. */
TEST(send_inv, duplicate__acked_not_executed)
{
	struct fixture f;
	uint32_t key;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	key = f.h.rkey;
	hostile_recv(&f.h, 1, 0, 64);
	send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	assert_int_equal(post_bind(&f.h, 2, &(struct bind){f.mw, f.mr, 64, 128, RW, key}), 0);
	EXPECT(&f.h, "bind 2");
	send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
	EXPECT(&f.h, "ack 0/1");
	hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, 1, 8, 64, 8);
	EXPECT(&f.h, "ack 1/2");
	end(&f);
}

TEST(send_inv, no_receive__rnr_and_still_bound)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "drop NO_RECV; rnr 12 0/0");
	assert_non_null(f.mw->mr);
	hostile_recv(&f.h, 1, 0, 64);
	send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, f.h.rkey);
	EXPECT(&f.h, "ack 0/1; recv 1 len 8 inv");
	end(&f);
}

/** Keys that a peer or a local request must not invalidate. */
enum bad_key { REGION, TYPE_1, UNBOUND, OTHER_TAG, UNKNOWN, BAD_KEYS };

static uint32_t bad_key(struct fixture *f, enum bad_key which)
{
	start(f, which == TYPE_1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	switch (which) {
	case REGION:
		return rocemu_mr_rkey(f->mr);
	case TYPE_1:
		bind_some(f, RW);
		return rocemu_mw_rkey(f->mw);
	case UNBOUND:
		return rocemu_mw_rkey(f->mw);
	case OTHER_TAG:
		bind_some(f, RW);
		return rocemu_mw_rkey(f->mw) ^ 1;
	default:
		return 0xffffff00;
	}
}

TEST(send_inv, key_not_to_be_invalidated__remote_access_error)
{
	for (enum bad_key k = 0; k < BAD_KEYS; k++) {
		struct fixture f;
		uint32_t key = bad_key(&f, k);

		hostile_recv(&f.h, 1, 0, 64);
		send_inv(&f.h, ROCEMU_RC_SEND_ONLY_INV, 0, 8, key);
		EXPECT(&f.h, "drop ACCESS; nak 62 0/0; recv 1 LOC_ACCESS_ERR; ERR");
		end(&f);
	}
}

TEST(local_inv, key_not_to_be_invalidated__mw_bind_err)
{
	for (enum bad_key k = 0; k < BAD_KEYS; k++) {
		struct fixture f;
		uint32_t key = bad_key(&f, k);

		post_inval(&f.h, 1, key);
		EXPECT(&f.h, "inval 1 MW_BIND_ERR; ERR");
		end(&f);
	}
}

TEST(local_inv, bound__access_ends_and_it_can_be_bound_again)
{
	struct fixture f;

	start(&f, IBV_MW_TYPE_2);
	for (unsigned i = 0; i < 300; i++) {
		bind_some(&f, RW);
		hostile_send_reth(&f.h, ROCEMU_RC_WRITE_ONLY, i, 0, 64, 0);
		(void)hostile_effects(&f.h);
		post_inval(&f.h, 2, f.h.rkey);
		EXPECT(&f.h, "inval 2");
	}
	refused_at(&f.h, 300, 64);
	end(&f);
}

/* ---- ends ---- */

TEST(mw_life, region_with_a_window__dereg_ebusy_until_unbound)
{
	for (unsigned how = 0; how < 3; how++) {
		struct fixture f;

		start(&f, IBV_MW_TYPE_2);
		bind_some(&f, RW);
		assert_int_equal(rocemu_mr_dereg(f.mr), -EBUSY);
		if (how == 0) {
			rocemu_mw_free(f.mw);
		} else if (how == 1) {
			assert_int_equal(rocemu_qp_destroy(f.h.qp), 0);
			assert_null(f.mw->mr);
		} else {
			post_inval(&f.h, 1, f.h.rkey);
			EXPECT(&f.h, "inval 1");
		}
		assert_int_equal(rocemu_mr_dereg(f.mr), 0);
		end(&f);
	}
}

TEST(mw_life, freed__key_stays_dead)
{
	struct fixture f;
	uint32_t key;

	start(&f, IBV_MW_TYPE_2);
	bind_some(&f, RW);
	key = f.h.rkey;
	rocemu_mw_free(f.mw);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(rocemu_mw_new(f.h.pd, IBV_MW_TYPE_2, &f.mw), 0);
		assert_int_not_equal(rocemu_mw_rkey(f.mw), key);
		rocemu_mw_free(f.mw);
	}
	refused_at(&f.h, 0, 64);
	end(&f);
}

TEST(mw_life, type_and_pd__checked_and_counted)
{
	struct fixture f;
	struct rocemu_pd *pd;
	struct rocemu_mw *mw;

	start(&f, IBV_MW_TYPE_1);
	assert_int_equal(rocemu_mw_new(f.h.pd, (enum ibv_mw_type)3, &mw), -EINVAL);
	pd = rocemu_pd_new(f.h.ep);
	assert_int_equal(rocemu_mw_new(pd, IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(rocemu_pd_free(pd), -EBUSY);
	rocemu_mw_free(mw);
	assert_int_equal(rocemu_pd_free(pd), 0);
	end(&f);
}
