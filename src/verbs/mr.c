/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The memory stays the program's own and is read and written by this process, so
 * registering pins nothing. It only checks that the memory exists with the required rights
 * (pages.c), as a kernel that pins the pages does.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/list.h"
#include "engine/lane.h"
#include "engine/memfault.h"
#include "verbs/buf.h"
#include "verbs/context.h"
#include "verbs/dm.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/newer.h"
#include "verbs/odp.h"
#include "verbs/orphan.h"
#include "verbs/pages.h"
#include "verbs/pd.h"
#include "verbs/real.h"
#include "verbs/valgrind.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

enum {
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		       IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND
#ifdef HAVE_WR_FLUSH
		       | IBV_ACCESS_FLUSH_GLOBAL /* _PERSISTENT: the memory is not persistent */
#endif
	,
	/* Pages have to be writable for these, as for the kernel (ib_access_writable()). */
	ACCESS_WRITABLE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

/** All of memory as one region: pages are checked when they are accessed. */
static bool is_implicit(const void *addr, size_t length, unsigned access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && !addr && length == SIZE_MAX;
}

/**
 * Parameters for the endpoint, and whether the request can be met. With on-demand paging the memory
 * need not exist yet.
 */
static int check_region(const void *addr, size_t length, unsigned *access, uint64_t *iova)
{
	const bool on_demand = *access & IBV_ACCESS_ON_DEMAND;

	if (*access & ~(unsigned)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE))
		return REFUSE(-EINVAL, 0,
			      "ibv_reg_mr: access is 0x%x: bits 0x%x are unknown: remove them",
			      *access,
			      *access & ~(unsigned)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE));
	/* A region of all memory has no other address. */
	if (is_implicit(addr, length, *access) && ((*access & IBV_ACCESS_ZERO_BASED) || *iova))
		return REFUSE(-EINVAL, 0,
			      "ibv_reg_mr: all of memory, on demand: iova must be 0 and access "
			      "without ZERO_BASED: change them");
	if (on_demand && !vb_can_page_in())
		return REFUSE(-EOPNOTSUPP, 0,
			      "ibv_reg_mr: access has ON_DEMAND: this kernel cannot fault pages in "
			      "(MADV_POPULATE_READ, Linux 5.14): remove it");
	if (*access & IBV_ACCESS_ZERO_BASED)
		*iova = 0;
	*access &= ACCESS_KNOWN & ~(unsigned)(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB);
	return on_demand || length == 0 ? 0
					: vb_pages_check(addr, length, *access & ACCESS_WRITABLE);
}

static int reg(struct vb_context *c, struct vb_pd *pd, void *addr, size_t length, uint64_t iova,
	       unsigned access, struct rocemu_mr **out)
{
	int ret = check_region(addr, length, &access, &iova);

	if (ret < 0)
		return ret;
	memfault_catch();
	vb_valgrind_shared(addr, length);
	lanes_lock(&c->lanes);
	ret = rocemu_mr_reg(pd->rpd, addr, length, iova, (int)access, out);
	lanes_unlock(&c->lanes);
	return ret;
}

/** Maintain the context's on-demand regions, in which ibv_advise_mr() looks up keys. */
static void track(struct vb_context *c, struct vb_mr *mr, unsigned access)
{
	mutex_lock(&c->lock);
	if (mr->is_on_demand)
		hash_remove(&c->on_demand, &mr->on_demand);
	mr->is_on_demand = access & IBV_ACCESS_ON_DEMAND;
	if (mr->is_on_demand)
		hash_add(&c->on_demand, &mr->on_demand, mr->base.lkey);
	mr->access = access;
	mutex_unlock(&c->lock);
}

struct vb_mr *vb_mr_new(struct ibv_pd *ibpd, enum vb_mr_kind kind)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	const int ret = vb_pd_check(ibpd);
	struct vb_mr *mr;

	if (ret < 0)
		return vb_null(-ret);
	mr = calloc(1, sizeof(*mr));
	if (!mr || vb_handle_new(c, mr, &mr->base.handle)) {
		free(mr);
		return vb_null(ENOMEM);
	}
	mr->kind = kind;
	list_init(&mr->of_pd);
	return mr;
}

