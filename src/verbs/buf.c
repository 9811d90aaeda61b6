/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers that the library allocates, for drivers that need a kind of memory. Here they are pages
 * of the process, for domains of real devices as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/buf.h"
#include "verbs/newer.h"

struct ibv_buf {
	const struct ibv_pd *pd; /* borrowed; only compared */
	void *addr;		 /* owned, a mapping */
	size_t length;
};

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **out)
{
	struct ibv_buf *buf;

	if (!size)
		return vb_null(
			REFUSE(EINVAL, 0,
			       "ibv_alloc_buf: size is 0: it must be more than 0: pass a size"));
	buf = malloc(sizeof(*buf));
	if (!buf)
		return vb_null(ENOMEM);
	buf->pd = pd;
	buf->length = size;
	buf->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf->addr == MAP_FAILED) {
		free(buf);
		return vb_null(ENOMEM);
	}
	*out = buf;
	return buf->addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	if (!buf)
		return;
	munmap(buf->addr, buf->length);
	free(buf);
}

bool vb_buf_has(const struct ibv_buf *buf, const struct ibv_pd *pd, const void *addr, size_t length)
{
	const uintptr_t offset = (uintptr_t)addr - (uintptr_t)buf->addr;

	return buf->pd == pd && offset <= buf->length && length <= buf->length - offset;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	if (!vb_buf_has(buf, pd, addr, length))
		return vb_null(REFUSE(EINVAL, 0,
				      "ibv_reg_buf_mr: addr is %p, length %zu: the range must be "
				      "in the buffer, and the buffer of this PD: change them",
				      addr, length));
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	(void)buf;
	errno = ENODATA; /* pages of the process are no DMA-buf */
	return -1;
}
