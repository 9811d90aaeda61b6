/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, polling, arming, and waiting for acknowledged events at the end. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/evq.h"
#include "base/util.h"
#include "engine/lane.h"
#include "engine/poller.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/real.h"
#include "verbs/trace-wr.h"

enum { POLL_BATCH = 16 };

/* ---- polling ---- */

/**
 * src_qp, flags and the other fields are undefined on an error (IBTA 11.4.2.1): they stay as the
 * endpoint left them.
 */
static void wc_from_cqe(struct ibv_wc *wc, const struct rocemu_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	if (cqe->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = cqe->imm;
	else
		wc->imm_data = htonl(cqe->imm);
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->wc_flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/** Take up to n completions. */
HOT static int drain(struct vb_cq *cq, int n, struct ibv_wc *wc)
{
	struct rocemu_cqe batch[POLL_BATCH];
	int got = 0;

	if (rocemu_cq_count(cq->rcq) == 0)
		return 0;
	pthread_mutex_lock(&cq->consumer);
	while (got < n) {
		unsigned want = (unsigned)MIN(n - got, POLL_BATCH);
		unsigned m = rocemu_cq_poll(cq->rcq, batch, want);

		for (unsigned i = 0; i < m; i++)
			wc_from_cqe(&wc[got++], &batch[i]);
		if (trace_on())
			for (unsigned i = 0; i < m; i++)
				vb_trace_taken(cq->base.context, &batch[i]);
		if (m < want)
			break;
	}
	pthread_mutex_unlock(&cq->consumer);
	return got;
}

/**
 * Hardware raises the event of an armed CQ whichever thread polls. A program that arms and then
 * polls wants the completions from before the arming; some of them arrive here only while the poll
 * makes progress, and raise no event. Completions of requests posted after the arming, and those of
 * later polls, do raise it. A poll on a thread that did not arm the CQ does not wake the one that
 * did, so the event must: also where both have armed it.
 */
bool vb_cq_is_quiet(struct vb_cq *cq)
{
	if (likely(!atomic_load_explicit(&cq->fresh, memory_order_acquire)))
		return false;
	atomic_store_explicit(&cq->fresh, false, memory_order_relaxed);
	return pthread_equal(atomic_load_explicit(&cq->armer, memory_order_relaxed),
			     pthread_self()) &&
	       rocemu_cq_is_armed(cq->rcq);
}

/** Make progress because cq is empty. */
static void drive(struct vb_cq *cq)
{
	struct lane *lane = vb_lane_of(&cq->place);

	if (likely(!vb_cq_is_quiet(cq))) {
		lane_poll_in_turn(lane, &cq->turn);
		return;
	}
	rocemu_cq_polling(cq->rcq, true);
	lane_poll(lane);
	rocemu_cq_polling(cq->rcq, false);
}

HOT int vb_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct vb_context *c = vb_context_of(ibcq->context);
	int got = drain(cq, n, wc);

	if (got > 0 || !atomic_load_explicit(&c->attached, memory_order_relaxed))
		return got;
	drive(cq);
	return drain(cq, n, wc);
}

bool vb_cq_take(struct vb_cq *cq, struct rocemu_cqe *cqe)
{
	struct vb_context *c = vb_context_of(cq->base.context);

	if (rocemu_cq_poll(cq->rcq, cqe, 1) == 1)
		return true;
	if (!atomic_load_explicit(&c->attached, memory_order_relaxed))
		return false;
	drive(cq);
	return rocemu_cq_poll(cq->rcq, cqe, 1) == 1;
}

int vb_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct vb_context *c = vb_context_of(ibcq->context);
	const int ret = vb_fault(c, NULL, FAULT_VERB_REQ_NOTIFY_CQ);
	struct vb_channel *ch = ibcq->channel ? vb_channel_of(ibcq->channel) : NULL;
	struct lane *lane;
	bool again;

	if (ret < 0)
		return vb_errno(ret);
	lane = vb_lane_lock(&cq->place);
	vb_lane_assume(lane);
	if (!rocemu_cq_is_armed(cq->rcq))
		cq->shared = false;
	else if (atomic_load_explicit(&cq->armer_tid, memory_order_relaxed) != poller_self())
		cq->shared = true;
	again = rocemu_cq_arm(cq->rcq, lane_now(), solicited_only != 0) &&
		atomic_load_explicit(&cq->armer_tid, memory_order_relaxed) == poller_self();
	atomic_store_explicit(&cq->armer, pthread_self(), memory_order_relaxed);
	atomic_store_explicit(&cq->armer_tid, poller_self(), memory_order_relaxed);
	/* A thread that arms and does not poll may put the event off once, not again and again. */
	if (!again)
		cq->armer_cpu_ns = 0;
	/* Another thread that armed it waits for the event, whatever this one polls. */
	atomic_store_explicit(&cq->fresh, !cq->shared, memory_order_release);
	/* The program may be about to wait: send the posts that were gathered. */
	if (ch && vb_channel_lane(ch) == lane && spin_pays(&ch->spin))
		lane_look_hint(lane);
	else
		lane_arm_hint(lane);
	lane_deliver(lane);
	lane_unlock(lane);
	return 0;
}

