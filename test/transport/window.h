/* SPDX-License-Identifier: BSD-2-Clause */
/* A scripted peer, a memory window, and the requests that bind and invalidate it. */
#ifndef TEST_TRANSPORT_WINDOW_H
#define TEST_TRANSPORT_WINDOW_H

#include "hostile.h"

enum { BINDABLE = HOSTILE_ALL_ACCESS | IBV_ACCESS_MW_BIND };
enum { RW = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

/** A peer, a region over its memory that windows may be bound to, and one window. */
struct window {
	struct hostile h;
	struct rocemu_mr *mr;
	struct rocemu_mw *mw;
};

/** The parameters of a bind request, as for ibv_post_send(). */
struct window_bind {
	struct rocemu_mw *mw;
	struct rocemu_mr *mr; /* or NULL */
	uint64_t off, length; /* of h->mem */
	unsigned access;
	uint32_t rkey; /* 0: the next one */
};

static inline struct rocemu_mr *window_reg(struct hostile *h, struct rocemu_pd *pd, int access)
{
	struct rocemu_mr *mr;

	assert_int_equal(rocemu_mr_reg(pd, h->mem, sizeof(h->mem), (uintptr_t)h->mem, access, &mr),
			 0);
	return mr;
}

static inline void window_start(struct window *f, enum ibv_mw_type type)
{
	hostile_start(&f->h, IBV_QPT_RC);
	f->mr = window_reg(&f->h, f->h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f->h.pd, type, &f->mw), 0);
}

static inline void window_end(struct window *f)
{
	hostile_free(&f->h);
}

static inline int window_post_bind(struct hostile *h, uint64_t wr_id, const struct window_bind *b)
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

static inline void window_post_inval(struct hostile *h, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};

	assert_int_equal(rocemu_qp_post_send(h->qp, h->now, &wr, NULL), 0);
}

#endif
