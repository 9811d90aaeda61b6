/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of DMA-bufs. */
#ifndef VERBS_DMABUF_H
#define VERBS_DMABUF_H

#include "verbs/call.h"

struct ibv_mr *vb_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				int fd, int access);

#endif
