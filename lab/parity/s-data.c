/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: data arrives. Every operation of RC, UC and UD by size, flag, number of pieces. */
#include <string.h>

#include "parity.h"

struct data {
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	uint32_t len;
	uint32_t pieces;      /* of the request */
	uint32_t recv_pieces; /* of the receive */
	unsigned flags;
	bool srq;
	uint32_t psn;
	uint32_t spare; /* bytes more in the receive than are sent */
};

static bool takes_receive(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static uint32_t at_least_1(uint32_t n)
{
	return n ? n : 1;
}

static void run_data(struct pair *p, const void *arg)
{
	const struct data *d = arg;
	bool ud = d->type == IBV_QPT_UD;
	uint32_t pieces = at_least_1(d->pieces), recv_pieces = at_least_1(d->recv_pieces);
	struct setup s = {
		.type = d->type,
		.sge = pieces > recv_pieces ? pieces : recv_pieces,
		.inline_bytes = d->flags & IBV_SEND_INLINE ? d->len : 0,
		.srq = d->srq,
		.psn = d->psn,
	};
	struct msg m = {
		.op = d->op, .len = d->len, .pieces = d->pieces, .flags = d->flags, .id = 1};

	pair_setup(p, &s);
	if (takes_receive(d->op))
		recv_post_pieces(&p->rsp, 7, 0, d->len + d->spare + (ud ? GRH : 0),
				 d->len + d->spare || ud ? recv_pieces : 0);
	if (msg_post(&p->req, &p->rsp, &m))
		return;
	poll_send(&p->req, 1);
	if (takes_receive(d->op))
		poll_recv(&p->rsp, 1);
	else if (d->type == IBV_QPT_UC) {
		/* Only a later message shows that a UC WRITE has arrived. */
		recv_post(&p->rsp, 8, MSG_MAX - 64, 0);
		m = (struct msg){.op = IBV_WR_SEND, .id = 2};
		msg_post(&p->req, &p->rsp, &m);
		poll_send(&p->req, 1);
		poll_recv(&p->rsp, 1);
	}
	poll_nothing(&p->rsp);
	poll_nothing(&p->req);
	memory_say(p);
	state_say(&p->req, IBV_QPS_RTS);
	state_say(&p->rsp, IBV_QPS_RTS);
}

/* ---- sizes ---- */

static const enum ibv_wr_opcode rc_ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
static const uint32_t rc_sizes[] = {0, 1, 3, MTU - 1, MTU, MTU + 1, 65536 + 5, MSG_MAX - GRH};
static const enum ibv_wr_opcode uc_ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					    IBV_WR_RDMA_WRITE_WITH_IMM};
static const uint32_t uc_sizes[] = {0, 1, MTU, MTU + 1, 16384 + 2};
static const enum ibv_wr_opcode ud_ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
static const uint32_t ud_sizes[] = {0, 1, 3, 256, MTU};

static void add_sizes(const char *name, enum ibv_qp_type type, const enum ibv_wr_opcode *ops,
		      unsigned nops, const uint32_t *sizes, unsigned nsizes)
{
	static struct data table[100];
	static unsigned used;

	for (unsigned i = 0; i < nops; i++)
		for (unsigned j = 0; j < nsizes; j++) {
			struct data *d = &table[used++];

			*d = (struct data){.type = type, .op = ops[i], .len = sizes[j]};
			registry_add(run_data, d, 0, "data/%s/%s/%u", name, text_op(ops[i]),
				     sizes[j]);
		}
}

/* ---- shapes ---- */

