/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: keys that open a part of a region to a peer, bound and unbound by requests in the
 * send queue (IBTA 10.6.7) or, type 2, unbound by the peer's SEND with invalidate. Type 1 serves
 * all QPs of its protection domain; type 2 is of kind 2B: only the QP that bound it.
 *
 * A window sits in the table of keys as a region does, so a peer's access costs one look-up, bound
 * or not. The low 8 bits of a type 2 window's R_Key are the program's.
 */
#ifndef TRANSPORT_MW_H
#define TRANSPORT_MW_H

#include <rocemu/endpoint.h>

#include "base/list.h"
#include "transport/mr.h"

struct swqe;

struct rocemu_mw {
	/* First: its entry in the table of keys. While bound, the part of the region it opens; else
	 * nothing, with no rights. */
	struct rocemu_mr entry;
	enum ibv_mw_type type;
	struct rocemu_mr *mr;	    /* the region it is bound to (counted there), or NULL */
	const struct rocemu_qp *qp; /* type 2: the QP that bound it */
	struct list link;	    /* type 2, while bound: in qp->windows */
};

/** The parameters of a bind request (struct ibv_mw_bind_info), as stored in the send queue. */
struct mw_bind {
	uint64_t addr, length; /* in the region's addresses; length 0, type 1: unbind */
	uint32_t rkey;	       /* the new one: index of the window, low 8 bits as requested */
	uint32_t lkey;	       /* of the region */
	int access;	       /* IBV_ACCESS_REMOTE_*, _ZERO_BASED */
};

/** Can this bind request be posted? -EINVAL. Keys and bounds are for when it is executed. */
int mw_check_post(const struct ibv_send_wr *wr);
/** It is posted: set the low 8 bits of the program's mw->rkey, which the program chooses. */
struct mw_bind mw_take_bind(const struct ibv_send_wr *wr);

/**
 * Execute a request that is local to the adapter: IBV_WR_BIND_MW, IBV_WR_LOCAL_INV.
 * @return IBV_WC_SUCCESS, or IBV_WC_MW_BIND_ERR: nothing has changed.
 */
enum ibv_wc_status mw_execute(struct rocemu_qp *qp, const struct swqe *w);

/** The window that this QP may invalidate under that key, or NULL: none. */
struct rocemu_mw *mw_invalidable(const struct rocemu_qp *qp, uint32_t rkey);
/** Undo the binding; the key is invalid until the next bind. */
void mw_unbind(struct rocemu_mw *mw);
/** The QP is destroyed: unbind its windows. */
void mw_unbind_all(struct rocemu_qp *qp);

/**
 * Check one access of the peer of qp by R_Key: a region's or a bound window's of this PD. As
 * mr_access(), and a type 2 window must be bound to qp.
 */
uint8_t *mw_access(const struct rocemu_qp *qp, const struct rocemu_pd *pd, uint32_t rkey,
		   uint64_t addr, uint64_t len, int access);

struct mw_range {
	uint64_t addr, len;
};

/**
 * Does the key grant the peer of qp all bits of access over the range, or, with NULL, over all it
 * opens? Also where len is 0 the key must be valid.
 */
bool mw_grants(const struct rocemu_qp *qp, const struct rocemu_pd *pd, uint32_t rkey,
	       const struct mw_range *range, int access);

#endif
