/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matches completions to requests for the timeline. A completion has the QP and the wr_id, which
 * need not be unique. So each queue keeps a copy of its posted requests, in order. The completion
 * of a send request also ends earlier unsignaled ones; receives of a QP end in order, those of an
 * SRQ in any order.
 */
#include "verbs/trace-wr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rocemu/endpoint.h>

#include "base/forks.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "engine/reason.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

enum { FIRST_ROOM = 64 };

struct posted {
	const char *name;
	uint64_t wr_id, id;
	bool signaled;
};

/* What is posted and not completed, oldest first. */
struct fifo {
	struct posted *at; /* owned */
	unsigned head, n, room;
};

/* Owned by the QP, and of the SRQ by that. */
struct vb_trace {
	struct hash_node node; /* in traces, by QPN; of an SRQ in none */
	const struct ibv_context *ctx;
	struct vb_trace *shared; /* the SRQ's; borrowed */
	uint32_t qpn;
	struct fifo send, recv;
};

static const struct trace_kind begun = {
	"request", TRACE_BEGIN, "", {"x:wr_id", "bytes", "x:remote", "x:rkey"}};
static const struct trace_kind begun_recv = {"request", TRACE_BEGIN, "", {"x:wr_id", "bytes"}};
static const struct trace_kind ended = {"request", TRACE_END, "", {"s:status", "taken_after_ns"}};
static const struct trace_kind ended_recv = {
	"request", TRACE_END, "", {"s:status", "taken_after_ns", "bytes", "x:from"}};
static const struct trace_kind reason = {
	"reason", TRACE_INSTANT, "! ", {"x:code", "psn", "x:peer_qpn", "bytes"}};
static const struct trace_kind state_set = {"state", TRACE_INSTANT, "", {NULL}};

/* Guards all variables below, and all queues. A leaf but for those of the timeline. */
static struct mutex lock = MUTEX_INITIALIZER;
static struct hash traces;
static uint64_t last_id;

/* ---- queues; lock held ---- */

/** @return NULL: no memory; its end is not recorded. */
static struct posted *push(struct fifo *f)
{
	if (f->n == f->room) {
		const unsigned room = f->room ? 2 * f->room : FIRST_ROOM;
		struct posted *at = calloc(room, sizeof(*at));

		if (!at)
			return NULL;
		for (unsigned i = 0; i < f->n; i++)
			at[i] = f->at[(f->head + i) % f->room];
		free(f->at);
		f->at = at;
		f->head = 0;
		f->room = room;
	}
	return &f->at[(f->head + f->n++) % f->room];
}

static struct posted pop(struct fifo *f)
{
	const struct posted p = f->at[f->head];

	f->head = (f->head + 1) % f->room;
	f->n--;
	return p;
}

/** Take the n-th out. */
static struct posted pull(struct fifo *f, unsigned n)
{
	const struct posted p = f->at[(f->head + n) % f->room];

	for (; n; n--)
		f->at[(f->head + n) % f->room] = f->at[(f->head + n - 1) % f->room];
	pop(f);
	return p;
}

static uint64_t note(struct fifo *f, const char *name, uint64_t wr_id, bool signaled)
{
	struct posted *p = push(f);

	last_id++;
	if (p)
		*p = (struct posted){
			.name = name, .wr_id = wr_id, .id = last_id, .signaled = signaled};
	return last_id;
}

/* ---- QPs ---- */

static void trace_free(struct vb_trace *t)
{
	if (!t)
		return;
	mutex_lock(&lock);
	hash_remove(&traces, &t->node);
	mutex_unlock(&lock);
	free(t->send.at);
	free(t->recv.at);
	free(t);
}

/** The SRQ's, made when there is none. @return NULL: no memory. */
static struct vb_trace *of_srq(struct vb_srq *srq)
{
	if (!srq->trace)
		srq->trace = calloc(1, sizeof(*srq->trace));
	return srq->trace;
}

static const char *type_name(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	default:
		return "XRC";
	}
}

