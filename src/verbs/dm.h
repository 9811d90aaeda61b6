/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory. */
#ifndef VERBS_DM_H
#define VERBS_DM_H

#include <stdatomic.h>

#include "base/util.h"
#include "verbs/call.h"

struct vb_dm {
	struct ibv_dm base;
	uint8_t *mem; /* owned */
	size_t length;
	atomic_uint refs; /* regions of it */
};

static inline struct vb_dm *vb_dm_of(struct ibv_dm *o)
{
	return container_of(o, struct vb_dm, base);
}

#define VB_DM_MAX ((size_t)64 << 20) /* bytes of device memory of a context */
struct ibv_dm *vb_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int vb_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned access);

#endif
