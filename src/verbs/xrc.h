/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains, and QPs that several contexts have handles of. */
#ifndef VERBS_XRC_H
#define VERBS_XRC_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/util.h"
#include "verbs/call.h"

struct rocemu_xrcd;
struct vb_context;
struct vb_qp;
struct vb_xrc_part;

/** A context's XRC domains; guarded by xrc.c's lock. */
struct vb_xrc_context {
	struct list parts;  /* of vb_xrc_part.of_context */
	struct list guests; /* of vb_qp.guest: handles of QPs that are other contexts' */
	unsigned lent;	    /* other contexts' handles of this one's QPs */
	bool closed;	    /* by the program; the last of lent frees it */
};

struct vb_xrcd {
	struct ibv_xrcd base;
	struct vb_xrc_part *part; /* ref; all handles of a context's for one file have the same */
	struct rocemu_xrcd *rx;	  /* the part's */
	atomic_uint refs;	  /* SRQs and QPs made with this handle */
};

static inline struct vb_xrcd *vb_xrcd_of(struct ibv_xrcd *o)
{
	return container_of(o, struct vb_xrcd, base);
}

struct ibv_xrcd *vb_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int vb_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *vb_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
/** Release this handle's QP, which is freed with the last handle. Home's lane's and CQs' locks
 * held. -EBUSY. */
int vb_qp_unshare(struct vb_qp *qp);
/** Called afterwards with no lock held: frees the home context if it was closed before. */
void vb_qp_leave_home(struct vb_qp *qp);
void vb_xrc_init(struct vb_context *c);
/**
 * The program has closed the context: free its remaining domains and handles.
 * @return false: other contexts have handles of its QPs, the last of which frees it.
 */
bool vb_xrc_fini(struct vb_context *c);

#endif
