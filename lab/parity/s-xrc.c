/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenarios: XRC. The requester has the initiator QP, the responder a domain, SRQs in it and the
 * target QP.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parity.h"

static struct ibv_xrcd *domain(struct end *e, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(e->ctx, &a);
}

static struct ibv_xrcd *private_domain(struct end *e)
{
	struct ibv_xrcd *xrcd = domain(e, -1, O_CREAT);

	if (!xrcd)
		failed(e, "ibv_open_xrcd");
	return xrcd;
}

static struct ibv_srq *srq_of(struct end *e, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
			      uint32_t *num)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 32, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = e->rcq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(e->ctx, &a);

	if (!srq)
		failed(e, "ibv_create_srq_ex");
	errno = ibv_get_srq_num(srq, num);
	if (errno)
		failed(e, "ibv_get_srq_num");
	return srq;
}

/** In place of the RC QP that end_setup() makes. */
static void replace_qp(struct end *e, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = xrcd ? NULL : e->scq,
		.cap = {.max_send_wr = xrcd ? 0 : 32, .max_send_sge = xrcd ? 0 : 1},
		.qp_type = xrcd ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND,
		.sq_sig_all = 1,
		.comp_mask = xrcd ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = xrcd ? NULL : e->pd,
		.xrcd = xrcd,
	};

	errno = ibv_destroy_qp(e->qp);
	if (errno)
		failed(e, "ibv_destroy_qp");
	e->qp = ibv_create_qp_ex(e->ctx, &a);
	if (!e->qp)
		failed(e, "ibv_create_qp_ex");
}

struct xrc {
	struct ibv_xrcd *xrcd;
	uint32_t srqn;
};

static struct xrc xrc_setup(struct pair *p, const struct setup *s)
{
	struct xrc x;

	if (!(p->req.attr.device_cap_flags & p->rsp.attr.device_cap_flags & IBV_DEVICE_XRC))
		unsupported(NULL, "no IBV_DEVICE_XRC");
	end_setup(&p->req, s);
	end_setup(&p->rsp, s);
	x.xrcd = private_domain(&p->rsp);
	p->rsp.srq = srq_of(&p->rsp, p->rsp.pd, x.xrcd, &x.srqn);
	replace_qp(&p->req, NULL);
	replace_qp(&p->rsp, x.xrcd);
	pair_connect(p, s);
	return x;
}

static void states_say(struct pair *p, enum ibv_qp_state want)
{
	state_say(&p->req, want);
	state_say(&p->rsp, want);
}

/* ---- data ---- */

struct data {
	enum ibv_wr_opcode op;
	uint32_t len;
};

static bool takes_receive(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void run_data(struct pair *p, const void *arg)
{
	const struct data *d = arg;
	struct xrc x = xrc_setup(p, &(struct setup){0});

	if (takes_receive(d->op))
		recv_post(&p->rsp, 7, 0, d->len);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = d->op, .len = d->len, .id = 1, .srqn = x.srqn});
	poll_send(&p->req, 1);
	if (takes_receive(d->op))
		poll_recv(&p->rsp, 1);
	poll_nothing(&p->rsp);
	memory_say(p);
	states_say(p, IBV_QPS_RTS);
}

static void run_atomic(struct pair *p, const void *arg)
{
	const enum ibv_wr_opcode *op = arg;
	struct xrc x = xrc_setup(p, &(struct setup){0});
	struct msg m = {.op = *op, .len = 8, .id = 1, .srqn = x.srqn};

	memcpy(&m.compare_add, p->rsp.mem + DST, 8);
	m.swap = 42;
	msg_post(&p->req, &p->rsp, &m);
	poll_send(&p->req, 1);
	memory_say(p);
}

