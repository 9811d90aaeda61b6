/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: memory of the process, separate from what the program registers. The program
 * accesses it only by the two copy calls and by keys, as with an adapter's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/words.h"
#include "engine/lane.h"
#include "verbs/context.h"
#include "verbs/dm.h"
#include "verbs/fault.h"
#include "verbs/handle.h"
#include "verbs/mr.h"
#include "verbs/orphan.h"
#include "verbs/pd.h"

enum { GRANULE = 4 }; /* alignment of the copy calls, as with adapters */

static bool in_bounds(const struct vb_dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

static bool may_copy(const struct vb_dm *dm, uint64_t offset, size_t length)
{
	return in_bounds(dm, offset, length) && offset % GRANULE == 0 && length % GRANULE == 0;
}

static int copy_to(struct ibv_dm *ibdm, uint64_t offset, const void *host, size_t length)
{
	struct vb_dm *dm = vb_dm_of(ibdm);

	if (!may_copy(dm, offset, length))
		return EFAULT;
	words_store(dm->mem + offset, host, length);
	return 0;
}

static int copy_from(void *host, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct vb_dm *dm = vb_dm_of(ibdm);

	if (!may_copy(dm, offset, length))
		return EFAULT;
	words_load(host, dm->mem + offset, length);
	return 0;
}

/** Take length bytes of the context's quota. */
static bool take(struct vb_context *c, size_t length)
{
	bool ok;

	mutex_lock(&c->lock);
	ok = length <= VB_DM_MAX - c->dm_used;
	if (ok)
		c->dm_used += length;
	mutex_unlock(&c->lock);
	return ok;
}

static void give_back(struct vb_context *c, size_t length)
{
	mutex_lock(&c->lock);
	c->dm_used -= length;
	mutex_unlock(&c->lock);
}

struct ibv_dm *vb_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr)
{
	struct vb_context *c = vb_context_of(ctx);
	struct vb_dm *dm;
	int ret = vb_fault(c, NULL, FAULT_VERB_ALLOC_DM);

	if (ret < 0)
		return vb_null(-ret);
	/* A mapping is page aligned, which satisfies any requested alignment. */
	if (attr->comp_mask || attr->length == 0 || attr->log_align_req >= 32 ||
	    1u << attr->log_align_req > (unsigned)sysconf(_SC_PAGESIZE))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_alloc_dm: length is %zu, log_align_req %u, comp_mask "
				      "0x%x: length must not be 0, the alignment a page at most, "
				      "and comp_mask 0: change them",
				      attr->length, attr->log_align_req, attr->comp_mask));
	if (!take(c, attr->length))
		return vb_null(REFUSE(ENOMEM, 0,
				      "ibv_alloc_dm: length is %zu: the device has less memory "
				      "left: see max_dm_size of ibv_query_device_ex()",
				      attr->length));
	dm = calloc(1, sizeof(*dm));
	if (dm)
		dm->mem = mmap(NULL, attr->length, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* It is memory only, so a forked child can allocate it, too; there without a handle. */
	if (!dm || dm->mem == MAP_FAILED ||
	    (!c->orphan && vb_handle_new(c, dm, &dm->base.handle))) {
		if (dm && dm->mem != MAP_FAILED)
			munmap(dm->mem, attr->length);
		free(dm);
		give_back(c, attr->length);
		return vb_null(ENOMEM);
	}
	dm->length = attr->length;
	dm->base.context = ctx;
	dm->base.memcpy_to_dm = copy_to;
	dm->base.memcpy_from_dm = copy_from;
	return &dm->base;
}

int vb_free_dm(struct ibv_dm *ibdm)
{
	struct vb_context *c = vb_context_of(ibdm->context);
	struct vb_dm *dm = vb_dm_of(ibdm);
	int ret;

	if (c->orphan) {
		munmap(dm->mem, dm->length);
		return vb_orphan_free(dm);
	}
	ret = vb_handle_check(c, ibdm->handle, dm);
	if (ret < 0)
		return vb_errno(ret);
	if (atomic_load(&dm->refs) > 0)
		return vb_errno(-EBUSY);
	vb_handle_free(c, ibdm->handle, dm);
	munmap(dm->mem, dm->length);
	give_back(c, dm->length);
	free(dm);
	return 0;
}

struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t offset,
			    size_t length, unsigned access)
{
	const unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			       IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
			       IBV_ACCESS_OPTIONAL_RANGE;
	struct vb_context *c = vb_context_of(ibpd->context);
	struct vb_dm *dm = vb_dm_of(ibdm);
	struct vb_pd *pd = vb_pd_of(ibpd);
	struct vb_mr *mr;
	int ret;

	if (ibdm->context != ibpd->context || access & ~known ||
	    !(access & IBV_ACCESS_ZERO_BASED) || !in_bounds(dm, offset, length))
		return vb_null(REFUSE(
			EINVAL, 0,
			"ibv_reg_dm_mr: offset is %llu, length %zu, access 0x%x: the range must be "
			"in the device memory, access must have IBV_ACCESS_ZERO_BASED, and both "
			"must be of the same context: change them",
			(unsigned long long)offset, length, access));
	mr = vb_mr_new(ibpd, VB_MR_DM);
	if (!mr)
		return NULL;
	access &= ~(unsigned)(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE);
	lanes_lock(&c->lanes);
	ret = rocemu_mr_reg(pd->rpd, dm->mem + offset, length, 0, (int)access, &mr->rmr);
	lanes_unlock(&c->lanes);
	if (ret < 0) {
		vb_mr_free(c, mr);
		return vb_null(-ret);
	}
	mr->access = access;
	mr->dm = dm;
	atomic_fetch_add(&dm->refs, 1);
	vb_mr_show(mr, pd, NULL, length);
	return &mr->base;
}