void vb_trace_qp_init(struct vb_qp *qp)
{
	const struct ibv_qp *b = &qp->base.qp_base;
	struct vb_trace *t = trace_on() ? calloc(1, sizeof(*t)) : NULL;
	char title[64];

	qp->trace = t;
	if (!t)
		return;
	snprintf(title, sizeof(title), "QP 0x%06x %s", b->qp_num, type_name(b->qp_type));
	trace_title(b->qp_num, title);
	t->ctx = b->context;
	t->qpn = b->qp_num;
	mutex_lock(&lock);
	if (b->srq)
		t->shared = of_srq(vb_srq_of(b->srq));
	hash_add(&traces, &t->node, t->qpn);
	mutex_unlock(&lock);
}

void vb_trace_qp_fini(struct vb_qp *qp)
{
	trace_free(qp->trace);
	qp->trace = NULL;
}

void vb_trace_srq_fini(struct vb_srq *srq)
{
	trace_free(srq->trace);
	srq->trace = NULL;
}

static void add_peer(const struct vb_qp *qp, const struct ibv_qp_attr *attr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};
	const uint8_t *gid = attr->ah_attr.grh.dgid.raw;
	char title[128], address[INET6_ADDRSTRLEN];
	const bool v4 = !memcmp(gid, mapped, sizeof(mapped));

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + sizeof(mapped) : gid, address,
		  sizeof(address));
	snprintf(title, sizeof(title), "QP 0x%06x %s to 0x%06x at %s", qp->trace->qpn,
		 type_name(qp->base.qp_base.qp_type), attr->dest_qp_num, address);
	trace_title(qp->trace->qpn, title);
}

void vb_trace_modified(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "state RESET", [IBV_QPS_INIT] = "state INIT",
		[IBV_QPS_RTR] = "state RTR",	 [IBV_QPS_RTS] = "state RTS",
		[IBV_QPS_SQD] = "state SQD",	 [IBV_QPS_SQE] = "state SQE",
		[IBV_QPS_ERR] = "state ERR",
	};

	if (!qp->trace)
		return;
	if (mask & IBV_QP_STATE)
		trace_add(&state_set, names[attr->qp_state], trace_now(), qp->trace->qpn, 0, NULL);
	if ((mask & IBV_QP_AV) && (mask & IBV_QP_DEST_QPN))
		add_peer(qp, attr);
}

/* ---- requests ---- */