void vb_mr_free(struct vb_context *c, struct vb_mr *mr)
{
	vb_handle_free(c, mr->base.handle, mr);
	free(mr);
}

void vb_mr_show(struct vb_mr *mr, struct vb_pd *pd, void *addr, size_t length)
{
	mr->base.context = pd->base.context;
	mr->base.pd = &pd->base;
	mr->base.addr = addr;
	mr->base.length = length;
	mr->base.lkey = rocemu_mr_lkey(mr->rmr);
	mr->base.rkey = rocemu_mr_rkey(mr->rmr);
	if (mr->kind != VB_MR_NULL)
		atomic_fetch_add(&pd->refs, 1);
}

/** Print why the endpoint or the memory refuses the region. */
static void say_refused(const char *call, int err, const void *addr, size_t length, uint64_t iova,
			unsigned access)
{
	if (err == -EINVAL)
		why_say(0,
			"%s: address %p, length %zu, iova 0x%llx, access 0x%x: remote write and "
			"remote atomic need IBV_ACCESS_LOCAL_WRITE, and the range must not wrap "
			"around: change them",
			call, addr, length, (unsigned long long)iova, access);
	else if (err == -EFAULT)
		why_say(0,
			"%s: address %p, length %zu, access 0x%x: all of the range must be mapped, "
			"and writable for local or remote writes: map it first, or register the "
			"mapped part",
			call, addr, length, access);
	else if (err == -ENOMEM)
		why_say(0,
			"%s: length %zu: out of memory, or the device has its %d regions and "
			"windows: deregister some",
			call, length, ROCEMU_MAX_MR);
	else if (err == -EBUSY)
		why_say(0,
			"%s: address %p: a memory window is bound to the region: unbind it first",
			call, addr);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
				unsigned access)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mr *mr;
	int ret;

	if (!c)
		return REAL_CALL(ibv_reg_mr_iova2, ibpd, addr, length, iova, access);
	ret = vb_fault(c, NULL, FAULT_VERB_REG_MR);
	if (ret < 0)
		return vb_null(-ret);
	mr = vb_mr_new(ibpd, VB_MR_MEMORY);
	if (!mr)
		return NULL;
	ret = reg(c, pd, addr, length, iova, access, &mr->rmr);
	if (ret < 0) {
		say_refused("ibv_reg_mr", ret, addr, length, iova, access);
		vb_mr_free(c, mr);
		return vb_null(-ret);
	}
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	vb_mr_show(mr, pd, addr, length);
	track(c, mr, access);
	return &mr->base;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!vb_context_of(pd->context))
		return REAL_CALL(ibv_reg_mr, pd, addr, length, access);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	if (!vb_context_of(pd->context))
		return REAL_CALL(ibv_reg_mr_iova, pd, addr, length, iova, access);
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

#ifdef HAVE_MR_INIT_ATTR_BUF
/** A region of a library buffer is a region of memory. False, with errno: it cannot be made. */
static bool take_buf(struct ibv_pd *pd, struct ibv_mr_init_attr *a)
{
	const uint64_t of_files = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET;

	if (!(a->comp_mask & IBV_REG_MR_MASK_BUF))
		return true;
	if ((a->comp_mask & of_files) || !(a->comp_mask & IBV_REG_MR_MASK_ADDR) ||
	    !vb_buf_has(a->buf, pd, a->addr, a->length)) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_reg_mr_ex: comp_mask is 0x%llx: a region of a buffer needs "
			       "ADDR, no FD, and must be in that buffer: change it",
			       (unsigned long long)a->comp_mask);
		return false;
	}
	a->comp_mask &= ~(uint64_t)IBV_REG_MR_MASK_BUF;
	return true;
}

/** The structure as the program has it: without the buffer where it was built with an older header.
 */
static size_t attr_size(uint64_t mask)
{
	return mask & IBV_REG_MR_MASK_BUF ? sizeof(struct ibv_mr_init_attr)
					  : offsetof(struct ibv_mr_init_attr, buf);
}
#else
static bool take_buf(struct ibv_pd *pd, struct ibv_mr_init_attr *a)
{
	(void)pd;
	(void)a;
	return true;
}

