/* SPDX-License-Identifier: BSD-2-Clause */
#include "window.h"

#include <stdio.h>

struct rocemu_mr *window_reg(struct hostile *h, struct rocemu_pd *pd, int access)
{
	struct rocemu_mr *mr;

	assert_int_equal(rocemu_mr_reg(pd, h->mem, sizeof(h->mem), (uintptr_t)h->mem, access, &mr),
			 0);
	return mr;
}

void window_start(struct window *f, enum ibv_mw_type type)
{
	hostile_start(&f->h, IBV_QPT_RC);
	f->mr = window_reg(&f->h, f->h.pd, BINDABLE);
	assert_int_equal(rocemu_mw_new(f->h.pd, type, &f->mw), 0);
}

void window_end(struct window *f)
{
	hostile_free(&f->h);
}

int window_post_bind(struct hostile *h, uint64_t wr_id, const struct window_bind *b)
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

void window_bind_some(struct window *f, unsigned access)
{
	struct window_bind b = {f->mw, f->mr, 64, 128, access, 0};

	assert_int_equal(window_post_bind(&f->h, 100, &b), 0);
	EXPECT(&f->h, "bind 100");
	f->h.rkey = rocemu_mw_rkey(f->mw);
}

void window_post_inval(struct hostile *h, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	};

	assert_int_equal(rocemu_qp_post_send(h->qp, h->now, &wr, NULL), 0);
}

void window_send_inv(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len, uint32_t rkey)
{
	struct rocemu_hdrs hdrs = {.opcode = opcode, .psn = psn, .ackreq = true, .ieth = rkey};

	hostile_send_hdrs(h, &hdrs, len);
}

void window_refused_at(struct hostile *h, uint32_t psn, uint64_t off)
{
	char text[80];

	hostile_send_reth(h, ROCEMU_RC_WRITE_ONLY, psn, 8, off, 8);
	snprintf(text, sizeof(text), "drop ACCESS; nak 62 %u/%u; event QP_ACCESS_ERR; ERR", psn,
		 psn);
	EXPECT(h, text);
}
