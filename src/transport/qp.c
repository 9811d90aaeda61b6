/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair as an object: its life, its queues and posting to them. Its states: qp-state.c. */
#include "transport/qp.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/words.h"
#include "transport/mr.h"
#include "transport/path.h"
#include "transport/show.h"
#include "transport/why.h"

struct rocemu_qp *rocemu_qp_find(struct rocemu_ep *ep, uint32_t qpn)
{
	return qp_find(ep, qpn);
}

static bool type_known(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/** Exactly the objects that a QP of this type has. */
static bool objects_fit(const struct rocemu_qp_init *i)
{
	if (i->type == IBV_QPT_XRC_RECV)
		return i->xrcd && !i->pd && !i->send_cq && !i->recv_cq && !i->srq;
	if (!i->pd || !i->send_cq || i->xrcd)
		return false;
	return i->type == IBV_QPT_XRC_SEND ? !i->recv_cq && !i->srq : i->recv_cq != NULL;
}

static int qp_check_init(const struct rocemu_ep *ep, const struct rocemu_qp_init *init)
{
	if (!type_known(init->type))
		return -EOPNOTSUPP;
	if (!ep->qps)
		return -ENXIO;
	return objects_fit(init) && !(init->srq && init->srq->xrcd) ? 0 : -EINVAL;
}

/**
 * What is granted. Capacities of a queue that the QP does not have are ignored (IBTA 10.8.3.2,
 * ibv_create_qp(3)). -EINVAL: beyond a limit, *cap has not changed.
 */
static int qp_grant(const struct rocemu_qp_init *init, struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap c = *cap;

	if (init->srq || !init->recv_cq)
		c.max_recv_wr = c.max_recv_sge = 0;
	else
		c.max_recv_sge = MAX(c.max_recv_sge, 1u);
	if (init->type == IBV_QPT_XRC_RECV) {
		c = (struct ibv_qp_cap){0};
	} else {
		c.max_send_sge = MAX(c.max_send_sge, 1u);
		/* A piece's place holds as many bytes: every provider has that room, and programs
		 * rely on it unasked. */
		c.max_inline_data = MAX(c.max_inline_data, (uint32_t)sizeof(struct ibv_sge));
	}
	if (c.max_send_wr > ROCEMU_MAX_WR || c.max_recv_wr > ROCEMU_MAX_WR ||
	    c.max_send_sge > ROCEMU_MAX_SGE || c.max_recv_sge > ROCEMU_MAX_SGE ||
	    c.max_inline_data > ROCEMU_MAX_INLINE)
		return -EINVAL;
	*cap = c;
	return 0;
}

/** The delay of NAKs is a timer of its own, where there is one. */
static void release_timers(struct rocemu_ep *ep)
{
	timer_release(&ep->timers);
	if (ep->cfg.traits.nak_delay)
		timer_release(&ep->timers);
}

static int reserve_timers(struct rocemu_ep *ep)
{
	if (timer_reserve(&ep->timers))
		return -ENOMEM;
	if (!ep->cfg.traits.nak_delay || !timer_reserve(&ep->timers))
		return 0;
	timer_release(&ep->timers);
	return -ENOMEM;
}

static int qp_alloc_queues(struct rocemu_qp *qp, const struct ibv_qp_cap *cap)
{
	if (sq_init(&qp->sq, cap->max_send_wr, cap->max_send_sge, cap->max_inline_data))
		return -ENOMEM;
	if (rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge) || resp_init(qp))
		return -ENOMEM;
	return reserve_timers(qp->ep);
}

static void qp_free_queues(struct rocemu_qp *qp)
{
	resp_fini(qp);
	rq_fini(&qp->rq);
	sq_fini(&qp->sq);
	free(qp);
}

/** Count the QP in (by 1) or out (by -1) at all it refers to. */
static void qp_refer(struct rocemu_qp *qp, int by)
{
	uint32_t *refs[] = {
		qp->pd ? &qp->pd->refs : NULL,		 qp->send_cq ? &qp->send_cq->refs : NULL,
		qp->recv_cq ? &qp->recv_cq->refs : NULL, qp->srq ? &qp->srq->refs : NULL,
		qp->xrcd ? &qp->xrcd->refs : NULL,
	};

	for (unsigned i = 0; i < ARRAY_LEN(refs); i++)
		if (refs[i])
			__atomic_fetch_add(refs[i], (uint32_t)by,
					   __ATOMIC_ACQ_REL); /* see rocemu_pd */
}