static const struct {
	const char *name;
	struct data d;
} shapes[] = {
	/* clang-format off */
	{"rc/send/inline-1", {IBV_QPT_RC, IBV_WR_SEND, .len = 1, .flags = IBV_SEND_INLINE}},
	{"rc/send/inline-32", {IBV_QPT_RC, IBV_WR_SEND, .len = 32, .flags = IBV_SEND_INLINE}},
	{"rc/send/inline-3-pieces", {IBV_QPT_RC, IBV_WR_SEND, .len = 31, .pieces = 3, .flags = IBV_SEND_INLINE}},
	{"rc/write/inline-32", {IBV_QPT_RC, IBV_WR_RDMA_WRITE, .len = 32, .flags = IBV_SEND_INLINE}},
	{"rc/write-imm/inline-32", {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, .len = 32, .flags = IBV_SEND_INLINE}},
	{"uc/send/inline-32", {IBV_QPT_UC, IBV_WR_SEND, .len = 32, .flags = IBV_SEND_INLINE}},
	{"ud/send/inline-32", {IBV_QPT_UD, IBV_WR_SEND, .len = 32, .flags = IBV_SEND_INLINE}},
	{"rc/send/3-pieces", {IBV_QPT_RC, IBV_WR_SEND, .len = 3001, .pieces = 3}},
	{"rc/send/3-pieces-of-1", {IBV_QPT_RC, IBV_WR_SEND, .len = 3, .pieces = 3}},
	{"rc/send/into-3-pieces", {IBV_QPT_RC, IBV_WR_SEND, .len = 3001, .recv_pieces = 3}},
	{"rc/send/2-pieces-into-3", {IBV_QPT_RC, IBV_WR_SEND, .len = 5003, .pieces = 2, .recv_pieces = 3}},
	{"rc/send/piece-of-0-bytes", {IBV_QPT_RC, IBV_WR_SEND, .len = 1, .pieces = 2}},
	{"rc/write/3-pieces", {IBV_QPT_RC, IBV_WR_RDMA_WRITE, .len = 5003, .pieces = 3}},
	{"rc/read/3-pieces", {IBV_QPT_RC, IBV_WR_RDMA_READ, .len = 5003, .pieces = 3}},
	{"uc/send/3-pieces", {IBV_QPT_UC, IBV_WR_SEND, .len = 3001, .pieces = 3}},
	{"uc/write/3-pieces", {IBV_QPT_UC, IBV_WR_RDMA_WRITE, .len = 3001, .pieces = 3}},
	{"ud/send/3-pieces", {IBV_QPT_UD, IBV_WR_SEND, .len = 301, .pieces = 3}},
	{"ud/send/into-3-pieces", {IBV_QPT_UD, IBV_WR_SEND, .len = 301, .recv_pieces = 3}},
	{"rc/send/short-of-receive", {IBV_QPT_RC, IBV_WR_SEND, .len = 100, .spare = 1000}},
	{"uc/send/short-of-receive", {IBV_QPT_UC, IBV_WR_SEND, .len = 100, .spare = 1000}},
	{"ud/send/short-of-receive", {IBV_QPT_UD, IBV_WR_SEND, .len = 100, .spare = 500}},
	{"rc/write-imm/receive-has-memory", {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, .len = 0, .spare = 64}},
	{"rc/send/srq", {IBV_QPT_RC, IBV_WR_SEND, .len = 2000, .srq = true}},
	{"rc/send-imm/srq", {IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, .len = 2000, .srq = true}},
	{"rc/write-imm/srq", {IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, .len = 2000, .srq = true}},
	{"uc/send/srq", {IBV_QPT_UC, IBV_WR_SEND, .len = 2000, .srq = true}},
	{"ud/send/srq", {IBV_QPT_UD, IBV_WR_SEND, .len = 200, .srq = true}},
	{"rc/send/solicited", {IBV_QPT_RC, IBV_WR_SEND, .len = 10, .flags = IBV_SEND_SOLICITED}},
	{"rc/send/fence", {IBV_QPT_RC, IBV_WR_SEND, .len = 10, .flags = IBV_SEND_FENCE}},
	{"rc/send/psn-wraps", {IBV_QPT_RC, IBV_WR_SEND, .len = 10 * MTU, .psn = 0xfffffc}},
	{"rc/write/psn-wraps", {IBV_QPT_RC, IBV_WR_RDMA_WRITE, .len = 10 * MTU, .psn = 0xfffffc}},
	{"rc/read/psn-wraps", {IBV_QPT_RC, IBV_WR_RDMA_READ, .len = 10 * MTU, .psn = 0xfffffc}},
	{"uc/send/psn-wraps", {IBV_QPT_UC, IBV_WR_SEND, .len = 10 * MTU, .psn = 0xfffffc}},
	/* clang-format on */
};

