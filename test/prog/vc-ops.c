/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs-check: each operation, each size class, each way of giving the data, one request at a time
 * on one long-lived connection. See vc.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

#include "vc.h"

struct arg {
	struct vc_conn *c;
	enum ibv_wr_opcode opcode;
	size_t size;
	int nsge;	/* on the active side */
	int nrecv;	/* pieces of the receive buffer */
	unsigned flags; /* IBV_SEND_*, besides SIGNALED */
	unsigned seed;
};

enum { IMM = 0x11223344, OFFSET = 5 };

static bool is_imm(enum ibv_wr_opcode o)
{
	return o == IBV_WR_SEND_WITH_IMM || o == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode o)
{
	return o == IBV_WR_SEND || o == IBV_WR_SEND_WITH_IMM;
}

/**
 * A completed WRITE on UC has left, not arrived, and the target gets no notification. Packets of a
 * connection arrive in order, so an empty SEND behind it shows when it has arrived.
 */
static bool needs_marker(const struct vc *vc, const struct arg *a)
{
	return vc->opt.type == IBV_QPT_UC && a->opcode == IBV_WR_RDMA_WRITE;
}

/** The 40 bytes before a UD message: IPv4 header in the last 20, or an IPv6 header. */
static bool check_grh(struct vc_conn *c, const uint8_t *grh)
{
	static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct vc *vc = c->vc;

	if (memcmp(vc->gid.raw, v4, sizeof(v4)) == 0) {
		VC_CHECK(vc, grh[20] == 0x45, "GRH: byte 20 is 0x%02x, no IPv4 header", grh[20]);
		VC_CHECK(vc, memcmp(grh + 32, c->peer.gid.raw + 12, 4) == 0, "GRH: source address");
		VC_CHECK(vc, memcmp(grh + 36, vc->gid.raw + 12, 4) == 0,
			 "GRH: destination address");
	} else {
		VC_CHECK(vc, grh[0] >> 4 == 6, "GRH: byte 0 is 0x%02x, no IPv6 header", grh[0]);
		VC_CHECK(vc, memcmp(grh + 8, c->peer.gid.raw, 16) == 0, "GRH: source address");
		VC_CHECK(vc, memcmp(grh + 24, vc->gid.raw, 16) == 0, "GRH: destination address");
	}
	return true;
}