int rocemu_qp_create(struct rocemu_ep *ep, struct rocemu_qp_init *init, struct rocemu_qp **out)
{
	int r = qp_check_init(ep, init);
	struct rocemu_qp *qp;
	int index;

	if (!r)
		r = qp_grant(init, &init->cap);
	if (r)
		return r;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->ep = ep;
	qp->pd = init->pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->xrcd = init->xrcd;
	qp->type = init->type;
	qp->user = init->user;
	qp->sq_sig_all = init->sq_sig_all;
	qp->block_own_mcast = init->block_own_mcast;
	qp->state = IBV_QPS_RESET;
	qp->nak_timer.owner = TIMER_QP_NAK;
	list_init(&qp->tx_link);
	list_init(&qp->req.peer_link);
	list_init(&qp->req.tx_pending_link);
	list_init(&qp->windows);
	list_init(&qp->groups);
	event_src_init(&qp->ev, ROCEMU_EVENT_QP);
	r = qp_alloc_queues(qp, &init->cap);
	if (r) {
		qp_free_queues(qp);
		return r;
	}
	index = qpn_take(ep->qpns, &ep->prf);
	if (index < 0) {
		release_timers(ep);
		qp_free_queues(qp);
		return -ENOMEM;
	}
	qp->qpn = ep->slot << ROCEMU_QPN_INDEX_BITS | (uint32_t)index;
	qp->attr.cap = init->cap;
	ep->qps[index] = qp;
	ep->nqps++;
	qp_refer(qp, 1);
	req_reset(qp);
	comp_reset(qp);
	resp_reset(qp);
	show_object(ep, ROCEMU_OBJECT_QP, 1);
	show_qp(qp);
	*out = qp;
	return 0;
}

void qp_purge_cqs(struct rocemu_qp *qp)
{
	if (qp->send_cq)
		cq_purge(qp->send_cq, qp->qpn);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_purge(qp->recv_cq, qp->qpn);
}

int rocemu_qp_destroy(struct rocemu_qp *qp)
{
	struct rocemu_ep *ep = qp->ep;

	if (!list_empty(&qp->groups))
		return -EBUSY;
	req_stop(qp);
	timer_stop(&ep->timers, &qp->timer);
	timer_stop(&ep->timers, &qp->nak_timer);
	release_timers(ep);
	list_remove(&qp->tx_link);
	mw_unbind_all(qp);
	list_remove(&qp->resp.srq_link);
	event_src_fini(&qp->ev);
	qp_purge_cqs(qp);
	ep->qps[qp->qpn % QPN_COUNT] = NULL;
	qpn_give_back(ep->qpns, qp->qpn % QPN_COUNT);
	ep->nqps--;
	show_object(ep, ROCEMU_OBJECT_QP, -1);
	show_qp_gone(qp);
	qp_refer(qp, -1);
	qp_free_queues(qp);
	return 0;
}

uint32_t rocemu_qp_num(const struct rocemu_qp *qp)
{
	return qp->qpn;
}

void rocemu_qp_set_own_interface(struct rocemu_qp *qp, bool own)
{
	qp->path.own_interface = own;
}

const struct rocemu_path *rocemu_qp_path(const struct rocemu_qp *qp)
{
	bool connected =
		qp->type != IBV_QPT_UD && qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT;

	return connected && qp->path.sport ? &qp->path : NULL;
}

struct rocemu_xrcd *rocemu_qp_xrcd(const struct rocemu_qp *qp)
{
	return qp->xrcd;
}

void *rocemu_qp_user(const struct rocemu_qp *qp)
{
	return qp->user;
}

void rocemu_qp_set_user(struct rocemu_qp *qp, void *user)
{
	qp->user = user;
}

enum ibv_qp_state rocemu_qp_state(const struct rocemu_qp *qp)
{
	return qp->state;
}

void qp_wake(struct rocemu_qp *qp)
{
	if (likely(!qp->only_acks)) {
		if (list_linked(&qp->tx_link))
			return;
	} else {
		list_remove(&qp->tx_link);
		qp->only_acks = false;
	}
	list_append(&qp->ep->tx_ready, &qp->tx_link);
}

void qp_event(struct rocemu_qp *qp, enum ibv_event_type type)
{
	event_raise(qp->ep, &qp->ev, 1u << type);
}

/* ---- posting ---- */

