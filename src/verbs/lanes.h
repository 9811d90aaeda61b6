/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which lane of its context an object is on. A QP stays where it was made. A CQ or an SRQ is on the
 * first lane until a QP uses it, and may move once, then (lanes.c).
 */
#ifndef VERBS_LANES_H
#define VERBS_LANES_H

#include <stdatomic.h>

#include "engine/lane.h"

/** Where a CQ or an SRQ is. */
struct vb_place {
	_Atomic(struct lane *) lane; /* changes under all lanes' locks */
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

/** The n-th lane of a context, or NULL; lanes are never taken away. */
static inline struct lane *vb_lane_at(const struct lanes *g, unsigned n)
{
	return n < atomic_load_explicit(&g->n, memory_order_acquire) ? g->lane[n] : NULL;
}

/** For each lane of a context. */
#define vb_each_lane(l, g) \
	for (unsigned nth_ = 0; ((l) = vb_lane_at((g), nth_)); nth_++)

#endif
