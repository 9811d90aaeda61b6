/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions of DMA-bufs. The processor does what an adapter's DMA would, so a DMA-buf is registered
 * if it can be mapped: those of /dev/udmabuf and of the heaps can, those of most GPUs cannot. The
 * mapping keeps the memory, so the program may close its descriptor.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/lane.h"
#include "engine/memfault.h"
#include "verbs/context.h"
#include "verbs/dmabuf.h"
#include "verbs/fault.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142 /* statfs(2) of a DMA-buf */
#endif

enum {
	/* What the kernel takes for a DMA-buf. */
	WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	ACCESS_KNOWN = WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_OPTIONAL_RANGE,
};

/** -EBADF, or -EINVAL: not a DMA-buf, or [offset, offset+length) is not within it. */
static int check_range(int fd, uint64_t offset, size_t length)
{
	struct statfs fs;
	off_t size;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	if ((uint32_t)fs.f_type != DMA_BUF_MAGIC)
		return REFUSE(-EINVAL, 0,
			      "ibv_reg_dmabuf_mr: descriptor %d is not a DMA-buf: pass one that a "
			      "driver exported",
			      fd);
	size = lseek(fd, 0, SEEK_END);
	if (size < 0)
		return -errno;
	if (offset <= (uint64_t)size && length <= (uint64_t)size - offset)
		return 0;
	return REFUSE(-EINVAL, 0,
		      "ibv_reg_dmabuf_mr: offset is %llu, length %zu: the DMA-buf has %lld bytes: "
		      "stay within it",
		      (unsigned long long)offset, length, (long long)size);
}

/** Map the pages of the range. @return its first byte, or NULL: cannot be mapped. */
static uint8_t *map(struct vb_mr *mr, int fd, uint64_t offset, size_t length, int access)
{
	const size_t in_page = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
	void *mem;

	mem = mmap(NULL, in_page + length, PROT_READ | (access & WRITES ? PROT_WRITE : 0),
		   MAP_SHARED, fd, (off_t)(offset - in_page));
	if (mem == MAP_FAILED)
		return NULL;
	mr->map = mem;
	mr->map_length = in_page + length;
	return (uint8_t *)mem + in_page;
}

/* Unlike ibv_reg_mr(), without looking at the pages: those of a heap are mapped by number, and
 * madvise() refuses such memory. */
static int reg_mapped(struct vb_mr *mr, struct vb_pd *pd, uint8_t *mem, size_t length,
		      uint64_t iova, int access)
{
	struct vb_context *c = vb_context_of(pd->base.context);
	int ret;

	memfault_catch(); /* its backing may be removed */
	lanes_lock(&c->lanes);
	ret = rocemu_mr_reg(pd->rpd, mem, length, iova, access & ~IBV_ACCESS_OPTIONAL_RANGE,
			    &mr->rmr);
	lanes_unlock(&c->lanes);
	return ret;
}

static int reg(struct vb_mr *mr, struct vb_pd *pd, uint64_t offset, size_t length, uint64_t iova,
	       int fd, int access)
{
	const uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	uint8_t *mem;
	int ret;

	/*
	 * Programs (NCCL, UCX) probe with an invalid descriptor whether DMA-bufs of a GPU are
	 * supported. Most are not, and these programs avoid them only if the probe fails with
	 * EOPNOTSUPP.
	 */
	if (fd < 0)
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_reg_dmabuf_mr: descriptor %d: it must be that of a DMA-buf: "
			      "programs that probe this way do not use DMA-bufs then",
			      fd);
	if (access & ~(ACCESS_KNOWN) || (offset & in_page) != (iova & in_page) || length == 0)
		return REFUSE(-EINVAL, 0,
			      "ibv_reg_dmabuf_mr: offset is %llu, iova 0x%llx, length %zu, access "
			      "0x%x: offset and iova must have the same offset in their pages, "
			      "length must not be 0, and access may be local write, remote rights "
			      "and RELAXED_ORDERING: change them",
			      (unsigned long long)offset, (unsigned long long)iova, length,
			      (unsigned)access);
	ret = check_range(fd, offset, length);
	if (ret < 0)
		return ret;
	mem = map(mr, fd, offset, length, access);
	if (!mem)
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_reg_dmabuf_mr: descriptor %d cannot be mapped (errno %d): its "
			      "exporter must allow mmap(): use other memory",
			      fd, errno);
	ret = reg_mapped(mr, pd, mem, length, iova, access);
	if (ret < 0)
		munmap(mr->map, mr->map_length);
	return ret;
}

struct ibv_mr *vb_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t offset, size_t length, uint64_t iova,
				int fd, int access)
{
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mr *mr;
	int ret = vb_fault(vb_context_of(ibpd->context), NULL, FAULT_VERB_REG_MR);

	if (ret < 0)
		return vb_null(-ret);
	mr = vb_mr_new(ibpd, VB_MR_DMABUF);
	if (!mr)
		return NULL;
	ret = reg(mr, pd, offset, length, iova, fd, access);
	if (ret < 0) {
		vb_mr_free(vb_context_of(ibpd->context), mr);
		return vb_null(-ret);
	}
	mr->iova = iova;
	mr->access = (unsigned)access;
	/* The kernel's region has no address in the process; programs find the offset there. */
	vb_mr_show(mr, pd, (void *)(uintptr_t)offset, length);
	return &mr->base;
}
