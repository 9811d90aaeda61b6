/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table's bench in virtual time: two simulated nodes, and packets that get lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/opcodes.h>

#include "base/util.h"
#include "errors.h"
#include "sim.h"

enum { REGIONS = 4, DEPTH = 16 };

struct sim_bench {
	struct err_bench base;
	struct sim *s;
	struct sim_qp *qp[ENDS];
	bool gone[ENDS];
	struct sim_srq *srq; /* the responder's, or NULL */
	struct rocemu_pd *other_pd[ENDS];
	struct rocemu_mw *mw;
	unsigned nregions;
	struct rocemu_mr *mr[REGIONS]; /* NULL: deregistered */
	bool nak_lost;
	uint8_t mem[REGIONS][ERR_MEM] __attribute__((aligned(8)));
};

static struct sim_bench *of(struct err_bench *b)
{
	return container_of(b, struct sim_bench, base);
}

static struct rocemu_pd *pd_of(struct sim_bench *b, enum err_end end, bool other)
{
	struct sim_node *n = &b->s->node[end];

	if (!other)
		return n->pd;
	if (!b->other_pd[end])
		b->other_pd[end] = rocemu_pd_new(n->ep);
	return b->other_pd[end];
}

static struct err_region reg(struct err_bench *base, enum err_end end, unsigned access,
			     bool other_pd)
{
	struct sim_bench *b = of(base);
	uint8_t *mem = b->mem[b->nregions];
	/* Different from its address: the two must not be confused. */
	uint64_t iova = 0x10000000u * (b->nregions + 1u);
	struct rocemu_mr *mr;

	sim_assert(b->s, b->nregions < REGIONS);
	sim_assert(b->s, rocemu_mr_reg(pd_of(b, end, other_pd), mem, ERR_MEM, iova, (int)access,
				       &mr) == 0);
	b->mr[b->nregions++] = mr;
	return (struct err_region){.addr = iova,
				   .len = ERR_MEM,
				   .lkey = rocemu_mr_lkey(mr),
				   .rkey = rocemu_mr_rkey(mr),
				   .handle = mr};
}

static void dereg(struct err_bench *base, enum err_end end, struct err_region *r)
{
	struct sim_bench *b = of(base);

	(void)end;
	sim_assert(b->s, rocemu_mr_dereg(r->handle) == 0);
	for (unsigned i = 0; i < b->nregions; i++)
		if (b->mr[i] == r->handle)
			b->mr[i] = NULL;
}

static void note_lost(struct sim_bench *b)
{
	const char *text = sim_effects(b->s);

	for (const char *item = text; item; item = strchr(item, ';')) {
		const size_t len = strcspn(++item, ";");
		char copy[128] = "";

		memcpy(copy, item, MIN(len, sizeof(copy) - 1));
		if (strstr(copy, "lost") && (strstr(copy, "NAK") || strstr(copy, "RNR")))
			b->nak_lost = true;
	}
}

static void open_qps(struct sim_bench *b, const struct err_config *c)
{
	struct sim_qp_opts o = SIM_QP_OPTS;

	o.type = c->type;
	o.mtu = IBV_MTU_1024;
	o.rnr_retry = c->rnr_retry;
	o.retry_cnt = c->retry_cnt;
	o.depth = DEPTH;
	o.qkey = ERR_QKEY;
	b->qp[REQ] = sim_qp_new(b->s, REQ, &o);
	o.srq = b->srq;
	b->qp[RSP] = sim_qp_new(b->s, RSP, &o);
	for (unsigned end = 0; end < ENDS; end++) {
		struct sim_qp_opts mine = o;

		mine.psn = end == REQ ? 100 : 500;
		mine.peer_psn = end == REQ ? 500 : 100;
		if (c->no_rd_atomic && end == REQ)
			mine.rd_atomic = 0;
		mine.access = end == RSP ? c->access : SIM_ACCESS_ALL;
		b->qp[end]->no_poll = true;
		sim_qp_init(b->qp[end], &mine);
		sim_qp_rtr(b->qp[end], b->qp[!end], &mine);
		if (end == REQ || !c->stay_rtr)
			sim_qp_rts(b->qp[end], &mine);
	}
	if (c->cqe)
		sim_assert(b->s, rocemu_cq_resize(b->qp[RSP]->rcq, c->cqe) == 0);
}

static struct err_bench *open_bench(const struct err_config *c)
{
	const struct sim_config cfg = {
		.name = "errors",
		.seed = 1 + c->loss_mask,
		.link = {.delay_ns = 5 * SIM_US},
		.loss_mask = c->loss_mask,
	};
	struct sim_bench *b = calloc(1, sizeof(*b));

	if (!b)
		abort();
	b->base.ops = &err_bench_sim;
	b->base.vendor_err_is_nak = true;
	b->s = sim_new(&cfg);
	b->s->allowed_drops = UINT64_MAX;
	if (c->srq)
		b->srq = sim_srq_new(b->s, RSP, DEPTH);
	open_qps(b, c);
	for (unsigned end = 0; end < ENDS; end++)
		b->base.mem[end] = reg(&b->base, end, SIM_ACCESS_ALL, false);
	return &b->base;
}