static size_t attr_size(uint64_t mask)
{
	(void)mask;
	return sizeof(struct ibv_mr_init_attr);
}
#endif

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	const uint64_t known = IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD |
			       IBV_REG_MR_MASK_FD_OFFSET;
	const bool is_file = attr->comp_mask & IBV_REG_MR_MASK_FD;
	struct ibv_mr_init_attr a = {0};

	memcpy(&a, attr, attr_size(attr->comp_mask));
	/* Buffers are the library's, whatever the device. */
	if (!take_buf(pd, &a))
		return NULL;
#ifdef HAVE_IBV_REG_MR_EX
	if (!vb_context_of(pd->context))
		return REAL_CALL(ibv_reg_mr_ex, pd, a.comp_mask == attr->comp_mask ? attr : &a);
#endif
	if (a.comp_mask & ~known) /* hints to a bus (IBV_REG_MR_MASK_DMAH), among others */
		return vb_null(REFUSE(EOPNOTSUPP, 0,
				      "ibv_reg_mr_ex: comp_mask is 0x%llx: IOVA, ADDR, FD and "
				      "FD_OFFSET are supported: remove the rest",
				      (unsigned long long)a.comp_mask));
	/* Memory by address, or by file, offset and IOVA. */
	if ((a.comp_mask & known & ~(uint64_t)IBV_REG_MR_MASK_IOVA) !=
		    (is_file ? (uint64_t)(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET)
			     : (uint64_t)IBV_REG_MR_MASK_ADDR) ||
	    (is_file && !(a.comp_mask & IBV_REG_MR_MASK_IOVA)))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_reg_mr_ex: comp_mask is 0x%llx: it must be ADDR, or FD, "
				      "FD_OFFSET and IOVA: set the one or the others",
				      (unsigned long long)a.comp_mask));
	if (is_file)
		return ibv_reg_dmabuf_mr(pd, a.fd_offset, a.length, a.iova, a.fd, a.access);
	if (!(a.comp_mask & IBV_REG_MR_MASK_IOVA))
		a.iova = (uintptr_t)a.addr;
	return ibv_reg_mr_iova2(pd, a.addr, a.length, a.iova, (unsigned)a.access);
}

static int dereg(struct vb_context *c, struct rocemu_mr *rmr)
{
	int ret;

	lanes_lock(&c->lanes);
	ret = rocemu_mr_dereg(rmr);
	lanes_unlock(&c->lanes);
	return ret;
}

/** Does not access its PD, which may be gone. */
static int dereg_null(struct vb_context *c, struct vb_mr *mr)
{
	int ret = 0;

	mutex_lock(&c->lock);
	if (mr->rmr)
		ret = dereg(c, mr->rmr);
	if (ret == 0)
		list_remove(&mr->of_pd);
	mutex_unlock(&c->lock);
	if (ret == 0)
		vb_mr_free(c, mr);
	return vb_errno(ret);
}

void vb_mr_end_nulls(struct vb_context *c, struct vb_pd *pd)
{
	struct list *first;

	mutex_lock(&c->lock);
	while ((first = list_first(&pd->nulls))) {
		struct vb_mr *mr = list_entry(first, struct vb_mr, of_pd);

		/* No window can be bound to it, so nothing prevents its end. */
		(void)dereg(c, mr->rmr);
		mr->rmr = NULL;
		list_remove(&mr->of_pd);
	}
	mutex_unlock(&c->lock);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct vb_context *c = vb_context_of(ibmr->context);
	struct vb_mr *mr = vb_mr_of(ibmr);
	int ret;

	if (!c)
		return REAL_CALL(ibv_dereg_mr, ibmr);
	if (c->orphan) {
		if (mr->map)
			munmap(mr->map, mr->map_length);
		return vb_orphan_free(mr);
	}
	ret = vb_handle_check(c, ibmr->handle, mr);
	if (ret == 0 && mr->kind == VB_MR_NULL)
		return dereg_null(c, mr);
	if (ret == 0)
		ret = dereg(c, mr->rmr);
	if (ret < 0)
		return vb_errno(ret);
	atomic_fetch_sub(&vb_pd_of(ibmr->pd)->refs, 1);
	track(c, mr, 0);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->refs, 1);
	if (mr->map)
		munmap(mr->map, mr->map_length);
	vb_mr_free(c, mr);
	return 0;
}

