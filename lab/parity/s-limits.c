/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios: a device accepts the limits that it reports, and refuses more. */
#include <stdlib.h>
#include <string.h>

#include "parity.h"

struct limit {
	const char *name;
	/** The limit in the attributes, or 0 when there is none. */
	uint32_t (*of)(const struct end *e);
	/** Make an object with that much; an errno. */
	int (*make)(struct end *e, uint32_t n);
};

static uint32_t positive(int n)
{
	return n > 0 ? (uint32_t)n : 0;
}

static uint32_t of_wr(const struct end *e)
{
	return positive(e->attr.max_qp_wr);
}
static uint32_t of_sge(const struct end *e)
{
	return positive(e->attr.max_sge);
}
static uint32_t of_cqe(const struct end *e)
{
	return positive(e->attr.max_cqe);
}
static uint32_t of_srq_wr(const struct end *e)
{
	return positive(e->attr.max_srq_wr);
}
static uint32_t of_srq_sge(const struct end *e)
{
	return positive(e->attr.max_srq_sge);
}

static int make_qp(struct end *e, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr a = {
		.send_cq = e->scq, .recv_cq = e->rcq, .cap = cap, .qp_type = IBV_QPT_RC};

	errno = 0;
	return ibv_create_qp(e->pd, &a) ? 0 : errno;
}

static int make_send_wr(struct end *e, uint32_t n)
{
	return make_qp(e, (struct ibv_qp_cap){n, 1, 1, 1, 0});
}
static int make_recv_wr(struct end *e, uint32_t n)
{
	return make_qp(e, (struct ibv_qp_cap){1, n, 1, 1, 0});
}
static int make_send_sge(struct end *e, uint32_t n)
{
	return make_qp(e, (struct ibv_qp_cap){1, 1, n, 1, 0});
}
static int make_recv_sge(struct end *e, uint32_t n)
{
	return make_qp(e, (struct ibv_qp_cap){1, 1, 1, n, 0});
}
static int make_cq(struct end *e, uint32_t n)
{
	errno = 0;
	return ibv_create_cq(e->ctx, (int)n, NULL, NULL, 0) ? 0 : errno;
}
static int make_srq(struct end *e, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = wr, .max_sge = sge}};

	errno = 0;
	return ibv_create_srq(e->pd, &a) ? 0 : errno;
}
static int make_srq_wr(struct end *e, uint32_t n)
{
	return make_srq(e, n, 1);
}
static int make_srq_sge(struct end *e, uint32_t n)
{
	return make_srq(e, 1, n);
}

static const struct limit limits[] = {
	{"qp-receive-requests", of_wr, make_recv_wr},
	{"qp-send-requests", of_wr, make_send_wr},
	{"qp-send-pieces", of_sge, make_send_sge},
	{"qp-receive-pieces", of_sge, make_recv_sge},
	{"cq-entries", of_cqe, make_cq},
	{"srq-requests", of_srq_wr, make_srq_wr},
	{"srq-pieces", of_srq_sge, make_srq_sge},
};

static void objects(struct pair *p)
{
	end_setup(&p->req, &(struct setup){0});
}

/** At the limit, and one more. Some devices cannot do all limits at once: no result is a surprise.
 */
static void run_limit(struct pair *p, const void *arg)
{
	const struct limit *l = arg;
	uint32_t n = l->of(&p->req);

	if (!n)
		unsupported(NULL, "the device's limit is 0");
	objects(p);
	say_result(&p->req, "at the limit", l->make(&p->req, n));
	say(&p->req, "above it: %s", l->make(&p->req, n + 1) ? "refused" : "taken");
}

/* ---- zero of something ---- */

static void run_zero(struct pair *p, const void *arg)
{
	const struct limit *l = arg;

	objects(p);
	say_result(&p->req, l->name, l->make(&p->req, 0));
}
static const struct limit zeros[] = {
	{"qp-send-requests", NULL, make_send_wr},
	{"qp-receive-requests", NULL, make_recv_wr},
	{"qp-send-pieces", NULL, make_send_sge},
	{"qp-receive-pieces", NULL, make_recv_sge},
	{"cq-entries", NULL, make_cq},
	{"srq-requests", NULL, make_srq_wr},
};