/** Messages to two SRQs by turns over one connection. */
static void run_two_srqs(struct pair *p, const void *arg)
{
	struct xrc x = xrc_setup(p, &(struct setup){0});
	struct ibv_srq *first = p->rsp.srq;
	uint32_t num[2] = {x.srqn, 0};

	(void)arg;
	p->rsp.srq = srq_of(&p->rsp, p->rsp.pd, x.xrcd, &num[1]);
	say(&p->rsp, "numbers differ: %s", num[0] != num[1] ? "yes" : "no");
	for (uint32_t i = 0; i < 4; i++) {
		struct ibv_srq *second = p->rsp.srq;

		p->rsp.srq = i % 2 ? second : first;
		recv_post(&p->rsp, 10 + i, i * 4096, 100);
		p->rsp.srq = second;
	}
	for (uint32_t i = 0; i < 4; i++) {
		msg_post(&p->req, &p->rsp,
			 &(struct msg){
				 .op = IBV_WR_SEND, .id = i, .len = 10 + i, .srqn = num[i % 2]});
		poll_send(&p->req, 1);
		poll_recv(&p->rsp, 1);
	}
	memory_say(p);
}

/** No receive there: the requester waits until there is one. */
static void run_rnr(struct pair *p, const void *arg)
{
	struct xrc x = xrc_setup(p, &(struct setup){0});

	(void)arg;
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 100, .srqn = x.srqn});
	poll_nothing(&p->req);
	recv_post(&p->rsp, 7, 0, 100);
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	memory_say(p);
}

/* ---- errors ---- */

enum wrong { UNKNOWN, OTHER_DOMAIN, OTHER_PD, TOO_LONG, BAD_KEY, NO_RECEIVE };
static const struct {
	const char *name;
	enum wrong what;
} wrongs[] = {
	{"unknown-srq", UNKNOWN},
	{"srq-of-another-domain", OTHER_DOMAIN},
	{"write-by-srq-of-another-pd", OTHER_PD},
	{"longer-than-receive", TOO_LONG},
	{"bad-rkey", BAD_KEY},
	{"no-receive", NO_RECEIVE},
};

static void run_wrong(struct pair *p, const void *arg)
{
	enum wrong what = *(const enum wrong *)arg;
	struct setup s = {.rnr_retry = what == NO_RECEIVE ? 1 : 7};
	struct xrc x = xrc_setup(p, &s);
	struct msg m = {.op = IBV_WR_SEND, .id = 1, .len = 100, .srqn = x.srqn};

	if (what == UNKNOWN)
		m.srqn ^= 0xf0f0f0;
	if (what == OTHER_DOMAIN)
		srq_of(&p->rsp, p->rsp.pd, private_domain(&p->rsp), &m.srqn);
	if (what == OTHER_PD)
		srq_of(&p->rsp, ibv_alloc_pd(p->rsp.ctx), x.xrcd, &m.srqn);
	if (what == OTHER_PD || what == BAD_KEY)
		m.op = IBV_WR_RDMA_WRITE;
	if (what == BAD_KEY)
		m.rkey = p->rsp.mr->rkey ^ 0x5a5a5a;
	if (what != NO_RECEIVE)
		recv_post(&p->rsp, 7, 0, what == TOO_LONG ? 99 : 100);
	msg_post(&p->req, &p->rsp, &m);
	msg_post(&p->req, &p->rsp, &(struct msg){.op = IBV_WR_SEND, .id = 2, .srqn = x.srqn});
	poll_send(&p->req, 2);
	if (what == TOO_LONG)
		poll_recv(&p->rsp, 1);
	poll_nothing(&p->rsp);
	state_say(&p->req, IBV_QPS_ERR);
	state_say(&p->rsp, what == NO_RECEIVE ? IBV_QPS_RTS : IBV_QPS_ERR);
	memory_say(p);
}

/* ---- objects ---- */

/** Domains by file: the same for one inode; the effects of O_CREAT and O_EXCL. */
static void run_by_file(struct pair *p, const void *arg)
{
	int fd = memfd_create("domain", MFD_CLOEXEC);
	struct ibv_xrcd *first, *second;

	(void)arg;
	xrc_setup(p, &(struct setup){.state = STAY_RESET});
	if (fd < 0)
		broken("memfd_create: %s", text_errno(errno));
	say_result(&p->rsp, "none, not to be made", domain(&p->rsp, fd, 0) ? 0 : errno);
	first = domain(&p->rsp, fd, O_CREAT | O_EXCL);
	say_result(&p->rsp, "a new one", first ? 0 : errno);
	say_result(&p->rsp, "a new one again", domain(&p->rsp, fd, O_CREAT | O_EXCL) ? 0 : errno);
	second = domain(&p->rsp, fd, O_CREAT);
	say_result(&p->rsp, "the same", second ? 0 : errno);
	say_result(&p->rsp, "bad descriptor", domain(&p->rsp, 12345, O_CREAT) ? 0 : errno);
	if (!first || !second)
		return;
	say_result(&p->rsp, "close the first", ibv_close_xrcd(first));
	say_result(&p->rsp, "close the second", ibv_close_xrcd(second));
	say_result(&p->rsp, "none any more", domain(&p->rsp, fd, 0) ? 0 : errno);
	close(fd);
}

