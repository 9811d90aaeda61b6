/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows. */
#ifndef VERBS_MW_H
#define VERBS_MW_H

#include "base/util.h"
#include "verbs/call.h"

struct rocemu_mw;

struct vb_mw {
	struct ibv_mw base;
	struct rocemu_mw *rmw; /* owned */
};

static inline struct vb_mw *vb_mw_of(struct ibv_mw *o)
{
	return container_of(o, struct vb_mw, base);
}

struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_dealloc_mw(struct ibv_mw *mw);
int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
/** May a bind request use this window and region: of the QP's context, and of that type? */
bool vb_bind_allowed(const struct ibv_qp *qp, const struct ibv_mw *mw, enum ibv_mw_type type,
		     const struct ibv_mw_bind_info *info);

#endif
