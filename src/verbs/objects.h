/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects behind the drop-in libibverbs: each begins with what <infiniband/verbs.h> shows of
 * it, then comes ours. The protocol is the endpoint's (include/rocemu/endpoint.h), the packets are
 * the lane's; this layer checks arguments, keeps references, translates errors and wakes up who
 * waits for events.
 *
 * Whose object is it? Every exported entry point first asks vb_context_of() (or vb_device_of()):
 * NULL means that the object belongs to the system's libibverbs and goes there (real.h). Objects of
 * both kinds in one call are EINVAL. What verbs.h calls through a context's ops reaches us with a
 * first object of our own.
 *
 * Locks, in order:
 *   vb_port.update      following the interface
 *   vb_cq.consumer      who takes completions out; two CQs: lower address first
 *   xrc.c's lock        XRC domains, which contexts share; not under a consumer's
 *   vb_context.lock     attaching the lane, references of channels
 *   the lane's lock     the endpoint and all its objects
 *   evq.lock            waiting events (a leaf)
 *   vb_port.lock        the GID table (a leaf)
 *   vb_handles.lock     handles of objects (a leaf)
 * vb_device's registry lock is taken alone. No lock is held while a thread blocks for an event.
 */
#ifndef VERBS_OBJECTS_H
#define VERBS_OBJECTS_H

/*
 * What verbs.h declares is exported: the version script chooses, but it cannot make hidden symbols
 * visible.
 */
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#include <stdatomic.h>
#include <stdbool.h>

#include "base/evq.h"
#include "base/list.h"
#include "engine/lane.h"
#include "netdev/netdev.h"
#include "netdev/netmon.h"

struct fault_total;
struct vb_fault_qp;

struct vb_device {
	struct ibv_device base; /* first: what programs see */
	/*
	 * Provider libraries look behind an ibv_device for their own private header's fields (an
	 * ops pointer to compare with their own, at most some words): they must find memory, and
	 * zeros.
	 */
	uint64_t provider_view[64];
	struct netdev netdev; /* as it was when listed last; guarded by the registry's lock */
	int index;	      /* place in that list; likewise */
	unsigned refs;	      /* lists and contexts that hold it; guarded by the registry's lock */
	struct list node;     /* in the registry */
};

/** One kind of async event of one object. */
struct vb_async {
	struct evq_source src;
	struct ibv_async_event event;
};

enum vb_port_event { VB_PORT_GID_CHANGE, VB_PORT_ACTIVE, VB_PORT_ERR, VB_PORT_FATAL };

/** How a context follows its interface (port.c). */
struct vb_port {
	pthread_mutex_t update; /* who looks and changes; before the lane's lock */
	/* Guards gone, down, and vb_context.netdev but for its index, MAC and names; a leaf. */
	pthread_mutex_t lock;
	bool gone; /* the interface */
	bool down; /* on purpose (impairment), whatever the interface is */
	struct netmon_listener listener;
	struct vb_async events[4]; /* by enum vb_port_event */
};

/** What a context may have only so many of, as ibv_query_device() says. */
enum vb_limited { VB_PDS, VB_CQS, VB_SRQS, VB_AHS, VB_LIMITED };
enum { VB_LIMIT = 1 << 16 }; /* of each */

/** Which object has which handle. */
struct vb_handles {
	pthread_mutex_t lock; /* guards all of it; a leaf */
	uintptr_t *places;    /* owned; by handle: the object's address, or free (handle.c) */
	uint32_t size;
	uint32_t next; /* the first free place, or size */
};

/** What a context has of XRC domains; guarded by xrc.c's lock. */
struct vb_xrc_context {
	struct list parts;  /* of vb_xrc_part.of_context */
	struct list guests; /* of vb_qp.guest: handles of QPs that are other contexts' */
	unsigned lent;	    /* other contexts' handles of this one's QPs */
	bool closed;	    /* by the program; the last of lent frees it */
};

struct vb_context {
	struct verbs_context vctx; /* programs see &vctx.context */
	struct vb_device *dev;	   /* ref */
	struct netdev netdev;	   /* now: the GID table of the lane; see port */
	struct lane *lane;	   /* owned */
	struct evq async;	   /* async_fd is its fd */
	struct vb_port port;
	pthread_mutex_t lock;
	atomic_bool attached; /* the lane has its slot; set under lock */
	bool complained;      /* about not getting one; guarded by lock */
	atomic_uint used[VB_LIMITED];
	struct vb_handles handles;
	size_t dm_used;		 /* bytes of device memory; guarded by lock */
	struct list on_demand;	 /* of vb_mr.on_demand; guarded by lock */
	struct vb_xrc_context xrc;
};

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

enum vb_mr_kind { VB_MR_MEMORY, VB_MR_NULL, VB_MR_DM, VB_MR_DMABUF };