/* ---- atomics ---- */

struct atomic {
	const char *name;
	enum ibv_wr_opcode op;
	uint64_t before, compare_add, swap;
};
static const struct atomic atomics[] = {
	{"cmp-swap/equal", IBV_WR_ATOMIC_CMP_AND_SWP, 5, 5, 0x1122334455667788},
	{"cmp-swap/not-equal", IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6, 0x1122334455667788},
	{"fetch-add/1", IBV_WR_ATOMIC_FETCH_AND_ADD, 0x0102030405060708, 1, 0},
	{"fetch-add/wraps", IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 2, 0},
	{"fetch-add/0", IBV_WR_ATOMIC_FETCH_AND_ADD, 77, 0, 0},
};

static void run_atomic(struct pair *p, const void *arg)
{
	const struct atomic *a = arg;
	const struct msg m = {
		.op = a->op, .len = 8, .id = 1, .compare_add = a->compare_add, .swap = a->swap};
	uint64_t v = a->before;

	if (p->req.attr.atomic_cap == IBV_ATOMIC_NONE || p->rsp.attr.atomic_cap == IBV_ATOMIC_NONE)
		unsupported(NULL, "atomic_cap is IBV_ATOMIC_NONE");
	pair_setup(p, &(struct setup){0});
	memcpy(p->rsp.mem + DST, &v, sizeof(v));
	if (msg_post(&p->req, &p->rsp, &m))
		return;
	poll_send(&p->req, 1);
	memcpy(&v, p->req.mem + SRC, sizeof(v));
	say(&p->req, "returned %016llx", (unsigned long long)v);
	memcpy(&v, p->rsp.mem + DST, sizeof(v));
	say(&p->rsp, "now holds %016llx", (unsigned long long)v);
	memory_say(p);
}

/* ---- several at once ---- */

/** Order: what is posted as one list completes in that order, at both ends. */
static void run_order(struct pair *p, const void *arg)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE,		 IBV_WR_RDMA_READ, IBV_WR_RDMA_READ,
		IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_SEND};
	const struct setup *s = arg;

	pair_setup(p, s);
	for (uint32_t i = 0; i < 4; i++)
		recv_post(&p->rsp, 10 + i, i * 4096, 4096);
	for (uint32_t i = 0; i < COUNT(ops); i++)
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = ops[i],
				       .id = i,
				       .len = 100 + 400 * i,
				       .local = i * 8192,
				       .remote = 65536 + i * 8192});
	poll_send(&p->req, COUNT(ops));
	poll_recv(&p->rsp, 4);
	memory_say(p);
}
static const struct setup order_1 = {0}, order_4 = {.rd_atomic = 4};

/** A READ after a WRITE of the same place sees it; a WRITE fenced behind a READ does not spoil it.
 */
static void run_fence(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.rd_atomic = 1});
	recv_post(&p->rsp, 9, 65536, 20000);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_RDMA_WRITE, .id = 1, .len = 20000});
	/* reads rsp's SRC - SRC + DST = where the WRITE went, into req's DST */
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_READ, .id = 2, .len = 20000, .remote = DST - SRC});
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_SEND,
			       .id = 3,
			       .len = 20000,
			       .local = DST - SRC,
			       .flags = IBV_SEND_FENCE});
	poll_send(&p->req, 3);
	poll_recv(&p->rsp, 1);
	memory_say(p);
}