/* ---- queues that are full ---- */

static void run_full_receive(struct pair *p, const void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint32_t n;

	(void)arg;
	pair_setup(p, &(struct setup){.depth = 4, .state = IBV_QPS_INIT});
	if (ibv_query_qp(p->req.qp, &attr, IBV_QP_CAP, &init))
		broken("ibv_query_qp");
	for (n = 0; n < init.cap.max_recv_wr; n++)
		if (recv_post(&p->req, n, 0, 64))
			break;
	say(&p->req, "as many as the QP says: %s",
	    n == init.cap.max_recv_wr ? "taken" : "refused too early");
	/*
	 * A device may have rounded up without reporting it: the refusal must come at some point.
	 */
	for (; n < 100000; n++) {
		struct ibv_recv_wr *bad, wr = {.wr_id = n};
		int err = ibv_post_recv(p->req.qp, &wr, &bad);

		if (err) {
			say_result(&p->req, "then", err);
			say(&p->req, "bad_wr is %s", bad == &wr ? "the request" : "another");
			return;
		}
	}
	say(&p->req, "never refused");
}

static void run_full_send(struct pair *p, const void *arg)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND};
	uint32_t n;
	int err = 0;

	(void)arg;
	/* The receiver has nothing for them: they stay. */
	pair_setup(p, &(struct setup){.depth = 4, .rnr_timer = 25});
	for (n = 0; n < 100000 && !err; n++)
		err = ibv_post_send(p->req.qp, &wr, &bad);
	say(&p->req, "%s taken", n > 4 ? "at least 4" : "fewer than 4");
	say_result(&p->req, "then", err);
	say(&p->req, "bad_wr is %s", bad == &wr ? "the request" : "another");
}

enum { TOO_MANY = 1000 };

/** A list with a bad request in the middle: what is before it is posted, bad_wr points at it. */
static void run_bad_in_list(struct pair *p, const void *arg)
{
	/* All of them there: a provider may add up their lengths before it counts them. */
	static struct ibv_sge sge[TOO_MANY];
	struct ibv_send_wr wr[3], *bad = NULL;
	int err;

	(void)arg;
	pair_setup(p, &(struct setup){0});
	for (unsigned i = 0; i < TOO_MANY; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p->req.mem, 10, p->req.mr->lkey};
	for (unsigned i = 0; i < 3; i++) {
		memset(&wr[i], 0, sizeof(wr[i]));
		wr[i].wr_id = i;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].sg_list = sge;
		wr[i].num_sge = 1;
		wr[i].wr.rdma.remote_addr = (uintptr_t)p->rsp.mem + DST;
		wr[i].wr.rdma.rkey = p->rsp.mr->rkey;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].num_sge = TOO_MANY;
	err = ibv_post_send(p->req.qp, wr, &bad);
	say_result(&p->req, "a list with 1000 pieces in the second", err);
	say(&p->req, "bad_wr is the %s",
	    bad == &wr[1]   ? "second"
	    : bad == &wr[0] ? "first"
			    : "third or none");
	poll_send(&p->req, 1);
	poll_nothing(&p->req);
}

static void run_inline_too_long(struct pair *p, const void *arg)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	(void)arg;
	pair_setup(p, &(struct setup){.inline_bytes = 16});
	if (ibv_query_qp(p->req.qp, &attr, IBV_QP_CAP, &init))
		broken("ibv_query_qp");
	say(&p->req, "at least 16 bytes inline: %s", init.cap.max_inline_data >= 16 ? "yes" : "no");
	err = msg_post(&p->req, &p->rsp,
		       &(struct msg){.op = IBV_WR_RDMA_WRITE,
				     .id = 1,
				     .len = init.cap.max_inline_data,
				     .flags = IBV_SEND_INLINE});
	if (!err)
		poll_send(&p->req, 1);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_RDMA_WRITE,
			       .id = 2,
			       .len = init.cap.max_inline_data + 1,
			       .flags = IBV_SEND_INLINE});
}