struct vb_mr {
	struct ibv_mr base;
	struct rocemu_mr *rmr; /* owned; NULL: a null region whose domain is gone */
	enum vb_mr_kind kind;
	uint64_t iova;	       /* what peers and SGEs call its first byte */
	unsigned access;       /* as asked for */
	struct vb_dm *dm;      /* ref; NULL but for VB_MR_DM */
	struct list on_demand; /* in vb_context.on_demand; linked to itself: is not on demand */
	struct list of_pd;     /* in vb_pd.nulls; linked to itself: not a null region, or no PD */
	void *map;	       /* owned, the mapping of a DMA-buf; NULL but for VB_MR_DMABUF */
	size_t map_length;
};

struct vb_dm {
	struct ibv_dm base;
	uint8_t *mem; /* owned */
	size_t length;
	atomic_uint refs; /* regions of it */
};

struct vb_mw {
	struct ibv_mw base;
	struct rocemu_mw *rmw; /* owned */
};

struct vb_channel {
	struct ibv_comp_channel base; /* refcnt is guarded by vb_context.lock */
	struct evq events;
};

struct vb_cq {
	struct ibv_cq_ex base; /* begins like an ibv_cq */
	struct rocemu_cq *rcq; /* owned */
	pthread_mutex_t
		consumer;      /* whoever takes completions out; held from start_poll to end_poll */
	struct rocemu_cqe cur; /* what the extended readers read; guarded by consumer */
	uint64_t last_ts;      /* the latest time that the readers returned; guarded by consumer */
	struct {
		int64_t ahead;	/* of CLOCK_MONOTONIC, ns */
		uint64_t error; /* within so many ns */
		bool fixed;	/* until the next poll */
	} wall;		       /* CLOCK_REALTIME; guarded by consumer */
	bool quiet;	       /* start_poll called rocemu_cq_polling(); guarded by consumer */
	atomic_bool fresh;     /* armed, and since then nothing was posted and no poll made progress; see vb_cq_is_quiet() */
	_Atomic(pthread_t) armer; /* who armed it last */
	struct evq_source comp; /* events for base.channel */
	struct vb_async async;	/* IBV_EVENT_CQ_ERR */
	struct vb_pd *pd;	/* ref to the parent domain it was made with, or NULL */
	struct fault_total *fault; /* of the rule by which it overflows on purpose; NULL: none */
};

struct vb_xrc_part;

struct vb_xrcd {
	struct ibv_xrcd base;
	struct vb_xrc_part *part; /* ref; all handles of a context's for one file have the same */
	struct rocemu_xrcd *rx;	  /* the part's */
	atomic_uint refs;	  /* SRQs and QPs made with this handle */
};

struct vb_srq {
	struct ibv_srq base;
	struct rocemu_srq *rsrq; /* owned */
	struct vb_xrcd *xrcd;	 /* ref; NULL: a basic SRQ */
	struct vb_async async[2];
};

struct vb_ah {
	struct ibv_ah base;
	struct rocemu_path path;
};

struct vb_wr;

struct vb_qp {
	struct ibv_qp_ex base; /* begins with an ibv_qp */
	struct rocemu_qp *rqp; /* owned, XRC_RECV: by all its handles together */
	struct vb_context *home; /* whose lane rqp lives in; XRC_RECV: perhaps not the handle's */
	struct list sharing;   /* ring of those handles; guarded by home's lane's lock */
	struct list guest;     /* in its context's xrc.guests: rqp is another context's */
	struct vb_xrcd *xrcd;  /* ref, XRC_RECV */
	struct ibv_qp_cap cap;
	bool sig_all;
	struct vb_wr *wr; /* owned; the ibv_wr_* staging, NULL without send_ops_flags */
	struct vb_fault_qp *fault; /* owned; NULL without rules for faults on purpose */
	struct vb_async async[6];
};

struct vb_device *vb_device_of(struct ibv_device *device);
void vb_device_get(struct vb_device *dev);
/** The interface as it was when it was listed last. */
void vb_device_netdev(struct vb_device *dev, struct netdev *out);
void vb_device_put(struct vb_device *dev);
/** As ibv_get_device_list(), with loopback where that one leaves it out. */
struct ibv_device **vb_device_list_all(void);

int vb_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/** Our context, or NULL: another library's. */
static inline struct vb_context *vb_context_of(struct ibv_context *c)
{
	return c->ops.poll_cq == vb_poll_cq ? container_of(c, struct vb_context, vctx.context)
					    : NULL;
}

