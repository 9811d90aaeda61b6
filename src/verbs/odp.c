/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: regions whose pages need not be present before they are accessed. An adapter
 * takes a fault and the kernel provides the page; rocemu requests the page before the access,
 * because a fault would crash the program.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "verbs/context.h"
#include "verbs/mr.h"
#include "verbs/odp.h"
#include "verbs/orphan.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static bool populate(uintptr_t from, uintptr_t to, int advice)
{
	return madvise((void *)from, to - from, advice) == 0;
}

/** The pages of addr[0..len); false: wraps around. */
static bool pages_of(const void *addr, size_t len, uintptr_t *from, uintptr_t *to)
{
	const uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	const uintptr_t end = (uintptr_t)addr + len + mask;

	*from = (uintptr_t)addr & ~mask;
	*to = end & ~mask;
	return end >= (uintptr_t)addr && *to > *from;
}

bool vb_can_page_in(void)
{
	static atomic_int known = -1;
	int can = atomic_load_explicit(&known, memory_order_relaxed);

	if (can < 0) {
		const size_t len = (size_t)sysconf(_SC_PAGESIZE);
		char *probe =
			mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (probe == MAP_FAILED)
			return false;
		can = populate((uintptr_t)probe, (uintptr_t)probe + len, MADV_POPULATE_WRITE);
		munmap(probe, len);
		atomic_store_explicit(&known, can, memory_order_relaxed);
	}
	return can;
}

bool vb_page_in(void *addr, size_t len, bool write)
{
	const int saved = errno;
	uintptr_t from, to;
	bool there;

	there = pages_of(addr, len, &from, &to) &&
		populate(from, to, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	errno = saved;
	return there;
}

/* ---- advice ---- */

/** The region of an L_Key of this context, or NULL. */
static struct vb_mr *find_on_demand(struct vb_context *c, uint32_t lkey)
{
	struct hash_node *n = hash_find(&c->on_demand, lkey);

	return n ? container_of(n, struct vb_mr, on_demand) : NULL;
}

static int check_advice(struct ibv_pd *pd, const struct vb_mr *mr, const struct ibv_sge *sge,
			enum ibv_advise_mr_advice advice)
{
	if (!mr)
		return -ENOENT;
	if (mr->base.pd != pd || (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
				  !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	if (sge->addr < mr->iova || sge->addr - mr->iova > mr->base.length ||
	    sge->length > mr->base.length - (sge->addr - mr->iova))
		return -EFAULT;
	return 0;
}

static int advise_one(struct ibv_pd *pd, const struct ibv_sge *sge,
		      enum ibv_advise_mr_advice advice)
{
	struct vb_context *c = vb_context_of(pd->context);
	struct vb_mr *mr;
	void *host;
	int ret;

	mutex_lock(&c->lock);
	mr = find_on_demand(c, sge->lkey);
	ret = check_advice(pd, mr, sge, advice);
	host = mr ? (void *)((uintptr_t)mr->base.addr + (sge->addr - mr->iova)) : NULL;
	mutex_unlock(&c->lock);
	/* Present pages can be accessed at once: without faulting there is nothing to do. */
	if (ret < 0 || sge->length == 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return ret;
	return vb_page_in(host, sge->length, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE)
		       ? 0
		       : -EFAULT;
}

int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sgl, uint32_t n)
{
	int ret = vb_orphan_check(vb_context_of(pd->context));

	if (ret < 0)
		return vb_errno(ret);
	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return vb_errno(REFUSE(-ENOTSUP, 0,
				       "ibv_advise_mr: advice is %d: valid are PREFETCH, "
				       "PREFETCH_WRITE and PREFETCH_NO_FAULT: use one",
				       (int)advice));
	/* Always synchronous, so IBV_ADVISE_MR_FLAG_FLUSH changes nothing. */
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || (n && !sgl))
		return vb_errno(REFUSE(-EINVAL, 0,
				       "ibv_advise_mr: flags is 0x%x, %u entries: the only flag is "
				       "FLUSH, and sg_list must not be NULL: change them",
				       flags, n));
	for (uint32_t i = 0; i < n && ret == 0; i++)
		ret = advise_one(pd, &sgl[i], advice);
	return vb_errno(ret);
}
