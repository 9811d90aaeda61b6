/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs-check: posting by either data path, completions by any of four ways, bytes. See vc.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "vc.h"

/* ---- posting ---- */

static void old_wr(struct vc_conn *c, struct vc_op *op, struct ibv_send_wr *wr)
{
	*wr = (struct ibv_send_wr){
		.wr_id = op->wr_id,
		.opcode = op->opcode,
		.send_flags = op->flags,
		.sg_list = op->sge,
		.num_sge = op->nsge,
		.imm_data = htonl(op->imm),
	};
	if (op->opcode == IBV_WR_SEND_WITH_INV || op->opcode == IBV_WR_LOCAL_INV)
		wr->invalidate_rkey = op->rkey;
	if (op->opcode == IBV_WR_BIND_MW) {
		wr->bind_mw.mw = op->mw;
		wr->bind_mw.rkey = op->rkey;
		wr->bind_mw.bind_info = op->bind;
		return;
	}
	wr->qp_type.xrc.remote_srqn = c->peer.srqn;
	if (c->vc->opt.type == IBV_QPT_UD) {
		wr->wr.ud.ah = c->ah;
		wr->wr.ud.remote_qpn = c->peer.qpn;
		wr->wr.ud.remote_qkey = op->qkey ? op->qkey : VC_QKEY;
	} else if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = op->raddr;
		wr->wr.atomic.rkey = op->rkey;
		wr->wr.atomic.compare_add = op->compare_add;
		wr->wr.atomic.swap = op->swap;
	} else {
		wr->wr.rdma.remote_addr = op->raddr;
		wr->wr.rdma.rkey = op->rkey;
	}
}

static int post_old(struct vc_conn *c, struct vc_op *ops, int n)
{
	struct ibv_send_wr wrs[VC_DEPTH], *bad;

	for (int i = 0; i < n; i++) {
		old_wr(c, &ops[i], &wrs[i]);
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
	}
	return ibv_post_send(c->qp, wrs, &bad);
}

static int begin_wr(struct ibv_qp_ex *q, struct vc_op *op)
{
	switch (op->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(q);
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(q, htonl(op->imm));
		return 0;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(q, op->rkey);
		return 0;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(q, op->mw, op->rkey, &op->bind);
		return 0;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(q, op->rkey);
		return 0;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(q, op->rkey, op->raddr);
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(q, op->rkey, op->raddr, htonl(op->imm));
		return 0;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(q, op->rkey, op->raddr);
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(q, op->rkey, op->raddr, op->compare_add, op->swap);
		return 0;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(q, op->rkey, op->raddr, op->compare_add);
		return 0;
	default:
		return EINVAL;
	}
}

static void add_data(struct ibv_qp_ex *q, struct vc_op *op)
{
	struct ibv_data_buf bufs[VC_MAX_SGE];

	if (op->flags & IBV_SEND_INLINE) {
		for (int i = 0; i < op->nsge; i++)
			bufs[i] = (struct ibv_data_buf){
				.addr = (void *)(uintptr_t)op->sge[i].addr,
				.length = op->sge[i].length,
			};
		if (op->nsge == 1)
			ibv_wr_set_inline_data(q, bufs[0].addr, bufs[0].length);
		else
			ibv_wr_set_inline_data_list(q, (size_t)op->nsge, bufs);
	} else if (op->nsge == 1) {
		ibv_wr_set_sge(q, op->sge[0].lkey, op->sge[0].addr, op->sge[0].length);
	} else {
		ibv_wr_set_sge_list(q, (size_t)op->nsge, op->sge);
	}
}

static int post_new(struct vc_conn *c, struct vc_op *ops, int n)
{
	struct ibv_qp_ex *q = c->qpx;

	ibv_wr_start(q);
	for (int i = 0; i < n; i++) {
		q->wr_id = ops[i].wr_id;
		q->wr_flags = ops[i].flags;
		if (begin_wr(q, &ops[i])) {
			ibv_wr_abort(q);
			return EINVAL;
		}
		if (c->vc->opt.type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(q, c->ah, c->peer.qpn,
					   ops[i].qkey ? ops[i].qkey : VC_QKEY);
		if (c->vc->opt.xrc)
			ibv_wr_set_xrc_srqn(q, c->peer.srqn);
		if (ops[i].opcode != IBV_WR_BIND_MW && ops[i].opcode != IBV_WR_LOCAL_INV)
			add_data(q, &ops[i]);
	}
	return ibv_wr_complete(q);
}

/** @return 0 or an errno, as the verbs do. */
int vc_post(struct vc_conn *c, struct vc_op *ops, int n)
{
	return c->qpx ? post_new(c, ops, n) : post_old(c, ops, n);
}

bool vc_post_recv(struct vc_conn *c, uint64_t wr_id, struct ibv_sge *sge, int nsge)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = nsge}, *bad;
	int rc = c->srq ? ibv_post_srq_recv(c->srq, &wr, &bad) : ibv_post_recv(c->qp, &wr, &bad);

	VC_CHECK(c->vc, rc == 0, "post receive: %s", strerror(rc));
	return true;
}

/* ---- completions ---- */

