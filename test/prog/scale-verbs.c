/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scale-verbs WHAT N: makes N objects by calls of verbs, and uses some of them. The calls are made
 * in functions step_NAME(). cases_scale.py counts the instructions of these (valgrind
 * --tool=callgrind) for a small N and a large one: what a call costs must not differ.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SOME = 64, PAGE = 4096 };

#define STEP	   __attribute__((noinline)) static
#define MUST(call) ((call) ? (void)0 : die(#call))

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid here;
static uint8_t memory[2 * PAGE];

static void die(const char *what)
{
	fprintf(stderr, "scale-verbs: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- QPs ---- */

STEP struct ibv_qp *step_create_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	return ibv_create_qp(pd, &a);
}

STEP int step_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

STEP int step_rtr(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
	};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

STEP int step_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.timeout = 14,
				.retry_cnt = 7,
				.rnr_retry = 7,
				.max_rd_atomic = 1};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

STEP int step_reset(struct ibv_qp *qp)
{
	return to_state(qp, IBV_QPS_RESET);
}

STEP int step_error(struct ibv_qp *qp)
{
	return to_state(qp, IBV_QPS_ERR);
}

STEP int step_query_qp(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(qp, &a, IBV_QP_STATE, &init);
}

STEP int step_destroy_qp(struct ibv_qp *qp)
{
	return ibv_destroy_qp(qp);
}

STEP int step_post(struct ibv_qp *qp)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + PAGE;
	wr.wr.rdma.rkey = mr->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

STEP int step_poll_empty(void)
{
	struct ibv_wc wc;

	return ibv_poll_cq(cq, 1, &wc);
}

static void connect_to(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	MUST(!step_init(qp) && !step_rtr(qp, gid, qpn) && !step_rts(qp));
}

static void write_on(struct ibv_qp *qp)
{
	struct ibv_wc wc;
	int n;

	MUST(!step_post(qp));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	MUST(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/** N connected QPs, each to a remote lane of its own: 127.x.y.z. */
static void make_qps(struct ibv_qp **qps, unsigned n)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 127}};

	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp *qp = step_create_qp(IBV_QPT_RC);

		MUST(qp);
		qps[i] = qp;
		gid.raw[13] = 1;
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		connect_to(qp, &gid, 1 << 14 | 77);
	}
}

static void use_qps(void)
{
	struct ibv_qp *qp[SOME];

	for (unsigned i = 0; i < SOME; i++)
		MUST((qp[i] = step_create_qp(IBV_QPT_RC)));
	for (unsigned i = 0; i < SOME; i++)
		connect_to(qp[i], &here, qp[i ^ 1]->qp_num);
	for (unsigned i = 0; i < SOME; i++)
		MUST(!step_query_qp(qp[i]));
	for (unsigned i = 0; i < SOME; i++)
		write_on(qp[i]);
	for (unsigned i = 0; i < SOME; i++)
		MUST(step_poll_empty() == 0);
	for (unsigned i = 0; i < SOME; i++)
		MUST(!(i & 1 ? step_error(qp[i]) : step_reset(qp[i])));
	for (unsigned i = 0; i < SOME; i++)
		MUST(!step_destroy_qp(qp[i]));
}

static void qps(unsigned n)
{
	struct ibv_qp **qp = calloc(n, sizeof(*qp));

	MUST(qp);
	make_qps(qp, n);
	use_qps();
	for (unsigned i = 0; i < n; i++)
		MUST(!step_destroy_qp(qp[i]));
	free(qp);
}

/* ---- CQs and their channel ---- */

STEP struct ibv_cq *step_create_cq(struct ibv_comp_channel *channel)
{
	return ibv_create_cq(ctx, 4, NULL, channel, 0);
}

STEP int step_destroy_cq(struct ibv_cq *c)
{
	return ibv_destroy_cq(c);
}

STEP int step_arm(struct ibv_cq *c)
{
	return ibv_req_notify_cq(c, 0);
}