/** What libibverbs itself refuses; the rest is the device's (IBV_REREG_MR_ERR_CMD). */
static bool rereg_input_ok(const struct vb_mr *mr, int flags, const void *addr, size_t length,
			   int access)
{
	if (mr->kind != VB_MR_MEMORY || !flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return false;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return false;
	return !access || (flags & IBV_REREG_MR_CHANGE_ACCESS);
}

/**
 * Without IBV_REREG_MR_CHANGE_TRANSLATION the address for the peer, which ibv_reg_mr_iova() may
 * have set, stays.
 */
int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *ibpd, void *addr, size_t length,
		 int access)
{
	struct vb_context *c = vb_context_of(ibmr->context);
	struct vb_mr *mr = vb_mr_of(ibmr);
	struct vb_pd *pd = vb_pd_of(ibmr->pd), *old_pd = pd;
	uint64_t iova = (uintptr_t)addr;
	unsigned kept, requested = (unsigned)access;
	int ret;

	if (((flags & IBV_REREG_MR_CHANGE_PD) && (!ibpd || ibpd->context != ibmr->context)) ||
	    (c && !rereg_input_ok(mr, flags, addr, length, access))) {
		errno = REFUSE(EINVAL, 0,
			       "ibv_rereg_mr: flags is 0x%x, access 0x%x, length %zu: flags and "
			       "access must have known bits only, a PD must be of the same "
			       "context, a translation needs memory: change them",
			       (unsigned)flags, (unsigned)access, length);
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!c)
		return REAL_CALL(ibv_rereg_mr, ibmr, flags, ibpd, addr, length, access);
	if (flags & IBV_REREG_MR_CHANGE_PD)
		pd = vb_pd_of(ibpd);
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = ibmr->addr;
		length = ibmr->length;
		iova = mr->iova;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		requested = mr->access;
	kept = requested;
	ret = vb_fault(c, NULL, FAULT_VERB_REREG_MR);
	if (ret == 0)
		ret = vb_handle_check(c, ibmr->handle, mr);
	if (ret == 0 && (flags & IBV_REREG_MR_CHANGE_PD))
		ret = vb_pd_check(ibpd);
	if (ret == 0)
		ret = check_region(addr, length, &requested, &iova);
	if (ret == 0) {
		vb_valgrind_shared(addr, length);
		lanes_lock(&c->lanes);
		ret = rocemu_mr_change(mr->rmr, pd->rpd, addr, length, iova, (int)requested);
		lanes_unlock(&c->lanes);
	}
	if (ret < 0) {
		say_refused("ibv_rereg_mr", ret, addr, length, iova, requested);
		errno = -ret;
		return IBV_REREG_MR_ERR_CMD;
	}
	track(c, mr, kept);
	mr->iova = iova;
	vb_mr_show(mr, pd, addr, length);
	atomic_fetch_sub(&old_pd->refs, 1);
	return 0;
}

/**
 * A null region does not hold a reference to its PD: on mlx5, the only provider that has them, it
 * is a key that the whole context shares, and the kernel has no object for it.
 */
struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *ibpd)
{
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mr *mr = vb_mr_new(ibpd, VB_MR_NULL);
	int ret;

	if (!mr)
		return NULL;
	lanes_lock(&c->lanes);
	ret = rocemu_mr_null_reg(pd->rpd, &mr->rmr);
	lanes_unlock(&c->lanes);
	if (ret < 0) {
		vb_mr_free(c, mr);
		return vb_null(-ret);
	}
	vb_mr_show(mr, pd, NULL, SIZE_MAX);
	mutex_lock(&c->lock);
	list_append(&pd->nulls, &mr->of_pd);
	mutex_unlock(&c->lock);
	return &mr->base;
}
