/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions whose pages need not be there before they are accessed. */
#ifndef VERBS_ODP_H
#define VERBS_ODP_H

#include "verbs/call.h"

/** Can this kernel report whether memory is accessible (Linux 5.14)? */
bool vb_can_page_in(void);
/** Make addr[0..len) present, for writing if write. False: no such memory, or not writable. */
bool vb_page_in(void *addr, size_t len, bool write);
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sgl, uint32_t n);

#endif
