/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects on the simulated endpoints: memory with its wanted image, QPs and their states,
 * posting, the ledger. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "must.h"

/* ---- memory ---- */

static void fill_random(struct sim *s, uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = rng_u64(&s->rng);

		memcpy(p + i, &v, MIN((size_t)8, len - i));
	}
}

struct sim_mem *sim_mem_new(struct sim *s, unsigned node, uint32_t len, unsigned access)
{
	struct sim_mem *m = must(calloc(1, sizeof(*m)));
	size_t total = (size_t)len + 2 * SIM_GUARD;

	m->node = &s->node[node];
	m->len = len;
	m->alloc = must(malloc(total));
	m->want_alloc = must(malloc(total));
	m->buf = m->alloc + SIM_GUARD;
	m->want = m->want_alloc + SIM_GUARD;
	m->iova = (rng_u64(&s->rng) & 0x0000fffffffff000u) + 0x1000;
	fill_random(s, m->alloc, total);
	memcpy(m->want_alloc, m->alloc, total);
	if (rocemu_mr_reg(m->node->pd, m->buf, len, m->iova, (int)access, &m->mr) != 0)
		sim_fail(s, "mr_reg of %u bytes with access %#x failed", len, access);
	m->next = s->mems;
	s->mems = m;
	return m;
}

uint32_t sim_mem_take(struct sim_mem *m, uint32_t len)
{
	uint32_t off = m->used;

	if (len > m->len || off > m->len - len)
		sim_fail(m->node->sim, "the test's memory of %u bytes is used up", m->len);
	m->used = (off + len + 16 + 7) & ~7u;
	return off;
}

void sim_want_copy(struct sim_mem *dst, uint32_t d, const struct sim_mem *src, uint32_t so,
		   uint32_t len)
{
	memcpy(dst->want + d, src->want + so, len);
}

void sim_want_any(struct sim_mem *m, uint32_t off, uint32_t len)
{
	memcpy(m->want + off, m->buf + off, len);
}

uint64_t sim_mem_u64(const struct sim_mem *m, uint32_t off)
{
	uint64_t v;

	memcpy(&v, m->buf + off, sizeof(v));
	return v;
}

void sim_want_u64(struct sim_mem *m, uint32_t off, uint64_t v)
{
	memcpy(m->want + off, &v, sizeof(v));
}

void sim_mem_check(struct sim *s, const struct sim_mem *m)
{
	size_t total = (size_t)m->len + 2 * SIM_GUARD, i = 0;

	if (memcmp(m->alloc, m->want_alloc, total) == 0)
		return;
	while (m->alloc[i] == m->want_alloc[i])
		i++;
	sim_fail(s, "memory of node %c (%u bytes): byte %ld is %02x and must be %02x",
		 'A' + (int)m->node->index, m->len, (long)i - SIM_GUARD, m->alloc[i],
		 m->want_alloc[i]);
}

/* ---- queue pairs ---- */

struct sim_srq *sim_srq_new(struct sim *s, unsigned node, unsigned depth)
{
	struct sim_srq *q = must(calloc(1, sizeof(*q)));
	struct ibv_srq_attr attr = {.max_wr = depth, .max_sge = 4};

	q->node = &s->node[node];
	sim_assert(s, rocemu_srq_create(q->node->pd, &attr, q, &q->srq) == 0);
	sim_assert(s, attr.max_wr >= depth && attr.max_sge >= 4);
	q->next = s->srqs;
	s->srqs = q;
	return q;
}

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

struct sim_qp *sim_qp_new(struct sim *s, unsigned node, const struct sim_qp_opts *o)
{
	struct sim_qp *q = must(calloc(1, sizeof(*q)));
	struct rocemu_qp_init init;

