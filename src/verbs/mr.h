/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include "base/hash.h"
#include "base/list.h"
#include "base/util.h"
#include "verbs/call.h"

struct rocemu_mr;
struct vb_context;
struct vb_dm;
struct vb_pd;

enum vb_mr_kind { VB_MR_MEMORY, VB_MR_NULL, VB_MR_DM, VB_MR_DMABUF };

struct vb_mr {
	struct ibv_mr base;
	struct rocemu_mr *rmr; /* owned; NULL: a null region whose domain is gone */
	enum vb_mr_kind kind;
	uint64_t iova;	  /* the address of its first byte for peers and SGEs */
	unsigned access;  /* as requested */
	struct vb_dm *dm; /* ref; NULL but for VB_MR_DM */
	bool is_on_demand;
	struct hash_node on_demand; /* then: in vb_context.on_demand */
	struct list of_pd; /* in vb_pd.nulls; linked to itself: not a null region, or no PD */
	void *map;	   /* owned, the mapping of a DMA-buf; NULL but for VB_MR_DMABUF */
	size_t map_length;
};

static inline struct vb_mr *vb_mr_of(struct ibv_mr *o)
{
	return container_of(o, struct vb_mr, base);
}

/** An object without a region yet, or NULL with errno. */
struct vb_mr *vb_mr_new(struct ibv_pd *pd, enum vb_mr_kind kind);
/** Free an object whose region is gone, or was not made. */
void vb_mr_free(struct vb_context *c, struct vb_mr *mr);
/** Fill in the public part of a region whose rmr is made; takes a reference of pd, but for a
 * null region. */
void vb_mr_show(struct vb_mr *mr, struct vb_pd *pd, void *addr, size_t length);
struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *pd);

/** Deregister the null regions of a PD that ends; ibv_dereg_mr() frees what is left of each. */
void vb_mr_end_nulls(struct vb_context *c, struct vb_pd *pd);

#endif