#define WR(op) (1u << IBV_WR_##op)
enum {
	WR_UD = WR(SEND) | WR(SEND_WITH_IMM),
	WR_UC = WR_UD | WR(RDMA_WRITE) | WR(RDMA_WRITE_WITH_IMM) | WR(BIND_MW) | WR(LOCAL_INV),
	WR_RC = WR_UC | WR(SEND_WITH_INV) | WR(RDMA_READ) | WR(ATOMIC_CMP_AND_SWP) |
		WR(ATOMIC_FETCH_AND_ADD) | 1u << ROCEMU_WR_FLUSH | 1u << ROCEMU_WR_ATOMIC_WRITE,
};
#undef WR

static bool wr_opcode_known(enum ibv_wr_opcode op)
{
	return (unsigned)op < 32 && (WR_RC & 1u << op);
}

/** Operations that a transport service has (IBTA table 78); each bit is 1 << enum ibv_wr_opcode. */
static bool wr_opcode_allowed(enum ibv_qp_type type, enum ibv_wr_opcode op)
{
	static const uint32_t allowed[] = {
		[IBV_QPT_RC] = WR_RC,	    [IBV_QPT_UC] = WR_UC,   [IBV_QPT_UD] = WR_UD,
		[IBV_QPT_XRC_SEND] = WR_RC, [IBV_QPT_XRC_RECV] = 0,
	};

	return (unsigned)op < 32 && (allowed[type] & 1u << op);
}

static bool wr_is_atomic(enum ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool wr_is_local(enum ibv_wr_opcode op)
{
	return op == IBV_WR_BIND_MW || op == IBV_WR_LOCAL_INV;
}

/** Its placement types and level are such as there are (A19.4.1). */
static bool flush_valid(const struct ibv_send_wr *wr)
{
	uint32_t type = wr->invalidate_rkey & ROCEMU_FETH_TYPE_MASK;
	uint32_t level = wr->invalidate_rkey >> ROCEMU_FETH_LEVEL_SHIFT;

	return type && !(type & ~(uint32_t)(ROCEMU_FLUSH_GLOBAL | ROCEMU_FLUSH_PERSISTENT)) &&
	       level <= ROCEMU_FLUSH_MR;
}

/** The result of wr_check() for a request that may be posted. */
struct wr_facts {
	uint64_t length;
	enum ibv_wc_status
		fault; /* it completes with this instead of being begun; or IBV_WC_SUCCESS */
	enum rocemu_why_code why; /* set where it may not be posted */
};

/** It may not be posted: -EINVAL, and why. */
static inline int refuse(struct wr_facts *facts, enum rocemu_why_code why)
{
	facts->why = why;
	return -EINVAL;
}

/** The payload of a request against the QP's limits. */
static int wr_check_payload(const struct rocemu_qp *qp, const struct ibv_send_wr *wr,
			    struct wr_facts *facts)
{
	uint64_t *length = &facts->length;
	bool flushes = (int)wr->opcode == ROCEMU_WR_FLUSH;
	bool fetches = wr->opcode == IBV_WR_RDMA_READ || wr_is_atomic(wr->opcode) || flushes;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return refuse(facts, ROCEMU_WHY_SEND_SGES);
	*length = sge_total(wr->sg_list, (unsigned)wr->num_sge);
	if (wr->send_flags & IBV_SEND_INLINE && (fetches || *length > qp->sq.max_inline))
		return refuse(facts, ROCEMU_WHY_SEND_INLINE);
	if (wr_is_atomic(wr->opcode) && *length < 8)
		return refuse(facts, ROCEMU_WHY_SEND_LENGTH);
	if ((int)wr->opcode == ROCEMU_WR_ATOMIC_WRITE && *length != 8)
		return refuse(facts, ROCEMU_WHY_SEND_LENGTH);
	if (flushes)
		return wr->num_sge <= 1 && flush_valid(wr) ? 0
							   : refuse(facts, ROCEMU_WHY_SEND_FLUSH);
	/* IBTA 11.6.2, local length error */
	if (*length > (qp->type == IBV_QPT_UD ? qp->mtu : ROCEMU_MAX_MSG))
		facts->fault = IBV_WC_LOC_LEN_ERR;
	return 0;
}

/**
 * An operation that the QP's service does not have. What makes packets is taken and completes with
 * an error; then only the number of SGEs is looked at. Memory windows of a UD QP are refused.
 */
static int wr_check_foreign(const struct rocemu_qp *qp, const struct ibv_send_wr *wr,
			    struct wr_facts *facts)
{
	if (!wr_opcode_known(wr->opcode) || wr_is_local(wr->opcode) || qp->type == IBV_QPT_XRC_RECV)
		return refuse(facts, ROCEMU_WHY_SEND_OPCODE);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge)
		return refuse(facts, ROCEMU_WHY_SEND_SGES);
	facts->fault = IBV_WC_LOC_QP_OP_ERR;
	return 0;
}

