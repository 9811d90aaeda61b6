/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, and the thread and parent domains made of them. Thread domains are a
 * program's guarantee (one thread at a time) that rocemu does not need; a parent domain is its
 * protection domain under another handle.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/list.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/newer.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"
#include "verbs/real.h"

/** NULL with errno. */
static struct vb_pd *new_pd(struct vb_context *c)
{
	int ret = vb_fault(c, NULL, FAULT_VERB_ALLOC_PD);
	struct vb_pd *pd;

	if (ret == 0)
		ret = vb_orphan_check(c);
	if (ret < 0)
		return vb_null(-ret);
	if (!vb_take(c, VB_PDS))
		return vb_null(ENOMEM);
	pd = calloc(1, sizeof(*pd));
	if (!pd || vb_handle_new(c, pd, &pd->base.handle)) {
		free(pd);
		vb_give_back(c, VB_PDS);
		return vb_null(ENOMEM);
	}
	pd->base.context = &c->vctx.context;
	list_init(&pd->nulls);
	return pd;
}

static void free_pd(struct vb_pd *pd)
{
	struct vb_context *c = vb_context_of(pd->base.context);

	vb_give_back(c, VB_PDS);
	vb_handle_free(c, pd->base.handle, pd);
	free(pd);
}

int vb_pd_check(struct ibv_pd *pd)
{
	return vb_handle_check(vb_context_of(pd->context), pd->handle, vb_pd_of(pd));
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct vb_context *c = vb_context_of(context);
	struct vb_pd *pd;

	if (!c)
		return REAL_CALL(ibv_alloc_pd, context);
	pd = new_pd(c);
	if (!pd)
		return NULL;
	lanes_lock(&c->lanes);
	pd->rpd = rocemu_pd_new(lane_ep(c->lanes.lane[0]));
	lanes_unlock(&c->lanes);
	if (!pd->rpd) {
		free_pd(pd);
		return vb_null(ENOMEM);
	}
	return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	int ret;

	if (!c)
		return REAL_CALL(ibv_dealloc_pd, ibpd);
	if (c->orphan)
		return vb_orphan_free(pd);
	ret = vb_pd_check(ibpd);
	if (ret < 0)
		return vb_errno(ret);
	if (atomic_load(&pd->refs) > 0)
		return vb_errno(
			REFUSE(-EBUSY, 0,
			       "ibv_dealloc_pd: %u objects are in the PD (QPs, SRQs, regions, "
			       "windows, address handles, parent domains): destroy them "
			       "first",
			       atomic_load(&pd->refs)));
	vb_mr_end_nulls(c, pd);
	if (pd->parent) {
		atomic_fetch_sub(&pd->parent->refs, 1);
		if (pd->td)
			atomic_fetch_sub(&pd->td->refs, 1);
	} else {
		lanes_lock(&c->lanes);
		ret = rocemu_pd_free(pd->rpd);
		lanes_unlock(&c->lanes);
	}
	if (ret == 0)
		free_pd(pd);
	return vb_errno(ret);
}

struct ibv_td *vb_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr)
{
	struct vb_td *td;

	if (attr->comp_mask)
		return vb_null(
			REFUSE(EOPNOTSUPP, 0,
			       "ibv_alloc_td: comp_mask is 0x%x: no bits are defined: pass 0",
			       attr->comp_mask));
	if (vb_orphan_check(vb_context_of(ctx)))
		return vb_null(ENODEV);
	td = calloc(1, sizeof(*td));
	if (!td)
		return vb_null(ENOMEM);
	td->base.context = ctx;
	return &td->base;
}

int vb_dealloc_td(struct ibv_td *ibtd)
{
	struct vb_td *td = vb_td_of(ibtd);

	if (vb_context_of(ibtd->context)->orphan)
		return vb_orphan_free(td);
	if (atomic_load(&td->refs) > 0)
		return vb_errno(-EBUSY);
	free(td);
	return 0;
}

struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *ctx,
				      struct ibv_parent_domain_init_attr *attr)
{
	struct vb_pd *pd;
	int ret;

	/*
	 * A provider need not use the program's allocators, and rocemu allocates no memory of these
	 * kinds. Memory that a confidential guest shares with its host is allowed, not requested.
	 */
	if (attr->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
					  IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
					  VB_PARENT_DOMAIN_ALLOW_CC_UNPROTECTED_ALLOC))
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_alloc_parent_domain: comp_mask is 0x%x: only ALLOCATORS "
				      "and PD_CONTEXT are supported: remove the rest",
				      attr->comp_mask));
	if (!attr->pd || attr->pd->context != ctx || (attr->td && attr->td->context != ctx))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_alloc_parent_domain: pd or td: a PD is required, and "
				      "both must be of this context: set pd"));
	ret = vb_pd_check(attr->pd);
	if (ret < 0)
		return vb_null(-ret);
	pd = new_pd(vb_context_of(ctx));
	if (!pd)
		return NULL;
	pd->parent = vb_pd_of(attr->pd);
	pd->rpd = pd->parent->rpd;
	atomic_fetch_add(&pd->parent->refs, 1);
	if (attr->td) {
		pd->td = vb_td_of(attr->td);
		atomic_fetch_add(&pd->td->refs, 1);
	}
	return &pd->base;
}