static const char *op_name(enum ibv_wr_opcode op)
{
	static const char *const names[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CMP_AND_SWP",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
		[IBV_WR_LOCAL_INV] = "LOCAL_INV",
		[IBV_WR_BIND_MW] = "BIND_MW",
		[IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV",
	};

	return (unsigned)op < ARRAY_LEN(names) && names[op] ? names[op] : "request";
}

static bool has_data(enum ibv_wr_opcode op)
{
	return op != IBV_WR_LOCAL_INV && op != IBV_WR_BIND_MW;
}

static uint64_t bytes_of(const struct ibv_sge *sge, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		bytes += sge[i].length;
	return bytes;
}

void vb_trace_sent(const struct vb_qp *qp, uint64_t when_ns, const struct ibv_send_wr *wr)
{
	const bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	const bool rdma = wr->opcode == IBV_WR_RDMA_WRITE ||
			  wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
			  wr->opcode == IBV_WR_RDMA_READ;
	const bool signaled = qp->sig_all || (wr->send_flags & IBV_SEND_SIGNALED);
	uint64_t arg[TRACE_ARGS] = {wr->wr_id};
	uint64_t id;

	if (!qp->trace)
		return;
	if (has_data(wr->opcode))
		arg[1] = bytes_of(wr->sg_list, wr->num_sge);
	if (rdma || atomic) {
		arg[2] = rdma ? wr->wr.rdma.remote_addr : wr->wr.atomic.remote_addr;
		arg[3] = rdma ? wr->wr.rdma.rkey : wr->wr.atomic.rkey;
	}
	mutex_lock(&lock);
	id = note(&qp->trace->send, op_name(wr->opcode), wr->wr_id, signaled);
	mutex_unlock(&lock);
	trace_add(&begun, op_name(wr->opcode), when_ns, qp->trace->qpn, id, arg);
}

static void add_recvs(struct vb_trace *t, const struct ibv_recv_wr *wr,
		      const struct ibv_recv_wr *end)
{
	const uint64_t now = trace_now();

	for (; wr && wr != end; wr = wr->next) {
		const uint64_t arg[] = {wr->wr_id, bytes_of(wr->sg_list, wr->num_sge)};
		uint64_t id;

		mutex_lock(&lock);
		id = note(&t->recv, "RECV", wr->wr_id, true);
		mutex_unlock(&lock);
		trace_add(&begun_recv, "RECV", now, t->qpn, id, arg);
	}
}

void vb_trace_recvs(const struct vb_qp *qp, const struct ibv_recv_wr *wr,
		    const struct ibv_recv_wr *end)
{
	if (qp->trace)
		add_recvs(qp->trace, wr, end);
}

void vb_trace_srq_recvs(struct vb_srq *srq, const struct ibv_recv_wr *wr,
			const struct ibv_recv_wr *end)
{
	struct vb_trace *t;

	mutex_lock(&lock);
	t = of_srq(srq);
	mutex_unlock(&lock);
	if (t)
		add_recvs(t, wr, end);
}

/* ---- errors ---- */

void vb_trace_why(const struct rocemu_why *w)
{
	const uint64_t arg[] = {w->code, w->psn, w->peer_qpn, w->len};

	trace_add(&reason, reason_name(w->code), trace_now(), w->qpn, 0, arg);
}

/* ---- completions ---- */

static struct vb_trace *find(const struct ibv_context *ctx, uint32_t qpn)
{
	hash_for_each (t, struct vb_trace, node, &traces, qpn)
		if (t->ctx == ctx)
			return t;
	return NULL;
}

static void end(const struct posted *p, const struct rocemu_cqe *cqe, uint64_t now)
{
	const uint64_t when = cqe->timestamp && cqe->timestamp < now ? cqe->timestamp : now;
	const bool got = (cqe->opcode & IBV_WC_RECV) && cqe->status == IBV_WC_SUCCESS;
	const uint64_t arg[] = {(uintptr_t)ibv_wc_status_str(cqe->status), now - when,
				cqe->byte_len, cqe->src_qp};

	trace_add(got ? &ended_recv : &ended, p->name, when, cqe->qpn, p->id, arg);
}

static void end_send(struct fifo *f, const struct rocemu_cqe *cqe, uint64_t now)
{
	while (f->n) {
		const struct posted p = pop(f);

		end(&p, cqe, now);
		/* An error completes what was not signaled as well. */
		if (p.wr_id == cqe->wr_id && (p.signaled || cqe->status != IBV_WC_SUCCESS))
			return;
	}
}

static void end_recv(struct fifo *f, const struct rocemu_cqe *cqe, uint64_t now)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->at[(f->head + i) % f->room].wr_id == cqe->wr_id) {
			const struct posted p = pull(f, i);

			end(&p, cqe, now);
			return;
		}
}

void vb_trace_taken(const struct ibv_context *ctx, const struct rocemu_cqe *cqe)
{
	const uint64_t now = trace_now();
	struct vb_trace *t;

	MUTEX_HELD(&lock);
	t = find(ctx, cqe->qpn);
	if (!t)
		return;
	if (!(cqe->opcode & IBV_WC_RECV))
		end_send(&t->send, cqe, now);
	else
		end_recv(t->shared ? &t->shared->recv : &t->recv, cqe, now);
}

static void fork_prepare(void)
{
	mutex_lock(&lock);
}

static void fork_after(void)
{
	mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {fork_prepare, fork_after, fork_after};

	forks_add(FORK_REQUESTS, &handlers);
}