HOT static int wr_check(const struct rocemu_qp *qp, const struct ibv_send_wr *wr,
			const struct rocemu_path *ud_path, struct wr_facts *facts)
{
	int r = 0;

	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT || qp->state == IBV_QPS_RTR)
		return refuse(facts, ROCEMU_WHY_SEND_STATE); /* C10-96 */
	facts->length = 0;
	facts->fault = IBV_WC_SUCCESS;
	if (unlikely(!wr_opcode_allowed(qp->type, wr->opcode)))
		r = wr_check_foreign(qp, wr, facts);
	else if (qp->type == IBV_QPT_UD && !ud_path)
		r = refuse(facts, ROCEMU_WHY_SEND_AH);
	else if (wr->opcode == IBV_WR_BIND_MW)
		r = mw_check_post(wr) ? refuse(facts, ROCEMU_WHY_SEND_BIND) : 0;
	else if (!wr_is_local(wr->opcode))
		r = wr_check_payload(qp, wr, facts);
	if (r)
		return r;
	return qp->sq.head - qp->sq.tail >= qp->sq.max_wr ? -ENOMEM : 0;
}

/** Why a request was not taken: r is -EINVAL or -ENOMEM. */
static WHY_COLD int send_refused(const struct rocemu_qp *qp, const struct ibv_send_wr *wr,
				 enum rocemu_why_code why, int r)
{
	struct rocemu_why w = {
		.code = r == -ENOMEM ? ROCEMU_WHY_SEND_FULL : why,
		.what = why_wr_name(wr->opcode),
		.id = wr->wr_id,
		.lo = qp->state,
	};

	switch (w.code) {
	case ROCEMU_WHY_SEND_FULL:
		w.limit = qp->sq.max_wr;
		break;
	case ROCEMU_WHY_SEND_SGES:
		w.n = (uint32_t)wr->num_sge;
		w.limit = qp->sq.max_sge;
		break;
	case ROCEMU_WHY_SEND_INLINE:
	case ROCEMU_WHY_SEND_LENGTH:
		w.len = sge_total(wr->sg_list, (unsigned)wr->num_sge);
		w.limit = qp->sq.max_inline;
		break;
	case ROCEMU_WHY_SEND_OPCODE:
		w.n = wr->opcode;
		break;
	case ROCEMU_WHY_SEND_BIND:
		w.n = wr->bind_mw.bind_info.mw_access_flags;
		break;
	default:
		break;
	}
	why_qp(qp, w);
	return r;
}

static void wr_copy_payload(struct rocemu_qp *qp, const struct ibv_send_wr *wr, uint32_t at)
{
	sq_wqe(&qp->sq, at)->nsge = (uint32_t)wr->num_sge;
	if (wr->send_flags & IBV_SEND_INLINE) {
		uint8_t *to = sq_inline(&qp->sq, at);

		for (int i = 0; i < wr->num_sge; i++) {
			if (!wr->sg_list[i].length)
				continue;
			words_load(to, (const void *)(uintptr_t)wr->sg_list[i].addr,
				   wr->sg_list[i].length);
			to += wr->sg_list[i].length;
		}
	} else if (wr->num_sge) {
		memcpy(sq_sges(&qp->sq, at), wr->sg_list,
		       (size_t)wr->num_sge * sizeof(struct ibv_sge));
	}
}

/** imm_data is in network byte order; invalidate_rkey shares its place and is a host-order number.
 */
static bool wr_has_key(enum ibv_wr_opcode op)
{
	return op == IBV_WR_SEND_WITH_INV || op == IBV_WR_LOCAL_INV || (int)op == ROCEMU_WR_FLUSH;
}