/** The passive side of SEND and WRITE: what arrives, with guards around it. */
static bool receive(struct vc *vc, const struct arg *a)
{
	struct vc_conn *c = a->c;
	size_t grh = vc->opt.type == IBV_QPT_UD ? VC_GRH : 0;
	bool takes_recv = is_send(a->opcode) || is_imm(a->opcode);
	struct ibv_sge sge[VC_MAX_SGE];
	struct vc_done d;

	vc_buf_clear(&vc->in, grh + a->size);
	if (is_send(a->opcode))
		VC_TRY(vc_post_recv(c, 77, sge, vc_cut(sge, a->nrecv, &vc->in, 0, grh + a->size)));
	else if (takes_recv || needs_marker(vc, a))
		VC_TRY(vc_post_recv(c, 77, NULL, 0));
	VC_TRY(vc_sync(vc)); /* ready */
	if (takes_recv) {
		VC_TRY(vc_wait_ok(c, c->rcq, 77, &d));
		VC_CHECK(vc, d.byte_len == grh + a->size, "byte_len %u, not %zu", d.byte_len,
			 grh + a->size);
		VC_CHECK(vc,
			 d.opcode == (is_send(a->opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
			 "receive opcode %d", d.opcode);
		VC_CHECK(vc, !(d.flags & IBV_WC_WITH_IMM) == !is_imm(a->opcode), "wc_flags 0x%x",
			 d.flags);
		VC_CHECK(vc, !is_imm(a->opcode) || d.imm == IMM, "immediate 0x%x", d.imm);
	}
	if (needs_marker(vc, a))
		VC_TRY(vc_wait_ok(c, c->rcq, 77, &d));
	VC_CHECK(vc, !vc->opt.xrc || !takes_recv || d.src_qp == c->peer.qpn, "src_qp 0x%x",
		 d.src_qp);
	if (grh) {
		VC_CHECK(vc, d.src_qp == c->peer.qpn, "src_qp 0x%x", d.src_qp);
		VC_CHECK(vc, d.flags & IBV_WC_GRH, "no GRH flag: 0x%x", d.flags);
		VC_TRY(check_grh(c, vc->in.data));
	}
	VC_TRY(vc_sync(vc)); /* the active side has its completion, too */
	VC_TRY(vc_same(vc, vc->in.data + grh, a->size, a->seed, "received"));
	return vc_buf_guards(vc, &vc->in, grh + a->size);
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode o)
{
	switch (o) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

/** Post one request and wait for its completion. */
static bool complete(struct vc *vc, struct vc_conn *c, struct vc_op *op)
{
	struct vc_done d;
	int rc;

	op->wr_id = 4711;
	op->flags |= IBV_SEND_SIGNALED;
	rc = vc_post(c, op, 1);
	VC_CHECK(vc, rc == 0, "post: %s", strerror(rc));
	if (op->flags & IBV_SEND_INLINE) /* the data was taken: it may change at once */
		memset(vc->out.data, 0x55, 256);
	VC_TRY(vc_wait_ok(c, c->scq, 4711, &d));
	VC_CHECK(vc, d.opcode == wc_opcode(op->opcode), "send opcode %d", d.opcode);
	return true;
}

static bool case_push(struct vc *vc, void *p)
{
	const struct arg *a = p;
	struct vc_op op = {
		.opcode = a->opcode,
		.flags = a->flags,
		.imm = IMM,
		.raddr = a->c->peer.in_addr,
		.rkey = a->c->peer.in_rkey,
	};

	if (!vc->active)
		return receive(vc, a);
	/* From an odd address, so that nothing relies on alignment. */
	vc_fill(vc->out.data + OFFSET, a->size, a->seed);
	op.nsge = vc_cut(op.sge, a->nsge, &vc->out, OFFSET, a->size);
	VC_TRY(vc_sync(vc));
	VC_TRY(complete(vc, a->c, &op));
	if (needs_marker(vc, a)) {
		struct vc_op marker = {.opcode = IBV_WR_SEND};

		VC_TRY(complete(vc, a->c, &marker));
	}
	if (!(a->flags & IBV_SEND_INLINE))
		VC_TRY(vc_same(vc, vc->out.data + OFFSET, a->size, a->seed,
			       "the source afterwards"));
	return vc_sync(vc);
}

static bool case_read(struct vc *vc, void *p)
{
	const struct arg *a = p;
	struct vc_op op = {
		.opcode = IBV_WR_RDMA_READ,
		.raddr = a->c->peer.out_addr + OFFSET,
		.rkey = a->c->peer.out_rkey,
	};

	if (!vc->active) {
		vc_fill(vc->out.data + OFFSET, a->size, a->seed);
		VC_TRY(vc_sync(vc));
		return vc_sync(vc);
	}
	vc_buf_clear(&vc->in, a->size);
	op.nsge = vc_cut(op.sge, a->nsge, &vc->in, 0, a->size);
	VC_TRY(vc_sync(vc));
	VC_TRY(complete(vc, a->c, &op));
	VC_TRY(vc_same(vc, vc->in.data, a->size, a->seed, "read"));
	VC_TRY(vc_buf_guards(vc, &vc->in, a->size));
	return vc_sync(vc);
}

/* ---- atomics ---- */

struct atomic_step {
	enum ibv_wr_opcode opcode;
	uint64_t compare_add, swap, old_value, new_value;
};

static const uint64_t atomic_start = 0xfffffffffffffff0u;
/* clang-format off */
static const struct atomic_step atomic_steps[] = {
	{IBV_WR_ATOMIC_FETCH_AND_ADD, 1,                  0,                  0xfffffffffffffff0u, 0xfffffffffffffff1u},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, 0x20,               0,                  0xfffffffffffffff1u, 0x11},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX,         0,                  0x11,                0x10},
	{IBV_WR_ATOMIC_CMP_AND_SWP,   0x10,               0x1122334455667788, 0x10,                0x1122334455667788},
	{IBV_WR_ATOMIC_CMP_AND_SWP,   0x10,               1,                  0x1122334455667788,  0x1122334455667788},
	{IBV_WR_ATOMIC_CMP_AND_SWP,   0x1122334455667788, 0,                  0x1122334455667788,  0},
};
/* clang-format on */

static bool case_atomic(struct vc *vc, void *p)
{
	struct vc_conn *c = p;
	size_t n = sizeof(atomic_steps) / sizeof(atomic_steps[0]);
	uint64_t value = atomic_start;

	/* The word lies at offset 8, between guards. */
	vc_buf_clear(&vc->in, 256);
	memcpy(vc->in.data + 8, &value, sizeof(value));
	VC_TRY(vc_sync(vc));
	for (size_t i = 0; i < n; i++) {
		const struct atomic_step *s = &atomic_steps[i];
		struct vc_op op = {
			.opcode = s->opcode,
			.raddr = c->peer.in_addr + 8,
			.rkey = c->peer.in_rkey,
			.compare_add = s->compare_add,
			.swap = s->swap,
		};

		if (vc->active) {
			vc_buf_clear(&vc->out, 64);
			op.nsge = vc_cut(op.sge, 1, &vc->out, 16, 8);
			VC_TRY(complete(vc, c, &op));
			memcpy(&value, vc->out.data + 16, sizeof(value));
			VC_CHECK(vc, value == s->old_value, "step %zu returned 0x%llx, not 0x%llx",
				 i, (unsigned long long)value, (unsigned long long)s->old_value);
			VC_CHECK(vc, vc->out.data[15] == 0xee && vc->out.data[24] == 0xee,
				 "step %zu wrote beside the result", i);
		}
		VC_TRY(vc_sync(vc));
		if (!vc->active) {
			memcpy(&value, vc->in.data + 8, sizeof(value));
			VC_CHECK(vc, value == s->new_value, "step %zu left 0x%llx, not 0x%llx", i,
				 (unsigned long long)value, (unsigned long long)s->new_value);
			VC_CHECK(vc, vc->in.data[7] == 0xee && vc->in.data[16] == 0xee,
				 "step %zu wrote beside the word", i);
		}
		VC_TRY(vc_sync(vc));
	}
	return true;
}

/* ---- memory windows ---- */

enum { WINDOW_OFF = 256, WINDOW_LEN = 5000, ANSWER_OFF = 8192 };

/** The owner: a window over a part of vc->in, its key to the peer, until the peer gives it back. */
static bool own_window(struct vc *vc, const struct arg *a, struct ibv_mr *mr, struct ibv_mw *mw)
{
	struct vc_op bind = {
		.opcode = IBV_WR_BIND_MW,
		.mw = mw,
		.rkey = ibv_inc_rkey(mw->rkey),
		.bind = {mr, (uintptr_t)vc->in.data + WINDOW_OFF, WINDOW_LEN,
			 IBV_ACCESS_REMOTE_WRITE},
	};
	struct vc_op inv = {.opcode = IBV_WR_LOCAL_INV, .rkey = bind.rkey};
	struct ibv_sge sge;
	uint32_t none;
	struct vc_done d;

	vc_buf_clear(&vc->in, ANSWER_OFF + a->size);
	VC_TRY(vc_post_recv(a->c, 77, &sge, vc_cut(&sge, 1, &vc->in, ANSWER_OFF, a->size)));
	VC_TRY(complete(vc, a->c, &bind));
	VC_TRY(vc_swap(vc, &bind.rkey, &none, sizeof(none)));
	VC_TRY(vc_wait_ok(a->c, a->c->rcq, 77, &d));
	VC_CHECK(vc, d.opcode == IBV_WC_RECV && d.byte_len == a->size,
		 "receive opcode %d, %u bytes", d.opcode, d.byte_len);
	VC_CHECK(vc,
		 vc->opt.no_inv_flag || ((d.flags & IBV_WC_WITH_INV) && d.invalidated == bind.rkey),
		 "wc_flags 0x%x, key 0x%x not 0x%x", d.flags, d.invalidated, bind.rkey);
	VC_TRY(vc_same(vc, vc->in.data + WINDOW_OFF, WINDOW_LEN, a->seed,
		       "written through the window"));
	VC_TRY(vc_same(vc, vc->in.data + ANSWER_OFF, a->size, a->seed + 1, "received"));
	VC_CHECK(vc,
		 vc->in.data[WINDOW_OFF - 1] == 0xee &&
			 vc->in.data[WINDOW_OFF + WINDOW_LEN] == 0xee,
		 "wrote beside the window");
	/*
	 * It is free again: bound anew, under the next key, and invalidated on this side. The
	 * window's present key is for the program to keep, as rxe relies on.
	 */
	mw->rkey = bind.rkey;
	bind.rkey = inv.rkey = ibv_inc_rkey(bind.rkey);
	VC_TRY(complete(vc, a->c, &bind));
	VC_TRY(complete(vc, a->c, &inv));
	return vc_sync(vc);
}

static bool use_window(struct vc *vc, const struct arg *a)
{
	struct vc_op write = {.opcode = IBV_WR_RDMA_WRITE,
			      .raddr = a->c->peer.in_addr + WINDOW_OFF};
	struct vc_op answer = {.opcode = IBV_WR_SEND_WITH_INV};
	uint32_t key = 0;

	vc_fill(vc->out.data, WINDOW_LEN, a->seed);
	vc_fill(vc->out.data + ANSWER_OFF, a->size, a->seed + 1);
	VC_TRY(vc_swap(vc, &key, &key, sizeof(key)));
	write.rkey = answer.rkey = key;
	write.nsge = vc_cut(write.sge, 2, &vc->out, 0, WINDOW_LEN);
	answer.nsge = vc_cut(answer.sge, a->nsge, &vc->out, ANSWER_OFF, a->size);
	VC_TRY(complete(vc, a->c, &write));
	VC_TRY(complete(vc, a->c, &answer));
	return vc_sync(vc);
}

static bool case_window(struct vc *vc, void *p)
{
	const struct arg *a = p;
	bool theirs, ok;
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	VC_TRY(vc_swap(vc, &vc->windows, &theirs, sizeof(theirs)));
	if (!vc->windows || !theirs)
		return true; /* nothing to test */
	if (vc->active)
		return use_window(vc, a);
	mr = ibv_reg_mr(vc->pd, vc->in.data, WINDOW_OFF + WINDOW_LEN,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	VC_CHECK(vc, mr, "ibv_reg_mr: %s", strerror(errno));
	mw = ibv_alloc_mw(vc->pd, IBV_MW_TYPE_2);
	VC_CHECK(vc, mw, "ibv_alloc_mw: %s", strerror(errno));
	ok = own_window(vc, a, mr, mw);
	VC_CHECK(vc, ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0,
		 "window or its region not given up");
	return ok;
}

/* ---- the group ---- */

struct shared {
	struct vc_conn c;
	bool alive;
	unsigned seed;
};

static bool case_connect(struct vc *vc, void *p)
{
	return vc_conn_new(vc, p, NULL);
}

/** After a failure the connection may be in any state: the next case gets a new one. */
static void run(struct vc *vc, struct shared *s, const char *name, bool reverse, vc_run fn,
		void *arg)
{
	if (!s->alive) {
		vc_conn_free(&s->c);
		s->alive = vc_case(vc, "connect", false, case_connect, &s->c);
		if (!s->alive)
			return;
	}
	s->seed++;
	s->alive = vc_case(vc, name, reverse, fn, arg);
}

static void push(struct vc *vc, struct shared *s, bool reverse, const char *what, struct arg a)
{
	char name[80];

	snprintf(name, sizeof(name), "%s %zu", what, a.size);
	a.c = &s->c;
	a.seed = s->seed;
	if (a.nrecv == 0)
		a.nrecv = 1;
	if (a.opcode == IBV_WR_RDMA_READ)
		run(vc, s, name, reverse, case_read, &a);
	else
		run(vc, s, name, reverse, case_push, &a);
}

static void window(struct vc *vc, struct shared *s, bool reverse, size_t size)
{
	struct arg a = {.c = &s->c, .size = size, .nsge = 1, .seed = s->seed};
	char name[80];

	snprintf(name, sizeof(name), "send_inv %zu", size);
	run(vc, s, name, reverse, case_window, &a);
}

static void one_size(struct vc *vc, struct shared *s, bool reverse, size_t size)
{
	bool ud = vc->opt.type == IBV_QPT_UD, rc = vc->opt.type == IBV_QPT_RC;

	push(vc, s, reverse, "send", (struct arg){.opcode = IBV_WR_SEND, .size = size, .nsge = 1});
	push(vc, s, reverse, "send_imm",
	     (struct arg){.opcode = IBV_WR_SEND_WITH_IMM,
			  .size = size,
			  .nsge = 1,
			  .flags = IBV_SEND_SOLICITED});
	push(vc, s, reverse, "send_sge",
	     (struct arg){.opcode = IBV_WR_SEND, .size = size, .nsge = VC_MAX_SGE, .nrecv = 3});
	if (size == 0)
		push(vc, s, reverse, "send_no_sge", (struct arg){.opcode = IBV_WR_SEND, .nsge = 0});
	if (size <= VC_INLINE) {
		push(vc, s, reverse, "send_inline",
		     (struct arg){.opcode = IBV_WR_SEND,
				  .size = size,
				  .nsge = 1,
				  .flags = IBV_SEND_INLINE});
		push(vc, s, reverse, "send_inline_sge",
		     (struct arg){.opcode = IBV_WR_SEND,
				  .size = size,
				  .nsge = 2,
				  .flags = IBV_SEND_INLINE});
	}
	if (ud)
		return;
	push(vc, s, reverse, "write",
	     (struct arg){.opcode = IBV_WR_RDMA_WRITE, .size = size, .nsge = 1});
	push(vc, s, reverse, "write_imm",
	     (struct arg){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .size = size, .nsge = 1});
	push(vc, s, reverse, "write_imm_sge",
	     (struct arg){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .size = size, .nsge = 3});
	if (size <= VC_INLINE)
		push(vc, s, reverse, "write_inline",
		     (struct arg){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .size = size,
				  .nsge = 1,
				  .flags = IBV_SEND_INLINE});
	if (!rc)
		return;
	push(vc, s, reverse, "read",
	     (struct arg){.opcode = IBV_WR_RDMA_READ, .size = size, .nsge = 1});
	push(vc, s, reverse, "read_sge",
	     (struct arg){.opcode = IBV_WR_RDMA_READ, .size = size, .nsge = 3});
}

/** The longest message there is, 2 GiB - 1. */
static void huge(struct vc *vc, struct shared *s)
{
	size_t size = 0x7fffffff;

	push(vc, s, false, "write_imm",
	     (struct arg){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .size = size, .nsge = 1});
	push(vc, s, false, "send", (struct arg){.opcode = IBV_WR_SEND, .size = size, .nsge = 1});
	if (vc->opt.type == IBV_QPT_RC)
		push(vc, s, false, "read",
		     (struct arg){.opcode = IBV_WR_RDMA_READ, .size = size, .nsge = 1});
}

void vc_group_ops(struct vc *vc)
{
	size_t m = vc->mtu, sizes[] = {0,     1,	2,	   3,
				       4,     5,	64,	   m - 1,
				       m,     m + 1,	2 * m - 1, 3 * m + 2,
				       65536, 1u << 20, 4u << 20,  (16u << 20) - OFFSET};
	size_t few[] = {0, 1, m, m + 1, 65536};
	/* A UC message must fit the receiver's socket buffer. */
	size_t limit = vc->opt.type == IBV_QPT_UD   ? m
		       : vc->opt.type == IBV_QPT_UC ? 65536
		       : vc->opt.big		    ? 16u << 20
						    : 1u << 20;
	struct shared s = {.c = {.vc = vc}};

	if (vc->opt.max_size && limit > vc->opt.max_size)
		limit = vc->opt.max_size;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i] <= limit)
			one_size(vc, &s, false, sizes[i]);
	for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
		if (few[i] <= limit)
			one_size(vc, &s, true, few[i]);
	if (vc->opt.type == IBV_QPT_RC) {
		run(vc, &s, "atomics", false, case_atomic, &s.c);
		run(vc, &s, "atomics", true, case_atomic, &s.c);
		for (int i = 0; i < 3; i++)
			window(vc, &s, i == 1, (size_t[]){1, 0, 3 * m + 2}[i]);
	}
	if (vc->opt.huge)
		huge(vc, &s);
	vc_conn_free(&s.c);
}