static bool poll_old(struct ibv_cq *cq, struct vc_done *d)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) != 1)
		return false;
	*d = (struct vc_done){
		.wr_id = wc.wr_id,
		.status = wc.status,
		.opcode = wc.opcode,
		.byte_len = wc.byte_len,
		.imm = wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0,
		.invalidated = wc.wc_flags & IBV_WC_WITH_INV ? wc.invalidated_rkey : 0,
		.qp_num = wc.qp_num,
		.src_qp = wc.src_qp,
		.flags = wc.wc_flags,
	};
	return true;
}

static bool poll_ex(struct ibv_cq *cq, struct vc_done *d)
{
	struct ibv_cq_ex *x = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = {0};

	if (ibv_start_poll(x, &attr))
		return false;
	*d = (struct vc_done){
		.wr_id = x->wr_id, .status = x->status, .qp_num = ibv_wc_read_qp_num(x)};
	/* As with ibv_wc, the rest means nothing in a failed completion. */
	if (x->status == IBV_WC_SUCCESS) {
		d->opcode = ibv_wc_read_opcode(x);
		d->byte_len = ibv_wc_read_byte_len(x);
		d->flags = ibv_wc_read_wc_flags(x);
		d->src_qp = ibv_wc_read_src_qp(x);
		if (d->flags & IBV_WC_WITH_IMM)
			d->imm = ntohl(ibv_wc_read_imm_data(x));
		if (d->flags & IBV_WC_WITH_INV)
			d->invalidated = ibv_wc_read_invalidated_rkey(x);
	}
	ibv_end_poll(x);
	return true;
}

bool vc_poll(struct vc_conn *c, struct ibv_cq *cq, struct vc_done *d)
{
	return c->vc->opt.cq_ex ? poll_ex(cq, d) : poll_old(cq, d);
}

static bool sleep_on_channel(struct vc_conn *c, struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *which;
	void *context;

	VC_CHECK(c->vc, poll(&p, 1, VC_WAIT_S * 1000) == 1, "no completion event within %d s",
		 VC_WAIT_S);
	VC_CHECK(c->vc, ibv_get_cq_event(channel, &which, &context) == 0, "ibv_get_cq_event: %s",
		 strerror(errno));
	VC_CHECK(c->vc, which == cq, "an event of another CQ");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static time_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

bool vc_wait(struct vc_conn *c, struct ibv_cq *cq, struct vc_done *d)
{
	struct ibv_comp_channel *channel = cq == c->scq ? c->schannel : c->rchannel;
	time_t end = seconds() + VC_WAIT_S;

	for (;;) {
		if (vc_poll(c, cq, d))
			return true;
		VC_CHECK(c->vc, seconds() < end, "no %s completion within %d s",
			 cq == c->scq ? "send" : "receive", VC_WAIT_S);
		if (!c->vc->opt.events) {
			sched_yield();
			continue;
		}
		VC_CHECK(c->vc, ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		if (vc_poll(c, cq, d))
			return true;
		VC_TRY(sleep_on_channel(c, cq, channel));
	}
}

bool vc_wait_ok(struct vc_conn *c, struct ibv_cq *cq, uint64_t wr_id, struct vc_done *d)
{
	VC_TRY(vc_wait(c, cq, d));
	VC_CHECK(c->vc, d->status == IBV_WC_SUCCESS, "wr_id %llu: %s (%d)",
		 (unsigned long long)d->wr_id, ibv_wc_status_str(d->status), d->status);
	VC_CHECK(c->vc, d->wr_id == wr_id, "completion of wr_id %llu, not %llu",
		 (unsigned long long)d->wr_id, (unsigned long long)wr_id);
	VC_CHECK(c->vc, d->qp_num == vc_qpn_of(c, cq), "completion of QP 0x%x, not 0x%x", d->qp_num,
		 vc_qpn_of(c, cq));
	return true;
}

/* ---- bytes ---- */

int vc_cut(struct ibv_sge *sge, int n, const struct vc_buf *b, size_t offset, size_t len)
{
	for (int i = 0; i < n; i++) {
		/* A third each, but odd; the last one takes the rest. */
		size_t part = i == n - 1 ? len : len / 3 / (size_t)n | 1;

		if (part > len)
			part = len;
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)b->data + offset,
			.length = (uint32_t)part,
			.lkey = b->mr->lkey,
		};
		offset += part;
		len -= part;
	}
	return n;
}

static uint8_t byte_at(size_t i, unsigned seed)
{
	return (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 3 + (i >> 16) * 5);
}

void vc_fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = byte_at(i, seed);
}

bool vc_same(struct vc *vc, const uint8_t *p, size_t len, unsigned seed, const char *what)
{
	for (size_t i = 0; i < len; i++)
		VC_CHECK(vc, p[i] == byte_at(i, seed), "%s: byte %zu of %zu is 0x%02x, not 0x%02x",
			 what, i, len, p[i], byte_at(i, seed));
	return true;
}

enum { CLEAR = 0xee };

void vc_buf_clear(struct vc_buf *b, size_t len)
{
	memset(b->base, CLEAR, VC_GUARD);
	memset(b->data, CLEAR, len + VC_GUARD);
}

bool vc_buf_guards(struct vc *vc, const struct vc_buf *b, size_t used)
{
	for (int i = 0; i < VC_GUARD; i++) {
		VC_CHECK(vc, b->base[i] == CLEAR, "written %d bytes before the buffer",
			 VC_GUARD - i);
		VC_CHECK(vc, b->data[used + (size_t)i] == CLEAR,
			 "written %d bytes behind the message", i);
	}
	return true;
}
