/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of an end, by ibv_post_send() or by ibv_wr_*. See verbs-end.h. */
#include "verbs-end.h"

#include <endian.h>
#include <errno.h>

#include "scenario/setup.h"

#include "base/util.h"

/** Inline data is read here and now: a request from another process must not read anything else. */
static bool is_inside(const struct verbs_end *e, const struct scenario_request *r)
{
	const struct scenario_sge all = {.at = r->from, .len = r->len};
	const struct scenario_sge *s = r->sges ? r->sge : &all;

	for (unsigned i = 0; i < MIN(MAX(r->sges, 1u), (unsigned)SCENARIO_SGES); i++)
		if (s[i].at.offset > e->setup.area || s[i].len > e->setup.area - s[i].at.offset)
			return false;
	return true;
}

/** A request with its memory. */
struct post {
	struct ibv_send_wr wr;
	struct ibv_sge sge[SCENARIO_SGES];
};

/** @return how many of sge[] are used. */
static int sges_of(const struct verbs_end *e, const struct scenario_request *r,
		   struct ibv_sge sge[SCENARIO_SGES])
{
	const struct scenario_sge all = {.at = r->from, .len = r->len};
	const struct scenario_sge *s = r->sges ? r->sge : &all;
	const unsigned n = r->no_sge ? 0 : MIN(MAX(r->sges, 1u), (unsigned)SCENARIO_SGES);

	for (unsigned i = 0; i < n; i++) {
		const struct verbs_self *of = s[i].at.end == e->index ? &e->self : &e->peer;
		const unsigned area = s[i].at.area % SCENARIO_AREAS;

		sge[i] = (struct ibv_sge){
			.addr = of->addr[area] + s[i].at.offset,
			.length = s[i].len,
			.lkey = r->lkey ? r->lkey : of->lkey[area],
		};
	}
	return (int)n;
}

static void set_remote(const struct verbs_end *e, const struct scenario_request *r,
		       struct ibv_send_wr *wr)
{
	const struct verbs_self *to = r->to.end == e->index ? &e->self : &e->peer;
	const unsigned area = r->to.area < SCENARIO_AREAS ? r->to.area : SCENARIO_MEM;
	const uint64_t addr = r->to.offset + (r->to.area < SCENARIO_AREAS ? to->addr[area] : 0);

	wr->qp_type.xrc.remote_srqn = r->srqn ? r->srqn : e->peer.srqn;
	if (e->setup.type != IBV_QPT_UD) {
		scenario_set_remote(r, addr, r->rkey ? r->rkey : to->rkey[area], wr);
		return;
	}
	wr->wr.ud.ah = e->ah;
	wr->wr.ud.remote_qpn = r->remote_qpn ? r->remote_qpn : e->peer.qpn;
	wr->wr.ud.remote_qkey = r->qkey ? r->qkey : e->setup.qkey;
}

static void set_bind(struct verbs_end *e, const struct scenario_request *r, struct ibv_send_wr *wr)
{
	wr->num_sge = 0;
	wr->bind_mw.mw = e->mw;
	wr->bind_mw.rkey = r->rkey ? r->rkey : ibv_inc_rkey(e->mw->rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = r->no_mr ? NULL : e->mr[r->from.area % SCENARIO_AREAS],
		.addr = r->no_mr ? 0 : e->self.addr[r->from.area % SCENARIO_AREAS] + r->from.offset,
		.length = r->len,
		.mw_access_flags = r->access,
	};
}

static void make(struct verbs_end *e, const struct scenario_request *r, uint64_t number,
		 struct post *p)
{
	p->wr = (struct ibv_send_wr){
		.wr_id = (r->id ? r->id : number) & ~SCENARIO_RECV_ID,
		.opcode = r->opcode,
		.sg_list = p->sge,
		.num_sge = sges_of(e, r, p->sge),
		.send_flags = r->flags,
	};
	if (r->opcode == IBV_WR_SEND_WITH_INV || r->opcode == IBV_WR_LOCAL_INV)
		p->wr.invalidate_rkey = r->imm;
	else
		p->wr.imm_data = htobe32(r->imm);
	if (r->opcode == IBV_WR_BIND_MW)
		set_bind(e, r, &p->wr);
	else
		set_remote(e, r, &p->wr);
}

/* ---- ibv_wr_* ---- */

