/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injects faults into verbs calls: each call checks here whether it has to fail. Calls are counted
 * for the whole process and all its devices, unless a rule specifies otherwise; devices of the
 * system's library are not affected.
 */
#ifndef VERBS_FAULT_H
#define VERBS_FAULT_H

#include <stdatomic.h>

#include "base/util.h"
#include "fault/verb.h"
#include "verbs/qp.h"

struct vb_context;
struct vb_cq;

/** Are there rules? Without rules a call costs only this check. */
extern atomic_bool vb_faults_on;

/**
 * Read ROCEMU_IMPAIR if it has changed; this resets the counts. The lane refuses an invalid one.
 */
void vb_faults_load(void);

/** See vb_fault(). */
int vb_fault_decide(struct vb_context *c, struct vb_qp *qp, enum fault_verb verb);

/**
 * A call begins; no lock is held. c: NULL for ibv_open_device() and librdmacm's; qp: or NULL.
 * @return 0, or the -errno with which it is to fail.
 */
static inline int vb_fault(struct vb_context *c, struct vb_qp *qp, enum fault_verb verb)
{
	if (likely(!atomic_load_explicit(&vb_faults_on, memory_order_relaxed)))
		return 0;
	return vb_fault_decide(c, qp, verb);
}

/** A QP was made. */
void vb_fault_qp_init(struct vb_qp *qp);
void vb_fault_qp_fini(struct vb_qp *qp);
/** A CQ was made; lane's lock held. */
void vb_fault_cq_init(struct vb_cq *cq);
/** A CQ has overflowed, possibly by fault injection. */
void vb_fault_cq_overflowed(struct vb_cq *cq);

/** See vb_fault_posted(). */
void vb_fault_spoil(struct vb_qp *qp);

/** A send request was posted, nothing sent since; lane's lock held. */
static inline void vb_fault_posted(struct vb_qp *qp)
{
	if (unlikely(qp->fault != NULL))
		vb_fault_spoil(qp);
}

#endif
