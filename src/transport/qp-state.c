/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair's states and attributes: modify, query, and transitions to the error states. */
#include <errno.h>

#include "base/util.h"
#include "transport/path.h"
#include "transport/qp.h"
#include "transport/show.h"
#include "transport/state-table.h"
#include "transport/why.h"

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

/** Refuse to modify: why. */
static WHY_COLD int modify_refused(const struct rocemu_qp *qp, enum ibv_qp_state to,
				   struct rocemu_why w)
{
	w.lo = qp->state;
	w.hi = to;
	why_qp(qp, w);
	return w.code == ROCEMU_WHY_NO_MIGRATION ? -EOPNOTSUPP : -EINVAL;
}

/** Why the state table has no such transition. */
static WHY_COLD int table_refused(const struct rocemu_qp *qp, enum ibv_qp_state to, int mask)
{
	const int given = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	struct rocemu_why w = {.code = ROCEMU_WHY_NO_TRANSITION};
	int need, may;

	if (!state_table_masks(qp->type, qp->state, to, &need, &may))
		return modify_refused(qp, to, w);
	w.limit = (uint64_t)(unsigned)need;
	if (need & ~given) {
		w.code = ROCEMU_WHY_MISSING;
		w.n = (uint64_t)(unsigned)(need & ~given);
	} else {
		w.code = ROCEMU_WHY_NOT_ALLOWED;
		w.n = (uint64_t)(unsigned)(mask & ~(need | may | IBV_QP_STATE));
		w.limit |= (uint64_t)(unsigned)may;
	}
	return modify_refused(qp, to, w);
}

/** What is wrong with the path of an attribute. */
static struct rocemu_why path_fault(const struct rocemu_ep *ep, const struct ibv_ah_attr *ah)
{
	struct rocemu_why w = {
		.code = ROCEMU_WHY_PATH, .what = "sgid_index", .n = ah->grh.sgid_index};

	if (ah->port_num > 1) {
		w.what = "port_num";
		w.n = ah->port_num;
	} else if (!ah->is_global) {
		w.what = "is_global";
		w.n = 0;
	} else if (ah->grh.sgid_index < ROCEMU_MAX_GID && ep->gid_valid[ah->grh.sgid_index]) {
		w.what = "a dgid of another address family than sgid_index";
	}
	return w;
}

/** Are all values selected by the mask in range? */
static int values_check(const struct rocemu_qp *qp, enum ibv_qp_state to,
			const struct ibv_qp_attr *a, int mask)
{
	const struct {
		int bit;
		const char *name;
		uint32_t value, least, most;
	} values[] = {
		/* clang-format off */
		{IBV_QP_PATH_MIG_STATE,     "path_mig_state",     a->path_mig_state,     IBV_MIG_MIGRATED, IBV_MIG_MIGRATED},
		{IBV_QP_PORT,               "port_num",           a->port_num,           1, 1},
		{IBV_QP_PKEY_INDEX,         "pkey_index",         a->pkey_index,         0, 0},
		{IBV_QP_PATH_MTU,           "path_mtu (an enum ibv_mtu)", a->path_mtu,   IBV_MTU_256, qp->ep->cfg.active_mtu},
		{IBV_QP_TIMEOUT,            "timeout",            a->timeout,            0, 31},
		{IBV_QP_RETRY_CNT,          "retry_cnt",          a->retry_cnt,          0, 7},
		{IBV_QP_RNR_RETRY,          "rnr_retry",          a->rnr_retry,          0, 7},
		{IBV_QP_MIN_RNR_TIMER,      "min_rnr_timer",      a->min_rnr_timer,      0, 31},
		{IBV_QP_MAX_QP_RD_ATOMIC,   "max_rd_atomic",      a->max_rd_atomic,      0, qp->ep->cfg.max_rd_atomic},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic, 0, qp->ep->cfg.max_rd_atomic},
		{IBV_QP_DEST_QPN,           "dest_qp_num",        a->dest_qp_num,        0, ROCEMU_QPN_MASK},
		/* clang-format on */
	};
	struct rocemu_path path;

	if (mask & IBV_QP_ALT_PATH)
		return modify_refused(
			qp, to,
			(struct rocemu_why){.code = ROCEMU_WHY_NO_MIGRATION, .n = IBV_QP_ALT_PATH});
	if ((mask & IBV_QP_AV) &&
	    (a->ah_attr.port_num > 1 || rocemu_path_resolve(qp->ep, &a->ah_attr, &path)))
		return modify_refused(qp, to, path_fault(qp->ep, &a->ah_attr));
	for (unsigned i = 0; i < ARRAY_LEN(values); i++)
		if ((mask & values[i].bit) &&
		    (values[i].value < values[i].least || values[i].value > values[i].most))
			return modify_refused(qp, to,
					      (struct rocemu_why){
						      .code = ROCEMU_WHY_VALUE,
						      .what = values[i].name,
						      .n = values[i].value,
						      .addr = values[i].least,
						      .limit = values[i].most,
					      });
	return 0;
}

static int path_connected(const struct rocemu_qp *qp, const struct ibv_ah_attr *ah,
			  uint32_t dest_qpn, struct rocemu_path *path)
{
	const int err = rocemu_path_resolve(qp->ep, ah, path);

	if (!err)
		path->sport = path_sport_connected(path->flow_label, qp->qpn, dest_qpn);
	return err;
}

int rocemu_qp_path_after(const struct rocemu_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 struct rocemu_path *path)
{
	if (qp->type == IBV_QPT_UD || !(mask & IBV_QP_AV))
		return -EINVAL;
	return path_connected(qp, &attr->ah_attr,
			      mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num,
			      path);
}

