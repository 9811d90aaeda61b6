/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations with their expected outcome: what is posted on one end of a pair, the receive it needs
 * on the other, and what both memories and completions must be afterwards. For reliable pairs,
 * where everything posted must happen exactly once; every operation has bytes of its own, so that
 * the order of execution does not matter to the image.
 */
#ifndef TEST_SIM_OP_H
#define TEST_SIM_OP_H

#include "sim.h"

/* clang-format off */
#define OPS(X)                        \
	X(SEND,         "send")       \
	X(SEND_IMM,     "send-imm")   \
	X(SEND_INLINE,  "send-inline")\
	X(WRITE,        "write")      \
	X(WRITE_IMM,    "write-imm")  \
	X(WRITE_INLINE, "write-inline") \
	X(READ,         "read")       \
	X(CAS,          "compare-and-swap") \
	X(FAA,          "fetch-and-add") \
	X(ATOMIC_WRITE, "atomic-write") \
	X(FLUSH,        "flush")
/* clang-format on */

enum op_kind {
#define X(name, text) OP_##name,
	OPS(X)
#undef X
		OP_COUNT
};

const char *op_text(enum op_kind kind);
/** Does it take a receive at the other end? */
bool op_needs_recv(enum op_kind kind);

/** One direction of a pair: where its operations find their memory. */
struct op_way {
	struct sim_qp *from, *to;
	struct sim_mem *local, *remote;
	struct sim_recv_todo {
		uint32_t off, len; /* of the receive buffer in remote */
		uint32_t message;
		enum ibv_wc_opcode opcode;
		bool has_imm;
		uint32_t imm;
	} * todo; /* owned; receives not posted yet, in order */
	size_t todo_len, todo_size, todo_next;
	size_t posted; /* send requests */
};

/** Both memories are bytes large. */
void op_way_init(struct op_way *w, struct sim_qp *from, struct sim_qp *to, uint32_t bytes);
void op_way_fini(struct op_way *w);

struct op {
	enum op_kind kind;
	uint32_t len;	/* not for atomics and ATOMIC WRITE; FLUSH: of the range */
	unsigned nsge;	/* 1..: the message is spread over so many */
	unsigned flags; /* IBV_SEND_SIGNALED, _FENCE, _SOLICITED */
};

/**
 * Post o; the receive it needs is noted, see op_post_recvs(). False: the send queue is full,
 * nothing happened.
 */
bool op_post(struct op_way *w, const struct op *o);
/** Post at most n of the receives that are due. */
void op_post_recvs(struct op_way *w, size_t n);

#endif