	q->sim = s;
	q->node = &s->node[node];
	q->type = o->type;
	q->qkey = o->qkey;
	q->sig_all = o->sig_all;
	q->srq = o->srq;
	q->may_lose_receives = o->type == IBV_QPT_UC || o->type == IBV_QPT_UD;
	if (o->type != IBV_QPT_XRC_RECV)
		sim_assert(s, rocemu_cq_create(q->node->ep, 2 * o->depth, q, &q->scq) == 0);
	if (!is_xrc(o->type))
		sim_assert(s, rocemu_cq_create(q->node->ep, 2 * o->depth, q, &q->rcq) == 0);
	init = (struct rocemu_qp_init){
		.pd = o->type == IBV_QPT_XRC_RECV ? NULL : q->node->pd,
		.send_cq = q->scq,
		.recv_cq = q->rcq,
		.srq = o->srq && !is_xrc(o->type) ? o->srq->srq : NULL,
		.xrcd = o->type == IBV_QPT_XRC_RECV ? q->node->xrcd : NULL,
		.type = o->type,
		.cap = {.max_send_wr = o->depth,
			.max_recv_wr = o->srq ? 0 : o->depth,
			.max_send_sge = ROCEMU_MAX_SGE,
			.max_recv_sge = o->srq ? 0 : 4,
			.max_inline_data = ROCEMU_MAX_INLINE},
		.sq_sig_all = o->sig_all,
		.user = q,
	};
	sim_assert(s, rocemu_qp_create(q->node->ep, &init, &q->qp) == 0);
	sim_assert(s, rocemu_qp_user(q->qp) == q);
	sim_assert(s, rocemu_qp_find(q->node->ep, rocemu_qp_num(q->qp)) == q->qp);
	q->next = s->qps;
	s->qps = q;
	return q;
}

static void modify(struct sim_qp *q, const struct ibv_qp_attr *attr, int mask)
{
	int rc = rocemu_qp_modify(q->qp, q->sim->now, attr, mask);

	if (rc != 0)
		sim_fail(q->sim, "modify to state %d (mask %#x): %d", attr->qp_state,
			 (unsigned)mask, rc);
}

