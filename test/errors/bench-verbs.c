/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The errors table's bench of reality: two QPs of libibverbs, of one device or of two. Uses plain
 * verbs alone, so that it runs over whatever device the library finds. What must not fail, and
 * does, ends the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"

enum { REGIONS = 4, DEPTH = 16, HOPS = 64 };

struct err_verbs err_verbs = {.patience_ms = 30000, .event_patience_ms = 30000};

/* One end: its device's objects. Owns them all. */
struct verbs_end {
	struct ibv_context *ctx; /* may be the other end's, too */
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;   /* NULL: destroyed */
	struct ibv_srq *srq; /* of the responder, or NULL */
	struct ibv_ah *ah;   /* to the other end */
	struct ibv_mw *mw;
	uint8_t gid_index;
	union ibv_gid gid;
	uint32_t events; /* that have come: 1 << ibv_event_type */
};

struct verbs_bench {
	struct err_bench base;
	struct verbs_end end[ENDS];
	struct ibv_mr *mr[REGIONS]; /* NULL: deregistered */
	void *mem[REGIONS];	    /* owned */
	unsigned nregions;
};

static struct verbs_bench *of(struct err_bench *b)
{
	return (struct verbs_bench *)(void *)((char *)b - offsetof(struct verbs_bench, base));
}

/** A call that prepares a row did not do it. */
static void need(bool done, const char *call)
{
	if (done)
		return;
	printf("%s: %s\n", call, strerror(errno));
	fflush(stdout);
	exit(ERR_EXIT_BROKEN);
}

/** The same for calls that return an errno. */
static void need0(int err, const char *call)
{
	if (err)
		errno = err > 0 ? err : errno;
	need(err == 0, call);
}

/* ---- devices ---- */

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list != NULL, "ibv_get_device_list");
	for (unsigned i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	need(ctx != NULL, name);
	need(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK) == 0, "fcntl of async_fd");
	return ctx;
}

/** Of an address of the kind that both devices have: a RoCE v2 GID of an IPv4 address. */
static void choose_gid(struct verbs_end *e)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_port_attr port;
	struct ibv_gid_entry g;

	need0(ibv_query_port(e->ctx, 1, &port), "ibv_query_port");
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid_ex(e->ctx, 1, (uint32_t)i, &g, 0) &&
		    g.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(g.gid.raw, v4, sizeof(v4))) {
			e->gid_index = (uint8_t)i;
			e->gid = g.gid;
			return;
		}
	errno = ENODEV;
	need(false, "a RoCE v2 GID of an IPv4 address");
}

static struct ibv_ah_attr path_to(const struct verbs_end *from, const struct verbs_end *to)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = to->gid, .sgid_index = from->gid_index, .hop_limit = HOPS},
	};
}

/* ---- memory ---- */

static struct err_region reg(struct err_bench *base, enum err_end end, unsigned access,
			     bool other_pd)
{
	struct verbs_bench *b = of(base);
	struct verbs_end *e = &b->end[end];
	const unsigned i = b->nregions++;

	errno = ENOSPC;
	need(i < REGIONS, "another region");
	if (other_pd && !e->other_pd) {
		e->other_pd = ibv_alloc_pd(e->ctx);
		need(e->other_pd != NULL, "ibv_alloc_pd");
	}
	/* The kernel requires that address and IO address have the same offset in their pages. */
	need0(posix_memalign(&b->mem[i], (size_t)sysconf(_SC_PAGESIZE), ERR_MEM), "posix_memalign");
	b->mr[i] = ibv_reg_mr_iova2(other_pd ? e->other_pd : e->pd, b->mem[i], ERR_MEM,
				    0x10000000u * (i + 1), access);
	need(b->mr[i] != NULL, "ibv_reg_mr_iova2");
	return (struct err_region){.addr = 0x10000000u * (i + 1),
				   .len = ERR_MEM,
				   .lkey = b->mr[i]->lkey,
				   .rkey = b->mr[i]->rkey,
				   .handle = b->mr[i]};
}

static void dereg(struct err_bench *base, enum err_end end, struct err_region *r)
{
	struct verbs_bench *b = of(base);

	(void)end; /* the region has it */
	for (unsigned i = 0; i < b->nregions; i++)
		if (b->mr[i] == r->handle)
			b->mr[i] = NULL;
	need0(ibv_dereg_mr(r->handle), "ibv_dereg_mr");
}

/* ---- the connection ---- */

