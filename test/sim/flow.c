/* SPDX-License-Identifier: BSD-2-Clause */
/* See flow.h. */
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "must.h"

enum { CQ_DEPTH = 65536, POLL_BATCH = 16, RECVS_AHEAD = 16, FIRST_PSN = 0xffff00 };

struct flow_host {
	struct rocemu_cq *scq, *rcq;
	struct rocemu_mr *mr;
};

static void ok(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "flow: %s: %s\n", what, strerror(-rc));
	abort();
}

struct flow_config flow_defaults(void)
{
	return (struct flow_config){
		.from = 0,
		.to = 1,
		.op = FLOW_WRITE,
		.bytes = 1 << 20,
		.outstanding = 16,
		.mtu = IBV_MTU_4096,
		.timeout = 14,
		.retry_cnt = 7,
		.rd_atomic = 16,
	};
}

/* ---- posting and completions ---- */

static void post_recv(struct flow *fl)
{
	const struct flow_set *s = fl->set;
	struct ibv_sge sge = {(uintptr_t)s->memory, fl->c.bytes,
			      rocemu_mr_lkey(s->hosts[fl->c.to].mr)};
	struct ibv_recv_wr wr = {.wr_id = (uintptr_t)fl, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	if (rocemu_qp_state(fl->target) != IBV_QPS_ERR)
		ok(rocemu_qp_post_recv(fl->target, s->fabric->now, &wr, &bad), "post_recv");
}

static void post_one(struct flow *fl)
{
	static const enum ibv_wr_opcode opcode[] = {
		[FLOW_WRITE] = IBV_WR_RDMA_WRITE,
		[FLOW_SEND] = IBV_WR_SEND,
		[FLOW_READ] = IBV_WR_RDMA_READ,
	};
	const struct flow_set *s = fl->set;
	struct ibv_sge sge = {(uintptr_t)s->memory, fl->c.bytes,
			      rocemu_mr_lkey(s->hosts[fl->c.from].mr)};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)fl,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode[fl->c.op],
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)s->memory, flow_rkey(s, fl->c.to)},
	};

	ok(rocemu_qp_post_send(fl->qp, s->fabric->now, &wr, NULL), "post_send");
	fl->posted_at[fl->posted % fl->c.outstanding] = s->fabric->now;
	fl->posted++;
}

static void post(struct flow *fl)
{
	while (!fl->failed && fl->posted - fl->done < fl->c.outstanding &&
	       (!fl->c.limit || fl->posted < fl->c.limit))
		post_one(fl);
}

static void keep_latency(struct flow *fl)
{
	rocemu_ns_t at = fl->posted_at[fl->done % fl->c.outstanding];

	if (fl->latency_len == fl->latency_size) {
		fl->latency_size = fl->latency_size ? 2 * fl->latency_size : 1024;
		fl->latency = must(realloc(fl->latency, fl->latency_size * sizeof(*fl->latency)));
	}
	fl->latency[fl->latency_len++] = (uint32_t)(fl->set->fabric->now - at);
}

static void completed(struct flow *fl, const struct rocemu_cqe *c)
{
	rocemu_ns_t now = fl->set->fabric->now;

	if (c->status != IBV_WC_SUCCESS) {
		if (fl->failed++ == 0)
			fl->status = c->status;
		return;
	}
	if (fl->keep_latency)
		keep_latency(fl);
	if (fl->done_at)
		fl->longest_wait = MAX(fl->longest_wait, now - fl->done_at);
	fl->done_at = now;
	fl->done++;
	post(fl);
}

static void host_poll(struct fabric_host *h, void *arg)
{
	struct flow_set *s = arg;
	struct flow_host *fh = &s->hosts[h->index];
	struct rocemu_cqe c[POLL_BATCH];
	unsigned n;

	while ((n = rocemu_cq_poll(fh->scq, c, POLL_BATCH)))
		for (unsigned i = 0; i < n; i++)
			completed((struct flow *)(uintptr_t)c[i].wr_id, &c[i]);
	while ((n = rocemu_cq_poll(fh->rcq, c, POLL_BATCH)))
		for (unsigned i = 0; i < n; i++)
			if (c[i].status == IBV_WC_SUCCESS)
				post_recv((struct flow *)(uintptr_t)c[i].wr_id);
}

/* ---- connecting ---- */

struct flow_set *flow_set_new(struct fabric *f, unsigned size, uint32_t bytes)
{
	struct flow_set *s = must(calloc(1, sizeof(*s)));

	s->fabric = f;
	s->size = size;
	s->flows = must(calloc(size, sizeof(*s->flows)));
	s->hosts = must(calloc(f->cfg.hosts, sizeof(*s->hosts)));
	s->memory = must(calloc(1, bytes));
	s->memory_len = bytes;
	for (unsigned i = 0; i < f->cfg.hosts; i++) {
		struct fabric_host *h = &f->host[i];
		struct flow_host *fh = &s->hosts[i];

		ok(rocemu_cq_create(h->ep, CQ_DEPTH, NULL, &fh->scq), "CQ");
		ok(rocemu_cq_create(h->ep, CQ_DEPTH, NULL, &fh->rcq), "CQ");
		ok(rocemu_mr_reg(h->pd, s->memory, bytes, (uintptr_t)s->memory,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					 IBV_ACCESS_REMOTE_READ,
				 &fh->mr),
		   "MR");
		h->poll = host_poll;
		h->poll_arg = s;
	}
	return s;
}

