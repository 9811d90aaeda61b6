/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: cq.c, and cq-ex.c for the extended interface. */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <rocemu/endpoint.h>

#include "base/evq.h"
#include "verbs/call.h"
#include "verbs/event.h"
#include "verbs/lanes.h"

struct fault_total;
struct vb_context;
struct vb_pd;

struct vb_cq {
	struct ibv_cq_ex base; /* begins like an ibv_cq */
	struct rocemu_cq *rcq; /* owned */
	struct vb_place place;
	pthread_mutex_t
		consumer;      /* taken to remove completions; held from start_poll to end_poll */
	uint32_t turn;	       /* see lane_poll_in_turn(). Lane's lock */
	atomic_int poller_tid; /* the thread between these two, as the kernel names it; 0: none */
	struct rocemu_cqe cur; /* what the extended readers read; guarded by consumer */
	uint64_t last_ts;      /* the latest time that the readers returned; guarded by consumer */
	struct {
		int64_t ahead;	/* of CLOCK_MONOTONIC, ns */
		uint64_t error; /* error bound in ns */
		bool fixed;	/* until the next poll */
	} wall;			/* CLOCK_REALTIME; guarded by consumer */
	bool quiet;		/* start_poll called rocemu_cq_polling(); guarded by consumer */
	atomic_bool fresh; /* armed by one thread alone, and since then nothing was posted and no
			      poll made progress; see vb_cq_is_quiet() */
	bool shared;	   /* several threads have armed it since its last event. Lane's lock */
	_Atomic(pthread_t) armer; /* the thread that armed it last */
	atomic_int armer_tid;	  /* the same thread as the kernel names it */
	uint64_t armer_cpu_ns;	/* its CPU time when the event was put off since; 0: was not. Lane's
				   lock */
	struct evq_source comp; /* events for base.channel */
	struct vb_async async;	/* IBV_EVENT_CQ_ERR */
	struct vb_pd *pd;	/* ref to the parent domain it was made with, or NULL */
	struct fault_total *fault; /* of the fault rule by which it overflows; NULL: none */
};

static inline struct vb_cq *vb_cq_of(struct ibv_cq *cq)
{
	return (struct vb_cq *)(void *)cq;
}

int vb_cq_check(struct ibv_cq *cq); /* as vb_pd_check() */
struct vb_cq *vb_cq_new(struct vb_context *c, uint32_t cqe, void *cq_context,
			struct ibv_comp_channel *channel, uint32_t comp_vector);
int vb_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int vb_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int vb_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
/** One completion; when there is none, drive the lane once and look again. Consumer lock held. */
bool vb_cq_take(struct vb_cq *cq, struct rocemu_cqe *cqe);
/**
 * Does the poll that begins now take completions from before the calling thread armed cq? Then
 * these raise no event. True once per arming.
 */
bool vb_cq_is_quiet(struct vb_cq *cq);
/**
 * Take and release the consumer locks of a QP's two CQs (which may be equal, or NULL).
 * A thread that has one from start_poll on keeps it: what it has read is in cur, not in the ring.
 */
void vb_cq_lock_pair(struct vb_cq *a, struct vb_cq *b);
void vb_cq_unlock_pair(struct vb_cq *a, struct vb_cq *b);

/* cq-ex.c */
struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

#endif