static void make_qp(struct verbs_end *e, const struct err_config *c)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->srq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = c->type,
	};

	e->qp = ibv_create_qp(e->pd, &attr);
	need(e->qp != NULL, "ibv_create_qp");
}

static void to_init(struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qkey = ERR_QKEY,
				.qp_access_flags = access};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	need0(ibv_modify_qp(qp, &a, mask), "ibv_modify_qp to INIT");
}

static void to_rtr(const struct verbs_end *e, const struct verbs_end *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = path_to(e, peer),
	};
	int mask = IBV_QP_STATE;

	if (e->qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (e->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	need0(ibv_modify_qp(e->qp, &a, mask), "ibv_modify_qp to RTR");
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
	need0(ibv_modify_qp(qp, &a, mask), "ibv_modify_qp to RTS");
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
		make_qp(&b->end[end], c);
		to_init(b->end[end].qp, rights(c, end));
	}
	for (unsigned end = 0; end < ENDS; end++) {
		to_rtr(&b->end[end], &b->end[!end]);
		if (end == REQ || !c->stay_rtr)
			to_rts(b->end[end].qp, c);
	}
}

static void open_ends(struct verbs_bench *b)
{
	const char *const *name = err_verbs.device;

	b->end[REQ].ctx = open_named(name[REQ]);
	b->end[RSP].ctx = strcmp(name[REQ], name[RSP]) ? open_named(name[RSP]) : b->end[REQ].ctx;
	for (unsigned end = 0; end < ENDS; end++)
		choose_gid(&b->end[end]);
}

static void make_objects(struct verbs_end *e, unsigned cqe, bool srq)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 2}};

	e->pd = ibv_alloc_pd(e->ctx);
	need(e->pd != NULL, "ibv_alloc_pd");
	e->cq = ibv_create_cq(e->ctx, (int)cqe, NULL, NULL, 0);
	need(e->cq != NULL, "ibv_create_cq");
	if (srq) {
		e->srq = ibv_create_srq(e->pd, &init);
		need(e->srq != NULL, "ibv_create_srq");
	}
}

static struct err_bench *open_bench(const struct err_config *c)
{
	struct verbs_bench *b = calloc(1, sizeof(*b));

	need(b != NULL, "calloc");
	b->base.ops = &err_bench_verbs;
	b->base.vendor_err_is_nak = err_verbs.vendor_err_is_nak;
	open_ends(b);
	for (unsigned end = 0; end < ENDS; end++) {
		struct verbs_end *e = &b->end[end];
		struct ibv_ah_attr path = path_to(e, &b->end[!end]);

		make_objects(e, end == RSP && c->cqe ? c->cqe : 4 * DEPTH, end == RSP && c->srq);
		e->ah = ibv_create_ah(e->pd, &path);
		need(e->ah != NULL, "ibv_create_ah");
	}
	connect_qps(b, c);
	for (unsigned end = 0; end < ENDS; end++)
		b->base.mem[end] = reg(&b->base, end,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
				       false);
	return &b->base;
}

static void free_objects(struct verbs_end *e)
{
	if (e->srq)
		need0(ibv_destroy_srq(e->srq), "ibv_destroy_srq");
	if (e->other_pd)
		need0(ibv_dealloc_pd(e->other_pd), "ibv_dealloc_pd");
	need0(ibv_destroy_ah(e->ah), "ibv_destroy_ah");
	need0(ibv_destroy_cq(e->cq), "ibv_destroy_cq");
	need0(ibv_dealloc_pd(e->pd), "ibv_dealloc_pd");
}

static void close_bench(struct err_bench *base)
{
	struct verbs_bench *b = of(base);

	for (unsigned end = 0; end < ENDS; end++) {
		if (b->end[end].qp)
			need0(ibv_destroy_qp(b->end[end].qp), "ibv_destroy_qp");
		if (b->end[end].mw)
			need0(ibv_dealloc_mw(b->end[end].mw), "ibv_dealloc_mw");
	}
	for (unsigned i = 0; i < b->nregions; i++) {
		if (b->mr[i])
			need0(ibv_dereg_mr(b->mr[i]), "ibv_dereg_mr");
		free(b->mem[i]);
	}
	for (unsigned end = 0; end < ENDS; end++)
		free_objects(&b->end[end]);
	if (b->end[RSP].ctx != b->end[REQ].ctx)
		need0(ibv_close_device(b->end[RSP].ctx), "ibv_close_device");
	need0(ibv_close_device(b->end[REQ].ctx), "ibv_close_device");
	free(b);
}

/* ---- what rows do ---- */

