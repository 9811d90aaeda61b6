/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended completion queue: one completion at a time, read field by field between start_poll
 * and end_poll.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine/lane.h"
#include "engine/poller.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/trace-wr.h"

static inline struct vb_cq *ex_of(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct vb_cq, base);
}

static bool take(struct vb_cq *cq)
{
	if (!vb_cq_take(cq, &cq->cur))
		return false;
	if (trace_on())
		vb_trace_taken(cq->base.context, &cq->cur);
	cq->base.wr_id = cq->cur.wr_id;
	cq->base.status = cq->cur.status;
	return true;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = ex_of(ex);

	if (unlikely(cq->quiet))
		rocemu_cq_polling(cq->rcq, false);
	atomic_store_explicit(&cq->poller_tid, 0, memory_order_relaxed);
	pthread_mutex_unlock(&cq->consumer);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vb_cq *cq = ex_of(ex);

	if (attr && attr->comp_mask)
		return REFUSE(EINVAL, 0,
			      "ibv_start_poll: comp_mask is 0x%x: no bits are defined: pass 0",
			      attr->comp_mask);
	if (unlikely(vb_context_of(cq->base.context)->orphan))
		return -vb_orphan_refuse();
	pthread_mutex_lock(&cq->consumer);
	atomic_store_explicit(&cq->poller_tid, poller_self(), memory_order_relaxed);
	/* Until end_poll(). */
	cq->quiet = vb_cq_is_quiet(cq);
	if (unlikely(cq->quiet))
		rocemu_cq_polling(cq->rcq, true);
	if (take(cq))
		return 0;
	/* No end_poll follows a start_poll that failed. */
	end_poll(ex);
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return take(ex_of(ex)) ? 0 : ENOENT;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	const struct rocemu_cqe *cqe = &ex_of(ex)->cur;

	/* Also ibv_wc_read_invalidated_rkey(), which is in host order. */
	return cqe->wc_flags & IBV_WC_WITH_INV ? cqe->imm : htonl(cqe->imm);
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return ex_of(ex)->cur.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

/**
 * A thread reads the clock before it takes the lane's lock, so the time of a completion may be
 * slightly before that of its predecessor.
 */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = ex_of(ex);

	cq->last_ts = MAX(cq->last_ts, cq->cur.timestamp);
	return cq->last_ts;
}

/*
 * A poll for wall-clock times compares the clocks once: each comparison gives a slightly different
 * result, and the wall clock may be set meanwhile.
 */
static int start_poll_wallclock(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	const int ret = start_poll(ex, attr);

	if (ret == 0)
		ex_of(ex)->wall.fixed = false;
	return ret;
}

/**
 * Compute the offset of the wall clock. The old result is kept while it is within the error of the
 * new one.
 */
static void compare_clocks(struct vb_cq *cq)
{
	const rocemu_ns_t before = lane_now();
	rocemu_ns_t took, real;
	int64_t ahead, diff;

	real = clock_ns(CLOCK_REALTIME);
	took = lane_now() - before;
	ahead = (int64_t)(real - before);
	diff = ahead - cq->wall.ahead;
	if ((uint64_t)(diff < 0 ? -diff : diff) > took + cq->wall.error) {
		cq->wall.ahead = ahead;
		cq->wall.error = took;
	}
	cq->wall.fixed = cq->base.start_poll == start_poll_wallclock;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct vb_cq *cq = ex_of(ex);

	if (!cq->wall.fixed)
		compare_clocks(cq);
	return read_completion_ts(ex) + (uint64_t)cq->wall.ahead;
}

struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex;
	struct vb_cq *cq;

	if (attr->wc_flags &
	    ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_create_cq_ex: wc_flags is 0x%llx: only the standard "
				      "fields and time stamps are supported: remove the others",
				      (unsigned long long)attr->wc_flags));
	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_create_cq_ex: comp_mask is 0x%x: only FLAGS and PD are "
				      "supported: remove the others",
				      attr->comp_mask));
	/* Single-threaded needs no support; ignoring an overrun is not supported. */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_create_cq_ex: flags is 0x%x: only SINGLE_THREADED is "
				      "supported: a CQ cannot ignore its overrun",
				      attr->flags));
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || attr->parent_domain->context != ctx ||
	     !vb_pd_of(attr->parent_domain)->parent))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_cq_ex: parent_domain: it must be a parent domain "
				      "of the same context: make it by ibv_alloc_parent_domain()"));
	cq = vb_cq_new(vb_context_of(ctx), attr->cqe, attr->cq_context, attr->channel,
		       attr->comp_vector);
	if (!cq)
		return NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		cq->pd = vb_pd_of(attr->parent_domain);
		atomic_fetch_add(&cq->pd->refs, 1);
	}
	ex = &cq->base;
	ex->start_poll = attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
				 ? start_poll_wallclock
				 : start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
	return ex;
}