void sim_qp_init(struct sim_qp *q, const struct sim_qp_opts *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = o->access,
		.qkey = o->qkey,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	modify(q, &attr, mask | (o->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static struct ibv_ah_attr ah_to(const struct sim_qp *peer)
{
	struct ibv_ah_attr ah = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.sgid_index = 0, .hop_limit = 64},
	};

	memcpy(ah.grh.dgid.raw, peer->node->gid.raw, sizeof(ah.grh.dgid.raw));
	return ah;
}

void sim_qp_rtr(struct sim_qp *q, struct sim_qp *peer, const struct sim_qp_opts *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = ah_to(peer),
		.path_mtu = o->mtu,
		.dest_qp_num = rocemu_qp_num(peer->qp),
		.rq_psn = o->peer_psn,
		.max_dest_rd_atomic = o->dest_rd_atomic,
		.min_rnr_timer = o->min_rnr_timer,
	};
	int mask = IBV_QP_STATE;

	q->peer = peer;
	if (o->type == IBV_QPT_UD)
		sim_assert(q->sim,
			   rocemu_path_resolve(q->node->ep, &attr.ah_attr, &q->ud_path) == 0);
	else
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (o->type == IBV_QPT_RC || o->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(q, &attr, mask);
}

void sim_qp_rts(struct sim_qp *q, const struct sim_qp_opts *o)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = o->psn,
		.timeout = o->timeout,
		.retry_cnt = o->retry_cnt,
		.rnr_retry = o->rnr_retry,
		.max_rd_atomic = o->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (o->type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
	if (o->type == IBV_QPT_RC || o->type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	modify(q, &attr, mask);
}

struct sim_pair sim_connect(struct sim *s, unsigned na, unsigned nb, const struct sim_qp_opts *o)
{
	struct sim_qp_opts oa = *o, ob = *o;
	struct sim_pair p;

	oa.srq = NULL;
	ob.psn = o->peer_psn;
	ob.peer_psn = o->psn;
	if (o->type == IBV_QPT_XRC_SEND) {
		ob.type = IBV_QPT_XRC_RECV;
		ob.srq = o->srq ? o->srq : sim_xrc_srq_new(s, nb, NULL, o->depth);
	}
	p.a = sim_qp_new(s, na, &oa);
	p.b = sim_qp_new(s, nb, &ob);
	sim_qp_init(p.a, &oa);
	sim_qp_init(p.b, &ob);
	sim_qp_rtr(p.a, p.b, &oa);
	sim_qp_rtr(p.b, p.a, &ob);
	sim_qp_rts(p.a, &oa);
	sim_qp_rts(p.b, &ob);
	return p;
}

/* ---- posting ---- */

static struct sim_done *ledger_add(struct sim_ledger *l, uint64_t wr_id)
{
	struct sim_done *e;

	if (l->n == l->size) {
		l->size = l->size ? 2 * l->size : 64;
		l->e = must(realloc(l->e, l->size * sizeof(*l->e)));
	}
	e = &l->e[l->n++];
	*e = (struct sim_done){
		.wr_id = wr_id, .signaled = true, .opcode = IBV_WC_RECV, .want_len = -1};
	return e;
}

static enum ibv_wc_opcode completes_as(enum ibv_wr_opcode op)
{
	switch ((int)op) {
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
	case ROCEMU_WR_FLUSH:
		return (enum ibv_wc_opcode)ROCEMU_WC_FLUSH;
	case ROCEMU_WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)ROCEMU_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

struct sim_wr sim_wr(enum ibv_wr_opcode opcode, unsigned flags)
{
	return (struct sim_wr){.wr = {.opcode = opcode, .send_flags = flags}};
}

void sim_wr_local(struct sim_wr *w, const struct sim_mem *m, uint32_t off, uint32_t len)
{
	struct ibv_sge *sge = &w->sge[w->wr.num_sge++];

	sge->length = len;
	/* Inline data is named by its address, not by a key. */
	sge->addr = w->wr.send_flags & IBV_SEND_INLINE ? (uintptr_t)(m->buf + off) : m->iova + off;
	sge->lkey = w->wr.send_flags & IBV_SEND_INLINE ? 0 : rocemu_mr_lkey(m->mr);
}

void sim_wr_remote(struct sim_wr *w, const struct sim_mem *m, uint32_t off)
{
	if (w->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    w->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->wr.wr.atomic.remote_addr = m->iova + off;
		w->wr.wr.atomic.rkey = rocemu_mr_rkey(m->mr);
	} else {
		w->wr.wr.rdma.remote_addr = m->iova + off;
		w->wr.wr.rdma.rkey = rocemu_mr_rkey(m->mr);
	}
}

int sim_post(struct sim_qp *q, struct sim_wr *w)
{
	struct sim *s = q->sim;
	struct sim_done *e;
	int rc;

	w->wr.sg_list = w->sge;
	if (w->wr.wr_id == 0)
		w->wr.wr_id = s->next_wr_id++;
	if (q->type == IBV_QPT_UD) {
		w->wr.wr.ud.remote_qpn = w->wr.wr.ud.remote_qpn ? w->wr.wr.ud.remote_qpn
								: rocemu_qp_num(q->peer->qp);
		w->wr.wr.ud.remote_qkey =
			w->wr.wr.ud.remote_qkey ? w->wr.wr.ud.remote_qkey : q->qkey;
	}
	if (q->type == IBV_QPT_XRC_SEND && w->wr.qp_type.xrc.remote_srqn == 0)
		w->wr.qp_type.xrc.remote_srqn = rocemu_srq_num(q->peer->srq->srq);
	rc = rocemu_qp_post_send(q->qp, s->now, &w->wr, w->ud_path ? w->ud_path : &q->ud_path);
	if (rc != 0)
		return rc;
	e = ledger_add(&q->sq, w->wr.wr_id);
	e->signaled = q->sig_all || (w->wr.send_flags & IBV_SEND_SIGNALED);
	e->opcode = completes_as(w->wr.opcode);
	if (e->opcode == IBV_WC_RDMA_READ) {
		e->want_len = 0;
		for (int i = 0; i < w->wr.num_sge; i++)
			e->want_len += w->sge[i].length;
	}
	return 0;
}

static struct ibv_sge sge_of(const struct sim_mem *m, uint32_t off, uint32_t len)
{
	return (struct ibv_sge){
		.addr = m->iova + off, .length = len, .lkey = rocemu_mr_lkey(m->mr)};
}

int sim_post_recv(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = sge_of(m, off, len);
	struct ibv_recv_wr wr = {.wr_id = q->sim->next_wr_id++, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad = NULL;
	int rc = rocemu_qp_post_recv(q->qp, q->sim->now, &wr, &bad);

	if (rc == 0)
		ledger_add(&q->rq, wr.wr_id);
	return rc;
}

int sim_srq_post(struct sim_srq *srq, const struct sim_mem *m, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = sge_of(m, off, len);
	struct ibv_recv_wr wr = {
		.wr_id = srq->node->sim->next_wr_id++, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad = NULL;
	int rc = rocemu_srq_post(srq->srq, &wr, &bad);

	if (rc == 0)
		ledger_add(&srq->rq, wr.wr_id);
	return rc;
}

static void post_ok(struct sim_qp *q, struct sim_wr *w)
{
	int rc = sim_post(q, w);

	if (rc != 0)
		sim_fail(q->sim, "post_send of opcode %d: %d", w->wr.opcode, rc);
}

void sim_send(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len)
{
	struct sim_wr w = sim_wr(IBV_WR_SEND, IBV_SEND_SIGNALED);

	sim_wr_local(&w, m, off, len);
	post_ok(q, &w);
}

void sim_write(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len,
	       const struct sim_mem *r, uint32_t roff)
{
	struct sim_wr w = sim_wr(IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);

	sim_wr_local(&w, m, off, len);
	sim_wr_remote(&w, r, roff);
	post_ok(q, &w);
}

void sim_recv(struct sim_qp *q, const struct sim_mem *m, uint32_t off, uint32_t len)
{
	int rc = sim_post_recv(q, m, off, len);

	if (rc != 0)
		sim_fail(q->sim, "post_recv: %d", rc);
}

/* ---- the ledger ---- */

/** The entry that a completion is for; unsignaled ones before it are complete with it. */
static struct sim_done *ledger_match(struct sim_qp *q, struct sim_ledger *l,
				     const struct rocemu_cqe *c, bool ordered)
{
	bool skipped = false;

	for (size_t i = l->next; i < l->n; i++) {
		struct sim_done *e = &l->e[i];

		if (e->done)
			continue;
		if (e->wr_id == c->wr_id) {
			/* C11-8: once flushing, every request completes, signaled or not. */
			if (skipped && c->status == IBV_WC_WR_FLUSH_ERR)
				sim_fail(q->sim,
					 "an unsignaled request before %llu was not flushed",
					 (unsigned long long)c->wr_id);
			if (ordered)
				l->next = i + 1;
			return e;
		}
		if (ordered && e->signaled)
			break;
		skipped |= ordered;
	}
	sim_fail(q->sim, "QP %06x: completion of request %llu out of order, twice or never posted",
		 rocemu_qp_num(q->qp), (unsigned long long)c->wr_id);
}

void sim_take(struct sim_qp *q, struct sim_ledger *l, const struct rocemu_cqe *c, bool ordered)
{
	struct sim *s = q->sim;
	struct sim_done *e = ledger_match(q, l, c, ordered);
	unsigned long long id = c->wr_id;

	e->done = true;
	e->cqe = *c;
	if (c->qpn != rocemu_qp_num(q->qp))
		sim_fail(s, "completion %llu is of QP %06x", id, c->qpn);
	if (c->timestamp > s->now)
		sim_fail(s, "completion %llu is from the future", id);
	if (c->status != IBV_WC_SUCCESS) {
		l->bad++;
		return;
	}
	if (l->bad > 0 && ordered)
		sim_fail(s, "completion %llu is good after a bad one", id);
	l->good++;
	if (c->opcode != e->opcode && !(e->want_len < 0 && c->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		sim_fail(s, "completion %llu: opcode %d, must be %d", id, c->opcode, e->opcode);
	if (e->want_len >= 0 && c->byte_len != e->want_len)
		sim_fail(s, "completion %llu: %u bytes, must be %lld", id, c->byte_len,
			 (long long)e->want_len);
	if (e->want_len >= 0 && e->want_imm != !!(c->wc_flags & IBV_WC_WITH_IMM))
		sim_fail(s, "completion %llu: immediate data %d, must be %d", id, !e->want_imm,
			 e->want_imm);
	if (e->want_imm && c->imm != e->imm)
		sim_fail(s, "completion %llu: immediate data %08x, must be %08x", id, c->imm,
			 e->imm);
}

void sim_poll(struct sim_qp *q)
{
	struct rocemu_cqe c[16];
	unsigned n;

	while (q->scq && (n = rocemu_cq_poll(q->scq, c, ARRAY_LEN(c))) > 0)
		for (unsigned i = 0; i < n; i++)
			sim_take(q, &q->sq, &c[i], true);
	while (q->rcq && (n = rocemu_cq_poll(q->rcq, c, ARRAY_LEN(c))) > 0)
		for (unsigned i = 0; i < n; i++)
			sim_take(q, q->srq ? &q->srq->rq : &q->rq, &c[i], !q->srq);
	if ((q->scq && rocemu_cq_overrun(q->scq)) || (q->rcq && rocemu_cq_overrun(q->rcq)))
		sim_fail(q->sim, "a CQ of QP %06x overran", rocemu_qp_num(q->qp));
}

void sim_ledger_check(struct sim_qp *q)
{
	for (size_t i = 0; i < q->sq.n; i++)
		if (q->sq.e[i].signaled && !q->sq.e[i].done)
			sim_fail(q->sim, "request %llu did not complete",
				 (unsigned long long)q->sq.e[i].wr_id);
	for (size_t i = 0; i < q->rq.n && !q->may_lose_receives; i++)
		if (!q->rq.e[i].done)
			sim_fail(q->sim, "receive %llu did not complete",
				 (unsigned long long)q->rq.e[i].wr_id);
}

void sim_objects_free(struct sim *s)
{
	for (struct sim_qp *q; (q = s->qps) != NULL;) {
		s->qps = q->next;
		sim_assert(s, rocemu_qp_destroy(q->qp) == 0);
		sim_assert(s, !q->scq || rocemu_cq_destroy(q->scq) == 0);
		sim_assert(s, !q->rcq || rocemu_cq_destroy(q->rcq) == 0);
		free(q->sq.e);
		free(q->rq.e);
		free(q);
	}
	for (struct sim_srq *q; (q = s->srqs) != NULL;) {
		s->srqs = q->next;
		sim_assert(s, !q->srq || rocemu_srq_destroy(q->srq) == 0);
		sim_assert(s, !q->cq || rocemu_cq_destroy(q->cq) == 0);
		free(q->rq.e);
		free(q);
	}
	for (struct sim_mem *m; (m = s->mems) != NULL;) {
		s->mems = m->next;
		if (m->mr)
			sim_assert(s, rocemu_mr_dereg(m->mr) == 0);
		free(m->alloc);
		free(m->want_alloc);
		free(m);
	}
}