static int post(struct err_bench *base, enum err_end end, struct ibv_send_wr *wr)
{
	struct verbs_end *e = &of(base)->end[end];
	struct ibv_send_wr *bad;

	if (e->qp->qp_type == IBV_QPT_UD)
		wr->wr.ud.ah = e->ah;
	return ibv_post_send(e->qp, wr, &bad);
}

static int recv(struct err_bench *base, enum err_end end, struct ibv_recv_wr *wr)
{
	struct verbs_end *e = &of(base)->end[end];
	struct ibv_recv_wr *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, wr, &bad) : ibv_post_recv(e->qp, wr, &bad);
}

static int modify(struct err_bench *base, enum err_end end, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(of(base)->end[end].qp, attr, mask);
}

static int arm_srq(struct err_bench *base, unsigned limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return ibv_modify_srq(of(base)->end[RSP].srq, &attr, IBV_SRQ_LIMIT);
}

static int bind_window(struct err_bench *base, enum err_end end, uint64_t wr_id)
{
	struct verbs_end *e = &of(base)->end[end];
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	e->mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2);
	need(e->mw != NULL, "ibv_alloc_mw");
	wr.bind_mw.mw = e->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(e->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = base->mem[end].handle,
							 .addr = base->mem[end].addr,
							 .length = 64,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	return post(base, end, &wr);
}

static void vanish(struct err_bench *base, enum err_end end)
{
	struct verbs_end *e = &of(base)->end[end];

	need0(ibv_destroy_qp(e->qp), "ibv_destroy_qp");
	e->qp = NULL;
}

static enum ibv_qp_state state(struct err_bench *base, enum err_end end)
{
	struct ibv_qp *qp = of(base)->end[end].qp;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp)
		return IBV_QPS_UNKNOWN;
	need0(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}

static uint32_t qpn(struct err_bench *base, enum err_end end)
{
	return of(base)->end[end].qp ? of(base)->end[end].qp->qp_num : 0;
}

/* ---- what rows see ---- */

static enum err_end end_of(const struct verbs_bench *b, const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ev->element.cq == b->end[REQ].cq ? REQ : RSP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return RSP;
	default:
		return ev->element.qp == b->end[REQ].qp ? REQ : RSP;
	}
}

/** Wait so long for an asynchronous event of either end, and take all that are there. */
static bool take_events(struct verbs_bench *b, int ms)
{
	struct pollfd fd[ENDS];
	struct ibv_async_event ev;
	bool any = false;

	for (unsigned end = 0; end < ENDS; end++)
		fd[end] = (struct pollfd){.fd = b->end[end].ctx->async_fd, .events = POLLIN};
	if (poll(fd, ENDS, ms) <= 0)
		return false;
	for (unsigned end = 0; end < ENDS; end++)
		while (!ibv_get_async_event(b->end[end].ctx, &ev)) {
			b->end[end_of(b, &ev)].events |= 1u << ev.event_type;
			ibv_ack_async_event(&ev);
			any = true;
		}
	return any;
}

static unsigned take_completions(struct ibv_cq *cq, struct err_wc *wc, unsigned n)
{
	struct ibv_wc one;

	while (n < ERR_COMPLETIONS && ibv_poll_cq(cq, 1, &one) == 1)
		wc[n++] = (struct err_wc){one.wr_id, one.status, one.vendor_err, one.byte_len};
	return n;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * Until all is there, and then for as long as it takes to see that no more comes. Polls and waits
 * for events by turns: a completion of a QP in error may be behind its event, and the other way
 * round.
 */
static unsigned collect(struct err_bench *base, enum err_end end, unsigned least, uint32_t events,
			struct err_wc *wc, uint32_t *came)
{
	struct verbs_bench *b = of(base);
	struct verbs_end *e = &b->end[end];
	int64_t until = now_ms() + err_verbs.patience_ms;
	enum { COMPLETIONS, EVENTS, MORE } waits = COMPLETIONS;
	unsigned n = 0;

	do {
		const unsigned before = n;
		const bool event = take_events(b, 1);

		n = take_completions(e->cq, wc, n);
		if (waits == COMPLETIONS && n >= least) {
			waits = EVENTS;
			until = now_ms() + err_verbs.event_patience_ms;
		}
		if ((waits == EVENTS && (e->events & events) == events) ||
		    (waits == MORE && (n > before || event))) {
			waits = MORE;
			until = now_ms() + err_verbs.settle_ms;
		}
	} while (now_ms() < until);
	*came = e->events;
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