/* Casts from what the program holds, for objects whose context is ours. */
#define VB_CAST(type, object, member)                                    \
	static inline struct vb_##type *vb_##type##_of(struct object *o) \
	{                                                                \
		return container_of(o, struct vb_##type, member);        \
	}
VB_CAST(pd, ibv_pd, base)
VB_CAST(td, ibv_td, base)
VB_CAST(mr, ibv_mr, base)
VB_CAST(mw, ibv_mw, base)
VB_CAST(dm, ibv_dm, base)
VB_CAST(xrcd, ibv_xrcd, base)
VB_CAST(channel, ibv_comp_channel, base)
VB_CAST(srq, ibv_srq, base)
VB_CAST(ah, ibv_ah, base)
VB_CAST(qp, ibv_qp, base.qp_base)
#undef VB_CAST

static inline struct vb_cq *vb_cq_of(struct ibv_cq *cq)
{
	return (struct vb_cq *)(void *)cq;
}

/** One more of a kind; false: there are as many as there may be. */
static inline bool vb_take(struct vb_context *c, enum vb_limited kind)
{
	if (atomic_fetch_add(&c->used[kind], 1) < VB_LIMIT)
		return true;
	atomic_fetch_sub(&c->used[kind], 1);
	return false;
}

static inline void vb_give_back(struct vb_context *c, enum vb_limited kind)
{
	atomic_fetch_sub(&c->used[kind], 1);
}

/** Fail the way calls that return an object do. err: an errno. */
static inline void *vb_null(int err)
{
	errno = err;
	return NULL;
}

/**
 * Fail the way calls that return an errno do; err is -errno or 0. Sets errno too, which some
 * programs read.
 */
static inline int vb_errno(int err)
{
	if (err < 0)
		errno = -err;
	return -err;
}

/** Is this one of our contexts, where a real device's is wanted? NULL (no such object) is not. */
static inline bool vb_mixed(struct ibv_context *c)
{
	return c && vb_context_of(c);
}

/* handle.c */
void vb_handles_init(struct vb_handles *h);
void vb_handles_fini(struct vb_handles *h);
/** Give an object a handle that no other of the context has. -ENOMEM. */
int vb_handle_new(struct vb_context *c, const void *object, uint32_t *handle);
/** Is it the one that the object was given? -ENOENT. */
int vb_handle_check(struct vb_context *c, uint32_t handle, const void *object);
/** The object goes. Does nothing unless it is the object's. */
void vb_handle_free(struct vb_context *c, uint32_t handle, const void *object);

/* context.c */
int vb_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int vb_query_port(struct ibv_context *ctx, uint8_t port_num, struct ibv_port_attr *attr,
		  size_t attr_size);
int vb_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);

/* open.c */
/** Free a closed context; no handle of its QPs is left. */
void vb_context_free(struct vb_context *c);
/** Get the lane its slot, once; complains on stderr the first time it fails. -errno. */
int vb_context_attach(struct vb_context *c);

/* port.c */
/** Follow the interface from now on; the lane is there. */
void vb_port_start(struct vb_context *c);
/** Stop, before the lane goes. */
void vb_port_stop(struct vb_context *c);
/** A copy of the port and its GID table, holes included. @return false: the interface is gone. */
bool vb_port_get(struct vb_context *c, struct netdev *now);
/** The largest path MTU that a QP may have. */
enum ibv_mtu vb_port_mtu(struct vb_context *c);
/** The device fails, on purpose: of this context at once, of the process's others soon. No lock held. */
void vb_port_fail(struct vb_context *c);
/** Has the device failed, or is its interface gone? */
bool vb_port_is_gone(struct vb_context *c);
/** An entry of the GID table. -EINVAL beyond its end, -ENODATA a hole (*gid: what was there). */
int vb_port_gid(struct vb_context *c, uint32_t index, struct rocemu_gid *gid);
/** The index of an address, or -1. */
int vb_port_find_gid(struct vb_context *c, const struct rocemu_gid *gid);

/* real-forward.c */
/**
 * What a context of ours shows as its cmd_fd, for programs that duplicate it or set flags on it:
 * nothing is behind it. -1 without one.
 */
int vb_placeholder_fd(void);

/* event.c */
/** The lane's on_events: hand the endpoint's events to channels and async fd. Lane's lock held. */
void vb_deliver_events(void *user, struct rocemu_ep *ep);
void vb_async_init(struct vb_async *a, enum ibv_event_type type);
/** Drop what waits of n async sources. @return how many of their events were delivered. */
unsigned vb_async_drop(struct vb_context *c, struct vb_async *a, unsigned n);
/** The events of a QP or SRQ that goes away: drop what waits, and sleep until the program has
 * acknowledged what it got, as *completed counts under the object's mutex. */
void vb_async_end(struct vb_context *c, struct vb_async *a, unsigned n, pthread_mutex_t *mutex,
		  pthread_cond_t *cond, const uint32_t *completed);

/* pd.c */
/** Its handle is its own; it is of one of our contexts. -ENOENT. */
int vb_pd_check(struct ibv_pd *pd);
struct ibv_td *vb_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *ctx,
				      struct ibv_parent_domain_init_attr *attr);

