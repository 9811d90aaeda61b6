/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "transport/qp.h"

enum {
	REMOTE_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	/* Local write access has no meaning for a window: programs set it, adapters ignore it.
	 */
	NO_ACCESS = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE,
	BIND_ACCESS = REMOTE_WRITES | IBV_ACCESS_REMOTE_READ | NO_ACCESS,
};

#define KEY_MASK 0xffu /* the consumer's part of an R_Key; the rest is the window's index */

/* ---- life ---- */

int rocemu_mw_new(struct rocemu_pd *pd, enum ibv_mw_type type, struct rocemu_mw **out)
{
	struct rocemu_mw *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return -EINVAL;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	if (mr_entry_init(pd, &mw->entry)) {
		free(mw);
		return -ENOMEM;
	}
	mw->entry.window = mw;
	mw->type = type;
	list_init(&mw->link);
	*out = mw;
	return 0;
}

void rocemu_mw_free(struct rocemu_mw *mw)
{
	mw_unbind(mw);
	mr_entry_fini(&mw->entry);
	free(mw);
}

uint32_t rocemu_mw_rkey(const struct rocemu_mw *mw)
{
	return mw->entry.key;
}

void mw_unbind(struct rocemu_mw *mw)
{
	if (!mw->mr)
		return;
	mw->mr->windows--;
	mw->mr = NULL;
	mw->qp = NULL;
	list_remove(&mw->link);
	mw->entry.host = NULL;
	mw->entry.length = 0;
	mw->entry.access = 0;
}

void mw_unbind_all(struct rocemu_qp *qp)
{
	list_for_each_safe (n, next, &qp->windows)
		mw_unbind(list_entry(n, struct rocemu_mw, link));
}

/* ---- bind ---- */

int mw_check_post(const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw || (!info->mr && (info->addr || info->length)))
		return -EINVAL;
	return info->mw_access_flags & ~(unsigned)BIND_ACCESS ? -EINVAL : 0;
}

struct mw_bind mw_take_bind(const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	struct ibv_mw *mw = wr->bind_mw.mw;

	mw->rkey = (mw->rkey & ~KEY_MASK) | (wr->bind_mw.rkey & KEY_MASK);
	return (struct mw_bind){
		.addr = info->addr,
		.length = info->length,
		.rkey = mw->rkey,
		.lkey = info->mr ? info->mr->lkey : 0,
		.access = (int)info->mw_access_flags,
	};
}

/** May a window with these rights open that part of the region? */
static bool region_allows(const struct rocemu_mr *mr, const struct mw_bind *b)
{
	uint64_t off = b->addr - mr->iova;

	if (!(mr->access & IBV_ACCESS_MW_BIND)) /* C10-73 */
		return false;
	if ((b->access & REMOTE_WRITES) && !(mr->access & IBV_ACCESS_LOCAL_WRITE)) /* C10-74 */
		return false;
	/* C10-75 */
	return b->addr >= mr->iova && off <= mr->length && b->length <= mr->length - off;
}

static void bind_to(struct rocemu_mw *mw, struct rocemu_mr *mr, struct rocemu_qp *qp,
		    const struct mw_bind *b)
{
	mr->windows++;
	mw->mr = mr;
	if (mw->type == IBV_MW_TYPE_2) {
		mw->qp = qp;
		list_append(&qp->windows, &mw->link);
	}
	/* The region may begin at NULL: one of all memory, on demand. */
	mw->entry.host = (uint8_t *)((uintptr_t)mr->host + (b->addr - mr->iova));
	mw->entry.iova = b->access & IBV_ACCESS_ZERO_BASED ? 0 : b->addr;
	mw->entry.length = b->length;
	mw->entry.access = (b->access & ~NO_ACCESS) | (mr->access & IBV_ACCESS_ON_DEMAND);
}

/** Type 1 may be bound again while bound, and length 0 unbinds it; type 2 must be free
 * (o10-37.2.30) and needs a length (o10-37.2.40). Only type 2 can be zero based (o10-36.2.2). */
static bool type_allows(const struct rocemu_mw *mw, const struct mw_bind *b)
{
	if (mw->type == IBV_MW_TYPE_1)
		return !(b->access & IBV_ACCESS_ZERO_BASED);
	return !mw->mr && b->length;
}

static bool execute_bind(struct rocemu_qp *qp, const struct mw_bind *b)
{
	const struct mr_table *t = qp->ep->mrs;
	struct rocemu_mr *entry = mr_at(t, b->rkey >> 8), *mr = NULL;
	struct rocemu_mw *mw = entry ? entry->window : NULL;

	if (!mw || mw->entry.pd != qp->pd || !type_allows(mw, b)) /* C10-72 */
		return false;
	if (b->length) {
		mr = mr_find(t, b->lkey);
		if (!mr || mr->window || mr->pd != qp->pd || !region_allows(mr, b))
			return false;
	}
	mw_unbind(mw);
	mw->entry.key = b->rkey;
	if (mr)
		bind_to(mw, mr, qp, b);
	return true;
}

/* ---- invalidate ---- */

struct rocemu_mw *mw_invalidable(const struct rocemu_qp *qp, uint32_t rkey)
{
	const struct rocemu_mr *entry = mr_find(qp->ep->mrs, rkey);

	/*
	 * Not regions (there is no fast registration) and not type 1 (o10-37.2.26); a key that is
	 * invalid already, or another QP's, is treated as unknown.
	 */
	return entry && entry->window && entry->window->qp == qp ? entry->window : NULL;
}

static bool execute_invalidate(struct rocemu_qp *qp, uint32_t rkey)
{
	struct rocemu_mw *mw = mw_invalidable(qp, rkey);

	if (mw)
		mw_unbind(mw);
	return mw != NULL;
}

enum ibv_wc_status mw_execute(struct rocemu_qp *qp, const struct swqe *w)
{
	bool done = w->opcode == IBV_WR_BIND_MW ? execute_bind(qp, &w->bind)
						: execute_invalidate(qp, w->imm);

	return done ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
}

/* ---- access ---- */

/** The entry of a key that the peer of qp may use, or NULL. pd: the request's, NULL: none. */
static const struct rocemu_mr *reachable(const struct rocemu_qp *qp, const struct rocemu_pd *pd,
					 uint32_t rkey)
{
	/* A PD of XRC may be another endpoint's. */
	const struct rocemu_mr *entry = pd ? mr_find(pd->ep->mrs, rkey) : NULL;

	if (!entry || (entry->window && entry->window->qp && entry->window->qp != qp))
		return NULL;
	return entry;
}

uint8_t *mw_access(const struct rocemu_qp *qp, const struct rocemu_pd *pd, uint32_t rkey,
		   uint64_t addr, uint64_t len, int access)
{
	const struct rocemu_mr *entry;

	if (!len)
		return mr_nowhere(); /* C9-88: a zero-length operation's key is not checked */
	entry = reachable(qp, pd, rkey);
	return entry ? mr_range(entry, pd, addr, len, access) : NULL;
}

bool mw_grants(const struct rocemu_qp *qp, const struct rocemu_pd *pd, uint32_t rkey,
	       const struct mw_range *range, int access)
{
	const struct rocemu_mr *entry = reachable(qp, pd, rkey);

	if (!entry)
		return false;
	return mr_range(entry, pd, range ? range->addr : entry->iova, range ? range->len : 0,
			access) != NULL;
}
