/* SPDX-License-Identifier: BSD-2-Clause */
/* A memory window and the peer who uses it, for the tests of both. */
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

struct rocemu_mr *window_reg(struct hostile *h, struct rocemu_pd *pd, int access);
void window_start(struct window *f, enum ibv_mw_type type);
void window_end(struct window *f);

/** The parameters of a bind request, as for ibv_post_send(). */
struct window_bind {
	struct rocemu_mw *mw;
	struct rocemu_mr *mr; /* or NULL */
	uint64_t off, length; /* of h->mem */
	unsigned access;
	uint32_t rkey; /* 0: the next one */
};

int window_post_bind(struct hostile *h, uint64_t wr_id, const struct window_bind *b);
/** Bind f->mw to [64, 64+128) and make the peer use its key. */
void window_bind_some(struct window *f, unsigned access);
void window_post_inval(struct hostile *h, uint64_t wr_id, uint32_t rkey);

/** The peer sends a request that invalidates a key. */
void window_send_inv(struct hostile *h, uint8_t opcode, uint32_t psn, uint32_t len, uint32_t rkey);
/** A WRITE of the peer to off by h->rkey that must be refused. */
void window_refused_at(struct hostile *h, uint32_t psn, uint64_t off);

#endif