static void values_apply(struct rocemu_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *q = &qp->attr;

	/* clang-format off */
#define TAKE(bit, field) if (mask & (bit)) q->field = a->field
	TAKE(IBV_QP_ACCESS_FLAGS,       qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX,         pkey_index);
	TAKE(IBV_QP_PORT,               port_num);
	TAKE(IBV_QP_QKEY,               qkey);
	TAKE(IBV_QP_AV,                 ah_attr);
	TAKE(IBV_QP_PATH_MTU,           path_mtu);
	TAKE(IBV_QP_TIMEOUT,            timeout);
	TAKE(IBV_QP_RETRY_CNT,          retry_cnt);
	TAKE(IBV_QP_RNR_RETRY,          rnr_retry);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC,   max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER,      min_rnr_timer);
	TAKE(IBV_QP_PATH_MIG_STATE,     path_mig_state);
	TAKE(IBV_QP_DEST_QPN,           dest_qp_num);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
	/* clang-format on */
	if (mask & IBV_QP_RQ_PSN)
		q->rq_psn = a->rq_psn & ROCEMU_PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		q->sq_psn = a->sq_psn & ROCEMU_PSN_MASK;
	if (mask & IBV_QP_PATH_MTU)
		qp->mtu = mtu_bytes(a->path_mtu);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		resp_limit_changed(qp);
	if (mask & (IBV_QP_AV | IBV_QP_DEST_QPN))
		path_connected(qp, &q->ah_attr, q->dest_qp_num, &qp->path);
	if (mask & IBV_QP_DEST_QPN)
		port_start(&qp->ports, qp->path.sport);
}

static void qp_to_reset(struct rocemu_qp *qp)
{
	struct ibv_qp_cap cap = qp->attr.cap;

	req_stop(qp);
	list_remove(&qp->tx_link);
	event_src_fini(&qp->ev);
	qp_purge_cqs(qp);
	qp->sq.head = qp->sq.next = qp->sq.tail = 0;
	qp->rq.head = qp->rq.tail = 0;
	qp->attr = (struct ibv_qp_attr){.cap = cap};
	qp->path = (struct rocemu_path){0};
	qp->mtu = 0;
	qp->sq_draining = false;
	qp->id_fits = 0;
	qp->state = IBV_QPS_RESET;
	req_reset(qp);
	comp_reset(qp);
	resp_reset(qp);
}

/** The effects of a transition beyond setting the attributes. */
static void qp_enter(struct rocemu_qp *qp, rocemu_ns_t now, enum ibv_qp_state from,
		     enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
		qp_to_reset(qp);
		break;
	case IBV_QPS_INIT:
		if (qp->type == IBV_QPT_UD)
			qp->mtu = mtu_bytes(qp->ep->cfg.active_mtu);
		break;
	case IBV_QPS_RTR:
		if (from == IBV_QPS_INIT)
			resp_start(qp);
		break;
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR) {
			comp_start(qp);
			req_start(qp, now);
		}
		qp->sq_draining = false;
		req_kick(qp, now);
		break;
	case IBV_QPS_SQD:
		if (from == IBV_QPS_RTS) {
			qp->sq_draining = true;
			qp_check_drained(qp);
		}
		break;
	case IBV_QPS_ERR:
		qp->state = from; /* qp_fail() does nothing in ERR */
		if (from != IBV_QPS_ERR && qp->sq.tail != qp->sq.head)
			why_qp(qp, (struct rocemu_why){.code = ROCEMU_WHY_MODIFIED,
						       .lo = from,
						       .hi = to,
						       .n = qp->sq.head - qp->sq.tail});
		qp_fail(qp, now);
		break;
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
	default:
		break;
	}
}

int rocemu_qp_modify(struct rocemu_qp *qp, rocemu_ns_t now, const struct ibv_qp_attr *attr,
		     int mask)
{
	enum ibv_qp_state from = qp->state;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int r;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		return modify_refused(qp, attr->cur_qp_state,
				      (struct rocemu_why){.code = ROCEMU_WHY_CUR_STATE});
	if (!state_table_allows(qp->type, from, to, mask))
		return table_refused(qp, to, mask);
	r = values_check(qp, to, attr, mask);
	if (r)
		return r;
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS && req_attach(qp))
		return -ENOMEM;
	if ((mask & IBV_QP_AV) && req_move(qp, &attr->ah_attr))
		return -ENOMEM;
	values_apply(qp, attr, mask);
	qp->state = to;
	qp_enter(qp, now, from, to);
	req_changed(qp, now, mask);
	show_qp(qp);
	return 0;
}

void rocemu_qp_query(const struct rocemu_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_draining = qp->sq_draining;
	/* IBTA 11.2.5.3: the PSNs are the present ones. */
	attr->rq_psn = qp->resp.epsn;
	attr->sq_psn = qp->req.next_psn;
}

void qp_fail(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	qp->state = IBV_QPS_ERR;
	show_qp(qp);
	qp->sq_draining = false;
	req_stop(qp);
	comp_flush(qp, now);
	resp_flush(qp, now);
	if (qp->srq || qp->type == IBV_QPT_XRC_RECV)
		qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

APART void qp_fail_send(struct rocemu_qp *qp, rocemu_ns_t now)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		return;
	qp->state = IBV_QPS_SQE;
	show_qp(qp);
	qp->sq_draining = false;
	req_stop(qp);
	comp_flush(qp, now);
}

void qp_check_drained(struct rocemu_qp *qp)
{
	if (qp->state != IBV_QPS_SQD || !qp->sq_draining || !req_idle(qp))
		return;
	qp->sq_draining = false;
	if (qp->attr.en_sqd_async_notify)
		qp_event(qp, IBV_EVENT_SQ_DRAINED);
}
