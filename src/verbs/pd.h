/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection, thread and parent domains. */
#ifndef VERBS_PD_H
#define VERBS_PD_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/util.h"
#include "verbs/call.h"

struct rocemu_pd;

struct vb_pd {
	struct ibv_pd base;
	struct rocemu_pd *rpd; /* owned, or the parent's */
	struct vb_pd *parent;  /* ref; NULL but for parent domains */
	struct vb_td *td;      /* ref or NULL */
	atomic_uint refs;      /* objects made with it, but for null regions */
	struct list nulls;     /* of vb_mr.of_pd; guarded by the context's lock */
};

struct vb_td {
	struct ibv_td base;
	atomic_uint refs; /* parent domains made with it */
};

static inline struct vb_pd *vb_pd_of(struct ibv_pd *o)
{
	return container_of(o, struct vb_pd, base);
}

static inline struct vb_td *vb_td_of(struct ibv_td *o)
{
	return container_of(o, struct vb_td, base);
}

/** Its handle is its own; it is of one of our contexts. -ENOENT. */
int vb_pd_check(struct ibv_pd *pd);
struct ibv_td *vb_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *ctx,
				      struct ibv_parent_domain_init_attr *attr);

#endif
