/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that a scenario posts. */
#include <endian.h>
#include <errno.h>

#include "world.h"

#include "scenario/setup.h"
#include "transport/qp.h"

uint64_t place_address(const struct scenario_place *p)
{
	return p->offset + (p->area < SCENARIO_AREAS ? area_iova(p->area) : 0);
}

/** @return how many sge[] are used. */
static int sges_of(const struct world *w, const struct scenario_request *r,
		   struct ibv_sge sge[SCENARIO_SGES])
{
	const struct scenario_sge all = {.at = r->from, .len = r->len};
	const struct scenario_sge *s = r->sges ? r->sge : &all;
	const unsigned n = r->no_sge ? 0 : r->sges ? r->sges : 1;

	for (unsigned i = 0; i < n; i++) {
		const struct end *e = w->end[s[i].at.end];

		sge[i] = (struct ibv_sge){
			.addr = place_address(&s[i].at),
			.length = s[i].len,
			.lkey = r->lkey ? r->lkey : e->lkey[s[i].at.area],
		};
		if (r->flags & IBV_SEND_INLINE)
			sge[i].addr = (uintptr_t)(e->memory[s[i].at.area] + s[i].at.offset);
	}
	return (int)n;
}

static void set_remote(const struct world *w, const struct scenario_request *r,
		       struct ibv_send_wr *wr)
{
	const struct end *to = w->end[r->to.end];
	const unsigned area = r->to.area < SCENARIO_AREAS ? r->to.area : SCENARIO_MEM;
	const uint32_t rkey = r->rkey ? r->rkey : to->rkey[area];

	scenario_set_remote(r, place_address(&r->to), rkey, wr);
}

static uint32_t remote_srqn(const struct world *w, unsigned end, const struct scenario_request *r)
{
	const struct end *peer = w->end[!end];

	return r->srqn || !peer || !peer->srqs ? r->srqn : peer->srqn[peer->srqs - 1];
}

/** The windows and regions of verbs, as far as a bind looks at them. */
struct bind {
	struct ibv_mw mw;
	struct ibv_mr mr;
};

static void set_bind(const struct end *e, const struct scenario_request *r, struct bind *b,
		     struct ibv_send_wr *wr)
{
	b->mw.rkey = rocemu_mw_rkey(e->mw);
	b->mr.lkey = r->lkey ? r->lkey : e->lkey[r->from.area];
	wr->bind_mw.mw = &b->mw;
	wr->bind_mw.rkey = r->rkey ? r->rkey : ibv_inc_rkey(b->mw.rkey);
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = r->no_mr ? NULL : &b->mr,
		.addr = r->no_mr ? 0 : place_address(&r->from),
		.length = r->len,
		.mw_access_flags = r->access,
	};
	wr->num_sge = 0;
}

int world_post_send(void *world, unsigned end, const struct scenario_request *r)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_sge sge[SCENARIO_SGES];
	struct ibv_send_wr wr = {
		.wr_id = r->id ? r->id : e->sends + 1,
		.opcode = r->opcode,
		.sg_list = sge,
		.num_sge = sges_of(w, r, sge),
		.send_flags = r->flags,
	};
	struct bind bind = {0};
	struct rocemu_path path = {.sgid = e->gid, .dgid = peer_gid(w, end), .sport = 0xc000};
	int error;

	wr.wr_id &= ~SCENARIO_RECV_ID;
	if (r->opcode == IBV_WR_SEND_WITH_INV || r->opcode == IBV_WR_LOCAL_INV ||
	    (int)r->opcode == ROCEMU_WR_FLUSH)
		wr.invalidate_rkey = r->imm;
	else
		wr.imm_data = htobe32(r->imm);
	if (r->opcode == IBV_WR_BIND_MW) {
		if (!e->mw)
			return -EINVAL;
		set_bind(e, r, &bind, &wr);
	} else if (w->setup.type == IBV_QPT_UD) {
		wr.wr.ud.remote_qpn = r->remote_qpn ? r->remote_qpn : peer_qpn(w, end);
		wr.wr.ud.remote_qkey = r->qkey ? r->qkey : w->setup.qkey;
	} else {
		set_remote(w, r, &wr);
		if (w->setup.type == IBV_QPT_XRC_SEND)
			wr.qp_type.xrc.remote_srqn = remote_srqn(w, end, r);
	}
	error = e->qp ? rocemu_qp_post_send(e->qp, w->now, &wr, &path) : -EINVAL;
	e->sends += !error;
	return error;
}

int world_post_recv(void *world, unsigned end, const struct scenario_request *r)
{
	struct world *w = world;
	struct end *e = w->end[end];
	struct ibv_sge sge[SCENARIO_SGES];
	struct ibv_recv_wr wr = {.wr_id = r->id ? r->id : e->recvs + 1,
				 .sg_list = sge,
				 .num_sge = sges_of(w, r, sge)};
	struct rocemu_srq *srq = srq_of(e, r->srq);
	const struct ibv_recv_wr *bad;
	int error;

	wr.wr_id |= SCENARIO_RECV_ID;
	error = srq	? rocemu_srq_post(srq, &wr, &bad)
		: e->qp ? rocemu_qp_post_recv(e->qp, w->now, &wr, &bad)
			: -EINVAL;
	e->recvs += !error;
	return error;
}