uint32_t flow_rkey(const struct flow_set *s, unsigned host)
{
	return rocemu_mr_rkey(s->hosts[host].mr);
}

static struct rocemu_qp *qp_new(struct flow_set *s, unsigned host, const struct flow_config *c)
{
	struct fabric_host *h = &s->fabric->host[host];
	struct rocemu_qp_init init = {
		.pd = h->pd,
		.send_cq = s->hosts[host].scq,
		.recv_cq = s->hosts[host].rcq,
		.type = IBV_QPT_RC,
		.cap = {c->outstanding + 1, RECVS_AHEAD + c->outstanding, 1, 1, 0},
	};
	struct rocemu_qp *qp;

	ok(rocemu_qp_create(h->ep, &init, &qp), "QP");
	return qp;
}

static void qp_connect(struct flow_set *s, struct rocemu_qp *qp, unsigned to, uint32_t dqpn,
		       const struct flow_config *c)
{
	rocemu_ns_t now = s->fabric->now;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
		.path_mtu = c->mtu,
		.dest_qp_num = dqpn,
		.rq_psn = FIRST_PSN,
		.sq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 16,
		.max_rd_atomic = c->rd_atomic,
		.min_rnr_timer = 1,
		.timeout = c->timeout,
		.retry_cnt = c->retry_cnt,
		.rnr_retry = 7,
	};

	memcpy(a.ah_attr.grh.dgid.raw, s->fabric->host[to].gid.raw, 16);
	ok(rocemu_qp_modify(qp, now, &a,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	   "INIT");
	a.qp_state = IBV_QPS_RTR;
	ok(rocemu_qp_modify(qp, now, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	   "RTR");
	a.qp_state = IBV_QPS_RTS;
	ok(rocemu_qp_modify(qp, now, &a,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	   "RTS");
}

static struct flow *flow_new(struct flow_set *s, const struct flow_config *c)
{
	struct flow *fl = &s->flows[s->n++];

	if (s->n > s->size || c->bytes > s->memory_len)
		abort();
	*fl = (struct flow){.c = *c, .set = s};
	fl->posted_at = must(calloc(c->outstanding, sizeof(*fl->posted_at)));
	fl->qp = qp_new(s, c->from, c);
	return fl;
}

struct flow *flow_add(struct flow_set *s, const struct flow_config *c)
{
	struct flow *fl = flow_new(s, c);

	fl->target = qp_new(s, c->to, c);
	qp_connect(s, fl->qp, c->to, rocemu_qp_num(fl->target), c);
	qp_connect(s, fl->target, c->from, rocemu_qp_num(fl->qp), c);
	for (unsigned i = 0; c->op == FLOW_SEND && i < RECVS_AHEAD + c->outstanding; i++)
		post_recv(fl);
	return fl;
}

struct flow *flow_add_half(struct flow_set *s, const struct flow_config *c, uint32_t dqpn)
{
	struct flow *fl = flow_new(s, c);

	qp_connect(s, fl->qp, c->to, dqpn, c);
	return fl;
}

void flow_set_start(struct flow_set *s)
{
	for (unsigned i = 0; i < s->n; i++)
		post(&s->flows[i]);
	for (unsigned i = 0; i < s->fabric->cfg.hosts; i++)
		fabric_kick(s->fabric, i);
}

/* ---- results ---- */

void flow_set_mark(struct flow_set *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		s->flows[i].done_at_mark = s->flows[i].done;
		s->flows[i].latency_len = 0;
		s->flows[i].longest_wait = 0;
	}
}

uint64_t flow_bytes(const struct flow *fl)
{
	return (fl->done - fl->done_at_mark) * fl->c.bytes;
}

uint64_t flow_set_bytes(const struct flow_set *s)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n; i++)
		sum += flow_bytes(&s->flows[i]);
	return sum;
}

unsigned flow_set_failed(const struct flow_set *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += s->flows[i].failed > 0;
	return n;
}

double flow_set_jain(const struct flow_set *s)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < s->n; i++) {
		double x = (double)flow_bytes(&s->flows[i]);

		sum += x;
		squares += x * x;
	}
	return squares > 0 ? sum * sum / squares / s->n : 0;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t flow_latency(struct flow *fl, double quantile)
{
	if (!fl->latency_len)
		return 0;
	qsort(fl->latency, fl->latency_len, sizeof(*fl->latency), by_value);
	return fl->latency[(size_t)(quantile * (double)(fl->latency_len - 1))];
}

void flow_set_free(struct flow_set *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		free(s->flows[i].latency);
		free(s->flows[i].posted_at);
	}
	free(s->flows);
	free(s->hosts);
	free(s->memory);
	free(s);
}
