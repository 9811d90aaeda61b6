/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wraps operations of a real device's context. Inline functions of verbs.h call these directly,
 * which is right for calls that return an errno or must be fast. But calls that return an object
 * report the error in errno, which for the provider is that of its own namespace; and calls with
 * several objects must not get a rocemu object. So these entries of contexts opened by rocemu are
 * replaced by functions that check, call the original and copy errno. Posting and polling are not
 * changed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/forks.h"
#include "base/list.h"
#include "base/util.h"
#include "verbs/context.h"
#include "verbs/real.h"

struct wrapped {
	struct list node;
	struct ibv_context *ctx;
	struct verbs_context orig; /* as the real library made it */
};

static pthread_mutex_t wrapped_lock = PTHREAD_MUTEX_INITIALIZER;
/* struct wrapped, guarded by wrapped_lock; an entry lives as long as its context */
static struct list wrapped = {&wrapped, &wrapped};

static void lock_wrapped(void)
{
	pthread_mutex_lock(&wrapped_lock);
}

static void unlock_wrapped(void)
{
	pthread_mutex_unlock(&wrapped_lock);
}

__attribute__((constructor)) static void watch_forks(void)
{
	static const struct fork_handlers handlers = {lock_wrapped, unlock_wrapped, unlock_wrapped};

	forks_add(FORK_WRAPPED, &handlers);
}

static struct wrapped *find(const struct ibv_context *ctx)
{
	struct wrapped *found = NULL;

	pthread_mutex_lock(&wrapped_lock);
	list_for_each (n, &wrapped) {
		struct wrapped *w = list_entry(n, struct wrapped, node);

		if (w->ctx == ctx)
			found = w;
	}
	pthread_mutex_unlock(&wrapped_lock);
	return found;
}

/* ---- rocemu objects among the arguments ---- */

/* Is there an object, and is it rocemu's? */
#define MIXED(object) vb_mixed((object) ? (object)->context : NULL)

static bool qp_mixed(const struct ibv_qp_init_attr_ex *a)
{
	return MIXED(a->send_cq) || MIXED(a->recv_cq) || MIXED(a->srq) ||
	       ((a->comp_mask & IBV_QP_INIT_ATTR_PD) && MIXED(a->pd)) ||
	       ((a->comp_mask & IBV_QP_INIT_ATTR_XRCD) && MIXED(a->xrcd));
}

static bool cq_mixed(const struct ibv_cq_init_attr_ex *a)
{
	return MIXED(a->channel) ||
	       ((a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && MIXED(a->parent_domain));
}

static bool srq_mixed(const struct ibv_srq_init_attr_ex *a)
{
	return ((a->comp_mask & IBV_SRQ_INIT_ATTR_PD) && MIXED(a->pd)) ||
	       ((a->comp_mask & IBV_SRQ_INIT_ATTR_CQ) && MIXED(a->cq)) ||
	       ((a->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) && MIXED(a->xrcd));
}

static bool open_mixed(const struct ibv_qp_open_attr *a)
{
	return (a->comp_mask & IBV_QP_OPEN_ATTR_XRCD) && MIXED(a->xrcd);
}

/* ---- the functions in between ---- */

/* Those of verbs_context whose first argument is a context or an object (ctx: its context). */
#define WRAP(type, op, context_of_it, params, args, mixed)                                       \
	static type wrap_##op params                                                             \
	{                                                                                        \
		struct ibv_context *real_ctx = (context_of_it);                                  \
		type ret;                                                                        \
                                                                                                 \
		if (mixed)                                                                       \
			return vb_null(REFUSE(                                                   \
				EINVAL, 0,                                                       \
				#op ": an object is of an emulated device, another of a real "   \
				    "one: all must be of the same context: create them on it")); \
		real_errno_in();                                                                 \
		ret = find(real_ctx)->orig.op args;                                              \
		real_errno_out();                                                                \
		return ret;                                                                      \
	}

/* Those that take a context and an attribute structure. */
#define WRAP_ATTR(type, op, attr_type, mixed) \
	WRAP(type, op, c, (struct ibv_context * c, struct attr_type * a), (c, a), mixed)

WRAP_ATTR(struct ibv_qp *, create_qp_ex, ibv_qp_init_attr_ex, qp_mixed(a))
WRAP_ATTR(struct ibv_qp *, open_qp, ibv_qp_open_attr, open_mixed(a))
WRAP_ATTR(struct ibv_cq_ex *, create_cq_ex, ibv_cq_init_attr_ex, cq_mixed(a))
WRAP_ATTR(struct ibv_srq *, create_srq_ex, ibv_srq_init_attr_ex, srq_mixed(a))
WRAP_ATTR(struct ibv_wq *, create_wq, ibv_wq_init_attr, MIXED(a->pd) || MIXED(a->cq))
WRAP_ATTR(struct ibv_pd *, alloc_parent_domain, ibv_parent_domain_init_attr,
	  MIXED(a->pd) || MIXED(a->td))
WRAP_ATTR(struct ibv_xrcd *, open_xrcd, ibv_xrcd_init_attr, false)
WRAP_ATTR(struct ibv_td *, alloc_td, ibv_td_init_attr, false)
WRAP_ATTR(struct ibv_dm *, alloc_dm, ibv_alloc_dm_attr, false)
WRAP_ATTR(struct ibv_counters *, create_counters, ibv_counters_init_attr, false)
WRAP_ATTR(struct ibv_flow_action *, create_flow_action_esp, ibv_flow_action_esp_attr, false)
WRAP_ATTR(struct ibv_rwq_ind_table *, create_rwq_ind_table, ibv_rwq_ind_table_init_attr, false)
WRAP(struct ibv_mr *, alloc_null_mr, pd->context, (struct ibv_pd * pd), (pd), false)
WRAP(struct ibv_mr *, reg_dm_mr, pd->context,
     (struct ibv_pd * pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access),
     (pd, dm, offset, length, access), MIXED(dm))
WRAP(struct ibv_flow *, ibv_create_flow, qp->context,
     (struct ibv_qp * qp, struct ibv_flow_attr *attr), (qp, attr), false)

static struct ibv_mw *wrap_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;

	real_errno_in();
	mw = find(pd->context)->orig.context.ops.alloc_mw(pd, type);
	real_errno_out();
	return mw;
}

