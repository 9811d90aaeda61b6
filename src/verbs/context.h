/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declares the objects of the drop-in libibverbs: each begins with its public struct of
 * <infiniband/verbs.h>, followed by private members. The protocol is the endpoint's
 * (include/rocemu/endpoint.h), the packets are the lane's; this layer checks arguments, keeps
 * references, translates errors and wakes threads that wait for events.
 *
 * Ownership of objects: every exported entry point first calls vb_context_of() (or vb_device_of()):
 * NULL means that the object belongs to the system's libibverbs, to which the call is passed
 * (real.h). Objects of both kinds in one call are EINVAL. Calls of verbs.h through a context's ops
 * always have an own first object.
 *
 * Locks, in order:
 *   vb_spread.lock      which lane an object is given
 *   vb_port.update      following the interface
 *   vb_cq.consumer      who takes completions out; two CQs: vb_cq_lock_pair()
 *   xrc.c's lock        XRC domains, which contexts share; not under a consumer's
 *   vb_context.lock     attaching the lane, references of channels
 *   lanes' locks        the endpoints and all their objects; several: lanes_lock()
 *   evq.lock            waiting events (a leaf)
 *   vb_port.lock        the GID table (a leaf)
 *   vb_handles.lock     handles of objects (a leaf)
 * vb_device's registry lock is taken alone. No lock is held while a thread blocks for an event.
 */
#ifndef VERBS_CONTEXT_H
#define VERBS_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/evq.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/util.h"
#include "engine/lane.h"
#include "fault/like.h"
#include "netdev/netdev.h"
#include "verbs/call.h"
#include "verbs/handle.h"
#include "verbs/lanes.h"
#include "verbs/port.h"
#include "verbs/xrc.h"

struct vb_device;

/** Kinds of objects whose number per context is limited, as ibv_query_device() reports. */
enum vb_limited { VB_PDS, VB_CQS, VB_SRQS, VB_AHS, VB_LIMITED };
enum { VB_LIMIT = 1 << 16 }; /* of each */

struct vb_context {
	struct verbs_context vctx; /* programs see &vctx.context */
	struct vb_device *dev;	   /* ref */
	struct netdev netdev;	   /* now: the GID table of the lanes; see port */
	struct vb_spread spread;
	struct lanes lanes; /* owned; the first is attached with the first QP */
	bool orphan;	    /* opened before fork(), and this is the child: see orphan.h */
	struct evq async;   /* async_fd is its fd */
	struct vb_port port;
	struct mutex lock;
	atomic_bool attached; /* the first lane has its slot; set under lock */
	bool complained;      /* a message about a missing slot was printed; guarded by lock */
	atomic_uint used[VB_LIMITED];
	struct vb_handles handles;
	size_t dm_used;	       /* bytes of device memory; guarded by lock */
	struct hash on_demand; /* of vb_mr.on_demand, by L_Key; guarded by lock */
	struct vb_xrc_context xrc;
	struct like_limits limits; /* rocemu's, or those of another device (ROCEMU_LIKE) */
};

/* orphan.c */
/** Never called: an entry of a context's operations that marks it as rocemu's. */
int vb_context_mark(struct ibv_context *ctx, struct ibv_device_attr *attr);

/** The rocemu context of c, or NULL: another library's. */
static inline struct vb_context *vb_context_of(struct ibv_context *c)
{
	return c->ops._compat_query_device == vb_context_mark
		       ? container_of(c, struct vb_context, vctx.context)
		       : NULL;
}

/** Is this a rocemu context, where a real device's is required? False for NULL (no such object). */
static inline bool vb_mixed(struct ibv_context *c)
{
	return c && vb_context_of(c);
}

/** Count one more of a kind; false: the limit is reached. */
static inline bool vb_take(struct vb_context *c, enum vb_limited kind)
{
	if (atomic_fetch_add(&c->used[kind], 1) < VB_LIMIT)
		return true;
	atomic_fetch_sub(&c->used[kind], 1);
	return REFUSE(false, 0,
		      "this context has %d objects of the kind (PDs, CQs, SRQs or AHs): that is "
		      "the limit: destroy some",
		      VB_LIMIT);
}

static inline void vb_give_back(struct vb_context *c, enum vb_limited kind)
{
	atomic_fetch_sub(&c->used[kind], 1);
}

int vb_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
/** The entries of a GID table, as ibv_query_gid_table() has them. @return how many, or -EINVAL:
 * more than max_entries. */
ssize_t vb_gid_table(const struct netdev *d, void *entries, size_t max_entries, size_t entry_size);

int vb_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr,
		  size_t attr_size);
int vb_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);

/* open.c */
/** Free a closed context; no handle of its QPs is left. */
void vb_context_free(struct vb_context *c);
/** Get the first lane its slot, once; complains on stderr the first time it fails. -errno. */
int vb_context_attach(struct vb_context *c);

#endif