int vb_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct lane *lane;
	int ret;

	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return vb_errno(REFUSE(-EOPNOTSUPP, 0,
				       "ibv_modify_cq: attr_mask is 0x%x: only "
				       "IBV_CQ_ATTR_MODERATE is supported: remove the rest",
				       attr->attr_mask));
	ret = vb_cq_check(ibcq);
	if (ret < 0)
		return vb_errno(ret);
	if (!(attr->attr_mask & IBV_CQ_ATTR_MODERATE))
		return 0;
	lane = vb_lane_lock(&cq->place);
	vb_lane_assume(lane);
	rocemu_cq_moderate(cq->rcq, attr->moderate.cq_count,
			   (rocemu_ns_t)attr->moderate.cq_period * 1000u);
	lane_deliver(lane);
	lane_unlock(lane);
	return 0;
}

/** Is there a lock to take: is this thread not between start_poll and end_poll? */
static bool has_to_lock(struct vb_cq *cq)
{
	return cq && atomic_load_explicit(&cq->poller_tid, memory_order_relaxed) != poller_self();
}

/*
 * None is waited for with the other one held: a thread that polls one of them may take the
 * other, so there is no order. Two threads that each poll one of them still wait for each other.
 */
void vb_cq_lock_pair(struct vb_cq *a, struct vb_cq *b)
{
	struct vb_cq *first = has_to_lock(a) ? a : NULL, *second = has_to_lock(b) ? b : NULL;

	if (!first || !second || first == second) {
		first = first ? first : second;
		if (first)
			pthread_mutex_lock(&first->consumer);
		return;
	}
	for (;;) {
		struct vb_cq *waited_for = second;

		pthread_mutex_lock(&first->consumer);
		if (!pthread_mutex_trylock(&second->consumer))
			return;
		pthread_mutex_unlock(&first->consumer);
		second = first;
		first = waited_for;
	}
}

void vb_cq_unlock_pair(struct vb_cq *a, struct vb_cq *b)
{
	if (has_to_lock(a))
		pthread_mutex_unlock(&a->consumer);
	if (a != b && has_to_lock(b))
		pthread_mutex_unlock(&b->consumer);
}

/* ---- life ---- */

int vb_cq_check(struct ibv_cq *cq)
{
	return vb_handle_check(vb_context_of(cq->context), cq->handle, vb_cq_of(cq));
}

static void channel_ref(struct vb_context *c, struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	mutex_lock(&c->lock);
	channel->refcnt += by;
	mutex_unlock(&c->lock);
}

