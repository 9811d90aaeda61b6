/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors table's bench of reality: two QPs of the drop-in libibverbs, over loopback sockets. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "dev.h"
#include "errors.h"

enum { REGIONS = 4, DEPTH = 16, PATIENCE_S = 30, PATIENCE_MS = 30000 };

struct verbs_bench {
	struct err_bench base;
	struct dev d;
	struct ibv_cq *cq[ENDS];
	struct ibv_qp *qp[ENDS]; /* NULL: destroyed */
	struct ibv_srq *srq;	 /* the responder's, or NULL */
	struct ibv_pd *other_pd;
	struct ibv_mw *mw;
	struct ibv_mr *mr[REGIONS];
	struct ibv_ah *ah;
	unsigned nregions;
	uint32_t events[ENDS];
	uint8_t mem[REGIONS][ERR_MEM];
};

static struct verbs_bench *of(struct err_bench *b)
{
	return container_of(b, struct verbs_bench, base);
}

static struct err_region reg(struct err_bench *base, enum err_end end, unsigned access,
			     bool other_pd)
{
	struct verbs_bench *b = of(base);
	const unsigned i = b->nregions++;

	(void)end; /* both ends are this process's */
	assert_true(i < REGIONS);
	if (other_pd && !b->other_pd)
		b->other_pd = ibv_alloc_pd(b->d.ctx);
	b->mr[i] = ibv_reg_mr_iova2(other_pd ? b->other_pd : b->d.pd, b->mem[i], ERR_MEM,
				    0x10000000u * (i + 1), access);
	assert_non_null(b->mr[i]);
	return (struct err_region){.addr = 0x10000000u * (i + 1),
				   .lkey = b->mr[i]->lkey,
				   .rkey = b->mr[i]->rkey,
				   .handle = b->mr[i]};
}

static void dereg(struct err_bench *base, enum err_end end, struct err_region *r)
{
	struct verbs_bench *b = of(base);

	(void)end;
	for (unsigned i = 0; i < b->nregions; i++)
		if (b->mr[i] == r->handle)
			b->mr[i] = NULL;
	assert_int_equal(ibv_dereg_mr(r->handle), 0);
}

/* ---- the connection ---- */

static struct ibv_qp *new_qp(struct verbs_bench *b, enum err_end end, const struct err_config *c)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = b->cq[end],
		.recv_cq = b->cq[end],
		.srq = end == RSP ? b->srq : NULL,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = c->type,
	};
	struct ibv_qp *qp = ibv_create_qp(b->d.pd, &attr);

	assert_non_null(qp);
	return qp;
}

static void to_init(struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qkey = ERR_QKEY,
				.qp_access_flags = access};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	assert_int_equal(ibv_modify_qp(qp, &a, mask), 0);
}

static void to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};
	int mask = IBV_QP_STATE;

	assert_int_equal(ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid), 0);
	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(ibv_modify_qp(qp, &a, mask), 0);
}

static void to_rts(struct ibv_qp *qp, const struct err_config *c)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		/* Long, so that a busy machine is no error, but where there is to be one. */
		.timeout = c->retry_cnt == 7 ? 17 : 12,
		.retry_cnt = c->retry_cnt,
		.rnr_retry = c->rnr_retry,
		.max_rd_atomic = c->no_rd_atomic ? 0 : 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(qp, &a, mask), 0);
}

static unsigned rights(const struct err_config *c, enum err_end end)
{
	const unsigned all =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const unsigned uc = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	return (end == RSP ? c->access : all) &
	       (c->type == IBV_QPT_UC ? uc : all | IBV_ACCESS_LOCAL_WRITE);
}

static void connect_qps(struct verbs_bench *b, const struct err_config *c)
{
	for (unsigned end = 0; end < ENDS; end++) {
		b->qp[end] = new_qp(b, end, c);
		to_init(b->qp[end], rights(c, end));
	}
	for (unsigned end = 0; end < ENDS; end++) {
		to_rtr(b->qp[end], b->qp[!end]);
		if (end == REQ || !c->stay_rtr)
			to_rts(b->qp[end], c);
	}
}

