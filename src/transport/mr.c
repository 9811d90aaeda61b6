/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "transport/ep.h"
#include "transport/guard.h"
#include "transport/show.h"

enum {
	WRITING = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

void mr_table_init(struct mr_table *t)
{
	*t = (struct mr_table){0};
	slot_table_init(&t->slots, ROCEMU_MAX_MR);
}

void mr_table_fini(struct mr_table *t)
{
	for (uint32_t i = 0; i < t->slots.size; i++)
		free(t->slots.entries[i]);
	slot_table_fini(&t->slots);
	free(t->nothing);
}

struct rocemu_mr *mr_at(const struct mr_table *t, uint32_t number)
{
	struct rocemu_mr *mr = slot_at(&t->slots, number);

	return mr && mr->key >> 8 == number ? mr : NULL;
}

struct rocemu_mr *mr_find(const struct mr_table *t, uint32_t key)
{
	struct rocemu_mr *mr = slot_at(&t->slots, key >> 8);

	return mr && mr->key == key ? mr : NULL;
}

int mr_entry_init(struct rocemu_pd *pd, struct rocemu_mr *entry)
{
	struct prf *prf = &pd->ep->prf;
	uint32_t number;

	if (slot_init(&pd->ep->mrs->slots, prf, entry, &number))
		return -ENOMEM;
	entry->key = number << 8 | (prf_u32(prf) & 0xff);
	entry->pd = pd;
	pd_refer(pd, 1);
	return 0;
}

void mr_entry_fini(struct rocemu_mr *entry)
{
	slot_fini(&entry->pd->ep->mrs->slots, entry->key >> 8);
	pd_refer(entry->pd, -1);
}

uint8_t *mr_nowhere(void)
{
	static uint8_t nothing;

	return &nothing;
}

static bool page_in(const struct rocemu_mr *mr, uint8_t *host, uint64_t len, int access)
{
	return mr->pd->ep->cfg.page_in(host, len < MR_PIECE_MAX ? (size_t)len : MR_PIECE_MAX,
				       access & WRITING);
}

uint8_t *mr_range(const struct rocemu_mr *mr, const struct rocemu_pd *pd, uint64_t addr,
		  uint64_t len, int access)
{
	/* mr_missing() may be changing these two under another endpoint's lock. */
	const int rights = __atomic_load_n(&mr->access, __ATOMIC_RELAXED);
	const uint64_t length = __atomic_load_n(&mr->length, __ATOMIC_RELAXED);
	uint64_t off = addr - mr->iova;
	uint8_t *host;

	if (mr->pd != pd || (rights & access) != access)
		return NULL;
	if (addr < mr->iova || off > length || len > length - off)
		return NULL;
	if (unlikely(mr->null))
		return access & WRITING ? mr->host + MR_PIECE_MAX : mr->host;
	host = (uint8_t *)((uintptr_t)mr->host + off); /* a region on demand may begin at NULL */
	/* An empty range has no page: a FLUSH of a whole region only checks its rights. */
	if (unlikely(rights & IBV_ACCESS_ON_DEMAND) && len && !page_in(mr, host, len, access))
		return NULL;
	return host;
}

void mr_missing(struct mr_table *t, const void *host, size_t len)
{
	const uintptr_t from = (uintptr_t)host;

	for (uint32_t i = 0; i < t->slots.size; i++) {
		struct rocemu_mr *mr = slot_at(&t->slots, i);
		uintptr_t at = mr ? (uintptr_t)mr->host : 0;

		if (!mr || mr->null || from + len <= at ||
		    (at <= from && from - at >= __atomic_load_n(&mr->length, __ATOMIC_RELAXED)))
			continue;
		if (mr->pd->ep->cfg.page_in)
			__atomic_fetch_or(&mr->access, IBV_ACCESS_ON_DEMAND, __ATOMIC_RELAXED);
		else
			__atomic_store_n(&mr->length, 0, __ATOMIC_RELAXED);
	}
}

uint8_t *mr_access(const struct mr_table *t, const struct rocemu_pd *pd, uint32_t key,
		   uint64_t addr, uint64_t len, int access)
{
	const struct rocemu_mr *mr;

	if (!len)
		return mr_nowhere();
	mr = mr_find(t, key);
	return mr && !mr->window ? mr_range(mr, pd, addr, len, access) : NULL;
}

uint64_t sge_total(const struct ibv_sge *sge, unsigned n)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < n; i++)
		total += sge[i].length;
	return total;
}

/** Do the bytes lie in the first entry, as those of most messages do? */
static inline bool in_first(const struct ibv_sge *sge, unsigned n, uint64_t off, uint32_t len)
{
	return n && len && off + len <= sge->length;
}