STEP int step_poll_armed(struct ibv_cq *c)
{
	struct ibv_wc wc;

	return ibv_poll_cq(c, 1, &wc);
}

STEP int step_get_event(struct ibv_comp_channel *channel, struct ibv_cq **c)
{
	void *context;

	return ibv_get_cq_event(channel, c, &context);
}

STEP void step_ack_event(struct ibv_cq *c)
{
	ibv_ack_cq_events(c, 1);
}

/** A QP that is flushed makes a completion. */
static void complete(struct ibv_cq *c)
{
	struct ibv_qp_init_attr a = {.send_cq = c,
				     .recv_cq = c,
				     .qp_type = IBV_QPT_RC,
				     .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;

	MUST(qp && !step_init(qp) && !ibv_post_recv(qp, &wr, &bad) && !step_error(qp));
}

/** All armed, some with an event, all of one channel. */
static void cqs(unsigned n)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq **c = calloc(n, sizeof(*c)), *got;

	MUST(channel && c);
	for (unsigned i = 0; i < n; i++) {
		MUST((c[i] = step_create_cq(channel)));
		MUST(!step_arm(c[i]));
	}
	for (unsigned i = 0; i < SOME; i++)
		complete(c[i]);
	for (unsigned i = 0; i < SOME; i++) {
		MUST(!step_get_event(channel, &got));
		step_ack_event(got);
		MUST(step_poll_armed(got) == 1);
	}
	for (unsigned i = SOME; i < n; i++)
		MUST(!step_destroy_cq(c[i]));
	free(c);
}

/* ---- objects that are only made ---- */

STEP struct ibv_mr *step_reg_mr(unsigned more)
{
	return ibv_reg_mr(pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE | more);
}

STEP int step_advise_mr(const struct ibv_mr *m)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = PAGE, .lkey = m->lkey};

	return ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

STEP int step_dereg_mr(struct ibv_mr *m)
{
	return ibv_dereg_mr(m);
}

static void mrs(unsigned n)
{
	struct ibv_mr **m = calloc(n, sizeof(*m));

	MUST(m);
	for (unsigned i = 0; i < n; i++)
		MUST((m[i] = step_reg_mr(i % 2 ? (unsigned)IBV_ACCESS_ON_DEMAND : 0)));
	for (unsigned i = 1; i < 2 * SOME; i += 2)
		MUST(!step_advise_mr(m[i]));
	for (unsigned i = 0; i < n; i++)
		MUST(!step_dereg_mr(m[i]));
	free(m);
}

STEP struct ibv_mw *step_alloc_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

STEP int step_dealloc_mw(struct ibv_mw *mw)
{
	return ibv_dealloc_mw(mw);
}

STEP struct ibv_pd *step_alloc_pd(void)
{
	return ibv_alloc_pd(ctx);
}

STEP int step_dealloc_pd(struct ibv_pd *p)
{
	return ibv_dealloc_pd(p);
}

STEP struct ibv_ah *step_create_ah(void)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = here, .hop_limit = 64}};

	return ibv_create_ah(pd, &a);
}

STEP int step_destroy_ah(struct ibv_ah *ah)
{
	return ibv_destroy_ah(ah);
}

STEP struct ibv_srq *step_create_srq(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};

	return ibv_create_srq(pd, &a);
}

STEP int step_destroy_srq(struct ibv_srq *srq)
{
	return ibv_destroy_srq(srq);
}

struct others {
	struct ibv_mw *mw;
	struct ibv_pd *pd;
	struct ibv_ah *ah;
	struct ibv_srq *srq;
};

