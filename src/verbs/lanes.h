/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assigns objects to the lanes of their context. A QP stays on its lane. A CQ or an SRQ is on the
 * first lane until a QP uses it, when it may move once (lanes.c).
 */
#ifndef VERBS_LANES_H
#define VERBS_LANES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/mutex.h"
#include "engine/lane.h"

struct vb_context;
struct vb_cq;
struct vb_srq;

/** Where a CQ or an SRQ is. */
struct vb_place {
	_Atomic(struct lane *) lane; /* changes under all lanes' locks */
	bool given;		     /* in use, so it stays there; guarded by vb_spread.lock */
};

/** A thread that made QPs, and its lane. */
struct vb_maker {
	int tid;
	struct lane *lane; /* borrowed */
};

enum {
	VB_MAKERS = LANES_MAX,
	VB_MAX_QP = 1 << 18, /* of a context: more than a lane's ROCEMU_MAX_QP */
};

/** How a context's QPs are spread over its lanes; guarded by lock, but for qps. */
struct vb_spread {
	struct mutex lock;
	unsigned most;	  /* limit of lanes, as long as none of them is full */
	bool united;	  /* see vb_lanes_unite() */
	bool by_thread;	  /* what one thread makes is on one lane */
	unsigned nmakers; /* that there were; the last VB_MAKERS are kept */
	struct vb_maker maker[VB_MAKERS];
	atomic_uint qps[LANES_MAX]; /* on each lane; grows with lock held */
};

static inline struct lane *vb_lane_of(const struct vb_place *at)
{
	return atomic_load_explicit(&at->lane, memory_order_acquire);
}

/* For the analysis, which cannot follow vb_lane_lock(). */
static inline void vb_lane_assume(struct lane *l) ASSERT_HELD(l);
static inline void vb_lane_assume(struct lane *l)
{
	(void)l;
}

/** Lock the lane that the object is on; it stays there until the lane is unlocked. */
static inline struct lane *vb_lane_lock(const struct vb_place *at) NO_THREAD_SAFETY_ANALYSIS
{
	struct lane *l;

	for (;;) {
		l = vb_lane_of(at);
		lane_lock(l);
		if (likely(l == vb_lane_of(at)))
			return l;
		lane_unlock(l);
	}
}

/** What a QP is made of; NULL: has none. */
struct vb_lane_users {
	struct vb_cq *send_cq, *recv_cq;
	struct vb_srq *srq;
};

/**
 * Make the first lane, which a context always has; reads ROCEMU_LANES. -errno, with a message
 * printed.
 */
int vb_lanes_init(struct vb_context *c);
/** Free all lanes. */
void vb_lanes_fini(struct vb_context *c);
/** The lane of a QP that is to be made of these objects. The first lane is attached. -ENOMEM: also
 * when there are VB_MAX_QP, or no lane has room and there is no further one. */
int vb_lanes_take(struct vb_context *c, const struct vb_lane_users *u, struct lane **out);
/** The QP was destroyed. */
void vb_lanes_give_back(struct vb_context *c, const struct lane *lane);
/** Something on the first lane, an SRQ of XRC, uses the CQ. -ENOMEM. */
int vb_lanes_take_first(struct vb_context *c, struct vb_cq *cq);
/** From now on no further lanes are made until one is full, and all may use each other's objects.
 */
void vb_lanes_unite(struct vb_context *c);

/** The n-th lane of a context, or NULL; lanes are never removed. */
static inline struct lane *vb_lane_at(const struct lanes *g, unsigned n)
{
	return n < atomic_load_explicit(&g->n, memory_order_acquire) ? g->lane[n] : NULL;
}

/** For each lane of a context. */
#define vb_each_lane(l, g) for (unsigned nth_ = 0; ((l) = vb_lane_at((g), nth_)); nth_++)

#endif