/** Every fourth of 16 requests is signaled. */
static void run_unsignaled(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.unsignaled = true});
	for (uint32_t i = 1; i <= 16; i++)
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = IBV_WR_RDMA_WRITE,
				       .id = i,
				       .len = 100,
				       .local = i * 100,
				       .remote = i * 100,
				       .flags = i % 4 ? 0 : IBV_SEND_SIGNALED});
	poll_send(&p->req, 4);
	poll_nothing(&p->req);
	memory_say(p);
}

/** More requests than fit into the queue at once, each reaped before the next. */
static void run_ring(struct pair *p, const void *arg)
{
	const uint32_t *n = arg;

	pair_setup(p, &(struct setup){.depth = 4});
	for (uint32_t i = 0; i < *n; i++) {
		recv_post(&p->rsp, 100 + i, i * 64, 64);
		msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = i, .len = 64});
		poll_send(&p->req, 1);
		poll_recv(&p->rsp, 1);
	}
	memory_say(p);
}
static const uint32_t ring_20 = 20;

/** Both ends send at the same time. */
static void run_both_ways(struct pair *p, const void *arg)
{
	const enum ibv_wr_opcode *op = arg;
	struct msg m = {.op = *op, .id = 1, .len = 50000};

	pair_setup(p, &(struct setup){0});
	recv_post(&p->req, 11, 0, 50000);
	recv_post(&p->rsp, 12, 0, 50000);
	msg_post(&p->req, &p->rsp, &m);
	msg_post(&p->rsp, &p->req, &m);
	poll_send(&p->req, 1);
	poll_send(&p->rsp, 1);
	if (takes_receive(*op)) {
		poll_recv(&p->req, 1);
		poll_recv(&p->rsp, 1);
	}
	memory_say(p);
}

/** The receiver is late: RNR NAKs, and success in the end. */
static void run_late_receive(struct pair *p, const void *arg)
{
	(void)arg;
	pair_setup(p, &(struct setup){.rnr_timer = 1});
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 3000});
	poll_nothing(&p->req);
	recv_post(&p->rsp, 5, 0, 4096);
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	memory_say(p);
	state_say(&p->req, IBV_QPS_RTS);
}

void scenarios_data(void)
{
	add_sizes("rc", IBV_QPT_RC, rc_ops, COUNT(rc_ops), rc_sizes, COUNT(rc_sizes));
	add_sizes("uc", IBV_QPT_UC, uc_ops, COUNT(uc_ops), uc_sizes, COUNT(uc_sizes));
	add_sizes("ud", IBV_QPT_UD, ud_ops, COUNT(ud_ops), ud_sizes, COUNT(ud_sizes));
	for (unsigned i = 0; i < COUNT(shapes); i++)
		registry_add(run_data, &shapes[i].d, 0, "data/%s", shapes[i].name);
	for (unsigned i = 0; i < COUNT(atomics); i++)
		registry_add(run_atomic, &atomics[i], 0, "data/rc/%s", atomics[i].name);
	registry_add(run_order, &order_1, 0, "data/rc/order");
	registry_add(run_order, &order_4, 0, "data/rc/order-4-reads-at-once");
	registry_add(run_fence, NULL, 0, "data/rc/fence-behind-read");
	registry_add(run_unsignaled, NULL, 0, "data/rc/unsignaled");
	registry_add(run_ring, &ring_20, 0, "data/rc/queue-goes-round");
	registry_add(run_both_ways, &rc_ops[0], 0, "data/rc/both-ways/send");
	registry_add(run_both_ways, &rc_ops[2], 0, "data/rc/both-ways/write");
	registry_add(run_both_ways, &rc_ops[4], 0, "data/rc/both-ways/read");
	registry_add(run_late_receive, NULL, RACY, "data/rc/send/late-receive");
}