static void wr_copy_remote(struct swqe *w, const struct ibv_send_wr *wr)
{
	if (wr_is_atomic(wr->opcode)) {
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		w->length = 8;
	} else {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
	if ((int)wr->opcode == ROCEMU_WR_FLUSH) {
		w->flush_len = w->length;
		w->length = w->nsge = 0; /* it carries nothing */
	}
}

int rocemu_qp_check_send(const struct rocemu_qp *qp, unsigned ahead, const struct ibv_send_wr *wr,
			 const struct rocemu_path *ud_path)
{
	struct wr_facts facts;
	int r = wr_check(qp, wr, ud_path, &facts);

	if (!r && ahead >= qp->sq.max_wr - (qp->sq.head - qp->sq.tail))
		r = -ENOMEM;
	return unlikely(r) ? send_refused(qp, wr, facts.why, r) : 0;
}

/** What the requester needs to execute the request in the entry at head. */
static void wr_copy(struct rocemu_qp *qp, const struct ibv_send_wr *wr,
		    const struct rocemu_path *ud_path)
{
	struct swqe *w = sq_wqe(&qp->sq, qp->sq.head);

	w->imm = wr_has_key(wr->opcode) ? wr->invalidate_rkey : be32toh(wr->imm_data);
	if (wr->opcode == IBV_WR_BIND_MW)
		w->bind = mw_take_bind(wr);
	if (!wr_is_local(wr->opcode))
		wr_copy_payload(qp, wr, qp->sq.head);
	if (qp->type == IBV_QPT_UD) {
		w->path = *ud_path;
		w->path.sport = path_sport_datagram(ud_path->flow_label, qp->qpn);
		w->dqpn = wr->wr.ud.remote_qpn & ROCEMU_QPN_MASK;
		w->qkey = wr->wr.ud.remote_qkey;
	} else {
		w->srqn = wr->qp_type.xrc.remote_srqn & ROCEMU_QPN_MASK;
		wr_copy_remote(w, wr);
	}
}

HOT int rocemu_qp_post_send(struct rocemu_qp *qp, rocemu_ns_t now, const struct ibv_send_wr *wr,
			    const struct rocemu_path *ud_path)
{
	struct wr_facts facts;
	int r = wr_check(qp, wr, ud_path, &facts);
	struct swqe *w;

	if (unlikely(r))
		return send_refused(qp, wr, facts.why, r);
	w = sq_wqe(&qp->sq, qp->sq.head);
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = wr->send_flags;
	w->fault = facts.fault;
	w->length = w->nsge = 0;
	if (likely(facts.fault == IBV_WC_SUCCESS)) {
		w->length = (uint32_t)facts.length;
		wr_copy(qp, wr, ud_path);
	}
	qp->sq.head++;
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		comp_flush(qp, now);
	else
		req_kick(qp, now);
	return 0;
}

bool rocemu_qp_in_flight(const struct rocemu_qp *qp)
{
	return qp->req.inflight > 0;
}

void rocemu_qp_fail_last(struct rocemu_qp *qp, enum ibv_wc_status status)
{
	/* In ERR and SQE it was flushed; local requests may be done at once. */
	if (qp->sq.head != qp->sq.tail && qp->sq.head != qp->sq.next)
		sq_wqe(&qp->sq, qp->sq.head - 1)->fault = status;
}

static WHY_COLD int recv_refused(const struct rocemu_qp *qp, const struct ibv_recv_wr *wr,
				 enum rocemu_why_code why, int r)
{
	why_qp(qp, (struct rocemu_why){
			   .code = why,
			   .id = wr->wr_id,
			   .lo = qp->state,
			   .n = (uint32_t)wr->num_sge,
			   .limit = why == ROCEMU_WHY_RECV_FULL ? qp->rq.max_wr : qp->rq.max_sge,
		   });
	return r;
}

int rocemu_qp_post_recv(struct rocemu_qp *qp, rocemu_ns_t now, const struct ibv_recv_wr *wr,
			const struct ibv_recv_wr **bad)
{
	int r = 0;

	if (qp->state == IBV_QPS_RESET || qp->srq || !qp->recv_cq) {
		*bad = wr;
		return recv_refused(qp, wr,
				    qp->state == IBV_QPS_RESET ? ROCEMU_WHY_RECV_STATE
							       : ROCEMU_WHY_RECV_SRQ,
				    -EINVAL);
	}
	for (; wr; wr = wr->next) {
		r = rq_post(&qp->rq, wr);
		if (unlikely(r)) {
			*bad = wr;
			recv_refused(qp, wr,
				     r == -ENOMEM ? ROCEMU_WHY_RECV_FULL : ROCEMU_WHY_RECV_SGES, r);
			break;
		}
	}
	if (qp->state == IBV_QPS_ERR)
		resp_flush(qp, now);
	return r;
}