static int wrap_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *b)
{
	if (MIXED(mw) || MIXED(b->bind_info.mr))
		return vb_errno(
			REFUSE(-EINVAL, 0,
			       "ibv_bind_mw: window or region is of an emulated device, the QP of "
			       "a real one: all must be of the same context: create them on it"));
	return find(qp->context)->orig.context.ops.bind_mw(qp, mw, b);
}

/* ---- life ---- */

#define WRAPPED_OPS(X)            \
	X(create_qp_ex)           \
	X(open_qp)                \
	X(create_cq_ex)           \
	X(create_srq_ex)          \
	X(create_wq)              \
	X(alloc_parent_domain)    \
	X(open_xrcd)              \
	X(alloc_td)               \
	X(alloc_dm)               \
	X(create_counters)        \
	X(create_flow_action_esp) \
	X(create_rwq_ind_table)   \
	X(alloc_null_mr)          \
	X(reg_dm_mr)              \
	X(ibv_create_flow)

void real_ops_wrap(struct ibv_context *ctx)
{
	struct wrapped *w = calloc(1, sizeof(*w));
	struct verbs_context *v = verbs_get_ctx(ctx);
	size_t size;

	/*
	 * Without memory for it, or with a context of before the extended interface, the program
	 * calls the provider directly, as without rocemu.
	 */
	if (!w || !v) {
		free(w);
		return;
	}
	/* The structure grows at its beginning: its end is common to both versions. */
	size = MIN(v->sz, sizeof(*v));
	memcpy((char *)(&w->orig + 1) - size, (char *)(v + 1) - size, size);
	w->ctx = ctx;
	pthread_mutex_lock(&wrapped_lock);
	list_append(&wrapped, &w->node);
	pthread_mutex_unlock(&wrapped_lock);
#define REPLACE(op)                    \
	if (verbs_get_ctx_op(ctx, op)) \
		v->op = wrap_##op;
	WRAPPED_OPS(REPLACE)
#undef REPLACE
	if (ctx->ops.alloc_mw)
		ctx->ops.alloc_mw = wrap_alloc_mw;
	if (ctx->ops.bind_mw)
		ctx->ops.bind_mw = wrap_bind_mw;
}

void real_ops_unwrap(struct ibv_context *ctx)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	struct wrapped *w = find(ctx);

	if (!w)
		return;
	pthread_mutex_lock(&wrapped_lock);
	list_remove(&w->node);
	pthread_mutex_unlock(&wrapped_lock);
#define RESTORE(op)                    \
	if (verbs_get_ctx_op(ctx, op)) \
		v->op = w->orig.op;
	WRAPPED_OPS(RESTORE)
#undef RESTORE
	ctx->ops.alloc_mw = w->orig.context.ops.alloc_mw;
	ctx->ops.bind_mw = w->orig.context.ops.bind_mw;
	free(w);
}
