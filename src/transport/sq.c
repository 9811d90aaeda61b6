/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/sq.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "transport/qp.h"

int sq_init(struct sq *sq, uint32_t max_wr, uint32_t max_sge, uint32_t max_inline)
{
	uint32_t size = 1;

	*sq = (struct sq){.max_wr = max_wr, .max_sge = max_sge, .max_inline = max_inline};
	while (size < max_wr)
		size *= 2;
	sq->mask = size - 1;
	sq->wqes = calloc(size, sizeof(*sq->wqes));
	sq->sges = calloc((size_t)size * (max_sge ? max_sge : 1), sizeof(*sq->sges));
	sq->inl = max_inline ? calloc(size, max_inline) : NULL;
	if (!sq->wqes || !sq->sges || (max_inline && !sq->inl)) {
		sq_fini(sq);
		return -ENOMEM;
	}
	return 0;
}

void sq_fini(struct sq *sq)
{
	free(sq->wqes);
	free(sq->sges);
	free(sq->inl);
	*sq = (struct sq){0};
}

HOT int sq_payload(const struct rocemu_qp *qp, uint32_t i, uint32_t off, uint32_t len,
		   struct iovec *iov)
{
	const struct swqe *w = sq_wqe(&qp->sq, i);

	if (!len)
		return 0;
	if (w->flags & IBV_SEND_INLINE) {
		iov[0] = (struct iovec){.iov_base = sq_inline(&qp->sq, i) + off, .iov_len = len};
		return 1;
	}
	return sge_gather(qp->ep->mrs, qp->pd, sq_sges(&qp->sq, i), w->nsge, off, len, 0, iov,
			  ROCEMU_MAX_SGE);
}