static void close_bench(struct err_bench *base)
{
	struct sim_bench *b = of(base);

	sim_run(b->s);
	for (unsigned end = 0; end < ENDS; end++)
		if (!b->gone[end])
			rocemu_qp_modify(b->qp[end]->qp, b->s->now,
					 &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
					 IBV_QP_STATE);
	if (b->mw)
		rocemu_mw_free(b->mw);
	for (unsigned i = 0; i < b->nregions; i++)
		if (b->mr[i])
			rocemu_mr_dereg(b->mr[i]);
	sim_free(b->s);
	free(b);
}

static int post(struct err_bench *base, enum err_end end, struct ibv_send_wr *wr)
{
	struct sim_bench *b = of(base);
	struct sim_qp *q = b->qp[end];

	return -rocemu_qp_post_send(q->qp, b->s->now, wr,
				    q->type == IBV_QPT_UD ? &q->ud_path : NULL);
}

static int recv(struct err_bench *base, enum err_end end, struct ibv_recv_wr *wr)
{
	struct sim_bench *b = of(base);
	const struct ibv_recv_wr *bad;

	if (end == RSP && b->srq)
		return -rocemu_srq_post(b->srq->srq, wr, &bad);
	return -rocemu_qp_post_recv(b->qp[end]->qp, b->s->now, wr, &bad);
}

static int modify(struct err_bench *base, enum err_end end, struct ibv_qp_attr *attr, int mask)
{
	struct sim_bench *b = of(base);

	return -rocemu_qp_modify(b->qp[end]->qp, b->s->now, attr, mask);
}

static int arm_srq(struct err_bench *base, unsigned limit)
{
	const struct ibv_srq_attr attr = {.srq_limit = limit};

	return -rocemu_srq_modify(of(base)->srq->srq, &attr, IBV_SRQ_LIMIT);
}

static int bind_window(struct err_bench *base, enum err_end end, uint64_t wr_id)
{
	struct sim_bench *b = of(base);
	struct ibv_mr mr = {.lkey = base->mem[end].lkey};
	struct ibv_mw mw = {0};
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	if (rocemu_mw_new(b->s->node[end].pd, IBV_MW_TYPE_2, &b->mw))
		return ENOMEM;
	mw.rkey = rocemu_mw_rkey(b->mw);
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = &mr,
							 .addr = base->mem[end].addr,
							 .length = 64,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	return post(base, end, &wr);
}

static uint32_t qpn(struct err_bench *base, enum err_end end)
{
	return rocemu_qp_num(of(base)->qp[end]->qp);
}

static int bad_response(struct err_bench *base)
{
	struct sim_bench *b = of(base);
	const struct rocemu_hdrs h = {
		.opcode = ROCEMU_RC_ATOMIC_ACK,
		.psn = 100,
		.dqpn = qpn(base, REQ),
		.pkey = ROCEMU_PKEY_DEFAULT,
		.migreq = true,
		.aeth = {.syndrome = ROCEMU_AETH_NO_CREDITS},
	};

	sim_run_for(b->s, SIM_US); /* the request is under way, its ACK is not */
	sim_inject(b->s, RSP, REQ, NULL, &h, NULL, 0);
	return 0;
}

/* The simulator frees its QPs itself: to the network this one is no more. */
static void vanish(struct err_bench *base, enum err_end end)
{
	struct sim_bench *b = of(base);

	b->gone[end] = true;
	b->s->node[end].gone = true;
}

static enum ibv_qp_state state(struct err_bench *base, enum err_end end)
{
	struct sim_bench *b = of(base);

	return b->gone[end] ? IBV_QPS_UNKNOWN : rocemu_qp_state(b->qp[end]->qp);
}

static unsigned take(struct rocemu_cq *cq, struct err_wc *wc, unsigned n)
{
	struct rocemu_cqe cqe;

	while (n < ERR_COMPLETIONS && rocemu_cq_poll(cq, &cqe, 1) == 1)
		wc[n++] = (struct err_wc){.wr_id = cqe.wr_id,
					  .status = cqe.status,
					  .vendor_err = cqe.vendor_err,
					  .byte_len = cqe.byte_len};
	return n;
}

static unsigned collect(struct err_bench *base, enum err_end end, unsigned least, uint32_t events,
			struct err_wc *wc, uint32_t *came)
{
	struct sim_bench *b = of(base);
	struct sim_node *node = &b->s->node[end];
	unsigned n = 0;

	(void)least;
	(void)events;
	sim_run(b->s);
	note_lost(b);
	*came = 0;
	for (unsigned i = 0; i < node->nevents; i++)
		if (node->events[i].type != ROCEMU_EVENT_CQ)
			*came |= 1u << node->events[i].async;
	if (!b->gone[end]) {
		n = take(b->qp[end]->scq, wc, n);
		n = take(b->qp[end]->rcq, wc, n);
	}
	return n;
}

static bool nak_lost(struct err_bench *base)
{
	return of(base)->nak_lost;
}

const struct err_bench_ops err_bench_sim = {
	.name = "simulator",
	.open = open_bench,
	.close = close_bench,
	.reg = reg,
	.dereg = dereg,
	.post = post,
	.recv = recv,
	.modify = modify,
	.bind = bind_window,
	.arm_srq = arm_srq,
	.bad_response = bad_response,
	.vanish = vanish,
	.state = state,
	.qpn = qpn,
	.collect = collect,
	.nak_lost = nak_lost,
};