static struct ibv_qp *open_again(struct end *e, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(e->ctx, &a);
}

/** A second handle of the target; the first goes; the connection works on. */
static void run_open_qp(struct pair *p, const void *arg)
{
	struct xrc x = xrc_setup(p, &(struct setup){0});
	struct ibv_qp *second = open_again(&p->rsp, x.xrcd, p->rsp.qp->qp_num);

	(void)arg;
	if (!second)
		failed(&p->rsp, "ibv_open_qp");
	say(&p->rsp, "same number: %s", second->qp_num == p->rsp.qp->qp_num ? "yes" : "no");
	say_result(&p->rsp, "of another domain",
		   open_again(&p->rsp, private_domain(&p->rsp), second->qp_num) ? 0 : errno);
	say_result(&p->rsp, "destroy the first", ibv_destroy_qp(p->rsp.qp));
	p->rsp.qp = second;
	recv_post(&p->rsp, 7, 0, 100);
	msg_post(&p->req, &p->rsp,
		 &(struct msg){.op = IBV_WR_SEND, .id = 1, .len = 100, .srqn = x.srqn});
	poll_send(&p->req, 1);
	poll_recv(&p->rsp, 1);
	say_result(&p->rsp, "close the domain", ibv_close_xrcd(x.xrcd));
	say_result(&p->rsp, "destroy the CQ", ibv_destroy_cq(p->rsp.rcq));
	say_result(&p->rsp, "destroy the second", ibv_destroy_qp(second));
	say_result(&p->rsp, "destroy the SRQ", ibv_destroy_srq(p->rsp.srq));
	say_result(&p->rsp, "close the domain", ibv_close_xrcd(x.xrcd));
}

static void run_no_queue(struct pair *p, const void *arg)
{
	struct ibv_recv_wr *rbad, rwr = {.wr_id = 1};
	struct xrc x = xrc_setup(p, &(struct setup){0});

	(void)arg;
	(void)x;
	say_result(&p->req, "post a receive", ibv_post_recv(p->req.qp, &rwr, &rbad));
	say_result(&p->rsp, "post a receive", ibv_post_recv(p->rsp.qp, &rwr, &rbad));
	states_say(p, IBV_QPS_RTS);
}

void scenarios_xrc(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						 IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						 IBV_WR_RDMA_READ};
	static const enum ibv_wr_opcode atomics[] = {IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD};
	static const uint32_t sizes[] = {0, 1, MTU + 1, 65536 + 5};
	static struct data table[COUNT(ops) * COUNT(sizes)];

	for (unsigned i = 0; i < COUNT(table); i++) {
		table[i] = (struct data){ops[i / COUNT(sizes)], sizes[i % COUNT(sizes)]};
		registry_add(run_data, &table[i], 0, "xrc/%s/%u", text_op(table[i].op),
			     table[i].len);
	}
	for (unsigned i = 0; i < COUNT(atomics); i++)
		registry_add(run_atomic, &atomics[i], 0, "xrc/%s", text_op(atomics[i]));
	registry_add(run_two_srqs, NULL, 0, "xrc/two-srqs");
	registry_add(run_rnr, NULL, RACY, "xrc/rnr");
	for (unsigned i = 0; i < COUNT(wrongs); i++)
		registry_add(run_wrong, &wrongs[i].what, 0, "xrc/error/%s", wrongs[i].name);
	registry_add(run_by_file, NULL, ALONE, "xrc/domain-by-file");
	registry_add(run_open_qp, NULL, 0, "xrc/open-qp");
	registry_add(run_no_queue, NULL, ALONE, "xrc/no-queue");
}
