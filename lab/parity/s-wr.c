/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: the extended interface, ibv_wr_*() and extended CQs. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "parity.h"

struct wr {
	const char *name;
	enum ibv_qp_type type;
	uint64_t ops;
	struct msg m;
	bool receive;
};

static const struct wr cases[] = {
	/* clang-format off */
	{"rc/send", IBV_QPT_RC, IBV_QP_EX_WITH_SEND, {IBV_WR_SEND, .len = 2000}, true},
	{"rc/send-imm", IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_IMM, {IBV_WR_SEND_WITH_IMM, .len = 2000}, true},
	{"rc/send-3-pieces", IBV_QPT_RC, IBV_QP_EX_WITH_SEND, {IBV_WR_SEND, .len = 2000, .pieces = 3}, true},
	{"rc/send-inline", IBV_QPT_RC, IBV_QP_EX_WITH_SEND, {IBV_WR_SEND, .len = 32, .flags = IBV_SEND_INLINE}, true},
	{"rc/write", IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, {IBV_WR_RDMA_WRITE, .len = 2000}, false},
	{"rc/write-inline", IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, {IBV_WR_RDMA_WRITE, .len = 32, .flags = IBV_SEND_INLINE}, false},
	{"rc/write-imm", IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, {IBV_WR_RDMA_WRITE_WITH_IMM, .len = 2000}, true},
	{"rc/read", IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ, {IBV_WR_RDMA_READ, .len = 2000}, false},
	{"rc/cmp-swap", IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, {IBV_WR_ATOMIC_CMP_AND_SWP, .len = 8, .swap = 3}, false},
	{"rc/fetch-add", IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, {IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .compare_add = 3}, false},
	{"uc/send", IBV_QPT_UC, IBV_QP_EX_WITH_SEND, {IBV_WR_SEND, .len = 2000}, true},
	{"uc/write-imm", IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, {IBV_WR_RDMA_WRITE_WITH_IMM, .len = 2000}, true},
	{"ud/send", IBV_QPT_UD, IBV_QP_EX_WITH_SEND, {IBV_WR_SEND, .len = 500}, true},
	{"ud/send-imm", IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_IMM, {IBV_WR_SEND_WITH_IMM, .len = 500}, true},
	/* clang-format on */
};

static void run_wr(struct pair *p, const void *arg)
{
	const struct wr *w = arg;
	struct setup s = {
		.type = w->type,
		.ops = w->ops,
		.sge = w->m.pieces ? w->m.pieces : 1,
		.inline_bytes = w->m.flags & IBV_SEND_INLINE ? w->m.len : 0,
	};

	pair_setup(p, &s);
	if (w->receive)
		recv_post(&p->rsp, 7, 0, w->m.len + (w->type == IBV_QPT_UD ? GRH : 0));
	if (msg_post_wr(&p->req, &p->rsp, &w->m))
		return;
	poll_send(&p->req, 1);
	if (w->receive)
		poll_recv(&p->rsp, 1);
	memory_say(p);
}

/** ibv_wr_abort() leaves nothing behind. */
static void run_abort(struct pair *p, const void *arg)
{
	struct ibv_qp_ex *q;

	(void)arg;
	pair_setup(p, &(struct setup){.ops = IBV_QP_EX_WITH_SEND});
	q = ibv_qp_to_qp_ex(p->req.qp);
	recv_post(&p->rsp, 7, 0, 100);
	ibv_wr_start(q);
	q->wr_id = 1;
	q->wr_flags = 0;
	ibv_wr_send(q);
	ibv_wr_set_sge(q, p->req.mr->lkey, (uintptr_t)p->req.mem, 50);
	ibv_wr_abort(q);
	msg_post_wr(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 2, .len = 60});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	poll_nothing(&p->req);
}

