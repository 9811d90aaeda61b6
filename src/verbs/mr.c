/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The memory stays the program's own and is read and written by this process, so
 * registering pins nothing; it is checked that there is memory, as a kernel would that pins the
 * pages.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/objects.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_HUGETLB,
};

/** Can the page be written to? Unknown (an older kernel) counts as yes. */
static bool page_writable(uintptr_t page, size_t page_size)
{
	static atomic_int supported = -1;

	if (atomic_load(&supported) < 0) {
		char *probe = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (probe == MAP_FAILED)
			return true;
		atomic_store(&supported, madvise(probe, page_size, MADV_POPULATE_WRITE) == 0);
		munmap(probe, page_size);
	}
	return !atomic_load(&supported) ||
	       madvise((void *)page, page_size, MADV_POPULATE_WRITE) == 0;
}

/**
 * Is all of addr[0..length) mapped, and, at its ends, writable if it is to be written? (What lies
 * between belongs nearly always to the same mapping; asking about every page would touch them all.)
 */
static int check_memory(const void *addr, size_t length, int access)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)addr & ~(page_size - 1);
	uintptr_t end = (uintptr_t)addr + length;
	uintptr_t last = (end - 1) & ~(page_size - 1);

	if (end < (uintptr_t)addr)
		return -EINVAL;
	/* With MS_ASYNC msync() does nothing on Linux but to look whether everything is mapped. */
	if (msync((void *)first, last - first + page_size, MS_ASYNC) < 0 && errno == ENOMEM)
		return -EFAULT;
	if ((access & IBV_ACCESS_LOCAL_WRITE) &&
	    (!page_writable(first, page_size) ||
	     (last != first && !page_writable(last, page_size))))
		return -EFAULT;
	return 0;
}

static int check_access(unsigned access)
{
	if (access & ~(unsigned)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_ON_DEMAND))
		return -EINVAL;
	return access & IBV_ACCESS_ON_DEMAND ? -EOPNOTSUPP : 0;
}

static int reg(struct vb_context *c, struct vb_pd *pd, void *addr, size_t length, uint64_t iova,
	       unsigned access, struct rocemu_mr **out)
{
	int ret = check_access(access);

	access &= ACCESS_KNOWN; /* optional flags are hints */
	if (ret == 0 && length == 0)
		ret = -EINVAL;
	if (ret == 0)
		ret = check_memory(addr, length, (int)access);
	if (ret < 0)
		return ret;
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	access &= ~(unsigned)(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB);
	lane_lock(c->lane);
	ret = rocemu_mr_reg(pd->rpd, addr, length, iova, (int)access, out);
	lane_unlock(c->lane);
	return ret;
}

static void show(struct vb_mr *mr, struct vb_pd *pd, void *addr, size_t length, unsigned access)
{
	mr->base.context = pd->base.context;
	mr->base.pd = &pd->base;
	mr->base.addr = addr;
	mr->base.length = length;
	mr->base.lkey = rocemu_mr_lkey(mr->rmr);
	mr->base.rkey = rocemu_mr_rkey(mr->rmr);
	mr->access = (int)access;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
				unsigned access)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mr *mr;
	int ret;

	if (!c)
		return vb_null(EOPNOTSUPP);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return vb_null(ENOMEM);
	ret = reg(c, pd, addr, length, iova, access, &mr->rmr);
	if (ret < 0) {
		free(mr);
		return vb_null(-ret);
	}
	atomic_fetch_add(&pd->refs, 1);
	show(mr, pd, addr, length, access);
	return &mr->base;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

static int dereg(struct vb_context *c, struct rocemu_mr *rmr)
{
	int ret;

	lane_lock(c->lane);
	ret = rocemu_mr_dereg(rmr);
	lane_unlock(c->lane);
	return ret;
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct vb_context *c = vb_context_of(ibmr->context);
	struct vb_mr *mr = vb_mr_of(ibmr);
	int ret;

	if (!c)
		return vb_foreign();
	ret = dereg(c, mr->rmr);
	if (ret < 0)
		return vb_errno(ret);
	atomic_fetch_sub(&vb_pd_of(ibmr->pd)->refs, 1);
	free(mr);
	return 0;
}

/**
 * Done as a new registration that takes the old one's place, so the keys change, which the API
 * allows.
 */
int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		 int access)
{
	struct vb_context *c = vb_context_of(ibmr->context);
	struct vb_mr *mr = vb_mr_of(ibmr);
	struct vb_pd *pd = vb_pd_of(ibmr->pd), *old_pd = pd;
	struct rocemu_mr *fresh;
	int ret;

	if (!c || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || !flags ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && (!ibpd || ibpd->context != ibmr->context))) {
		errno = c ? EINVAL : EOPNOTSUPP;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		pd = vb_pd_of(ibpd);
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = ibmr->addr;
		length = ibmr->length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = mr->access;
	ret = reg(c, pd, addr, length, (uintptr_t)addr, (unsigned)access, &fresh);
	if (ret == 0) {
		ret = dereg(c, mr->rmr);
		if (ret < 0)
			dereg(c, fresh);
	}
	if (ret < 0) {
		errno = -ret;
		return IBV_REREG_MR_ERR_INPUT;
	}
	mr->rmr = fresh;
	atomic_fetch_add(&pd->refs, 1);
	atomic_fetch_sub(&old_pd->refs, 1);
	show(mr, pd, addr, length, (unsigned)access);
	return 0;
}