static void others(unsigned n)
{
	struct others *o = calloc(n, sizeof(*o));

	MUST(o);
	for (unsigned i = 0; i < n; i++) {
		MUST((o[i].mw = step_alloc_mw()));
		MUST((o[i].pd = step_alloc_pd()));
		MUST((o[i].ah = step_create_ah()));
		MUST((o[i].srq = step_create_srq()));
	}
	for (unsigned i = 0; i < n; i++) {
		MUST(!step_dealloc_mw(o[i].mw));
		MUST(!step_dealloc_pd(o[i].pd));
		MUST(!step_destroy_ah(o[i].ah));
		MUST(!step_destroy_srq(o[i].srq));
	}
	free(o);
}

/* ---- XRC ---- */

STEP struct ibv_xrcd *step_open_xrcd(int fd)
{
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = O_CREAT};

	return ibv_open_xrcd(ctx, &a);
}

STEP int step_close_xrcd(struct ibv_xrcd *xrcd)
{
	return ibv_close_xrcd(xrcd);
}

STEP struct ibv_srq *step_create_xrc_srq(struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(ctx, &a);
}

STEP struct ibv_qp *step_create_target(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(ctx, &a);
}

struct xrc {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *target;
};

/** A domain by a file of its own. */
static struct ibv_xrcd *domain(void)
{
	const int fd = memfd_create("scale-verbs", MFD_CLOEXEC);
	struct ibv_xrcd *xrcd = fd < 0 ? NULL : step_open_xrcd(fd);

	close(fd);
	return xrcd;
}

/** The first domain has all SRQs and targets. */
static void xrc(unsigned n)
{
	struct xrc *x = calloc(n, sizeof(*x));

	MUST(x);
	for (unsigned i = 0; i < n; i++) {
		MUST((x[i].xrcd = i < n / 2 ? domain() : step_open_xrcd(-1)));
		MUST((x[i].srq = step_create_xrc_srq(x[0].xrcd)));
		MUST((x[i].target = step_create_target(x[0].xrcd)));
	}
	for (unsigned i = n; i-- > 0;) {
		MUST(!step_destroy_srq(x[i].srq));
		if (i)
			MUST(!step_close_xrcd(x[i].xrcd));
	}
	for (unsigned i = 0; i < n; i++)
		MUST(!step_destroy_qp(x[i].target));
	free(x);
}

/* ---- multicast ---- */

STEP int step_attach(struct ibv_qp *qp, const union ibv_gid *group)
{
	return ibv_attach_mcast(qp, group, 0);
}

STEP int step_detach(struct ibv_qp *qp, const union ibv_gid *group)
{
	return ibv_detach_mcast(qp, group, 0);
}

static union ibv_gid group(unsigned i)
{
	return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 239, 7, (uint8_t)(i >> 8), (uint8_t)i}};
}

/** Two QPs that are attached to n groups. */
static void mcast(unsigned n)
{
	struct ibv_qp *qp[2];

	for (unsigned q = 0; q < 2; q++) {
		qp[q] = step_create_qp(IBV_QPT_UD);
		MUST(qp[q]);
		for (unsigned i = 0; i < n; i++) {
			const union ibv_gid g = group(i);

			MUST(!step_attach(qp[q], &g));
		}
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned q = 0; q < 2; q++) {
			const union ibv_gid g = group(i);

			MUST(!step_detach(qp[q], &g));
		}
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && list[0]);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	MUST(ctx && !ibv_query_gid(ctx, 1, 0, &here));
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, SOME, NULL, NULL, 0);
	MUST(pd && cq);
	mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	MUST(mr);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(unsigned n);
	} all[] = {{"qps", qps},       {"cqs", cqs}, {"mrs", mrs},
		   {"others", others}, {"xrc", xrc}, {"mcast", mcast}};

	for (unsigned i = 0; argc == 3 && i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(argv[1], all[i].name)) {
			open_device();
			all[i].run((unsigned)atoi(argv[2]));
			printf("scale-verbs: done\n");
			return 0;
		}
	fprintf(stderr, "usage: scale-verbs qps|cqs|mrs|others|xrc|mcast N\n");
	return 2;
}