static struct err_bench *open_bench(const struct err_config *c)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	struct verbs_bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->base.ops = &err_bench_verbs;
	dev_open(&b->d);
	assert_int_equal(fcntl(b->d.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	b->cq[REQ] = ibv_create_cq(b->d.ctx, 4 * DEPTH, NULL, NULL, 0);
	b->cq[RSP] = ibv_create_cq(b->d.ctx, c->cqe ? (int)c->cqe : 4 * DEPTH, NULL, NULL, 0);
	b->ah = dev_self_ah(&b->d);
	if (c->srq) {
		b->srq = ibv_create_srq(b->d.pd, &srq);
		assert_non_null(b->srq);
	}
	connect_qps(b, c);
	for (unsigned end = 0; end < ENDS; end++)
		b->base.mem[end] = reg(&b->base, end,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
				       false);
	return &b->base;
}

static void close_bench(struct err_bench *base)
{
	struct verbs_bench *b = of(base);

	for (unsigned end = 0; end < ENDS; end++)
		if (b->qp[end])
			assert_int_equal(ibv_destroy_qp(b->qp[end]), 0);
	if (b->mw)
		assert_int_equal(ibv_dealloc_mw(b->mw), 0);
	for (unsigned i = 0; i < b->nregions; i++)
		if (b->mr[i])
			assert_int_equal(ibv_dereg_mr(b->mr[i]), 0);
	if (b->srq)
		assert_int_equal(ibv_destroy_srq(b->srq), 0);
	if (b->other_pd)
		assert_int_equal(ibv_dealloc_pd(b->other_pd), 0);
	assert_int_equal(ibv_destroy_ah(b->ah), 0);
	for (unsigned end = 0; end < ENDS; end++)
		assert_int_equal(ibv_destroy_cq(b->cq[end]), 0);
	dev_close(&b->d);
	free(b);
}

/* ---- what rows do ---- */

static int post(struct err_bench *base, enum err_end end, struct ibv_send_wr *wr)
{
	struct verbs_bench *b = of(base);
	struct ibv_send_wr *bad;

	if (b->qp[end]->qp_type == IBV_QPT_UD && wr->opcode == IBV_WR_SEND)
		wr->wr.ud.ah = b->ah;
	return ibv_post_send(b->qp[end], wr, &bad);
}

static int recv(struct err_bench *base, enum err_end end, struct ibv_recv_wr *wr)
{
	struct verbs_bench *b = of(base);
	struct ibv_recv_wr *bad;

	return end == RSP && b->srq ? ibv_post_srq_recv(b->srq, wr, &bad)
				    : ibv_post_recv(b->qp[end], wr, &bad);
}

static int modify(struct err_bench *base, enum err_end end, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(of(base)->qp[end], attr, mask);
}

static int arm_srq(struct err_bench *base, unsigned limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return ibv_modify_srq(of(base)->srq, &attr, IBV_SRQ_LIMIT);
}

static int bind_window(struct err_bench *base, enum err_end end, uint64_t wr_id)
{
	struct verbs_bench *b = of(base);
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	b->mw = ibv_alloc_mw(b->d.pd, IBV_MW_TYPE_2);
	assert_non_null(b->mw);
	wr.bind_mw.mw = b->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(b->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = base->mem[end].handle,
							 .addr = base->mem[end].addr,
							 .length = 64,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	return post(base, end, &wr);
}

static void vanish(struct err_bench *base, enum err_end end)
{
	struct verbs_bench *b = of(base);

	assert_int_equal(ibv_destroy_qp(b->qp[end]), 0);
	b->qp[end] = NULL;
}

static enum ibv_qp_state state(struct err_bench *base, enum err_end end)
{
	struct ibv_qp *qp = of(base)->qp[end];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp)
		return IBV_QPS_UNKNOWN;
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static uint32_t qpn(struct err_bench *base, enum err_end end)
{
	return of(base)->qp[end] ? of(base)->qp[end]->qp_num : 0;
}

/* ---- what rows see ---- */

static enum err_end end_of(const struct verbs_bench *b, const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ev->element.cq == b->cq[REQ] ? REQ : RSP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return RSP;
	default:
		return ev->element.qp == b->qp[REQ] ? REQ : RSP;
	}
}

/** Take an event, for at most so long. */
static bool take_event(struct verbs_bench *b, int ms)
{
	struct pollfd fd = {.fd = b->d.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&fd, 1, ms) != 1 || ibv_get_async_event(b->d.ctx, &ev))
		return false;
	b->events[end_of(b, &ev)] |= 1u << ev.event_type;
	ibv_ack_async_event(&ev);
	return true;
}

static unsigned collect(struct err_bench *base, enum err_end end, unsigned least, uint32_t events,
			struct err_wc *wc, uint32_t *came)
{
	const time_t until = time(NULL) + PATIENCE_S;
	struct verbs_bench *b = of(base);
	struct ibv_wc one;
	unsigned n = 0;
	int got;

	do {
		got = ibv_poll_cq(b->cq[end], 1, &one);
		if (got == 1)
			wc[n++] = (struct err_wc){one.wr_id, one.status, one.vendor_err,
						  one.byte_len};
	} while (n < ERR_COMPLETIONS && (got > 0 || (n < least && time(NULL) < until)));
	while ((b->events[end] & events) != events && take_event(b, PATIENCE_MS))
		;
	while (take_event(b, 0))
		;
	*came = b->events[end];
	return n;
}

static bool nak_lost(struct err_bench *base)
{
	(void)base;
	return false;
}

const struct err_bench_ops err_bench_verbs = {
	.name = "verbs",
	.open = open_bench,
	.close = close_bench,
	.reg = reg,
	.dereg = dereg,
	.post = post,
	.recv = recv,
	.modify = modify,
	.bind = bind_window,
	.arm_srq = arm_srq,
	.vanish = vanish,
	.state = state,
	.qpn = qpn,
	.collect = collect,
	.nak_lost = nak_lost,
};