/** Two requests between one start and one complete. */
static void run_batch(struct pair *p, const void *arg)
{
	struct ibv_qp_ex *q;

	(void)arg;
	pair_setup(p, &(struct setup){.ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE});
	q = ibv_qp_to_qp_ex(p->req.qp);
	recv_post(&p->rsp, 7, 0, 100);
	ibv_wr_start(q);
	q->wr_id = 1;
	q->wr_flags = 0;
	ibv_wr_rdma_write(q, p->rsp.mr->rkey, (uintptr_t)p->rsp.mem + DST + 4096);
	ibv_wr_set_sge(q, p->req.mr->lkey, (uintptr_t)p->req.mem + SRC, 50);
	q->wr_id = 2;
	ibv_wr_send(q);
	ibv_wr_set_sge(q, p->req.mr->lkey, (uintptr_t)p->req.mem + SRC, 60);
	say_result(&p->req, "ibv_wr_complete", ibv_wr_complete(q));
	poll_send(&p->req, 2);
	poll_recv(&p->rsp, 1);
	memory_say(p);
}

/* ---- extended CQs ---- */

static void cq_ex_say(const struct end *e, struct ibv_cq_ex *cq)
{
	enum ibv_wc_opcode op = ibv_wc_read_opcode(cq);

	say(e, "extended: %llu: %s %s %u bytes%s", (unsigned long long)cq->wr_id,
	    text_status(cq->status), text_wc_opcode(op), ibv_wc_read_byte_len(cq),
	    ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM ? " imm" : "");
	if (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
		say(e, "extended: imm %08x", ntohl(ibv_wc_read_imm_data(cq)));
}

/** Three receives' completions read by ibv_start_poll() and ibv_next_poll(). */
static void run_cq_ex(struct pair *p, const void *arg)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 16,
					.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM};
	struct ibv_poll_cq_attr pa = {0};
	struct ibv_cq_ex *cq;
	int err;

	(void)arg;
	pair_setup(p, &(struct setup){.state = STAY_RESET});
	cq = ibv_create_cq_ex(p->rsp.ctx, &a);
	if (!cq)
		failed(&p->rsp, "ibv_create_cq_ex");
	ibv_destroy_qp(p->rsp.qp);
	p->rsp.qp =
		ibv_create_qp(p->rsp.pd, &(struct ibv_qp_init_attr){.send_cq = p->rsp.scq,
								    .recv_cq = ibv_cq_ex_to_cq(cq),
								    .cap = {.max_send_wr = 4,
									    .max_recv_wr = 4,
									    .max_send_sge = 1,
									    .max_recv_sge = 1},
								    .qp_type = IBV_QPT_RC});
	if (!p->rsp.qp)
		failed(&p->rsp, "ibv_create_qp");
	pair_connect(p, &(struct setup){0});
	for (uint32_t i = 0; i < 3; i++) {
		recv_post(&p->rsp, 10 + i, 4096 * i, 4096);
		msg_post(&p->req, &p->rsp,
			 &(struct msg){.op = i == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				       .len = 10 + i});
	}
	poll_send(&p->req, 3);
	err = ibv_start_poll(cq, &pa);
	for (unsigned i = 0; i < 3 && !err; i++) {
		cq_ex_say(&p->rsp, cq);
		err = ibv_next_poll(cq);
	}
	say_result(&p->rsp, "at the end ibv_next_poll", err);
	ibv_end_poll(cq);
}

/** ibv_create_qp_ex() for operations that a service does not have. */
static void run_wrong_ops(struct pair *p, const void *arg)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = {.max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
	};

	(void)arg;
	end_setup(&p->req, &(struct setup){.type = IBV_QPT_UD});
	a.pd = p->req.pd;
	a.send_cq = p->req.scq;
	a.recv_cq = p->req.rcq;
	errno = 0;
	say_result(&p->req, "UD with READ", ibv_create_qp_ex(p->req.ctx, &a) ? 0 : errno);
}

void scenarios_wr(void)
{
	for (unsigned i = 0; i < COUNT(cases); i++)
		registry_add(run_wr, &cases[i], 0, "wr/%s", cases[i].name);
	registry_add(run_abort, NULL, 0, "wr/abort");
	registry_add(run_batch, NULL, 0, "wr/two-in-a-batch");
	registry_add(run_wrong_ops, NULL, ALONE, "wr/ud-with-read");
	registry_add(run_cq_ex, NULL, 0, "cq-ex/three-receives");
}