static int begin(struct ibv_qp_ex *q, const struct ibv_send_wr *wr)
{
	const uint64_t addr = wr->wr.rdma.remote_addr;
	const uint32_t rkey = wr->wr.rdma.rkey;

	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(q);
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(q, wr->imm_data);
		return 0;
	case IBV_WR_SEND_WITH_INV:
		ibv_wr_send_inv(q, wr->invalidate_rkey);
		return 0;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(q, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return 0;
	case IBV_WR_LOCAL_INV:
		ibv_wr_local_inv(q, wr->invalidate_rkey);
		return 0;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(q, rkey, addr);
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(q, rkey, addr, wr->imm_data);
		return 0;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(q, rkey, addr);
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(q, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		return 0;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(q, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		return 0;
	default:
		return EINVAL;
	}
}

static void set_data(struct ibv_qp_ex *q, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[SCENARIO_SGES];

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(q, wr->sg_list->lkey, wr->sg_list->addr,
				       wr->sg_list->length);
		else
			ibv_wr_set_sge_list(q, (size_t)wr->num_sge, wr->sg_list);
		return;
	}
	for (int i = 0; i < wr->num_sge; i++)
		bufs[i] = (struct ibv_data_buf){
			.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
		};
	if (wr->num_sge == 1)
		ibv_wr_set_inline_data(q, bufs[0].addr, bufs[0].length);
	else
		ibv_wr_set_inline_data_list(q, (size_t)wr->num_sge, bufs);
}

static int post_by_calls(struct verbs_end *e, const struct post *p, unsigned n)
{
	struct ibv_qp_ex *q = e->qpx;

	ibv_wr_start(q);
	for (unsigned i = 0; i < n; i++) {
		const struct ibv_send_wr *wr = &p[i].wr;

		q->wr_id = wr->wr_id;
		q->wr_flags = wr->send_flags;
		if (begin(q, wr)) {
			ibv_wr_abort(q);
			return EINVAL;
		}
		if (e->setup.type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(q, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
					   wr->wr.ud.remote_qkey);
		if (e->setup.type == IBV_QPT_XRC_SEND)
			ibv_wr_set_xrc_srqn(q, wr->qp_type.xrc.remote_srqn);
		if (wr->opcode != IBV_WR_BIND_MW && wr->opcode != IBV_WR_LOCAL_INV)
			set_data(q, wr);
	}
	return ibv_wr_complete(q);
}

/* ---- either way ---- */

int verbs_post_send(struct verbs_end *e, const struct scenario_request *r, unsigned n)
{
	struct post p[VERBS_LIST];
	struct ibv_send_wr *bad;
	int error;

	if (!e->qp || n > VERBS_LIST)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		if ((r[i].opcode == IBV_WR_BIND_MW && !e->mw) ||
		    (r[i].flags & IBV_SEND_INLINE && !is_inside(e, &r[i])))
			return -EINVAL;
		make(e, &r[i], e->sends + i + 1, &p[i]);
		if (i)
			p[i - 1].wr.next = &p[i].wr;
	}
	error = e->qpx ? post_by_calls(e, p, n) : ibv_post_send(e->qp, &p->wr, &bad);
	if (error)
		return -error;
	e->sends += n;
	/* The window's present key is for the program to keep. */
	for (unsigned i = 0; i < n; i++)
		if (r[i].opcode == IBV_WR_BIND_MW)
			e->self.mw_rkey = e->mw->rkey = p[i].wr.bind_mw.rkey;
	return 0;
}

int verbs_post_recv(struct verbs_end *e, const struct scenario_request *r)
{
	struct ibv_sge sge[SCENARIO_SGES];
	struct ibv_recv_wr *bad = NULL, wr = {
						.wr_id = r->id ? r->id : e->recvs + 1,
						.sg_list = sge,
						.num_sge = sges_of(e, r, sge),
					};
	int error;

	if (r->srq > 1)
		return -EOPNOTSUPP;
	if (!e->qp)
		return -EINVAL;
	if (wr.num_sge)
		e->grh[wr.wr_id % VERBS_RECVS] = r->sges ? r->sge[0].at : r->from;
	wr.wr_id |= SCENARIO_RECV_ID;
	error = e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
	if (error && bad != &wr)
		verbs_say(e, "bad_wr is not the receive that was refused");
	e->recvs += !error;
	return -error;
}