/* mr.c */
/** An object without a region yet, or NULL with errno. */
struct vb_mr *vb_mr_new(struct ibv_pd *pd, enum vb_mr_kind kind);
/** Free an object whose region is gone, or was not made. */
void vb_mr_free(struct vb_context *c, struct vb_mr *mr);
/** Fill in what the program sees of a region whose rmr is made; takes a reference of pd, but for a
 * null region. */
void vb_mr_show(struct vb_mr *mr, struct vb_pd *pd, void *addr, size_t length);
struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *pd);

/** Deregister the null regions of a PD that ends; ibv_dereg_mr() frees what is left of each. */
void vb_mr_end_nulls(struct vb_context *c, struct vb_pd *pd);

/* buf.c */
struct ibv_buf;
/** Is addr[0..length) within this buffer, and the buffer of this domain? */
bool vb_buf_has(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr,
		size_t length);

/* dmabuf.c */
struct ibv_mr *vb_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				int fd, int access);

/* odp.c */
/** Can this kernel tell whether memory is there (Linux 5.14)? */
bool vb_can_page_in(void);
/** Make addr[0..len) present, for writing if write. False: no such memory, or not writable. */
bool vb_page_in(void *addr, size_t len, bool write);
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sgl, uint32_t n);

/* dm.c */
#define VB_DM_MAX ((size_t)64 << 20) /* bytes of device memory of a context */
struct ibv_dm *vb_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int vb_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned access);

/* mw.c */
struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_dealloc_mw(struct ibv_mw *mw);
int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
/** May a bind request name this window and region: of the QP's context, and of that type? */
bool vb_bind_allowed(const struct ibv_qp *qp, const struct ibv_mw *mw, enum ibv_mw_type type,
		     const struct ibv_mw_bind_info *info);

/* cq.c */
int vb_cq_check(struct ibv_cq *cq); /* as vb_pd_check() */
struct vb_cq *vb_cq_new(struct vb_context *c, uint32_t cqe, void *cq_context,
			struct ibv_comp_channel *channel, uint32_t comp_vector);
int vb_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int vb_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
/** One completion; when there is none, drive the lane once and look again. Consumer lock held. */
bool vb_cq_take(struct vb_cq *cq, struct rocemu_cqe *cqe);
/** Does the poll that begins now take what came before the calling thread armed cq? Then it raises no event. Asked once. */
bool vb_cq_is_quiet(struct vb_cq *cq);
/** Take and release the consumer locks of a QP's two CQs (one, or NULL, perhaps), in order. */
void vb_cq_lock_pair(struct vb_cq *a, struct vb_cq *b);
void vb_cq_unlock_pair(struct vb_cq *a, struct vb_cq *b);

/* cq-ex.c */
struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);

/* srq.c */
int vb_srq_check(struct ibv_srq *srq); /* as vb_pd_check() */
struct ibv_srq *vb_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int vb_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int vb_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);

/* qp.c */
int vb_qp_check(struct ibv_qp *qp); /* as vb_pd_check() */
struct ibv_qp *vb_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
/** What programs see of a QP (handle) whose rqp is known. */
void vb_qp_show(struct vb_qp *qp, struct ibv_context *ctx, const struct ibv_qp_init_attr_ex *a);
/** Its events, and a ring of one. */
void vb_qp_events_init(struct vb_qp *qp);

/* xrc.c */
struct ibv_xrcd *vb_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int vb_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *vb_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
/** This handle is done with its QP, which goes with the last one. Home's lane's and CQs' locks held.
 * -EBUSY. */
int vb_qp_unshare(struct vb_qp *qp);
/** After that, no lock held: its home may go, if it was closed before. */
void vb_qp_leave_home(struct vb_qp *qp);
void vb_xrc_init(struct vb_context *c);
/**
 * The program has closed the context: what is left of its domains and handles goes.
 * @return false: other contexts have handles of its QPs, the last of which frees it.
 */
bool vb_xrc_fini(struct vb_context *c);

/* post.c */
int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/** Post n requests, or, when any of them cannot be posted, none. Returns an errno. */
int vb_post_send_all(struct vb_qp *qp, struct ibv_send_wr *wrs, unsigned n);

/* wr.c */
/**
 * Make the staging of the ibv_wr_* interface and set its entry points. ops: IBV_QP_EX_WITH_*.
 * -errno.
 */
int vb_wr_init(struct vb_qp *qp, uint64_t ops);
void vb_wr_fini(struct vb_qp *qp);

/* Exported, but declared only in rdma-core's private headers. */
#pragma GCC visibility push(default)
enum vb_gid_type_sysfs { VB_GID_TYPE_IB_ROCE_V1, VB_GID_TYPE_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned index,
		       enum vb_gid_type_sysfs *type);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
#pragma GCC visibility pop

#endif