struct vb_cq *vb_cq_new(struct vb_context *c, uint32_t cqe, void *cq_context,
			struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	struct ibv_context *ctx = &c->vctx.context;
	struct lane *lane = c->lanes.lane[0];
	struct vb_cq *cq;
	int ret;

	if (cqe == 0 || cqe > ROCEMU_MAX_CQE || comp_vector >= (uint32_t)ctx->num_comp_vectors ||
	    (channel && channel->context != ctx))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_cq: cqe is %u, comp_vector %u: cqe must be 1 to "
				      "%d, comp_vector 0 to %d, the channel of the same context: "
				      "see max_cqe of ibv_query_device()",
				      cqe, comp_vector, ROCEMU_MAX_CQE, ctx->num_comp_vectors - 1));
	ret = vb_fault(c, NULL, FAULT_VERB_CREATE_CQ);
	if (ret == 0)
		ret = vb_orphan_check(c);
	if (ret < 0)
		return vb_null(-ret);
	if (!vb_take(c, VB_CQS))
		return vb_null(ENOMEM);
	cq = calloc(1, sizeof(*cq));
	ret = cq ? vb_handle_new(c, cq, &cq->base.handle) : -ENOMEM;
	if (ret == 0) {
		lane_lock(lane);
		ret = rocemu_cq_create(lane_ep(lane), cqe, cq, &cq->rcq);
		if (ret == 0)
			vb_fault_cq_init(cq);
		lane_unlock(lane);
		if (ret < 0)
			vb_handle_free(c, cq->base.handle, cq);
	}
	if (ret < 0) {
		vb_give_back(c, VB_CQS);
		free(cq);
		return vb_null(-ret);
	}
	atomic_init(&cq->place.lane, lane);
	cq->base.context = ctx;
	cq->base.channel = channel;
	cq->base.cq_context = cq_context;
	cq->base.cqe = (int)rocemu_cq_depth(cq->rcq);
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	pthread_mutex_init(&cq->consumer, NULL);
	evq_source_init(&cq->comp);
	vb_async_init(&cq->async, IBV_EVENT_CQ_ERR);
	cq->async.event.element.cq = ibv_cq_ex_to_cq(&cq->base);
	channel_ref(c, channel, 1);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct vb_context *c = vb_context_of(context);
	struct vb_cq *cq;

	if (!c && vb_mixed(channel ? channel->context : NULL))
		return vb_null(REFUSE(
			EINVAL, 0,
			"ibv_create_cq: the channel is of an emulated device, the context of a "
			"real one: both must be of the same context: create the channel on it"));
	if (!c)
		return REAL_CALL(ibv_create_cq, context, cqe, cq_context, channel, comp_vector);
	if (cqe <= 0 || comp_vector < 0)
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_create_cq: cqe is %d, comp_vector %d: cqe must be 1 to "
				      "%d, comp_vector not negative: "
				      "see max_cqe of ibv_query_device()",
				      cqe, comp_vector, ROCEMU_MAX_CQE));
	cq = vb_cq_new(c, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
	return cq ? ibv_cq_ex_to_cq(&cq->base) : NULL;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct vb_context *c = vb_context_of(ibcq->context);
	struct vb_cq *cq = vb_cq_of(ibcq);
	struct lane *lane;
	int ret;

	if (!c)
		return REAL_CALL(ibv_resize_cq, ibcq, cqe);
	if (cqe <= 0 || cqe > ROCEMU_MAX_CQE)
		return vb_errno(
			REFUSE(-EINVAL, 0,
			       "ibv_resize_cq: cqe is %d: it must be 1 to %d: see max_cqe of "
			       "ibv_query_device()",
			       cqe, ROCEMU_MAX_CQE));
	ret = vb_fault(c, NULL, FAULT_VERB_RESIZE_CQ);
	if (ret == 0)
		ret = vb_cq_check(ibcq);
	if (ret < 0)
		return vb_errno(ret);
	pthread_mutex_lock(&cq->consumer);
	lane = vb_lane_lock(&cq->place);
	vb_lane_assume(lane);
	ret = rocemu_cq_resize(cq->rcq, (unsigned)cqe);
	lane_unlock(lane);
	if (ret == -EINVAL)
		why_say(0,
			"ibv_resize_cq: cqe is %d: the CQ holds more completions: poll them first",
			cqe);
	if (ret == 0)
		cq->base.cqe = (int)rocemu_cq_depth(cq->rcq);
	pthread_mutex_unlock(&cq->consumer);
	return vb_errno(ret);
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct vb_context *c = vb_context_of(ibcq->context);
	struct vb_cq *cq = vb_cq_of(ibcq);
	unsigned comp = 0, async;
	struct lane *lane;
	UNCANCELLED;
	int ret;

	if (!c)
		return REAL_CALL(ibv_destroy_cq, ibcq);
	if (c->orphan)
		return vb_orphan_free(cq);
	ret = vb_cq_check(ibcq);
	if (ret < 0)
		return vb_errno(ret);
	lane = vb_lane_lock(&cq->place);
	vb_lane_assume(lane);
	ret = rocemu_cq_destroy(cq->rcq);
	lane_unlock(lane);
	if (ret < 0)
		return vb_errno(ret);
	vb_handle_free(c, ibcq->handle, cq);
	/* From here on no event is posted; wait until the program has acknowledged those it got. */
	if (ibcq->channel)
		comp = evq_drop(&vb_channel_of(ibcq->channel)->events, &cq->comp);
	async = vb_async_drop(c, &cq->async, 1);
	pthread_mutex_lock(&ibcq->mutex);
	while (ibcq->comp_events_completed != comp || ibcq->async_events_completed != async)
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	channel_ref(c, ibcq->channel, -1);
	if (cq->pd)
		atomic_fetch_sub(&cq->pd->refs, 1);
	pthread_mutex_destroy(&cq->consumer);
	vb_give_back(c, VB_CQS);
	free(cq);
	return 0;
}