/** Far too much of everything, as sizes from a confused program. */
static void run_absurd(struct pair *p, const void *arg)
{
	(void)arg;
	objects(p);
	say_result(&p->req, "a CQ of -1 entries", make_cq(&p->req, UINT32_MAX));
	say(&p->req, "a QP of 2^31 requests: %s",
	    make_send_wr(&p->req, 1u << 31) ? "refused" : "taken");
	say(&p->req, "a QP of 2^31 pieces: %s",
	    make_send_sge(&p->req, 1u << 31) ? "refused" : "taken");
	say(&p->req, "inline data of 2^31 bytes: %s",
	    make_qp(&p->req, (struct ibv_qp_cap){1, 1, 1, 1, 1u << 31}) ? "refused" : "taken");
	say(&p->req, "a completion vector that is not there: %s",
	    ibv_create_cq(p->req.ctx, 1, NULL, NULL, 1 << 20) ? "taken" : "refused");
}

/* ---- registering ---- */

struct reg {
	const char *name;
	bool null, unmapped;
	size_t len;
	unsigned access;
};
static const struct reg regs[] = {
	{"1-byte", .len = 1},
	{"0-bytes", .len = 0},
	{"null", .null = true, .len = 4096},
	{"unmapped", .unmapped = true, .len = 4096},
	{"around-the-address-space", .len = SIZE_MAX - 100},
	{"remote-write-without-local", .len = 4096, .access = IBV_ACCESS_REMOTE_WRITE},
	{"remote-atomic-without-local", .len = 4096, .access = IBV_ACCESS_REMOTE_ATOMIC},
	{"remote-read-only", .len = 4096, .access = IBV_ACCESS_REMOTE_READ},
	{"relaxed-ordering", .len = 4096,
	 .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING},
	{"on-demand", .len = 4096, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND},
	{"zero-based", .len = 4096, .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED},
	{"access-bit-19", .len = 4096, .access = 1 << 19},
};

static void run_reg(struct pair *p, const void *arg)
{
	const struct reg *r = arg;
	uint8_t *at;
	struct ibv_mr *mr;

	objects(p);
	at = r->null ? NULL : r->unmapped ? (uint8_t *)16384 : p->req.mem;
	errno = 0;
	/* the function, not the macro that looks at constant flags */
	mr = (ibv_reg_mr)(p->req.pd, at, r->len, (int)r->access);
	say_result(&p->req, "ibv_reg_mr", mr ? 0 : errno);
	if (!mr)
		return;
	say(&p->req, "addr %s, length %s", mr->addr == at ? "as given" : "another",
	    mr->length == r->len ? "as given" : "another");
	say_result(&p->req, "ibv_dereg_mr", ibv_dereg_mr(mr));
}

void scenarios_limits(void)
{
	for (unsigned i = 0; i < COUNT(limits); i++)
		registry_add(run_limit, &limits[i], ALONE, "limit/%s", limits[i].name);
	for (unsigned i = 0; i < COUNT(zeros); i++)
		registry_add(run_zero, &zeros[i], ALONE, "limit/zero/%s", zeros[i].name);
	registry_add(run_full_receive, NULL, ALONE, "limit/receive-queue-full");
	registry_add(run_full_send, NULL, RACY, "limit/send-queue-full");
	registry_add(run_bad_in_list, NULL, 0, "limit/bad-request-in-a-list");
	registry_add(run_inline_too_long, NULL, 0, "limit/inline-data");
	registry_add(run_absurd, NULL, ALONE, "limit/absurd-sizes");
	for (unsigned i = 0; i < COUNT(regs); i++)
		registry_add(run_reg, &regs[i], ALONE, "register/%s", regs[i].name);
}