int sge_gather(const struct mr_table *t, const struct rocemu_pd *pd, const struct ibv_sge *sge,
	       unsigned n, uint64_t off, uint32_t len, int access, struct iovec *iov, unsigned max)
{
	unsigned used = 0;

	if (likely(in_first(sge, n, off, len))) {
		iov->iov_base = mr_access(t, pd, sge->lkey, sge->addr + off, len, access);
		iov->iov_len = len;
		return iov->iov_base ? 1 : -EFAULT;
	}
	for (unsigned i = 0; i < n && len; i++) {
		uint32_t piece;
		uint8_t *host;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		piece = sge[i].length - (uint32_t)off;
		if (piece > len)
			piece = len;
		host = mr_access(t, pd, sge[i].lkey, sge[i].addr + off, piece, access);
		if (!host || used == max)
			return -EFAULT;
		iov[used++] = (struct iovec){.iov_base = host, .iov_len = piece};
		len -= piece;
		off = 0;
	}
	return len ? -EFAULT : (int)used;
}

static int place(struct mr_table *t, uint8_t *host, const uint8_t *src, size_t len)
{
	if (likely(guard_store(host, src, len)))
		return 0;
	mr_missing(t, host, len);
	return -EFAULT;
}

HOT int sge_scatter(struct mr_table *t, const struct rocemu_pd *pd, const struct ibv_sge *sge,
		    unsigned n, uint64_t off, const uint8_t *src, uint32_t len)
{
	struct iovec iov[ROCEMU_MAX_SGE];
	int used;

	if (likely(in_first(sge, n, off, len))) {
		uint8_t *host =
			mr_access(t, pd, sge->lkey, sge->addr + off, len, IBV_ACCESS_LOCAL_WRITE);

		return host ? place(t, host, src, len) : -EFAULT;
	}
	if (off + len > sge_total(sge, n))
		return -EMSGSIZE;
	used = sge_gather(t, pd, sge, n, off, len, IBV_ACCESS_LOCAL_WRITE, iov, ROCEMU_MAX_SGE);
	for (int i = 0; i < used; i++) {
		if (place(t, iov[i].iov_base, src, iov[i].iov_len))
			return -EFAULT;
		src += iov[i].iov_len;
	}
	return used < 0 ? used : 0;
}

static int check_region(const struct rocemu_ep *ep, const void *addr, size_t length, uint64_t iova,
			int access)
{
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if (iova + length < iova || (uint64_t)(uintptr_t)addr + length < length)
		return -EINVAL;
	return (access & IBV_ACCESS_ON_DEMAND) && !ep->cfg.page_in ? -EOPNOTSUPP : 0;
}

static int new_region(struct rocemu_pd *pd, struct rocemu_mr **out)
{
	struct rocemu_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	if (mr_entry_init(pd, mr)) {
		free(mr);
		return -ENOMEM;
	}
	*out = mr;
	return 0;
}

int rocemu_mr_reg(struct rocemu_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		  struct rocemu_mr **out)
{
	int ret = check_region(pd->ep, addr, length, iova, access);
	struct rocemu_mr *mr;

	if (ret == 0)
		ret = new_region(pd, &mr);
	if (ret < 0)
		return ret;
	mr->host = addr;
	mr->iova = iova;
	mr->length = length;
	mr->access = access;
	show_object(pd->ep, ROCEMU_OBJECT_MR, 1);
	*out = mr;
	return 0;
}

int rocemu_mr_change(struct rocemu_mr *mr, struct rocemu_pd *pd, void *addr, size_t length,
		     uint64_t iova, int access)
{
	int ret = check_region(pd->ep, addr, length, iova, access);

	if (ret < 0)
		return ret;
	if (mr->windows)
		return -EBUSY;
	pd_refer(mr->pd, -1);
	pd_refer(pd, 1);
	mr->pd = pd;
	mr->host = addr;
	mr->iova = iova;
	mr->length = length;
	mr->access = access;
	return 0;
}

int rocemu_mr_null_reg(struct rocemu_pd *pd, struct rocemu_mr **out)
{
	struct mr_table *t = pd->ep->mrs;
	struct rocemu_mr *mr;
	int ret;

	if (!t->nothing)
		t->nothing = calloc(1, MR_PIECE_MAX + ROCEMU_MAX_MTU);
	if (!t->nothing)
		return -ENOMEM;
	ret = new_region(pd, &mr);
	if (ret < 0)
		return ret;
	mr->null = true;
	mr->host = t->nothing;
	mr->length = UINT64_MAX;
	mr->access = IBV_ACCESS_LOCAL_WRITE;
	show_object(pd->ep, ROCEMU_OBJECT_MR, 1);
	*out = mr;
	return 0;
}

int rocemu_mr_dereg(struct rocemu_mr *mr)
{
	if (mr->windows)
		return -EBUSY;
	show_object(mr->pd->ep, ROCEMU_OBJECT_MR, -1);
	mr_entry_fini(mr);
	free(mr);
	return 0;
}

uint32_t rocemu_mr_lkey(const struct rocemu_mr *mr)
{
	return mr->key;
}

uint32_t rocemu_mr_rkey(const struct rocemu_mr *mr)
{
	return mr->key;
}
